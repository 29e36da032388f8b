"""Leading singular vectors of one run's rows by Lanczos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.mechanisms.factorisation.nmf_kernels import column_map
from ksdp.audit.numeric.array_types import Matrix, Vector
from ksdp.audit.numeric.kernels import add_row_to_panel

EPSILON = float(np.finfo(np.float64).eps)
ANGLE = 1e-7
"""Lanczos stops when the wanted subspace is within this angle of the true one: what is stored is in single
precision. Most runs are much nearer, as errors fall tenfold from one look to the next."""


@njit(cache=True, nogil=True)
def last_components(diagonal: Vector, beside: Vector) -> tuple[Vector, Vector]:
    """Eigenvalues of a symmetric tridiagonal matrix, ascending, and each vector's last component up to sign."""
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
    for i in range(1, n):  # Numba takes a second and a half to compile `argsort`
        value, part, at = d[i], last[i], i
        while at > 0 and d[at - 1] > value:
            d[at], last[at], at = d[at - 1], last[at - 1], at - 1
        d[at], last[at] = value, part
    return d, last


@njit(cache=True, nogil=True)
def _excess_error(alpha: Vector, beta: Vector, want: int, locked_squares: Vector) -> float:
    """The error of the wanted eigenvectors, in multiples of what is allowed: at 1 or less they are converged."""
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


Indices = NDArray[np.uint32]


class CentredRows(NamedTuple):
    """X - 1 mean^T, of which X alone is written out, in CSR form; an empty mean where nothing is subtracted."""

    indptr: Indices
    indices: Indices
    data: Vector
    mean: Vector


def unsigned(indices: NDArray[np.signedinteger]) -> Indices:
    """CSR indices as unsigned ones: twice as fast, because signed ones may count from the end."""
    if indices.dtype == np.int32:
        return indices.view(np.uint32)
    return indices.astype(np.uint32)  # 2**32 entries are 48 GB: no run has them


@njit(cache=True, nogil=True)
def noise(length: int, stream: int) -> Vector:
    """Uniform noise in (-1, 1), always the same for a `stream` (Knuth's linear congruential generator)."""
    out = np.empty(length)
    state = np.uint64(stream) << np.uint64(32) | np.uint64(length)
    for i in range(length):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        out[i] = np.float64(state >> np.uint64(11)) * 2.0**-52 - 1.0
    return out


@njit(cache=True, nogil=True)
def dot(a: Vector, b: Vector) -> float:
    """Inner product, in an order of summation that no library and no number of threads changes."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    aligned = len(a) // 8 * 8
    for i in range(0, aligned, 8):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
        s4 += a[i + 4] * b[i + 4]
        s5 += a[i + 5] * b[i + 5]
        s6 += a[i + 6] * b[i + 6]
        s7 += a[i + 7] * b[i + 7]
    for i in range(aligned, len(a)):
        s0 += a[i] * b[i]
    return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))


@njit(cache=True, nogil=True)
def transposed(rows: CentredRows, u: Vector, out: Vector) -> None:
    """out = (X - 1 mean^T)^T u."""
    indptr, indices, data, mean = rows
    shift = -u.sum() if len(mean) else 0.0
    for j in range(len(out)):
        out[j] = shift * mean[j] if len(mean) else 0.0
    for i in range(len(u)):
        x = u[i]  # or it would be read again for every entry
        for at in range(indptr[i], indptr[i + 1]):
            out[indices[at]] += x * data[at]


@njit(cache=True, nogil=True)
def times(rows: CentredRows, v: Vector, out: Vector) -> None:
    """out = (X - 1 mean^T) v; a row's products go to four sums in turn, of which none waits for another."""
    indptr, indices, data, mean = rows
    shift = dot(mean, v) if len(mean) else 0.0
    for i in range(len(out)):
        s0 = s1 = s2 = s3 = 0.0
        # Slices, so that the compiler sees no index that could be negative.
        entries, places = data[indptr[i] : indptr[i + 1]], indices[indptr[i] : indptr[i + 1]]
        aligned = len(entries) // 4 * 4
        for at in range(0, aligned, 4):
            s0 += entries[at] * v[places[at]]
            s1 += entries[at + 1] * v[places[at + 1]]
            s2 += entries[at + 2] * v[places[at + 2]]
            s3 += entries[at + 3] * v[places[at + 3]]
        for at in range(aligned, len(entries)):
            s0 += entries[at] * v[places[at]]
        out[i] = ((s0 + s2) + (s1 + s3)) - shift


