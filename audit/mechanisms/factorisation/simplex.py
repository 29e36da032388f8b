"""Euclidean projection on the unit simplex, exact and without sorting."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from ksdp.audit.errors import InputError


@njit(cache=True, nogil=True)
def total(v: NDArray[np.float64]) -> float:
    """Sum in four fixed lanes."""
    s0 = s1 = s2 = s3 = 0.0
    blocks = v.size // 4 * 4
    for j in range(0, blocks, 4):
        s0 += v[j]
        s1 += v[j + 1]
        s2 += v[j + 2]
        s3 += v[j + 3]
    for j in range(blocks, v.size):
        s0 += v[j]
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, nogil=True)
def _excess(v: NDArray[np.float64], zeros: int, theta: float) -> tuple[float, int]:
    """Return the sum of max(v_j - theta, 0) and how many v_j are above theta, `zeros` zeros included."""
    half = v.size // 2
    upper = v[half : 2 * half]
    part = np.empty(half)
    count = 0
    for j in range(half):  # this shape vectorises without fastmath
        part[j] = max(v[j] - theta, 0.0) + max(upper[j] - theta, 0.0)
        count += (v[j] > theta) + (upper[j] > theta)
    excess = total(part)
    if v.size % 2 == 1 and v[v.size - 1] > theta:
        excess += v[v.size - 1] - theta
        count += 1
    if theta < 0.0:
        excess -= zeros * theta
        count += zeros
    return excess, count


@njit(cache=True, nogil=True)
def simplex_threshold(v: NDArray[np.float64], zeros: int, guess: float) -> float:
    """Return theta with sum_j max(v_j - theta, 0) = 1, for `v` followed by `zeros` entries equal to 0.

    Newton's method on a convex, decreasing, piecewise linear function: after its first step it climbs to the
    root from the left, through nested active sets, and it is there when the number of active entries repeats.
    Each step is one pass, and about four steps do; the result is exact up to rounding, from any guess.

    Parameters
    ----------
    v : array, shape (n,)
        Finite; `n` + `zeros` must be at least 1.
    zeros : int
        Entries equal to 0 that are not stored: the features that no document of a run has.
    guess : float
        Where to start, for instance the threshold of a neighbouring vector.
    """
    theta = guess
    excess, count = _excess(v, zeros, theta)
    if count == 0:  # right of everything: start left of the root instead
        top = 0.0 if zeros > 0 else v[0]
        for j in range(v.size):
            top = max(top, v[j])
        theta = top - max(1.0, 1e-12 * abs(top))
        excess, count = _excess(v, zeros, theta)
    for step in range(v.size + zeros + 2):
        theta += (excess - 1.0) / count
        before = count
        excess, count = _excess(v, zeros, theta)
        # Sets of entries above a threshold are nested, so equal counts are equal sets. From the second step on
        # sets only shrink; rounding alone could make them grow again, and that is the end, too.
        if count == before or count == 0 or (step > 0 and count > before):
            break
    return theta


@njit(cache=True, nogil=True)
def _project_rows(rows: NDArray[np.float64]) -> None:
    for i in range(rows.shape[0]):
        rows[i] -= rows[i].max()  # changes nothing but the rounding: the entries that stay are within 1 of it
        theta = simplex_threshold(rows[i], 0, -1.0)
        for j in range(rows.shape[1]):
            rows[i, j] = max(rows[i, j] - theta, 0.0)


def project_simplex(vectors: ArrayLike) -> NDArray[np.float64]:
    r"""Project vectors on the unit simplex: :math:`\arg\min_{x \ge 0, \|x\|_1 = 1} \|x - v\|_2`.

    The solution is max(v - theta, 0) with the one theta for which it sums to 1. Exact up to rounding; the
    expected time is linear in d (worst case d passes), where sorting takes d log d.

    Parameters
    ----------
    vectors : array, shape (d,) or (k, d)
        One vector, or one a row.

    Returns
    -------
    array, same shape, float64
        A new array.

    Raises
    ------
    InputError
        Where `vectors` is empty, not finite, or neither one- nor two-dimensional.

    Notes
    -----
    PD-ML-Lite, equation 5, last line, and Algorithm 1, line 10. The theta is found by Newton's method, which
    for this function visits the sets of Michelot's algorithm (Condat 2016, "Fast projection onto the simplex
    and the l1 ball", section 2).

    Examples
    --------
    >>> project_simplex([0.9, 0.5, -1.0])
    array([0.7, 0.3, 0. ])
    """
    array = np.array(vectors, dtype=np.float64, order="C")
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise InputError(f"`vectors` must have shape (d,) or (k, d) with d at least 1; got {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError("`vectors` must be finite; got NaN or infinity.")
    _project_rows(array.reshape(-1, array.shape[-1]))
    return array
