"""Bounded least squares over all documents at once: argmin |x - u T|^2 with 0 <= u <= upper."""

from __future__ import annotations

import numpy as np
from numba import njit

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.numeric.kernels import panel_of

TOLERANCE = 1e-12
"""A document is done when no coordinate step of a sweep moves u T by more than this part of
max_t |p_t| / |T_t|, which is at most |x|."""
CAP = 200
"""Sweeps at most. Real topics take about 5, and 25 are enough for topics equal to about 1e-5; closer ones can take
more, and next to nothing depends on the choice among those."""

_EXACT_EVERY = 2


@njit(cache=True, nogil=True)
def _direction(gradient: Floats, gram: Floats, free: Ints, count: int, factor: Floats) -> int:
    """Newton step over the first `count` coordinates of `free`, into the last row of `factor` (scratch)."""
    last = factor.shape[0] - 1
    for a in range(count):
        s = free[a]
        for b in range(a + 1):
            value = gram[s, free[b]]
            for c in range(b):
                value -= factor[a, c] * factor[b, c]
            if a > b:
                factor[a, b] = value / factor[b, b]
            elif value > 1e-13 * gram[s, s]:
                factor[a, a] = np.sqrt(value)
            else:
                return a
    for a in range(count):
        value = -gradient[free[a]]
        for c in range(a):
            value -= factor[a, c] * factor[last, c]
        factor[last, a] = value / factor[a, a]
    for a in range(count - 1, -1, -1):
        value = factor[last, a]
        for c in range(a + 1, count):
            value -= factor[c, a] * factor[last, c]
        factor[last, a] = value / factor[a, a]
    return -1


@njit(cache=True, nogil=True)
def _exact_step(u: Floats, gradient: Floats, gram: Floats, upper: float, free: Ints, factor: Floats) -> None:
    last = factor.shape[0] - 1
    count = 0
    for t in range(u.shape[0]):
        if 0.0 < u[t] < upper:
            free[count] = t
            count += 1
    while count > 0:
        length = 1.0
        stop = _direction(gradient, gram, free, count, factor)
        if stop >= 0:
            count -= 1
            for a in range(stop, count):
                free[a] = free[a + 1]
            continue
        for a in range(count):
            step = factor[last, a]
            room = u[free[a]] if step < 0.0 else upper - u[free[a]]
            if abs(step) * length > room:
                length = room / abs(step)
                stop = a
        for a in range(count):
            t = free[a]
            u[t] = min(max(u[t] + length * factor[last, a], 0.0), upper)
            gradient[t] *= 1.0 - length
        if stop < 0:
            break
        u[free[stop]] = 0.0 if factor[last, stop] < 0.0 else upper
        count -= 1
        for a in range(stop, count):
            free[a] = free[a + 1]


@njit(cache=True, nogil=True)
def _gradient(u: Floats, products: Floats, padded: Floats, gradient: Floats) -> None:
    for s in range(len(u)):
        gradient[s] = -products[s]
    for t in range(len(u)):
        for s in range(len(u)):
            gradient[s] += u[t] * padded[t, s]


@njit(cache=True, nogil=True)
def _solve(products: Floats, padded: Floats, upper: float, tolerance: float, cap: int, out: Floats) -> None:
    """From zeros to the minimum; `padded` is the Gram matrix (k x k), its columns padded with zeros to eights."""
    n, k = products.shape
    width = padded.shape[1]
    gradient = np.zeros(width)
    free = np.empty(k, dtype=np.int64)
    factor = np.empty((k + 1, k))
    inverse = np.zeros(k)
    for t in range(k):
        if padded[t, t] > 0.0:
            inverse[t] = 1.0 / padded[t, t]
    for i in range(n):
        u = out[i]
        largest = 0.0
        for t in range(k):
            gradient[t] = -products[i, t]
            largest = max(largest, products[i, t] * products[i, t] * inverse[t])
        enough = tolerance * tolerance * largest
        for sweep in range(cap):
            moved = 0.0
            for t in range(k):
                if inverse[t] == 0.0:
                    continue
                value = min(max(u[t] - gradient[t] * inverse[t], 0.0), upper)
                step = value - u[t]
                if step != 0.0:
                    u[t] = value
                    for s in range(width):
                        gradient[s] += step * padded[t, s]
                    moved = max(moved, step * step * padded[t, t])
            if moved <= enough:
                break
            if sweep % _EXACT_EVERY == _EXACT_EVERY - 1:
                _exact_step(u, gradient, padded, upper, free, factor)
                _gradient(u, products[i], padded, gradient)


def box_least_squares(products: Floats, gram: Floats, *, upper: float = 1.0) -> Floats:
    """Minimise |x - u T|^2 over 0 <= u <= `upper` for every document x.

    Cyclic coordinate descent on the Gram form u G u^T - 2 u p^T with p = x T^T and G = T T^T, from u = 0, and
    every 2 sweeps a step to the exact minimum over the coordinates inside their bounds, so that nearly equal
    topics do not make it crawl. Where the minimiser is not unique (equal topics), the one returned is a function
    of p and G alone; a topic that is all zero gets the coefficient 0.
    """
    out = np.zeros(products.shape)
    _solve(np.ascontiguousarray(products), panel_of(gram), float(upper), TOLERANCE, CAP, out)
    return out