@njit(cache=True, nogil=True)
def orthogonalise(basis: Matrix, across: Matrix, count: int, vector: Vector, c: Vector) -> float:
    """Subtract from `vector` its part in the first `count` rows of `basis`; return the norm of what is left."""
    before = np.sqrt(dot(vector, vector))
    for j in range(len(c)):
        c[j] = 0.0
    after = 0.0
    for _ in range(3):
        part = np.zeros(count)
        for i in range(len(vector)):
            row = across[i]
            for j in range(count):
                part[j] += row[j] * vector[i]
        for j in range(count):
            c[j] += part[j]
            row = basis[j]
            for i in range(len(vector)):
                vector[i] -= part[j] * row[i]
        after = np.sqrt(dot(vector, vector))
        if after > 0.7 * before:
            break
        before = after
    return after


@njit(cache=True, nogil=True)
def _with_room(rows: Matrix, room: int) -> tuple[Matrix, Matrix]:
    longer, across = np.zeros((room, rows.shape[1])), np.zeros((rows.shape[1], room))
    for j in range(len(rows)):
        for i in range(rows.shape[1]):
            longer[j, i] = across[i, j] = rows[j, i]
    return longer, across


@njit(cache=True, nogil=True)
def _ritz_pairs(alpha: Vector, beta: Vector, basis: Matrix, want: int) -> tuple[Matrix, Vector]:
    """Leading eigenvectors of the tridiagonal matrix, as combinations of the rows of `basis`, and eigenvalues."""
    count = len(alpha)
    small = np.zeros((count, count))
    for i in range(count):
        small[i, i] = alpha[i]
    for i in range(count - 1):
        small[i, i + 1] = small[i + 1, i] = beta[i]
    values, vectors = np.linalg.eigh(small)
    out = np.zeros((want, basis.shape[1]))
    for i in range(want):
        for j in range(count):
            part = vectors[j, count - 1 - i]
            for k in range(basis.shape[1]):
                out[i, k] += part * basis[j, k]
    return out, values[::-1][:want].copy()


@njit(cache=True, nogil=True)
def _squared(rows: CentredRows, v: Vector, middle: Vector, out: Vector) -> None:
    """out = X X^T v or X^T X v, the smaller; `middle` is as long as the larger side."""
    if len(middle) > len(rows.indptr) - 1:
        transposed(rows, v, middle)
        times(rows, middle, out)
    else:
        times(rows, v, middle)
        transposed(rows, middle, out)


@njit(cache=True, nogil=True)
def _next_check(count: int, excess: float, last: int, last_excess: float) -> int:
    wait = 4.0
    if 1.0 < excess < last_excess:
        wait = np.log(excess) / np.log(last_excess / excess) * (count - last)
    return count + int(min(max(wait + 1.0, 2.0), 0.25 * count))


