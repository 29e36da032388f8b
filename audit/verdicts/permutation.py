"""All statistics of a document at once: the largest distance against permutations of whole runs.

The statistics of one document look at the same runs and often at the same thing; Bonferroni pays for each as if
it were another try. Here the document's inclusion bits are permuted over the runs, all statistics of a run stay
together, and the largest distance is compared with the largest distances of the permutations: the price is that
of the tries that really differ.

**Exact.** Runs are drawn independently. If the announcements tell nothing, the bits are exchangeable over the
runs given all values, so the observed maximum and those of B random permutations are exchangeable, and

    p = (1 + #{permuted >= observed}) / (1 + B)

is at or below a with probability at most a, for any number of runs, any dependence and any ties. Any function of
values and bits would do; which statistic dominates the maximum is a matter of power. Distances of continuous
values all have one null law (the arms are the same), tied values have a lower one. So a column's distance
is divided by its own critical distance at p = 0.001 given its ties, which depends on the pooled values and not
on the bits.

**Sequential.** A document that leaves no trace shows it soon: sampling stops at the h-th permutation that is as
large (p = h / L after L permutations; Besag & Clifford). Without a trace P(L >= l) is the chance that
the observed maximum is among the h largest of l exchangeable ones, at most h / l, so p stays exact.

No p is below 1 / (B + 1): `over_statistics` joins it with the exact laws, which have no such floor.

References: Westfall & Young (1993), "Resampling-based multiple testing", ISBN 978-0-471-55761-6; Phipson & Smyth
(2010), https://doi.org/10.2202/1544-6115.1585 (why 1 +); Besag & Clifford (1991),
https://doi.org/10.1093/biomet/78.2.301.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.verdicts.detection import critical_distance
from ksdp.audit.verdicts.tied import tied_critical

Ints = NDArray[np.int32]

_REFERENCE = -3.0
"""Log10 p at which columns with ties are made comparable."""
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT = np.zeros(64, np.int64)
_BIT[[((1 << k) * int(_DE_BRUIJN) >> 58) & 63 for k in range(64)]] = np.arange(64)


class _Ranked(NamedTuple):
    """A document's columns by the ranks of the runs in them, each of shape (columns, runs), and its arms."""

    place: Ints
    """Rank of each run."""
    start: Ints
    """Where the block of equal values around a rank starts."""
    end: Ints
    """And where it ends."""
    weight: Floats
    """Of each column's distance."""
    chosen: Ints
    """All runs, those of the smaller arm first; permuted in place."""
    m: int
    """Runs of the smaller arm."""
    words: NDArray[np.uint64]
    """Scratch: a bit for each run."""


@njit(cache=True, nogil=True)
def _distance(place: Ints, start: Ints, end: Ints, chosen: Ints, m: int, words: NDArray[np.uint64]) -> int:
    """D as an integer, where the first m of `chosen` are the runs of the smaller arm.

    `place` is a run's rank, `start` and `end` the block of equal values around a rank. The ranks of the arm
    are walked in order through a set of bits: no sorting, and a few instructions a run.
    """
    runs = len(place)
    words[:] = 0
    one = np.uint64(1)
    for j in range(m):
        at = np.uint64(place[chosen[j]])
        words[at >> np.uint64(6)] |= one << (at & np.uint64(63))
    best, before = 0, 0
    for k in range(len(words)):
        word = words[k]
        while word:
            lowest = word & (~word + one)
            rank = 64 * k + _BIT[(lowest * _DE_BRUIJN) >> np.uint64(58)]
            word ^= lowest
            # Inside a block both are below what its last and first member give, so no need to know which it is.
            best = max(best, start[rank] * m - before * runs, (before + 1) * runs - end[rank] * m)
            before += 1
    return best


@njit(cache=True, nogil=True)
def _shuffle(chosen: Ints, m: int, rng: np.random.Generator) -> None:
    """A uniform choice of m runs in the first m places, from any order before."""
    runs = len(chosen)
    for j in range(m):
        other = j + int(rng.random() * (runs - j))
        chosen[j], chosen[other] = chosen[other], chosen[j]


@njit(cache=True, nogil=True)
def _largest(ranked: _Ranked, most: int, seldom: int, rng: np.random.Generator) -> tuple[int, int]:
    """Exceedances of the observed maximum, and the permutations drawn; `ranked.chosen` starts as observed."""
    place, start, end, weight, chosen, m, words = ranked
    columns = len(place)
    observed = 0.0
    for s in range(columns):
        observed = max(observed, weight[s] * _distance(place[s], start[s], end[s], chosen, m, words))
    reached = 0
    for drawn in range(most):
        _shuffle(chosen, m, rng)
        for s in range(columns):
            if weight[s] * _distance(place[s], start[s], end[s], chosen, m, words) >= observed:
                reached += 1
                break
        if reached == seldom:
            return reached, drawn + 1
    return reached, most


