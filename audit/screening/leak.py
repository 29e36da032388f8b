"""How much a setting gives away, from a sample of documents: quick, in this process, for a search over settings.

A search tries many settings; what it recommends is confirmed by a whole audit on fresh runs, never by this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import SpecError
from ksdp.audit.plan import Plan
from ksdp.audit.sampling import measure, sample
from ksdp.audit.screening.share_limit import share_upper_limit
from ksdp.audit.verdicts.ks import ks_table

__all__ = ["Leak", "chance_distance", "sampled_leak"]

Floats = NDArray[np.float64]
_EARLY = 4
"""A quarter of the runs decides whether the rest is worth it."""
_HOPELESS = 0.5
"""Share of documents far above the margin from which it is not."""
_KOLMOGOROV = 1.36
"""95 % of the law of D where nothing leaks, times sqrt(1 / m + 1 / n)."""


@dataclass(frozen=True)
class Leak:
    """What a sample of documents showed under one setting."""

    documents: int
    runs: int
    median: float
    """Of every document's largest D over statistics; measured, so that chance is in it."""
    high: float
    """95 % of the documents are below."""
    above: int
    """Documents whose measured D is above the margin."""
    limit: float
    """Upper confidence limit of their share of all documents, at the level that this setting has."""
    chance: float
    """D of one statistic where nothing leaks, in 19 of 20 cases."""
    strongest: str
    unread: tuple[str, ...]
    """Announced arrays that nobody looks at: then nothing can be cleared."""
    early: bool
    """Given up after a part of the runs."""


def chance_distance(n_with: int, n_without: int) -> float:
    """D below which 95 % of tests stay where nothing leaks.

    Examples
    --------
    >>> round(chance_distance(200, 200), 3)
    0.136
    """
    return float(_KOLMOGOROV * np.sqrt(1 / n_with + 1 / n_without))


def sampled_leak(plan: Plan, *, level: float, population: int) -> Leak:
    """Run a plan here and look at its documents.

    Parameters
    ----------
    plan : Plan
        With one lane: of the balanced or the shared design.
    level : float
        Of the limit.
    population : int
        Documents that the sample was drawn from.

    Raises
    ------
    SpecError
        If a part of the runs is read only.
    """
    if plan.every != 1:
        raise SpecError("a sampled leak needs `design.without_runs` all.")
    count = len(plan.audited)
    values: dict[str, list[Floats]] = {statistic.name: [] for statistic in plan.tested}
    bits: list[NDArray[np.bool_]] = []
    distances: dict[str, Floats] = {}
    early = False
    for number, block in enumerate(plan.blocks, start=1):
        found = measure(plan, block, sample(plan, block), plan.tested)
        bits.append(found.inclusion[:count])
        for name, part in found.values.items():
            values[name].append(part[:count])
        last = number == len(plan.blocks)
        if not (last or number == max(1, len(plan.blocks) // _EARLY)):
            continue
        inclusion = np.concatenate(bits, axis=1)
        distances = {name: _distances(np.concatenate(parts, axis=1), inclusion) for name, parts in values.items()}
        largest = np.max(list(distances.values()), axis=0)
        held = int(inclusion.sum(axis=1).mean())
        spare = plan.spec.decision.margin + chance_distance(held, inclusion.shape[1] - held)
        if not last and float((largest > spare).mean()) > _HOPELESS:
            early = True
            break
    inclusion = np.concatenate(bits, axis=1)
    largest = np.max(list(distances.values()), axis=0)
    above = int((largest > plan.spec.decision.margin).sum())
    held = max(1, int(inclusion.sum(axis=1).mean()))
    return Leak(
        count,
        inclusion.shape[1],
        float(np.median(largest)),
        float(np.quantile(largest, 0.95)),
        above,
        share_upper_limit(above, count, level, max(population, count)),
        chance_distance(held, max(1, inclusion.shape[1] - held)),
        max(distances, key=lambda name: float(np.median(distances[name]))),
        plan.coverage.unread,
        early,
    )


def _distances(values: Floats, inclusion: NDArray[np.bool_]) -> Floats:
    return np.nan_to_num(np.asarray(ks_table(values, inclusion).distance, dtype=np.float64))