@njit(cache=True, nogil=True)
def lanczos(
    rows: CentredRows, columns: int, start: Vector, locked: Matrix, locked_squares: Vector, rank: int, steps: int
) -> tuple[Matrix, Vector]:
    """Leading eigenpairs of X X^T or X^T X, the smaller, in the complement of `locked`; X the centred rows."""
    dimension = len(start)
    fixed = len(locked)
    want = 1 if fixed else rank
    steps = min(steps, dimension - fixed)
    basis, across = _with_room(locked, fixed + min(steps, 64))  # doubled when it is full
    middle = np.empty(max(columns, len(rows.indptr) - 1))
    c = np.zeros(fixed + steps + 1)
    alpha, beta = np.zeros(steps), np.zeros(steps)
    residual = start.copy()
    norm = orthogonalise(basis, across, fixed, residual, c)
    check = 3 * want + 5
    last_check, last_excess = np.int64(0), 0.0  # a literal would be compiled for
    for step in range(steps):
        at = fixed + step
        if norm <= 0.0:
            residual = noise(dimension, 1000 + at)
            norm = orthogonalise(basis, across, at, residual, c)
        if at == len(basis):
            basis, across = _with_room(basis, min(2 * at, fixed + steps))
        for i in range(dimension):
            basis[at, i] = across[i, at] = residual[i] / norm
        _squared(rows, basis[at], middle, residual)
        size = np.sqrt(dot(residual, residual))
        # The recurrence first: one pass over the whole basis then suffices, without amplifying its errors.
        part = dot(basis[at], residual)
        previous = beta[step - 1] if step else 0.0
        for i in range(dimension):
            residual[i] -= part * basis[at, i] + (previous * basis[at - 1, i] if step else 0.0)
        norm = orthogonalise(basis, across, at + 1, residual, c)
        alpha[step] = part + c[at]
        if norm <= dimension * EPSILON * max(size, alpha[0]):
            norm = 0.0  # an invariant subspace
        beta[step] = norm
        count = step + 1
        if count < want or (count < check and norm > 0.0 and count < steps):
            continue
        excess = _excess_error(alpha[:count], beta[:count], want, locked_squares)
        if excess <= 1.0 or count == dimension - fixed:
            pairs: tuple[Matrix, Vector] = _ritz_pairs(alpha[:count], beta[:count], basis[fixed:], want)
            return pairs
        check = _next_check(count, excess, last_check, last_excess)
        last_check, last_excess = np.int64(count), excess
    return np.zeros((0, dimension)), np.zeros(0)


@njit(cache=True, nogil=True)
def _all_transposed(centred: CentredRows, vectors: Matrix, rows: Matrix) -> None:
    """`transposed` of every vector in one pass: the same sums in the same order, eight vectors at a time."""
    indptr, indices, data, mean = centred
    count, columns = rows.shape
    across, together = np.empty((len(indptr) - 1, 8)), np.empty((columns, 8))
    for first in range(0, count, 8):
        some = min(8, count - first)
        across[:] = 0.0
        for lane in range(some):
            vector = vectors[first + lane]
            shift = -vector.sum() if len(mean) else 0.0
            for i in range(len(vector)):
                across[i, lane] = vector[i]
            for j in range(columns):
                together[j, lane] = shift * mean[j] if len(mean) else 0.0
        for lane in range(some, 8):
            together[:, lane] = 0.0
        for i in range(len(across)):
            add_row_to_panel(indices, data, indptr[i], indptr[i + 1], across[i], together)
        for lane in range(some):
            for j in range(columns):
                rows[first + lane, j] = together[j, lane]


@njit(cache=True, nogil=True)
def recover(centred: CentredRows, smaller: Matrix, rows: Matrix, values: Vector) -> None:
    """Singular values and right singular vectors (`rows`) from the vectors of the smaller side (`smaller`)."""
    rank, columns = rows.shape
    n = len(centred.indptr) - 1
    if n >= columns:
        for i in range(rank):
            for j in range(columns):
                rows[i, j] = smaller[i, j]
        image = np.empty(n)
        for i in range(rank):
            times(centred, rows[i], image)
            values[i] = np.sqrt(dot(image, image))
        return
    _all_transposed(centred, smaller, rows)
    for i in range(rank):
        values[i] = np.sqrt(dot(rows[i], rows[i]))
        # Orthogonal already, up to rounding that small values magnify.
        for j in range(i):
            part = dot(rows[j], rows[i])
            for at in range(columns):
                rows[i, at] -= part * rows[j, at]
        size = np.sqrt(dot(rows[i], rows[i]))
        if size > 0.0:
            for at in range(columns):
                rows[i, at] /= size


CONDITION = 1e-3
"""Below this ratio of singular values, X^T X keeps fewer than ten digits of the smaller one."""
FEW_COLUMNS = 128
DENSE_ENTRIES = 2**23