def max_t(
    values: NDArray[np.floating],
    inclusion: NDArray[np.bool_],
    permutations: int,
    rng: np.random.Generator,
    *,
    exceedances: int = 20,
    rows: NDArray[np.int64] | None = None,
) -> Floats:
    """Log10 p of each document over all its statistics, by permutation of whole runs.

    Parameters
    ----------
    values : shape (n_statistics, n_documents, n_runs)
    inclusion : bool, shape (n_documents, n_runs)
    permutations : int
        At most so many a document; the smallest p is 1 / (permutations + 1).
    rng : numpy.random.Generator
        Each document has a child of its own: its p does not depend on the documents beside it.
    exceedances : int
        Stop a document after so many permutations that are as large; more of them make its p less noisy.
    rows : int64, optional
        Documents to test, all by default; the others get 0.

    Returns
    -------
    float64, shape (n_documents,)
        0 where an arm is empty.

    Examples
    --------
    Ten statistics that see nearly the same leak: Bonferroni multiplies by 10, the permutations hardly.

    >>> from ksdp.audit.verdicts.ks import ks_table
    >>> from ksdp.audit.verdicts.multiplicity import bonferroni
    >>> rng = np.random.default_rng(1)
    >>> inclusion = rng.random((1, 400)) < 0.5
    >>> values = rng.normal(size=(1, 400)) + 0.35 * inclusion + 0.1 * rng.normal(size=(10, 1, 400))
    >>> each = np.stack([ks_table(v, inclusion).log10_p for v in values], axis=1)
    >>> max_t(values, inclusion, 5000, rng).round(1), bonferroni(each).round(1)
    (array([-2.3]), array([-1.8]))
    """
    if exceedances < 1:
        raise ValueError(f"`exceedances` must be at least 1; got {exceedances}.")
    _check(values, inclusion, permutations)
    out = np.zeros(len(inclusion))
    children = rng.spawn(len(inclusion))
    for row in range(len(inclusion)) if rows is None else rows:
        ranked = _prepare(values[:, row], inclusion[row])
        if ranked is None:
            continue
        reached, drawn = _largest(ranked, permutations, exceedances, children[row])
        early = reached == exceedances
        out[row] = math.log10(reached / drawn if early else (1 + reached) / (1 + permutations))
    return out


def _check(values: NDArray[np.floating], inclusion: NDArray[np.bool_], permutations: int) -> None:
    if values.ndim != 3 or values.shape[1:] != inclusion.shape or len(values) == 0:
        raise ValueError(
            f"`values` must be of shape (n_statistics, n_documents, n_runs), `inclusion` the last two; "
            f"got {values.shape} and {inclusion.shape}."
        )
    if permutations < 1:
        raise ValueError(f"`permutations` must be at least 1; got {permutations}.")
    if np.isnan(values).any():
        raise ValueError("`values` must not hold NaN.")


def _prepare(values: NDArray[np.floating], held: NDArray[np.bool_]) -> _Ranked | None:
    """A document's columns, ranked; nothing where an arm is empty."""
    columns, runs = values.shape
    n_with = int(held.sum())
    m = min(n_with, runs - n_with)
    if m == 0:
        return None
    arm = held if n_with == m else ~held
    chosen = np.concatenate([np.flatnonzero(arm), np.flatnonzero(~arm)]).astype(np.int32)
    place, start, end = (np.empty((columns, runs), np.int32) for _ in range(3))
    weight = np.ones(columns)
    critical = critical_distance(m, runs - m, _REFERENCE)
    for s, column in enumerate(values):
        order = np.argsort(column)
        place[s, order] = np.arange(runs)
        ordered = column[order]
        edges = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1], [True]]))
        counts = np.diff(edges)
        start[s], end[s] = np.repeat(edges[:-1], counts), np.repeat(edges[1:], counts)
        # Chance ties of a few values do not move the law.
        if math.isfinite(critical) and 4 * critical * m * (runs - m) / runs * counts.max() / runs > 0.05:
            weight[s] = critical * m * (runs - m) / tied_critical(m, runs - m, counts, _REFERENCE)
    words = np.zeros(-(-runs // 64), np.uint64)
    return _Ranked(place, start, end, weight, chosen, m, words)
