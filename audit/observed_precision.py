"""How finely an audit looks at what is announced: as a run's wire shows it, where that tells more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ksdp.audit.statistics.solved_parts import few_enough

if TYPE_CHECKING:
    from ksdp.audit.plan import Plan


def observed_precision(plan: Plan) -> str:
    """The precision of observables: `store.precision`, or double where single would hide who was in.

    That is where exact sums of rounds are solved for who was in (`solved_parts`). Each further round says a little
    that is new, in digits that single precision rounds away and the wire, of multiples of 2^-31, does not: D is up
    to 0.09 larger, of ratings 0.24. Of a final output, and of more documents, it is the same (decision 31).
    """
    exact = getattr(plan.mechanism, "noise_free", False) and any(array.early for array in plan.announced)
    documents = int(plan.units.sizes[plan.holdings.victim].sum())
    return "float64" if exact and few_enough(documents) else plan.spec.store.precision