@dataclass(frozen=True, eq=False)
class Singular:
    """Leading singular values and right singular vectors; the signs of the vectors mean nothing yet."""

    values: Vector
    """Descending, shape (rank,)."""
    rows: Matrix
    """Orthonormal where the value is not zero, shape (rank, features)."""


def numerical_rank(values: Vector, shape: tuple[int, ...]) -> int:
    """Count the singular values above rounding: max(shape) eps times the largest, as NumPy's
    `matrix_rank`.
    """
    return int(np.count_nonzero(values > max(shape) * EPSILON * values[0])) if values[0] > 0 else 0


def singular_rows(matrix: sp.csr_array, rank: int, start: Vector, mean: Vector | None = None) -> Singular:
    """The leading singular values and right singular vectors of X, or of X - 1 mean^T, centred implicitly."""
    indices = np.require(unsigned(matrix.indices), requirements="W")  # as `_krylov` does
    position, compact = column_map(indices, matrix.shape[1])
    used = np.flatnonzero(position >= 0)
    few = min(rank, len(used))
    if len(used) == len(position) or not few or (mean is not None and mean[position < 0].any()):
        return _singular_rows(matrix, rank, start, mean)
    # A column without an entry is zero in every product. Left out, it is exactly zero in every vector, and no
    # residue of the start is taken for what a document has (`audit.absence`).
    narrow = sp.csr_array((matrix.shape[0], len(used)))
    narrow.indptr, narrow.indices, narrow.data = matrix.indptr, compact.view(np.int32), matrix.data
    singular = _singular_rows(narrow, few, start[used], None if mean is None else mean[used])
    values, rows = np.zeros(rank), np.zeros((rank, len(position)))
    values[:few], rows[:few, used] = singular.values, singular.rows
    return Singular(values, rows)


def _singular_rows(matrix: sp.csr_array, rank: int, start: Vector, mean: Vector | None) -> Singular:
    n, d = matrix.shape
    if d <= FEW_COLUMNS:
        spectrum = _by_gram(_dense(matrix, mean), rank)
    elif 3 * rank < min(n, d) or n * d > DENSE_ENTRIES:
        spectrum = _krylov(matrix, rank, start, mean)
    else:
        spectrum = None
    if spectrum is not None and (n * d > DENSE_ENTRIES or spectrum.values[-1] > CONDITION * spectrum.values[0]):
        return spectrum
    _, values, rows = scipy.linalg.svd(_dense(matrix, mean), full_matrices=False, check_finite=False)
    return Singular(values[:rank], rows[:rank])


def _dense(matrix: sp.csr_array, mean: Vector | None) -> Matrix:
    dense: Matrix = matrix.toarray()
    return dense if mean is None else dense - mean


def _by_gram(dense: Matrix, rank: int) -> Singular:
    d = dense.shape[1]
    # The values come from X itself: their error is that of the vectors squared.
    _, vectors = scipy.linalg.eigh(dense.T @ dense, subset_by_index=(d - rank, d - 1), check_finite=False)
    rows = np.ascontiguousarray(vectors.T[::-1])
    return Singular(np.linalg.norm(dense @ rows.T, axis=0), rows)


def _krylov(matrix: sp.csr_array, rank: int, start: Vector, mean: Vector | None) -> Singular:
    shift = np.zeros(0) if mean is None else mean
    # Writable, if need be as a copy: numba would compile everything once more for read-only arrays.
    given = CentredRows(unsigned(matrix.indptr), unsigned(matrix.indices), matrix.data, shift)
    centred = CentredRows._make(np.require(part, requirements="W") for part in given)
    wide = matrix.shape[0] < matrix.shape[1]
    dimension = min(matrix.shape)
    small = start.copy()
    if wide:
        small = matrix @ start - (0.0 if mean is None else mean @ start)
    basis = np.zeros((0, dimension))
    squares = np.zeros(0)
    # The first pass finds the leading ones; each further pass finds one missing copy, or that there is none.
    for attempt in range(rank + 1):
        vectors, values = lanczos(centred, matrix.shape[1], small, basis, squares, rank, dimension)
        if len(basis) and values[0] <= squares[-1] * (1 + 1e-12):
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
