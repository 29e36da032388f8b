"""Block power iteration over several parties, and its limit, computed directly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse as sp
from numba import njit

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.lanczos import dot, numerical_rank, singular_rows
from ksdp.audit.numeric.array_types import Matrix, Vector
from ksdp.audit.numeric.kernels import add_rows_to_panel, csr_times_panel, lined, panel_of
from ksdp.audit.numeric.sparse_rows import arrays_of


def times(matrix: sp.csr_array, rows: Matrix) -> Matrix:
    """X B^T, shape (n, k), of a canonical CSR `matrix` X and `rows` B of shape (k, features)."""
    products = np.empty((matrix.shape[0], len(rows)))
    csr_times_panel(*arrays_of(matrix), panel_of(rows), products)
    return products


def transposed_times(matrix: sp.csr_array, columns: Matrix) -> Matrix:
    """(X^T C)^T, shape (k, features), of a canonical CSR `matrix` X and `columns` C of shape (n, k)."""
    weights = panel_of(columns.T)
    sums = lined((matrix.shape[1], weights.shape[1]))
    add_rows_to_panel(*arrays_of(matrix), weights, sums)
    return np.ascontiguousarray(sums[:, : columns.shape[1]].T)


DEPENDENT = 1e-13
"""A row whose rest has at most this relative length is rounding: it depends on the rows above."""


@dataclass(frozen=True, eq=False)
class PowerRun:
    """Where a block power iteration stopped."""

    block: Matrix
    """Orthonormal rows, shape (rank, features): V_k^T."""
    values: Vector
    """Square roots of the norms that NormedSecSum hides and SecSum would announce, in the last iteration;
    singular values once converged. Shape (rank,)."""
    iterations: int


@lru_cache(maxsize=16)
def start_block(start_seed: int, features: int, rank: int) -> Matrix:
    """The agreed start, from a seed: standard normal, shape (rank, features), read-only."""
    block = np.random.default_rng(start_seed).standard_normal((rank, features))
    block.flags.writeable = False
    return block


def sec_sum(shares: Sequence[Matrix]) -> Matrix:
    """Sum of the parties' shares, in the order of the parties: what SecSum announces."""
    total = np.array(shares[0], dtype=np.float64)
    for share in shares[1:]:
        total += share
    return total


def normed_sec_sum(shares: Sequence[Matrix]) -> tuple[Matrix, Vector]:
    """Sum of the shares with each row divided by its norm (NormedSecSum), and the norms, which stay hidden."""
    return normalised(sec_sum(shares))


def normalised(total: Matrix) -> tuple[Matrix, Vector]:
    """Rows divided by their norms, and the norms; a row of zeros stays one."""
    norms = np.sqrt(np.array([dot(row, row) for row in total]))
    return total / np.where(norms > 0, norms, 1.0)[:, None], norms


def orthonormalise(block: Matrix, start: Matrix) -> Matrix:
    """Orthonormalise rows from the first to the last, the same for every party to the last bit.

    The Q of the QR factorisation (of the transpose) whose R has a positive diagonal, by modified Gram-Schmidt,
    twice, in an order of operations that no library decides. A row that depends on those above it (to 1e-13) is
    replaced by its row of `start`, which tells nothing about the data that the rows above do not tell.
    """
    out = np.array(block, dtype=np.float64, order="C")
    _gram_schmidt(out, np.require(start, requirements=["C", "W"]))
    return out


@lru_cache(maxsize=16)
def first_basis(start_seed: int, features: int, rank: int) -> Matrix:
    """The start, orthonormal, read-only: the block that the first iteration multiplies."""
    start = start_block(start_seed, features, rank)
    basis = orthonormalise(start, start)
    basis.flags.writeable = False
    return basis


@njit(cache=True, nogil=True)
def _gram_schmidt(block: Matrix, start: Matrix) -> None:
    rows, columns = block.shape
    for j in range(rows):
        for attempt in range(2):
            before = np.sqrt(dot(block[j], block[j]))
            after = before
            for _ in range(2):
                for i in range(j):
                    part = dot(block[i], block[j])
                    for at in range(columns):
                        block[j, at] -= part * block[i, at]
                after = np.sqrt(dot(block[j], block[j]))
            if after > DEPENDENT * before or attempt == 1:
                for at in range(columns):
                    block[j, at] /= after
                break
            block[j] = start[j]


def subspace_sine(new: Matrix, old: Matrix) -> float:
    """Sine of the largest principal angle between the spans of two blocks of orthonormal rows."""
    outside = new - (new @ old.T) @ old
    return float(np.linalg.norm(outside, 2))


def share_of(matrix: sp.csr_array, block: Matrix, mean: Vector | None) -> Matrix:
    """One party's share of an iteration: the rows S v of X^T X, or of (X - 1 mean^T)^T (X - 1 mean^T)."""
    # (X - 1 m^T)^T (X - 1 m^T) V without forming X - 1 m^T or anything features x features.
    image = times(matrix, block)
    if mean is None:
        return transposed_times(matrix, image)
    image -= mean @ np.ascontiguousarray(block.T)
    return np.asarray(transposed_times(matrix, image) - image.sum(axis=0)[:, None] * mean)


