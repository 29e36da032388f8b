"""Documents that have copies: who is certified clear because no run shows which of the copies was in.

The bound (`verdicts.copies`) needs no run. It holds where a mechanism announces the same whichever order documents
stand in (`order_free`), and where all copies are as likely to be in as each other: the shared design and the
literal one. Documents are copies where they are the same, bit for bit, in what the mechanism is handed: after
levers and weighting. Copies that other parties hold do not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ksdp.audit.array_types import Floats, Ints
from ksdp.audit.design import Literal, Shared
from ksdp.audit.document_parts import reads_one_document
from ksdp.audit.plan import Plan
from ksdp.audit.verdicts.copies import CountLaws, count_laws, count_laws_independent
from ksdp.audit.verdicts.count_arms import Thinning, thinning

__all__ = ["Copies", "OneContent", "copies_of", "together_of"]


@dataclass(frozen=True, eq=False)
class Copies:
    """Of each audited document, in the order of the plan."""

    count: Ints
    """Documents of its content that may be in a run, itself included."""
    bound: Floats
    """Of the advantage of every attack; 1 where there is no copy."""


def copies_of(plan: Plan) -> Copies | None:
    """Copies and what they prove; None where they prove nothing of anybody.

    Groups have no copies here: a group's documents would all have to be another's.
    """
    design = plan.design
    if not isinstance(design, Shared | Literal) or plan.units.order is not None:
        return None
    if not getattr(plan.mechanism, "order_free", False):
        return None
    alike = plan.corpus.first_alike[design.pool]
    _, content, several = np.unique(alike, return_inverse=True, return_counts=True)
    if several.max() == 1:
        return None
    count = several[content][np.searchsorted(design.pool, plan.audited)]
    different, places = np.unique(count, return_inverse=True)
    bounds = np.array([_laws(int(copies), design).told for copies in different])
    return Copies(count.astype(np.int64), bounds[places])


def _laws(copies: int, design: Shared | Literal) -> CountLaws:
    if isinstance(design, Shared) and design.poisson:
        return count_laws_independent(copies, design.share)
    return count_laws(copies, len(design.pool), design.size)


@dataclass(frozen=True, eq=False)
class OneContent:
    """All copies of one content, which are tested together."""

    rows: Ints
    """Their places among a stage's documents, ascending."""
    first: int
    """Row of the corpus of the first of them: names the stream of their draw."""
    thinning: Thinning


def together_of(plan: Plan, copies: Copies | None) -> list[OneContent]:
    """Contents whose copies, all of them open at this stage, are tested together.

    Who is certified for the number of copies alone needs no test. Learners and tests at any moment have no arms
    that could be thinned, values of other people's statistics may depend on who is measured beside a document, and
    a margin of 0 asks for any trace at all, which each document's own arms show.

    Parameters
    ----------
    plan : of a stage
    copies : of the whole audit
    """
    rule, design = plan.spec.rule, plan.design
    if copies is None or not isinstance(design, Shared) or rule.margin == 0 or rule.stopping == "anytime":
        return []
    if plan.learners or plan.permutations or design.lanes != 1 or not reads_one_document(plan.statistics):
        return []
    targets = plan.audited
    contents, first, several = np.unique(plan.corpus.first_alike[targets], return_inverse=True, return_counts=True)
    pool, counts = np.unique(plan.corpus.first_alike[design.pool], return_counts=True)
    held = counts[np.searchsorted(pool, contents)]
    thinnings = {int(n): thinning(_laws(int(n), design)) for n in np.unique(held) if n > 1}
    order = np.argsort(first, kind="stable")
    ends = np.cumsum(several)
    found = []
    for n in np.flatnonzero((several == held) & (several > 1)):
        how = thinnings[int(held[n])]
        if how.worth and how.told > rule.margin:
            rows = np.sort(order[ends[n] - several[n] : ends[n]])
            found.append(OneContent(rows, int(targets[rows].min()), how))
    return found
