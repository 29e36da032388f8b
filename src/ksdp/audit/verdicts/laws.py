"""The exact null law of the two-sample Kolmogorov-Smirnov distance, in logarithms.

Under the null hypothesis every order of the m + n values is equally likely, so P(D >= h / (m n)) counts
lattice paths from (0, 0) to (m, n) that reach |i n - j m| >= h. Two regimes, joined where both are accurate:

- *Tails* (one-sided probability below 1e-4): twice the probability of touching one boundary, by the first
  touch: the lower boundary is entered at exactly one point (i, y_i) for each i, y_i = ceil((h + i n) / m), so

      b_i = 1 - sum_{l<i} b_l C(y_l + l, l) C(y_i - y_l + i - l, i - l) / C(y_i + i, i)

  is the chance that a path to (i, y_i) touches there first: O(m^2) terms, all in logarithms, no underflow.
  Paths that touch both boundaries are counted twice; their share is below the cube of the one-sided
  probability (1e-12).
- *Body*: 1 - P(inside) by the classical count of paths inside the band, one prefix sum for each point of the
  smaller arm, eight distances at once.

Exact without ties; with ties the same number is an upper bound (conservative).

References: Hodges (1958), "The significance probability of the Smirnov two-sample test",
https://doi.org/10.1007/BF02589501; Viehmann (2021), https://arxiv.org/abs/2102.08037.

Two-sample Kolmogorov-Smirnov distances of all documents at once.

D = sup_t |F_with(t) - F_without(t)| is the advantage (TPR - FPR) of the best adversary who compares the
statistic with a threshold. Each document splits the same runs into its own two arms, so the runs are sorted
once a document and only the smaller arm is looked up: O(R log R) with a small constant, and ties are exact
(both distribution functions are compared at distinct values only).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.numeric.array_types import Floats, Ints

_LANES = 8
_BODY = math.log(1e-4)
# Probabilities of points of the boundary, and sums of them, that keep their digits in floats.
_SMALLEST, _LEAST_SUM = math.log(1e-220), 1e-250
# The asymptotic law, off by less than a factor of 100 here, saves the tail's work where it cannot matter.
_SURELY_BODY = math.log(1e-2)


@njit(cache=True, nogil=True)
def _log_factorials(limit: int) -> Floats:
    table = np.empty(limit + 1)
    for i in range(limit + 1):
        table[i] = math.lgamma(i + 1.0)
    return table


@njit(cache=True, nogil=True)
def _log_one_sided(h: int, m: int, n: int, lf: Floats, b: Floats, base: Floats, y: Ints) -> float:
    """ln P(D+ >= h / (m n)); `b`, `base` and `y` are scratch of length m + 1."""
    last = (m * n - h) // n
    up, right = math.log(m / (m + n)), math.log(n / (m + n))
    for i in range(last + 1):
        y[i] = -((-(h + i * n)) // m)
        if lf[y[i] + i] - lf[y[i]] - lf[i] + i * up + y[i] * right < _SMALLEST:
            return float(_log_one_sided_of_logs(h, m, n, lf, b, base, y))
    ways, fewest = np.empty((last + 1, 2)), np.empty(last + 1, np.int64)
    for s in range(1, last + 1):
        fewest[s] = s * n // m  # divided once, not for every two points
        for more in range(2):
            c = fewest[s] + more
            ways[s, more] = math.exp(lf[s + c] - lf[s] - lf[c] + s * up + c * right)
    total = 0.0
    for i in range(last + 1):
        reached = math.exp(lf[y[i] + i] - lf[y[i]] - lf[i] + i * up + y[i] * right)
        earlier = 0.0
        for j in range(i):
            s = i - j
            earlier += b[j] * ways[s, y[i] - y[j] - fewest[s]]
        b[i] = max(reached - earlier, 0.0)
        a, c = m - i, n - y[i]
        base[i] = lf[a + c] - lf[a] - lf[c] + a * up + c * right
    top = -np.inf
    for i in range(last + 1):
        top = max(top, base[i])
    for i in range(last + 1):
        total += b[i] * math.exp(base[i] - top)
    if total < _LEAST_SUM:
        return float(_log_one_sided_of_logs(h, m, n, lf, b, base, y))
    return float(top + math.log(total) - (lf[m + n] - lf[m] - lf[n] + m * up + n * right))


@njit(cache=True, nogil=True)
def _log_one_sided_of_logs(h: int, m: int, n: int, lf: Floats, b: Floats, base: Floats, y: Ints) -> float:
    """ln P(D+ >= h / (m n)); `b`, `base` and `y` are scratch of length m + 1."""
    last = (m * n - h) // n
    for i in range(last + 1):
        y[i] = -((-(h + i * n)) // m)
    for i in range(last + 1):
        at = lf[y[i] + i] - lf[y[i]] - lf[i]
        earlier = 0.0
        for j in range(i):
            a, c = i - j, y[i] - y[j]
            earlier += math.exp(base[j] + lf[a + c] - lf[a] - lf[c] - at)
        b[i] = 1.0 - earlier
        base[i] = math.log(b[i]) + at if b[i] > 0.0 else -np.inf
    top = -np.inf
    for i in range(last + 1):
        a, c = m - i, n - y[i]
        b[i] = base[i] + lf[a + c] - lf[a] - lf[c]
        top = max(top, b[i])
    total = 0.0
    for i in range(last + 1):
        total += math.exp(b[i] - top)
    return float(top + math.log(total) - (lf[m + n] - lf[m] - lf[n]))


@njit(cache=True, nogil=True)
def _ends(values: Ints) -> tuple[int, int]:
    smallest = largest = values[0] if len(values) else 0
    for value in values:
        smallest, largest = min(smallest, value), max(largest, value)
    return smallest, largest


@njit(cache=True, nogil=True)
def _fringe(paths: Floats, total: Floats, start: int, stop: int, low: Ints, high: Ints, scale: float) -> None:
    for j in range(start, stop):
        for k in range(_LANES):
            total[k] += paths[j, k]
            paths[j, k] = total[k] * scale if low[k] <= j <= high[k] else 0.0


@njit(cache=True, nogil=True)
def _core(paths: Floats, total: Floats, start: int, stop: int, scale: float) -> None:
    """Eight prefix sums side by side, in registers (written out: the compiler then uses one vector)."""
    a, b, c, d = total[0], total[1], total[2], total[3]
    e, f, g, h = total[4], total[5], total[6], total[7]
    for j in range(start, stop):
        row = paths[j]
        a, b, c, d = a + row[0], b + row[1], c + row[2], d + row[3]
        e, f, g, h = e + row[4], f + row[5], g + row[6], h + row[7]
        row[0], row[1], row[2], row[3] = a * scale, b * scale, c * scale, d * scale
        row[4], row[5], row[6], row[7] = e * scale, f * scale, g * scale, h * scale
    total[0], total[1], total[2], total[3] = a, b, c, d
    total[4], total[5], total[6], total[7] = e, f, g, h


@njit(cache=True, nogil=True)
def _inside(h: Ints, m: int, n: int, paths: Floats) -> Floats:
    """P(D < h / (m n)) for up to eight distances; `paths` is scratch of shape (n + 1, 8)."""
    lanes = _LANES
    low = np.zeros(lanes, np.int64)
    high = np.zeros(lanes, np.int64)
    total = np.zeros(lanes)
    for k in range(lanes):
        low[k] = max(0, (n - h[k]) // m + 1)
        high[k] = min(n, -((-h[k]) // m) - 1)
    (first, _), (_, last) = _ends(low), _ends(high)
    scale = 1.0 / (n + 1.0)
    paths[:] = 0.0
    for j in range(first, last + 1):
        for k in range(lanes):
            paths[j, k] = scale if low[k] <= j <= high[k] else 0.0
    for i in range(2, m + 1):
        start = first
        for k in range(lanes):
            low[k] = max(0, (i * n - h[k]) // m + 1)
            high[k] = min(n, -((-((i - 1) * n + h[k])) // m) - 1)
            total[k] = 0.0
        (first, inner), (outer, last) = _ends(low), _ends(high)
        scale = i / (n + i)
        # Only the fringes, where the bands of the eight differ, need masks.
        core = max(start, inner)
        stop = max(core, outer + 1)
        _fringe(paths, total, start, min(core, last + 1), low, high, scale)
        _core(paths, total, core, stop, scale)
        _fringe(paths, total, stop, last + 1, low, high, scale)
    for k in range(lanes):
        total[k] = 0.0
    for j in range(first, last + 1):
        for k in range(lanes):
            total[k] += paths[j, k]
    return total


@njit(cache=True, nogil=True)
def _fill_tails(h: Ints, small: Ints, large: Ints, lf: Floats, out: Floats) -> None:
    longest = _ends(small)[1]
    b, base, y = np.empty(longest + 1), np.empty(longest + 1), np.empty(longest + 1, np.int64)
    for row in range(len(h)):
        d_squared = (h[row] / small[row]) * (h[row] / large[row]) / (small[row] * 1.0) / large[row]
        asymptotic = -2.0 * d_squared * small[row] * large[row] / (small[row] + large[row])
        if asymptotic > _SURELY_BODY:
            out[row] = 0.0
        else:
            out[row] = math.log(2.0) + _log_one_sided(h[row], small[row], large[row], lf, b, base, y)


@njit(cache=True, nogil=True)
def _fill_body(rows: Ints, h: Ints, small: Ints, large: Ints, out: Floats) -> None:
    """`rows` are sorted by arms, then by distance; neighbours share a pass."""
    lanes = _LANES
    wanted = np.empty(lanes, np.int64)
    paths = np.empty((_ends(large)[1] + 1, lanes))
    at = 0
    while at < len(rows):
        m, n = small[rows[at]], large[rows[at]]
        end = at
        while end < len(rows) and end - at < lanes and small[rows[end]] == m and large[rows[end]] == n:
            wanted[end - at] = h[rows[end]]
            end += 1
        for k in range(end - at, lanes):
            wanted[k] = wanted[end - at - 1]
        inside = _inside(wanted, m, n, paths[: n + 1])
        for k in range(end - at):
            out[rows[at + k]] = math.log(max(1.0 - inside[k], 1e-300))
        at = end


def log10_p(h: Ints, n_with: Ints, n_without: Ints) -> Floats:
    """Exact log10 P(D >= h / (n_with n_without)) of the two-sided two-sample Kolmogorov-Smirnov test."""
    h, n_with, n_without = (np.ascontiguousarray(x, dtype=np.int64) for x in (h, n_with, n_without))
    small, large = np.minimum(n_with, n_without), np.maximum(n_with, n_without)
    out = np.zeros(len(h))
    use = np.flatnonzero((h > 0) & (small > 0))
    if len(use) == 0:
        return out
    # Many documents share a (distance, arms) cell: compute each once.
    cells, back = np.unique(np.stack([small[use], large[use], h[use]]), axis=1, return_inverse=True)
    small, large, distance = (np.ascontiguousarray(row) for row in cells)
    log_p = np.empty(len(distance))
    _fill_tails(distance, small, large, _log_factorials(int((small + large).max())), log_p)
    body = np.flatnonzero(log_p >= _BODY + math.log(2.0))
    if len(body):
        _fill_body(body, distance, small, large, log_p)
    out[use] = np.minimum(log_p[back.ravel()] / math.log(10.0), 0.0)
    return out


def smallest_log10_p(n_with: int, n_without: int) -> float:
    """The smallest log10 p that arms of these sizes can give: 2 / C(n_with + n_without, n_with).

    An audit whose correction asks for less cannot find anything.
    """
    log_paths = math.lgamma(n_with + n_without + 1) - math.lgamma(n_with + 1) - math.lgamma(n_without + 1)
    return min(0.0, (math.log(2.0) - log_paths) / math.log(10.0))


@dataclass(frozen=True, eq=False)
class KSTable:
    """Distances and exact p-values, one entry a document."""

    n_with: NDArray[np.int64]
    n_without: NDArray[np.int64]
    distance: NDArray[np.float64]
    """D in [0, 1]; NaN where an arm is empty."""
    log10_p: NDArray[np.float64]
    """Exact without ties, conservative with them; 0 where an arm is empty."""

    def at(self, row: int) -> KSTable:
        """Return the tests of one document."""
        row_slice = slice(row, row + 1)
        return KSTable(
            self.n_with[row_slice], self.n_without[row_slice], self.distance[row_slice], self.log10_p[row_slice]
        )


@njit(cache=True, nogil=True)
def _distances(
    values: NDArray[np.float32], ordered: NDArray[np.float32], inclusion: NDArray[np.bool_], h: NDArray[np.int64]
) -> None:
    documents, runs = values.shape
    for row in range(documents):
        with_runs = inclusion[row].sum()
        pick = with_runs <= runs - with_runs  # look up the smaller arm
        m = with_runs if pick else runs - with_runs
        n = runs - m
        if m == 0:
            h[row] = 0
            continue
        arm = np.empty(m, values.dtype)
        at = 0
        for run in range(runs):
            if inclusion[row, run] == pick:
                arm[at] = values[row, run]
                at += 1
        arm.sort()
        best = 0
        start = below = 0
        everybody = ordered[row]
        while start < m:
            value = arm[start]
            end = start + 1
            while end < m and arm[end] == value:
                end += 1
            # Others strictly below this value, and at or below it: the two ends of the step.
            while everybody[below] < value:
                below += 1
            under = below - start
            while below < runs and everybody[below] == value:
                below += 1
            upto = below - end
            best = max(best, end * n - upto * m, under * m - start * n)
            start = end
        h[row] = best


@njit(cache=True, nogil=True)
def _radix(bits: NDArray[np.uint32], out: NDArray[np.uint32]) -> None:
    """The single floats of each row in order, by eleven bits of their patterns at a time."""
    runs, low, sign = bits.shape[1], np.uint32(2047), np.uint32(1 << 31)
    first_keys, other, ends = np.empty(runs, np.uint32), np.empty(runs, np.uint32), np.empty((3, 2048), np.int64)
    for row in range(len(bits)):
        ends[:] = 0
        for run in range(runs):
            key = bits[row, run]
            key ^= np.uint32(np.int32(key) >> np.int32(31)) | sign  # whole numbers in the order of the floats
            first_keys[run] = key
            ends[0, key & low] += 1
            ends[1, key >> np.uint32(11) & low] += 1
            ends[2, key >> np.uint32(22)] += 1
        for digit in range(3):
            total = 0
            for value in range(2048):
                total, ends[digit, value] = total + ends[digit, value], total
        for key in first_keys:
            at = key & low
            other[ends[0, at]] = key
            ends[0, at] += 1
        for key in other:
            at = key >> np.uint32(11) & low
            first_keys[ends[1, at]] = key
            ends[1, at] += 1
        for key in first_keys:
            at = key >> np.uint32(22)
            out[row, ends[2, at]] = key ^ (((key >> np.uint32(31)) - np.uint32(1)) | sign)
            ends[2, at] += 1


def in_order(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """`np.sort(values, axis=1)`: single precision, which nearly all values have, by digits, two to three times as
    fast. A NaN is first or last.
    """
    if values.dtype != np.float32:
        return np.sort(values, axis=1)
    out = np.empty(values.shape, np.float32)
    _radix(np.ascontiguousarray(values).view(np.uint32), out.view(np.uint32))
    return out


def checked_order(
    values: NDArray[np.floating], inclusion: NDArray[np.bool_], ordered: NDArray[np.floating] | None = None
) -> NDArray[np.floating]:
    """Each document's values in order; refuses bits of another shape, and NaN."""
    if values.shape != inclusion.shape:
        raise ValueError(f"`values` {values.shape} and `inclusion` {inclusion.shape} must have the same shape.")
    ordered = in_order(values) if ordered is None else ordered
    if ordered.shape[1] and np.isnan(ordered[:, [0, -1]]).any():
        raise ValueError("`values` must not hold NaN.")
    return ordered