def block_power(
    parties: Sequence[sp.csr_array],
    start: Matrix,
    *,
    iterations: int,
    tolerance: float,
    mean: Vector | None = None,
) -> PowerRun:
    """The leading right singular vectors, by block power iteration (PD-ML-Lite, Algorithm 4).

    Every iteration announces NormedSecSum over the parties of S_m v, S_m = X_m^T X_m, for each of the rows v, and
    each party orthonormalises by itself. It stops when the subspace has moved by less than `tolerance` (sine of
    the largest principal angle), or at the cap. When the movement shrinks by a factor r an iteration, the error
    left is about movement r / (1 - r); single vectors can be farther from their limit than the subspace is.
    """
    if iterations < 1:
        raise SpecError(f"`iterations` must be at least 1; got {iterations}.")
    if not tolerance >= 0:
        raise SpecError(f"`tolerance` must not be negative; got {tolerance}.")
    block = orthonormalise(start, start)
    done, movement = 0, np.inf
    norms = np.zeros(len(start))
    while done < iterations and movement >= tolerance:
        announced, norms = normed_sec_sum([share_of(matrix, block, mean) for matrix in parties])
        moved = orthonormalise(announced, start)
        movement = subspace_sine(moved, block)
        block, done = moved, done + 1
    return PowerRun(block, values_from(norms, start.shape[1]), done)


def values_from(norms: Vector, features: int) -> Vector:
    """Singular values from the norms of S v in the last iteration."""
    # The norm of S v with v outside the row space is rounding, and its root would look like a value.
    rounding = features * np.finfo(np.float64).eps * norms.max()
    return np.sqrt(np.where(norms > rounding, norms, 0.0))


REPEATED = 1e-10
"""Singular values this close, relative to the largest, span one subspace: their vectors are undetermined."""


@dataclass(frozen=True, eq=False)
class Limit:
    """The limit of block power iteration."""

    block: Matrix
    """Orthonormal rows, shape (rank, features): V_k^T with the iteration's signs."""
    values: Vector
    """Singular values, descending, shape (rank,)."""


def limit_of_power(
    matrix: sp.csr_array, start: Matrix, mean: Vector | None = None, *, signs: bool = True
) -> Limit:
    """Return the limit of `block_power` from the same start, signs included, without iterating.

    Text has small spectral gaps: the iteration needs hundreds of rounds where `singular_rows` needs some forty
    products. Where the rank of X is below that of `start`, the rows beyond hold the start, orthonormalised against
    those above, and their values are 0. A `mean` is subtracted from every row, implicitly. Without `signs` they
    mean nothing.
    """
    exact = singular_rows(matrix, len(start), start[0], mean)
    values = exact.values.copy()
    rank = numerical_rank(values, matrix.shape)
    values[rank:] = 0.0
    plain = rank == len(values) and bool((values[:-1] - values[1:] > REPEATED * values[0]).all())
    return Limit(exact.rows if plain and not signs else settle_signs(exact.rows, values, start), values)


def settle_signs(rows: Matrix, values: Vector, start: Matrix) -> Matrix:
    """Turn singular vectors, known up to sign, into the limit of the block power iteration from `start`.

    After t iterations the block is the Q factor (positive diagonal) of (X^T X)^t V_0. Write A = V_k^T V_0 (k x k)
    and A = L U without pivoting: then S^2t A = (S^2t L S^-2t) S^2t U, whose first factor goes to the identity as L
    is lower unit triangular and S descends, and the Q factor of the upper triangular rest is the signs of its
    diagonal. So column i of the limit is sign(U_ii) v_i, and U_ii is the ratio of the leading principal minors i
    and i-1 of A. A repeated value (to 1e-10 of the first) is one block of a block LU: its vectors are turned by
    the Q factor of the Schur complement. One that is repeated beyond `rank` leaves its subspace, and so the limit,
    to the start.

    >>> settle_signs(np.eye(2), np.array([2.0, 1.0]), np.array([[-1.0, 5.0], [1.0, 1.0]]))
    array([[-1., -0.],
           [ 0.,  1.]])
    """
    rank = int(np.count_nonzero(values > 0))
    out = np.zeros_like(rows)
    a = rows[:rank] @ start[:rank].T
    low = 0
    while low < rank:
        high = low + 1
        while high < rank and values[high - 1] - values[high] <= REPEATED * values[0]:
            high += 1
        pivot = a[low:high, low:high]
        if high - low == 1:
            out[low] = np.copysign(1.0, pivot[0, 0]) * rows[low]
            eliminate = a[low:high, high:] / pivot[0, 0]
        else:
            q, r = np.linalg.qr(pivot)
            turn = q * np.copysign(1.0, np.diag(r))
            out[low:high] = turn.T @ rows[low:high]
            eliminate = np.linalg.solve(pivot, a[low:high, high:])
        a[high:, high:] -= a[high:, low:high] @ eliminate
        low = high
    return out if rank == len(rows) else orthonormalise(out, start)


def towards(rows: Matrix, start: Matrix) -> Matrix:
    """Rows with the signs that make their inner products with the rows of `start` positive."""
    out = np.empty_like(rows)
    _turn_towards(rows, start, out)
    return out


@njit(cache=True, nogil=True)
def _turn_towards(rows: Matrix, start: Matrix, out: Matrix) -> None:
    for i in range(len(rows)):
        sign = -1.0 if dot(rows[i], start[i]) < 0.0 else 1.0
        for at in range(rows.shape[1]):
            out[i, at] = sign * rows[i, at]


def stack(parties: Sequence[sp.csr_array]) -> sp.csr_array:
    """Put the parties' rows under each other."""
    if len(parties) == 1:
        return parties[0]
    return sp.csr_array(sp.vstack(parties, format="csr"))
