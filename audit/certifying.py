"""Pairs of runs that differ in one document only: what a certificate is made of (`verdicts.certificate`)."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.design import Shared
from ksdp.audit.design_streams import mechanism_rng
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import Database, Observables
from ksdp.audit.plan import Plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.verdicts.certificate import pair_advantage

__all__ = ["PublicNoise", "paired_advantages"]


@runtime_checkable
class PublicNoise(Protocol):
    """A mechanism that adds normal noise of a size that is public and fixed before the run."""

    def without_noise(self, database: Database, rng: np.random.Generator) -> Observables:
        """What it would announce without it."""
        ...

    def deviation(self, name: str) -> float | None:
        """Of the noise of an array; 0 where it has none, None where its size depends on the data."""
        ...


def paired_advantages(plan: Plan, document: int, pairs: int) -> NDArray[np.float64]:
    """The largest advantage of any attack on each of some independent pairs of runs, shape (pairs,).

    A pair shares all other documents: one run has the document, the other somebody else in its place. Whoever that
    is, and the others, are drawn as the shared design draws them, so the pairs are a coupling of the runs with the
    document and those without it. An array without noise tells everything as soon as it differs.

    Parameters
    ----------
    plan : Plan
        Of the shared design with databases of a fixed size.
    document : int
        Unit of the corpus.

    Raises
    ------
    SpecError
        If the design is another, or the mechanism's noise is not public and fixed.
    """
    design, mechanism = plan.design, plan.mechanism
    if not isinstance(design, Shared) or design.poisson:
        raise SpecError("a certificate needs `design.kind` shared with databases of a fixed size.")
    names = [announced.name for announced in plan.announced]
    if not isinstance(mechanism, PublicNoise) or any(mechanism.deviation(name) is None for name in names):
        raise SpecError(
            f"mechanism {mechanism.name!r} adds no noise whose size is public and fixed before the run; "
            "nothing bounds every attack on it."
        )
    sizes = {name: mechanism.deviation(name) or 0.0 for name in names}
    others = design.pool[design.pool != document]
    found = np.empty(pairs)
    for at in range(pairs):
        rng = generator(design.seed, Purpose.CERTIFICATE, document, at)
        drawn = others[rng.choice(len(others), design.size, replace=False)]
        seen = []
        for units in (np.append(drawn[1:], document), drawn):
            database = plan.stacked(np.sort(units))
            # The mechanism's own coins are shared, too: any coupling is as good.
            seen.append(mechanism.without_noise(database, mechanism_rng(design, 0, at)))
        found[at] = pair_advantage(_apart(seen[0], seen[1], sizes))
    return found


def _apart(one: Observables, other: Observables, sizes: dict[str, float]) -> float:
    """How far apart the two announcements are, in standard deviations."""
    total = 0.0
    for name, deviation in sizes.items():
        gap = float(np.linalg.norm(np.asarray(one[name], np.float64) - np.asarray(other[name], np.float64)))
        if gap and not deviation:
            return math.inf
        total += (gap / deviation) ** 2 if gap else 0.0
    return math.sqrt(total)