def ks_distances(
    values: NDArray[np.floating], inclusion: NDArray[np.bool_], ordered: NDArray[np.floating] | None = None
) -> NDArray[np.int64]:
    """Return D of each document as an integer: h = D * n_with * n_without, exact."""
    ordered = checked_order(values, inclusion, ordered)
    h = np.zeros(len(values), dtype=np.int64)
    _distances(np.ascontiguousarray(values), ordered, np.ascontiguousarray(inclusion), h)
    return h


def ks_table(values: NDArray[np.floating], inclusion: NDArray[np.bool_]) -> KSTable:
    """Test every document: distance and exact log10 p of its arms; called as `ks_distances`."""
    return ks_tables([values], inclusion)[0]


def ks_tables(
    columns: Sequence[NDArray[np.floating]],
    inclusion: NDArray[np.bool_],
    ordered: Sequence[NDArray[np.floating]] | None = None,
) -> list[KSTable]:
    """`ks_table` of several statistics of the same runs, whose p-values are worked out together: those of the same
    arms share their passes.
    """
    orders = [None] * len(columns) if ordered is None else ordered
    h = np.array([ks_distances(v, inclusion, o) for v, o in zip(columns, orders, strict=True)], dtype=np.int64)
    n_with = inclusion.sum(axis=1, dtype=np.int64)
    n_without = inclusion.shape[1] - n_with
    pairs = n_with * n_without
    arms = (np.tile(arm, len(columns)) for arm in (n_with, n_without))
    log_p = log10_p(h.ravel(), *arms).reshape(h.shape)
    distance = np.divide(h, pairs, out=np.full(h.shape, np.nan), where=pairs > 0)
    return [KSTable(n_with, n_without, *row) for row in zip(distance, log_p, strict=True)]


