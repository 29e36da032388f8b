"""What Lanczos asks of its tridiagonal matrix at every look: how far each eigenvalue is from converged."""

from __future__ import annotations

import numpy as np
from numba import njit

from ksdp.audit.array_types import Vector

EPSILON = float(np.finfo(np.float64).eps)
ANGLE = 1e-10
"""Lanczos stops when the wanted subspace is within this angle of the true one."""


@njit(cache=True, nogil=True)
def last_components(diagonal: Vector, beside: Vector) -> tuple[Vector, Vector]:
    """Eigenvalues of a symmetric tridiagonal matrix, ascending, and each vector's last component but for its sign.

    By implicit QL steps, of whose rotations only the last row is kept: n^2 operations, where vectors take n^3.

    Parameters
    ----------
    diagonal : shape (n,)
    beside : shape (n - 1,), or longer
    """
    n = len(diagonal)
    d, e, last = diagonal.copy(), np.zeros(n), np.zeros(n)
    for i in range(n - 1):
        e[i] = beside[i]
    last[n - 1] = 1.0
    for low in range(n):
        for _ in range(60):  # two or three do
            m = low
            while m < n - 1 and abs(e[m]) > EPSILON * (abs(d[m]) + abs(d[m + 1])):
                m += 1
            if m == low:
                break
            g = (d[low + 1] - d[low]) / (2.0 * e[low])
            r = np.hypot(g, 1.0)
            g = d[m] - d[low] + e[low] / (g + (r if g >= 0.0 else -r))
            sine, cosine, part = 1.0, 1.0, 0.0
            split = False
            for i in range(m - 1, low - 1, -1):
                f, b = sine * e[i], cosine * e[i]
                r = np.hypot(f, g)
                e[i + 1] = r
                if r == 0.0:
                    d[i + 1] -= part
                    e[m] = 0.0
                    split = True
                    break
                sine, cosine = f / r, g / r
                g = d[i + 1] - part
                r = (d[i] - g) * sine + 2.0 * cosine * b
                part = sine * r
                d[i + 1] = g + part
                g = cosine * r - b
                f = last[i + 1]
                last[i + 1] = sine * last[i] + cosine * f
                last[i] = cosine * last[i] - sine * f
            if not split:
                d[low] -= part
                e[low] = g
                e[m] = 0.0
    order = np.argsort(d)
    return d[order], last[order]


@njit(cache=True, nogil=True)
def excess_error(alpha: Vector, beta: Vector, want: int, locked_squares: Vector) -> float:
    """The error of the wanted eigenvectors, in multiples of what is allowed: at 1 or less they are converged.

    0 as well where the leading one is seen to stay below the last of `locked_squares`.

    Parameters
    ----------
    alpha, beta : shape (n,)
        The tridiagonal matrix, and what the last step left.
    """
    count, fixed = len(alpha), len(locked_squares)
    norm = beta[count - 1]
    values, last = last_components(alpha, beta)
    top = values[::-1][:want]
    worst = 0.0
    for i in range(want):
        worst = max(worst, norm * abs(last[count - 1 - i]))
    if norm <= 0.0 or (fixed and top[0] + 2 * worst < locked_squares[fixed - 1]):
        return 0.0
    gap = top[want - 1] - values[count - 1 - want] if count > want else 0.0
    rounding = 4 * EPSILON * (locked_squares[0] if fixed else top[0])
    return float(worst / max(ANGLE * gap, rounding))
