"""What the block power iteration converges to, computed directly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Matrix, Vector
from ksdp.audit.mechanisms.factorisation.power_iteration import orthonormalise
from ksdp.audit.mechanisms.factorisation.singular import numerical_rank, singular_rows

REPEATED = 1e-10
"""Singular values this close, relative to the largest, span one subspace: their vectors are undetermined."""


@dataclass(frozen=True, eq=False)
class Limit:
    """What the block power iteration converges to."""

    block: Matrix
    """Orthonormal rows, shape (rank, features): V_k^T with the iteration's signs."""
    values: Vector
    """Singular values, descending, shape (rank,)."""


def limit_of_power(matrix: sp.csr_array, start: Matrix, mean: Vector | None = None) -> Limit:
    """Return what `block_power` converges to from the same start, signs included, without iterating.

    Text has small spectral gaps, so that the iteration needs hundreds of rounds where `singular_rows` needs
    some forty products; the limit is the same.

    Parameters
    ----------
    matrix : canonical CSR, shape (n, features)
        All parties' rows.
    start : shape (rank, features), rank < min(n, features)
    mean : shape (features,), optional
        Subtracted from every row, implicitly.

    Notes
    -----
    See `settle_signs`. Where the rank of X is r < k, the rows beyond r hold the start, orthonormalised
    against the rows above, and their values are 0.
    """
    exact = singular_rows(matrix, len(start), start[0], mean)
    values = exact.values.copy()
    rank = numerical_rank(values, matrix.shape)
    values[rank:] = 0.0
    return Limit(settle_signs(exact.rows, values, start), values)


def settle_signs(rows: Matrix, values: Vector, start: Matrix) -> Matrix:
    """Turn singular vectors, known up to sign, into the limit of the block power iteration from `start`.

    Parameters
    ----------
    rows : shape (rank, features)
        Orthonormal where `values` is positive.
    values : shape (rank,)
        Descending. Values that agree to 1e-10 of the first are one repeated value.
    start : shape (rank, features)

    Notes
    -----
    After t iterations the block is the Q factor (positive diagonal) of (X^T X)^t V_0. Write A = V_k^T V_0
    (k x k) and A = L U without pivoting: then S^2t A = (S^2t L S^-2t) S^2t U, whose first factor goes to the
    identity as L is lower unit triangular and S descends, and the Q factor of the upper triangular rest is
    the signs of its diagonal. So column i of the limit is sign(U_ii) v_i, and U_ii is the ratio of the
    leading principal minors i and i-1 of A. A repeated value is one block of a block LU: its vectors are
    turned by the Q factor of the Schur complement. One that is repeated beyond `rank` leaves its subspace,
    and so the limit, to the start.

    Examples
    --------
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