@dataclass(frozen=True, eq=False)
class ArmTests:
    """Tests of some documents: every table has shape (n_documents, n_columns)."""

    n_with: NDArray[np.int64]
    n_without: NDArray[np.int64]
    distance: NDArray[np.float64]
    """NaN where an arm is empty."""
    log10_p: NDArray[np.float64]
    """log10 p of the distance (four fifths of the level) and the tails (one fifth); 0 if an arm is empty."""
    log10_tail: NDArray[np.float64]
    """log10 p of the tails alone: they find a rare but certain leak, to which the distance is blind."""
    log10_low_below: Any = None
    """log10 p of "the true positive rate at 1 % false positives is at least its limit" (`low_fpr`), or 0."""
    log10_low_above: Any = None
    """log10 p of "it is at most its limit"."""

    def __post_init__(self) -> None:
        for name in ("log10_low_below", "log10_low_above"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, np.zeros(np.shape(self.distance)))

    @staticmethod
    def join(parts: Sequence[ArmTests]) -> ArmTests:
        """Stack documents in order."""
        return ArmTests(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(ArmTests)))

    @staticmethod
    def beside(parts: Sequence[ArmTests]) -> ArmTests:
        """Set columns of the same documents side by side."""
        return ArmTests(*(np.concatenate([getattr(p, f.name) for p in parts], axis=1) for f in fields(ArmTests)))

    def __getitem__(self, rows: slice | NDArray[np.int64] | NDArray[np.bool_]) -> ArmTests:
        return ArmTests(*(getattr(self, f.name)[rows] for f in fields(self)))

    def columns(self, chosen: Sequence[int]) -> ArmTests:
        """Some columns only."""
        picked = np.asarray(chosen, dtype=np.int64)
        return ArmTests(*(getattr(self, f.name)[:, picked] for f in fields(self)))

    def __len__(self) -> int:
        return len(self.distance)


