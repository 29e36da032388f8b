"""The exact law of the Kolmogorov-Smirnov distance where values tie: conditional on the pattern of ties.

Without a trace of the document, every choice of the m runs of its with arm among the m + n is equally likely,
whatever the values. Sorted, the values form blocks of equal ones, and the two distribution functions differ
at the ends of blocks only. So P(D >= h / (m n)) counts lattice paths from (0, 0) to (m, n) as `law` does, but
looks at them at the ends of blocks only. Fewer looks, so never above the law without ties, which stays
the bound wherever this one is not computed.

The count runs forwards, one value a step, as the chain of "how many of the first N belong to the smaller
arm", with hypergeometric chances. What touches the boundary is taken out and added up: a sum of positive
terms, so that no p is too small for its relative precision. Below 1e-150 each side is counted
alone, in units of exp(tilt x deviation), in which what reaches the boundary is of order one and nothing
underflows.

Exact given the ties, and therefore without that condition too: p <= a happens with probability at most a
(superuniform; D takes few values where few values are distinct, and no coin is tossed to fill the gaps).

Reference: Schroeer & Trenkler (1995), "Exact and randomization distributions of Kolmogorov-Smirnov tests for
two or three samples", https://doi.org/10.1016/0167-9473(94)00040-P (also R's `psmirnov` with `z`).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.verdicts.laws import KSTable, in_order

_LN10 = math.log(10)
# Where a side is counted alone; the sums of both sides still hold 150 decades above the smallest float here.
_DEEP = 150 * _LN10
_TINY, _ENOUGH = 1e-290, 1e-200
_STEEPEST = 4000.0

_WORTH = 0.1
"""Decades of p that a row must be able to gain (by the asymptotic law and its largest block of equal values);
leaves alone the few chance ties of float32."""
_DEEPEST = -300.0
"""Rows whose log10 p without ties is already below keep it."""

_Scratch = tuple[Floats, Floats, Floats]
"""Two rows of cells of a smaller arm of m, and the count -1, 0, ... beside them, each of length m + 3."""


@njit(cache=True, nogil=True)
def _touched(h: int, m: int, n: int, ends: Ints, tilt: float, side: int, scratch: _Scratch) -> float:
    f, g, number = scratch
    total = m + n
    up, down = math.exp(side * tilt * n / h), math.exp(-side * tilt * m / h)
    for k in range(len(f)):
        f[k] = g[k] = 0.0
    start = 1e-100 if tilt > 0.0 else 1.0  # tilted chances are above one on the way
    f[1] = start
    low, high = 1, 1  # cells that hold something
    touched, at = 0.0, 0
    for step in range(total):
        remainder = total - step
        high = min(high + 1, m + 1)
        stay, move = down / remainder, up / remainder
        unmarked, marked = n - step, m + 1
        # Slices, so that the compiler sees no index that could be negative and uses vectors.
        here, before, new, a = f[low : high + 1], f[low - 1 : high], g[low : high + 1], number[low : high + 1]
        for k in range(len(new)):
            new[k] = here[k] * ((unmarked + a[k]) * stay) + before[k] * ((marked - a[k]) * move)
        if step + 1 == ends[at]:
            at += 1
            mean = (step + 1) * m
            while high >= low and (high - 1) * total - mean >= h:
                if side >= 0:
                    touched += g[high] * math.exp(tilt - side * tilt / h * ((high - 1) * total - mean))
                high -= 1
            while low <= high and mean - (low - 1) * total >= h:
                if side <= 0:
                    touched += g[low] * math.exp(tilt - side * tilt / h * ((low - 1) * total - mean))
                low += 1
        while low <= high and g[low] < _TINY:
            low += 1
        while high >= low and g[high] < _TINY:
            high -= 1
        if low > high:
            break
        g[low - 1], g[high + 1] = 0.0, 0.0
        f, g = g, f
    return touched / start


@njit(cache=True, nogil=True)
def _log_p(h: int, m: int, n: int, ends: Ints, bound: float, scratch: _Scratch) -> float:
    """ln P(D >= h / (m n)) of this pattern, m <= n; `bound`, the law without ties, where it is out of reach."""
    tilt = -bound if bound < -_DEEP else 0.0
    while tilt <= _STEEPEST:
        touched = 0.0
        for side in range(-1, 2):  # not three literals, each of which Numba would compile for
            if (side == 0) == (tilt == 0.0):
                touched += _touched(h, m, n, ends, tilt, side, scratch)
        if not math.isfinite(touched):
            break
        if touched > _ENOUGH:
            return min(math.log(touched) - tilt, bound)
        tilt += _DEEP
    return bound


@njit(cache=True, nogil=True)
def _ends(ordered: NDArray[np.floating], ends: Ints) -> tuple[int, int]:
    """Fill in where blocks of equal values end; their number, and the size of the largest."""
    blocks, largest, start = 0, 0, 0
    for i in range(1, len(ordered) + 1):
        if i == len(ordered) or ordered[i] != ordered[start]:
            ends[blocks] = i
            blocks += 1
            largest = max(largest, i - start)
            start = i
    return blocks, largest


@njit(cache=True, nogil=True)
def _fill(
    ordered: NDArray[np.floating], h: Ints, small: Ints, log_p: Floats, worth: float, deepest: float
) -> None:
    documents, runs = ordered.shape
    ends = np.empty(runs, np.int64)
    f, g = np.empty(runs + 3), np.empty(runs + 3)
    number = np.arange(runs + 3) - 1.0
    for row in range(documents):
        m, n = small[row], runs - small[row]
        if h[row] <= 0 or m == 0 or log_p[row] < deepest:
            continue
        blocks, largest = _ends(ordered[row], ends)
        # A path inside a block is at most largest / runs further out than at the block's ends.
        if largest == 1 or 4 * (h[row] / runs) * (largest / runs) < worth:
            continue
        scratch = f[: m + 3], g[: m + 3], number[: m + 3]
        log_p[row] = _log_p(h[row], m, n, ends[:blocks], log_p[row], scratch)


def tied_table(
    values: NDArray[np.floating],
    inclusion: NDArray[np.bool_],
    table: KSTable,
    ordered: NDArray[np.floating] | None = None,
) -> Floats:
    """Log10 p of every document, exact given its ties where that can matter."""
    if values.shape != inclusion.shape or len(table.log10_p) != len(values):
        raise ValueError(f"`values` {values.shape}, `inclusion` {inclusion.shape} and `table` must fit together.")
    pairs = table.n_with * table.n_without
    h = np.rint(np.nan_to_num(table.distance) * pairs).astype(np.int64)
    rows = np.flatnonzero((h > 0) & (table.log10_p >= _DEEPEST))
    out = table.log10_p.copy()
    log_p = out[rows] * _LN10
    _fill(
        in_order(values[rows]) if ordered is None else ordered[rows],
        h[rows],
        np.minimum(table.n_with, table.n_without)[rows],
        log_p,
        _WORTH * _LN10,
        _DEEPEST * _LN10,
    )
    out[rows] = np.minimum(log_p / _LN10, out[rows])
    return out
