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
from ksdp.audit.same_rows import contents_of
from ksdp.audit.verdicts.copies import CountLaws, count_laws, count_laws_independent
from ksdp.audit.verdicts.count_arms import Thinning, thinning


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


def together_of(plan: Plan) -> list[OneContent]:
    """Contents whose copies, all of them open at this stage, are tested together.

    Who is certified for the number of copies alone needs no test. Learners and tests at any moment have no arms
    that could be thinned, values of other people's statistics may depend on who is measured beside a document, and
    a margin of 0 asks for any trace at all, which each document's own arms show.

    Parameters
    ----------
    plan : of a stage
    """
    rule, design = plan.spec.rule, plan.design
    if not isinstance(design, Shared) or rule.margin == 0 or rule.stopping == "anytime":
        return []
    if plan.learners or plan.permutations or design.lanes != 1 or not reads_one_document(plan.statistics):
        return []
    if (copies := copies_of(plan)) is None:
        return []
    _, which, several = contents_of(plan.corpus.first_alike[plan.audited])
    contents = np.split(np.argsort(which, kind="stable"), np.cumsum(several)[:-1])
    whole = [rows for rows in contents if len(rows) == copies.count[rows[0]] > 1]
    tested = [rows for rows in whole if copies.bound[rows[0]] > rule.margin]
    how = {copied: thinning(_laws(copied, design)) for copied in {len(rows) for rows in tested}}
    worth = [rows for rows in tested if how[len(rows)].worth]
    return [OneContent(rows, int(plan.audited[rows].min()), how[len(rows)]) for rows in worth]
