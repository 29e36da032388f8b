"""The leading right singular vectors of one run's rows: exact, deterministic, in a millisecond or two.

An audit needs thousands of small decompositions (a few hundred sparse rows, thousands of columns, rank below
ten). They are done by Lanczos on the smaller side of X, without restarts and with full reorthogonalisation,
compiled, and without BLAS in its inner loops, so that the result does not depend on the number of threads.
Few columns, or a rank close to full, go to LAPACK. So do matrices whose condition the squared matrix X^T X
cannot bear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, svds

from ksdp.audit.array_types import Matrix, Vector
from ksdp.audit.errors import KsdpError
from ksdp.audit.mechanisms.factorisation.krylov import CentredRows, lanczos, noise, recover, unsigned
from ksdp.audit.mechanisms.factorisation.nmf_kernels import column_map

CONDITION = 1e-3
"""Below this ratio of singular values, X^T X keeps fewer than ten digits of the smaller one."""
FEW_COLUMNS = 128
DENSE_ENTRIES = 2**23
EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Singular:
    """Leading singular values and right singular vectors; the signs of the vectors mean nothing yet."""

    values: Vector
    """Descending, shape (rank,)."""
    rows: Matrix
    """Orthonormal where the value is not zero, shape (rank, features)."""


def numerical_rank(values: Vector, shape: tuple[int, ...]) -> int:
    """Count the singular values above rounding: max(shape) eps times the largest, as NumPy's
    `matrix_rank`."""
    return int(np.count_nonzero(values > max(shape) * EPSILON * values[0])) if values[0] > 0 else 0


def singular_rows(matrix: sp.csr_array, rank: int, start: Vector, mean: Vector | None = None) -> Singular:
    """Return the leading singular values and right singular vectors of X, or of X - 1 mean^T.

    Parameters
    ----------
    matrix : canonical CSR, shape (n, features)
        X. It is centred implicitly.
    rank : int
        How many; below min(n, features).
    start : shape (features,)
        Direction that the Krylov space is grown from. It decides nothing but the rounding, and the basis
        where the singular value at `rank` is repeated beyond `rank`.
    mean : shape (features,), optional
        Subtracted from every row.

    Raises
    ------
    KsdpError
        If a very large matrix (no side below 4,096) did not converge.

    Notes
    -----
    The subspace is accurate to about 1e-10, or to machine epsilon times (largest value)^2 over the gap of the
    squares at `rank` where that is more; the values to about 1e-14 relative. Exact repetitions, which one
    Krylov space cannot see, are looked for by a second one that is grown in the complement of what was found.

    Examples
    --------
    >>> X = sp.csr_array(np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 1.0]]))
    >>> spectrum = singular_rows(X, 2, np.ones(3))
    >>> spectrum.values.round(6), np.abs(spectrum.rows).round(6)
    (array([5.      , 2.236068]), array([[0.6, 0.8, 0. ],
           [0. , 0. , 1. ]]))
    """
    n, d = matrix.shape
    if d <= FEW_COLUMNS:
        spectrum = _squared(_dense(matrix, mean), rank)
    elif 3 * rank >= min(n, d):
        spectrum = None
    else:
        spectrum = _krylov(matrix, rank, start, mean)
    if spectrum is not None and spectrum.values[-1] > CONDITION * spectrum.values[0]:
        return spectrum
    if n * d <= DENSE_ENTRIES:
        _, values, rows = scipy.linalg.svd(_dense(matrix, mean), full_matrices=False, check_finite=False)
        return Singular(values[:rank], rows[:rank])
    return spectrum if spectrum is not None else _arpack(matrix, rank, start, mean)


def _dense(matrix: sp.csr_array, mean: Vector | None) -> Matrix:
    dense: Matrix = matrix.toarray()
    return dense if mean is None else dense - mean


def _squared(dense: Matrix, rank: int) -> Singular:
    d = dense.shape[1]
    # The values come from X itself: their error is that of the vectors squared.
    _, vectors = scipy.linalg.eigh(dense.T @ dense, subset_by_index=(d - rank, d - 1), check_finite=False)
    rows = np.ascontiguousarray(vectors.T[::-1])
    return Singular(np.linalg.norm(dense @ rows.T, axis=0), rows)


def _arpack(matrix: sp.csr_array, rank: int, start: Vector, mean: Vector | None) -> Singular:
    n, d = matrix.shape
    shift = np.zeros(d) if mean is None else mean
    operator = LinearOperator(
        (n, d),
        matvec=lambda v: matrix @ v.ravel() - shift @ v.ravel(),
        rmatvec=lambda u: matrix.T @ u.ravel() - shift * u.sum(),
        dtype=np.float64,
    )
    try:
        _, values, rows = svds(operator, k=rank, v0=start if d <= n else operator.matvec(start))
    except ArpackNoConvergence:
        raise KsdpError(f"the decomposition of {n} rows by {d} columns did not converge.") from None
    return Singular(values[::-1], np.ascontiguousarray(rows[::-1]))


def _krylov(matrix: sp.csr_array, rank: int, start: Vector, mean: Vector | None) -> Singular | None:
    shift = np.zeros(0) if mean is None else mean
    # Writable, if need be as a copy: numba would compile everything once more for read-only arrays.
    given = CentredRows(unsigned(matrix.indptr), unsigned(matrix.indices), matrix.data, shift)
    centred = CentredRows._make(np.require(part, requirements="W") for part in given)
    wide = matrix.shape[0] < matrix.shape[1]
    dimension = min(matrix.shape)
    steps = min(dimension, 10 * rank + 300)
    small = start.copy()
    if wide:
        small = matrix @ start - (0.0 if mean is None else mean @ start)
    basis = np.zeros((0, dimension))
    squares = np.zeros(0)
    # Columns without an entry are zero in every product; where nothing is subtracted they need not be there.
    used, columns = centred, matrix.shape[1]
    if wide and mean is None:
        position, compact = column_map(centred.indices, columns)
        touched = int(position.max(initial=-1)) + 1
        if touched > matrix.shape[0]:
            used, columns = centred._replace(indices=compact), touched
    # The first pass finds the leading ones; each further pass finds one missing copy, or that there is none.
    for attempt in range(rank + 1):
        vectors, values = lanczos(used, columns, small, basis, squares, rank, steps)
        if len(values) == 0 and len(basis) == 0:
            return None
        if len(basis) and (len(values) == 0 or values[0] <= squares[-1] * (1 + 1e-12)):
            break
        basis, squares = np.concatenate((basis, vectors)), np.concatenate((squares, values))
        order = np.argsort(-squares, kind="stable")[:rank]
        basis, squares = np.ascontiguousarray(basis[order]), squares[order]
        small = noise(dimension, attempt)
    rows = np.empty((rank, matrix.shape[1]))
    singular = np.empty(rank)
    recover(centred, basis, rows, singular)
    order = np.argsort(-singular, kind="stable")
    return Singular(singular[order], rows[order])
