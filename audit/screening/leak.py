"""How much a setting gives away, from a sample of documents: quick, in this process, for a search over settings.

A search tries many settings; what it recommends is confirmed by a whole audit on fresh runs, never by this.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import SpecError
from ksdp.audit.plan import Plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.sampling import measure, sample
from ksdp.audit.verdicts.drawn_share import share_lower_limit, share_upper_limit
from ksdp.audit.verdicts.ks import ks_table

LOOKS = 3
"""How often a sample is looked at: after a quarter of the runs, a half, all of them."""
_LOOKS = (1 / 16, 1 / 4, 1 / 2, 1.0)
"""The first one, at a sixteenth, gives hopeless settings up, and decides nothing else."""
_HOPELESS = 0.5
"""Share of documents far above the margin from which it is not worth looking again."""
_KOLMOGOROV = 1.36
"""95 % of the law of D where nothing leaks, times sqrt(1 / m + 1 / n)."""
_RELABELLED = 2**31
"""The stream that deals runs anew, to see what chance alone would show."""


@dataclass(frozen=True)
class Leak:
    """What a sample of documents showed under one setting."""

    documents: int
    runs: int
    median: float
    """Of every document's largest D over statistics; measured, so that chance is in it. This and what follows is
    of a document that is held: with `corpus.levers.drawn`, that share of what is said of one that is in a run."""
    high: float
    """95 % of the documents are below."""
    above: int
    """Documents whose measured D is above the margin."""
    limit: float
    """Upper confidence limit of their share of all documents, at the level that this setting has."""
    least: float
    """Lower confidence limit of the share that is above it by more than chance."""
    chance: float
    """What `high` would be if nothing leaked: of the same runs, with and without dealt anew."""
    net: float
    """`high` with chance taken out, in squares: an estimate, comparable between numbers of runs."""
    strongest: str
    unread: tuple[str, ...]
    """Announced arrays that nobody looks at: then nothing can be cleared."""
    early: bool
    """Given up after a part of the runs: too much was above the margin."""


def chance_distance(n_with: int, n_without: int) -> float:
    """D of one statistic below which 95 % of tests stay where nothing leaks.

    Examples
    --------
    >>> round(chance_distance(200, 200), 3)
    0.136
    """
    return float(_KOLMOGOROV * np.sqrt(1 / n_with + 1 / n_without))


def sampled_leak(plan: Plan, *, level: float, population: int, quota: float = 0.0) -> Leak:
    """Run a plan here and look at its documents; stop as soon as the share above the margin is settled.

    The level is split over the looks, so that the limits hold wherever it stops.

    Parameters
    ----------
    plan : Plan
        With one lane: of the balanced or the shared design.
    level : float
        Of each limit.
    population : int
        Documents that the sample was drawn from.
    quota : float
        Settled is a share whose upper limit is at most this, or whose lower limit is above it.
    """
    if not plan.reading.all:
        raise SpecError("a sampled leak needs `design.without_runs` all.")
    count, enters = len(plan.audited), plan.spec.corpus.levers.enters
    stops = [max(1, round(len(plan.blocks) * part)) for part in _LOOKS]
    values: dict[str, list[Floats]] = {statistic.name: [] for statistic in plan.tested}
    bits: list[NDArray[np.bool_]] = []
    for number, block in enumerate(plan.blocks, start=1):
        found = measure(plan, block, sample(plan, block), plan.tested)
        bits.append(found.inclusion[:count])
        for name, part in found.values.items():
            values[name].append(part[:count])
        last = number == len(plan.blocks)
        if number not in stops and not last:
            continue
        inclusion = np.concatenate(bits, axis=1)
        columns = {name: np.concatenate(parts, axis=1) for name, parts in values.items()}
        distances = {name: enters * _distances(column, inclusion) for name, column in columns.items()}
        largest = np.max(list(distances.values()), axis=0)
        held = max(1, int(inclusion.sum(axis=1).mean()))
        one = enters * chance_distance(held, max(1, inclusion.shape[1] - held))
        margin = plan.spec.decision.margin
        # With few runs many are above the margin by chance: that gives no setting up.
        above, far = int((largest > margin).sum()), int((largest > margin + one).sum())
        hopeless = far > _HOPELESS * count
        units = max(population, count)
        limit = share_upper_limit(above, count, level / LOOKS, units)
        least = share_lower_limit(far, count, level / LOOKS, units)
        settled = number >= stops[1] and (limit <= quota or least > quota)
        if last or hopeless or settled:
            break
    else:
        raise SpecError("a sampled leak needs at least one run.")
    rng = generator(plan.spec.seed, Purpose.SHUFFLE, _RELABELLED)
    dealt = inclusion[:, rng.permutation(inclusion.shape[1])]
    nothing = enters * np.max([_distances(column, dealt) for column in columns.values()], axis=0)
    high, chance = float(np.quantile(largest, 0.95)), float(np.quantile(nothing, 0.95))
    return Leak(
        count,
        inclusion.shape[1],
        float(np.median(largest)),
        high,
        above,
        limit,
        least,
        chance,
        math.sqrt(max(high**2 - chance**2, 0.0)),
        max(distances, key=lambda name: float(np.median(distances[name]))),
        plan.coverage.unread,
        (hopeless or least > quota) and not last,
    )


def _distances(values: Floats, inclusion: NDArray[np.bool_]) -> Floats:
    return np.nan_to_num(np.asarray(ks_table(values, inclusion).distance, dtype=np.float64))
