"""Documents that have copies: who is clear against every attack because no run shows which of the copies was in.

The bound (`verdicts.copies`) needs no run. It holds where a mechanism announces the same whichever order documents
stand in (`order_free`), and where all copies are as likely to be in as each other: the shared design and the
literal one. Documents are copies where they are the same, bit for bit, in what the mechanism is handed: after
levers and weighting. Copies that other parties hold do not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ksdp.audit.array_types import Floats, Ints
from ksdp.audit.mechanisms.contract import traits_of
from ksdp.audit.plan import Plan
from ksdp.audit.spec.design import Literal, Shared
from ksdp.audit.verdicts.copies import CountLaws, count_laws, count_laws_independent


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
    if not traits_of(plan.mechanism).order_free:
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
