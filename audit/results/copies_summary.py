"""What a summary says of documents that have copies, and what these say of the audit."""

from __future__ import annotations

from ksdp.audit.certifying import above_bound
from ksdp.audit.copies import Copies
from ksdp.audit.interim_verdicts import InterimVerdicts
from ksdp.audit.plan import Plan
from ksdp.audit.results.bound_parts import CopiesSummary
from ksdp.audit.verdicts.controls import Controls
from ksdp.audit.verdicts.decide import Verdict


def copies_summary(plan: Plan, interim: InterimVerdicts, copies: Copies | None) -> CopiesSummary | None:
    """In numbers; None where copies decided nothing of anybody, and nothing measured is above its bound."""
    if copies is None:
        return None
    margin = plan.spec.rule.margin
    below = copies.bound <= margin
    above = int(above_bound(interim.tests, copies.bound, plan.counted, len(plan.looks)).sum())
    if not below.any() and not above:
        return None
    return CopiesSummary(
        certified=int(below.sum()),
        sensitive=int((below & (interim.decisions.verdict == Verdict.SENSITIVE)).sum()),
        contradicted=above,
        fewest=int(copies.count[below].min(initial=len(plan.corpus))),
        largest_bound=float(copies.bound[below].max(initial=0.0)),
    )


def void_where_copies_tell(judged: Controls, copies: CopiesSummary | None) -> Controls:
    """The controls, failed where a document was told from its copies: order matters to the mechanism."""
    same = "the mechanism announced the same whichever of their copies is in, as it says (`order_free`)"
    return judged.contradicted(0 if copies is None else copies.contradicted, same)
