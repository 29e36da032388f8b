"""What the NMF kernels work on, and the products they share. Nothing here calls BLAS, so that results are the same
to the bit whatever the number of threads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Matrix, Vector
from ksdp.audit.kernels import row_times_panel
from ksdp.audit.mechanisms.factorisation.simplex import total


class Rows(NamedTuple):
    """CSR rows of all parties, one party after the other."""

    data: Vector
    columns: NDArray[np.uint32]
    """Unsigned: a third faster, as no index can count from the end."""
    indptr: NDArray[np.int64]
    bounds: NDArray[np.int64]
    """Shape (parties + 1,): rows of party p are bounds[p] to bounds[p + 1]."""
    outside: NDArray[np.bool_]
    """Shape (parties,): whose shares the coalition cannot subtract."""


class Factors(NamedTuple):
    """X ~ W T while it is sought, over the touched columns; changed in place."""

    T: Matrix
    """Shape (k, touched)."""
    W: Matrix
    """Shape (n, k)."""
    gram: Matrix
    """T T^T over all columns, shape (k, k)."""


class Silent(NamedTuple):
    """What is known of T on the columns that no row touches."""

    width: int
    """How many."""
    gram: Matrix
    """T T^T over these columns, shape (k, k)."""
    sums: Vector
    """Row sums of T over these columns."""
    level: Vector
    """The constant of each topic, once it has been updated."""
    fresh: NDArray[np.bool_]
    """Whether a topic still holds its start."""


class Sums(NamedTuple):
    """What the coalition sees of one sweep's sums: those over the outside parties."""

    numerators: Matrix
    """W_t^T R_t on the touched columns, shape (k, touched)."""
    denominators: Vector
    mix: Matrix
    offset: Vector
    """On the silent columns the numerators are offset + mix @ start."""


class TopicShare(NamedTuple):
    """What one party adds to the sums of a topic t."""

    numerator: Vector
    """W_t^T R_t over the touched columns."""
    overlaps: Vector
    """W^T W_t, whose entry t is the denominator."""


class SweepSpace(NamedTuple):
    """What a sweep works in, and hands to the next."""

    thresholds: Vector
    """Of the last projections, the guesses for the next, shape (k,)."""
    fits: Matrix
    """X T^T, shape (n, k)."""
    interleaved: Matrix
    """Of `product`, shape (touched, 8)."""


class Penalties(NamedTuple):
    """The regularisers of equation 3: weights of ||T||_1, ||T||_F^2 / 2, ||W||_1 and ||W||_F^2 / 2."""

    alpha: float = 0.0
    beta: float = 0.0
    gamma: float = 0.0
    delta: float = 0.0


PLAIN = Penalties()
"""No regulariser."""


@njit(cache=True, nogil=True)
def dot(a: Vector, b: Vector) -> float:
    """Inner product, added up in one fixed order that vectorises without fastmath."""
    quarter = a.size // 4
    a1, a2, a3 = a[quarter : 2 * quarter], a[2 * quarter : 3 * quarter], a[3 * quarter : 4 * quarter]
    b1, b2, b3 = b[quarter : 2 * quarter], b[2 * quarter : 3 * quarter], b[3 * quarter : 4 * quarter]
    part = np.empty(quarter)
    for j in range(quarter):
        part[j] = (a[j] * b[j] + a1[j] * b1[j]) + (a2[j] * b2[j] + a3[j] * b3[j])
    rest = 0.0
    for j in range(4 * quarter, a.size):
        rest += a[j] * b[j]
    whole: float = total(part) + rest
    return whole


@njit(cache=True, nogil=True)
def gram_rows(T: Matrix) -> Matrix:
    """Return T T^T."""
    gram = np.empty((T.shape[0], T.shape[0]))
    for t in range(T.shape[0]):
        for u in range(t + 1):
            gram[t, u] = dot(T[t], T[u])
            gram[u, t] = gram[t, u]
    return gram


@njit(cache=True, nogil=True)
def column_map(indices: NDArray[np.int32], features: int) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """Number the touched columns 0, 1, ... in order.

    Returns
    -------
    position : shape (features,)
        The number of a touched column; -1 for a silent one.
    compact : shape (nnz,)
        `indices` in those numbers.
    """
    position = np.full(features, -1, np.int32)
    for p in range(indices.size):
        position[indices[p]] = 0
    touched = 0
    for j in range(features):
        if position[j] == 0:
            position[j] = touched
            touched += 1
    compact = np.empty(indices.size, np.uint32)
    for p in range(indices.size):
        compact[p] = position[indices[p]]
    return position, compact


@njit(cache=True, nogil=True)
def expand(touched: Matrix, level: Vector, mix: Matrix, start: Matrix, position: NDArray[np.int32]) -> Matrix:
    """Return T or sums over all columns: `touched` on the touched ones, level + mix @ start on the silent ones."""
    topics, features = start.shape
    full = np.empty((topics, features))
    for t in range(topics):
        mixed = mix[t].any()
        for j in range(features):
            if position[j] >= 0:
                full[t, j] = touched[t, position[j]]
            else:
                full[t, j] = level[t]
                if mixed:
                    for u in range(topics):
                        full[t, j] += mix[t, u] * start[u, j]
    return full


@njit(cache=True, nogil=True)
def product(rows: Rows, T: Matrix, interleaved: Matrix, result: Matrix) -> None:
    """Fill `result` with X T^T, eight topics at a time.

    Parameters
    ----------
    T : shape (k, touched)
    interleaved : shape (touched, 8)
        Work space: eight topics side by side, so that an entry of X fetches one cache line and not eight.
    result : shape (n, k)
    """
    topics = T.shape[0]
    sums = np.empty(8)
    for first in range(0, topics, 8):
        block = min(8, topics - first)
        for j in range(T.shape[1]):  # line by line: topic by topic each line would be written eight times
            for u in range(block):
                interleaved[j, u] = T[first + u, j]
            for u in range(block, 8):
                interleaved[j, u] = 0.0
        for i in range(result.shape[0]):
            row_times_panel(rows.columns, rows.data, interleaved, rows.indptr[i], rows.indptr[i + 1], sums)
            for u in range(block):
                result[i, first + u] = sums[u]


@njit(cache=True, nogil=True)
def descend(
    fits: Matrix, gram: Matrix, gamma: float, delta: float, W: Matrix, sweeps: int, tolerance: float
) -> int:
    """Fill W >= 0 with argmin 0.5 ||X - W T||^2 + gamma ||W||_1 + 0.5 delta ||W||^2, given X T^T and T T^T.

    Cyclic coordinate descent, row by row, until no entry of a row moves by more than tolerance times its largest
    entry. Returns how many rows were cut off by `sweeps`.
    """
    topics = gram.shape[0]
    unfinished = 0
    for i in range(W.shape[0]):
        done = False
        for _ in range(sweeps):
            largest = 0.0
            moved = 0.0
            for t in range(topics):
                curvature = gram[t, t] + delta
                if curvature <= 0.0:
                    W[i, t] = 0.0
                    continue
                slope = fits[i, t] - gamma - delta * W[i, t]
                for u in range(topics):
                    slope -= W[i, u] * gram[u, t]
                w = max(W[i, t] + slope / curvature, 0.0)
                moved = max(moved, abs(w - W[i, t]))
                largest = max(largest, w)
                W[i, t] = w
            if moved <= tolerance * largest:
                done = True
                break
        if not done:
            unfinished += 1
    return unfinished
