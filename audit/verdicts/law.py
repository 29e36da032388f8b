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
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ksdp.audit.array_types import Floats, Ints

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
    """ln P(D+ >= h / (m n)); `b`, `base` and `y` are scratch of length m + 1.

    As a walk whose steps are drawn one by one, with chance m / (m + n) into the smaller arm: then all terms are
    probabilities, and those of the way from one point of the boundary to another depend on the steps between them
    alone (two numbers of steps into the larger arm for each into the smaller). Where one of them is too small for
    floats, in logarithms.
    """
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
    """The smallest and the largest; 0 of none."""
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
    """Exact log10 P(D >= h / (n_with n_without)) of the two-sided two-sample Kolmogorov-Smirnov test.

    Parameters
    ----------
    h : int64, shape (rows,)
        D as an integer: D = h / (n_with * n_without).
    n_with, n_without : int64, shape (rows,)
        Sizes of the two arms; a row with an empty arm gets 0 (p = 1).

    Returns
    -------
    float64, shape (rows,)
        Never above 0; finite down to the smallest p that these arms can give (1e-388 and below).

    Examples
    --------
    >>> import numpy as np
    >>> float(log10_p(np.array([200 * 200]), np.array([200]), np.array([200]))[0].round(6))
    -118.711607
    """
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
