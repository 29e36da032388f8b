"""An exact test for a leak in the extremes, to which the Kolmogorov-Smirnov distance is blind.

An event that happens in one run of fifty with the document and never without it moves the distribution function
by 0.02 only, yet whoever sees it knows. So for each document the most extreme values of the pooled runs are
looked at: if the document has no influence, the number of them that come from its with arm is hypergeometric,
whatever the statistic's distribution.

Tails are the 0.1, 0.25, 0.5, 1, 2 and 5 % highest and lowest of all runs (3 runs at least). Where values tie at a
tail's edge, the tied ones are all taken or all left, whichever comes nearer to the wanted size (left only if 3
runs remain). The choice looks at the pooled values and never at the arms, so that every tail stays exactly
hypergeometric: ties cost power, not the level. A tail's p is twice the smaller of its two sides (more, or fewer
runs of the with arm than by chance); a document's p is Bonferroni's over its distinct
tails, of which ties leave fewer.

Reference: Fisher (1935), "The logic of inductive inference", https://doi.org/10.2307/2342435 (exact test of a
fourfold table).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.verdicts.laws import checked_order

_FRACTIONS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05)
_FEWEST = 3


@dataclass(frozen=True, eq=False)
class TailTable:
    """Exact tests of the extremes, one entry a document."""

    log10_p: Floats
    """Bonferroni over tails; 0 where an arm is empty or no tail could be formed."""
    highest: NDArray[np.bool_]
    """Whether the strongest tail is among the highest values."""
    size: Ints
    """Runs in the strongest tail; 0 where there is none."""
    inside: Ints
    """How many of these held the document."""


def tail_sizes(runs: int) -> Ints:
    """Sizes of the tails that are looked at on each side, smallest first; decided by the number of runs alone."""
    wanted = np.maximum(np.round(runs * np.array(_FRACTIONS)).astype(np.int64), _FEWEST)
    sizes = np.unique(wanted)
    return np.asarray(sizes[2 * sizes <= runs], dtype=np.int64)


@njit(cache=True, nogil=True)
def _log_hypergeometric_tail(inside: int, size: int, held_of_all: int, runs: int, lf: Floats) -> float:
    """ln of the smaller of P(X >= inside) and P(X <= inside), X from `size` of `runs`, `held_of_all` marked."""
    lowest, highest = max(0, size - (runs - held_of_all)), min(size, held_of_all)
    all_runs = lf[runs] - lf[size] - lf[runs - size]
    up = inside * runs >= size * held_of_all  # the side away from the mean is the smaller one
    stop = highest + 1 if up else lowest - 1
    step = 1 if up else -1
    log_first = 0.0
    total = 0.0
    x = inside
    while x != stop:
        other = size - x
        marked = lf[held_of_all] - lf[x] - lf[held_of_all - x]
        rest = lf[runs - held_of_all] - lf[other] - lf[runs - held_of_all - other]
        log_mass = marked + rest - all_runs
        if x == inside:
            log_first = log_mass
        ratio = math.exp(log_mass - log_first)
        total += ratio
        if ratio < 1e-17 * total:
            break
        x += step
    return min(log_first + math.log(total), 0.0)


@njit(cache=True, nogil=True)
def _place(ordered: NDArray[np.floating], value: float, beyond: bool) -> int:
    """How many of the ordered values are below one, or at most that; Numba takes a second for NumPy's."""
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < value or (beyond and ordered[middle] == value):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def beyond(ordered: NDArray[np.floating], value: float, high: bool) -> int:
    """How many of the ordered values are above one, or below it."""
    place = _place(ordered, value, high)
    return int(len(ordered) - place if high else place)


@njit(cache=True, nogil=True)
def _edge(ordered: NDArray[np.floating], size: int, high: bool) -> tuple[int, float]:
    """Size of the tail nearest to `size` that splits no tie, and the innermost value in it; 0 if there is none."""
    runs = len(ordered)
    at = ordered[runs - size] if high else ordered[size - 1]
    strict, loose = beyond(ordered, at, high), runs - beyond(ordered, at, not high)
    if loose - size > size - strict and strict >= 3:
        return strict, ordered[runs - strict] if high else ordered[strict - 1]
    return (loose, at) if 2 * loose <= runs else (0, at)


@njit(cache=True, nogil=True)
def _tails(
    values: NDArray[np.floating],
    ordered: NDArray[np.floating],
    inclusion: NDArray[np.bool_],
    sizes: Ints,
    lf: Floats,
    table: tuple[Floats, NDArray[np.bool_], Ints, Ints],
) -> None:
    """Fill in what a `TailTable` holds, its p as ln p; `lf` is ln i! up to the number of runs."""
    log_p, highest, size, tail_arm = table
    documents, runs = values.shape
    counts, edges = np.zeros((2, len(sizes)), np.int64), np.zeros((2, len(sizes)), values.dtype)
    for row in range(documents):
        with_runs = inclusion[row].sum()
        if with_runs in (0, runs):
            continue
        arm = values[row][inclusion[row]]
        # Ties make sizes fall together: only distinct tails are looked at, and paid for.
        looked_at = 0
        for side in range(2):
            for k in range(len(sizes)):
                counts[side, k], edges[side, k] = _edge(ordered[row], sizes[k], side == 1)
                if k and counts[side, k] == counts[side, k - 1]:
                    counts[side, k - 1] = 0
            looked_at += (counts[side] > 0).sum()
        for side in range(2):
            for k in range(len(sizes)):
                count, edge, inside = counts[side, k], edges[side, k], np.int64(0)  # a literal is compiled for
                if count == 0:
                    continue
                for value in arm:
                    inside += (value >= edge) if side else (value <= edge)
                log_tail = _log_hypergeometric_tail(inside, count, with_runs, runs, lf)
                log_tail += math.log(2.0) + math.log(looked_at)
                if log_tail < log_p[row]:
                    log_p[row], highest[row], size[row], tail_arm[row] = log_tail, side == 1, count, inside


def tail_table(
    values: NDArray[np.floating], inclusion: NDArray[np.bool_], ordered: NDArray[np.floating] | None = None
) -> TailTable:
    """Test the extremes of every document; called as `ks_distances`."""
    ordered = checked_order(values, inclusion, ordered)
    values, inclusion = np.ascontiguousarray(values), np.ascontiguousarray(inclusion)
    documents, runs = values.shape
    table = TailTable(
        np.zeros(documents),
        np.zeros(documents, bool),
        np.zeros(documents, np.int64),
        np.zeros(documents, np.int64),
    )
    sizes = tail_sizes(runs)
    lf = np.array([math.lgamma(i + 1.0) for i in range(runs + 1)])
    _tails(values, ordered, inclusion, sizes, lf, (table.log10_p, table.highest, table.size, table.inside))
    table.log10_p[:] /= math.log(10)
    return table