@dataclass(frozen=True)
class Gap:
    """The widest gap between the two curves."""

    place: float
    """The value at which they are farthest apart; the first of equals."""
    share_with: float
    """Share of the runs with the document at or below it."""
    share_without: float

    @property
    def distance(self) -> float:
        """D."""
        return abs(self.share_with - self.share_without)


@njit(cache=True, nogil=True)
def _merge(first: Floats, second: Floats, steps: Floats) -> int:
    i = j = count = 0
    while i < len(first) or j < len(second):
        place = second[j] if i == len(first) or (j < len(second) and second[j] < first[i]) else first[i]
        while i < len(first) and not first[i] > place:  # NaN goes, too
            i += 1
        while j < len(second) and not second[j] > place:
            j += 1
        steps[0, count], steps[1, count], steps[2, count] = place, i / len(first), j / len(second)
        count += 1
    return count


def shares_upto(first: Floats, second: Floats) -> Floats:
    """The distinct values of two sorted arms, ascending, and the share of each arm that is at or below them."""
    shares = np.empty((3, len(first) + len(second)))
    return shares[:, : _merge(first, second, shares)]


def widest_gap(with_values: NDArray[np.floating], without_values: NDArray[np.floating]) -> Gap | None:
    """The widest gap between the distribution functions of two arms; None where one is empty."""
    if not len(with_values) or not len(without_values):
        return None
    arms = (np.sort(arm).astype(np.float64) for arm in (with_values, without_values))
    places, first, other = shares_upto(*arms)
    best = int(np.argmax(np.abs(first - other)))
    return Gap(float(places[best]), float(first[best]), float(other[best]))
