"""Some rows or columns of a sparse matrix, without what SciPy looks at first: an audit takes some in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[Any]


@njit(cache=True, nogil=True)
def _copy(indptr: Ints, indices: Ints, data: Any, rows: Ints, starts: Ints, found: Ints, entries: Any) -> None:
    for i in range(len(rows)):
        at = starts[i]
        for j in range(indptr[rows[i]], indptr[rows[i] + 1]):
            found[at], entries[at] = indices[j], data[j]
            at += 1


def take_rows(matrix: sp.csr_array, rows: NDArray[np.int64]) -> sp.csr_array:
    """These rows of a canonical matrix, in this order.

    Raises
    ------
    IndexError
        If there is no such row.

    Examples
    --------
    >>> take_rows(sp.csr_array(np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])), np.array([1, 0])).toarray()
    array([[0., 2.],
           [1., 0.]])
    """
    rows = np.asarray(rows, dtype=np.int64)
    if len(rows) and not 0 <= rows.min() <= rows.max() < matrix.shape[0]:
        raise IndexError(f"rows must be from 0 to {matrix.shape[0] - 1}.")
    # As plain arrays: of memory maps a kernel would be compiled once more.
    indptr, indices, data = arrays_of(matrix)
    starts = np.zeros(len(rows) + 1, dtype=indptr.dtype)
    np.cumsum(indptr[rows + 1] - indptr[rows], out=starts[1:])
    found = sp.csr_array((len(rows), matrix.shape[1]), dtype=matrix.dtype)
    # Set one by one: the constructor would look through all of them.
    found.indptr = starts
    found.indices = np.empty(int(starts[-1]), dtype=indices.dtype)
    found.data = np.empty(int(starts[-1]), dtype=data.dtype)
    _copy(indptr, indices, data, rows, starts, found.indices, found.data)
    return found


def rows_of(matrix: sp.csr_array, rows: NDArray[np.int64]) -> sp.csr_array:
    """`take_rows`, without a copy where the rows follow one another: a corpus on disk stays there."""
    if not len(rows) or rows[-1] - rows[0] + 1 != len(rows) or (np.diff(rows) != 1).any():
        return take_rows(matrix, rows)
    first, last = int(matrix.indptr[rows[0]]), int(matrix.indptr[rows[-1] + 1])
    found = sp.csr_array((len(rows), matrix.shape[1]), dtype=matrix.dtype)
    # Set one by one: the constructor copies what is a small part of a large array.
    found.indptr = matrix.indptr[rows[0] : rows[-1] + 2] - matrix.indptr[rows[0]]
    found.indices, found.data = matrix.indices[first:last], matrix.data[first:last]
    return found


def arrays_of(matrix: sp.csr_array) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """indptr, indices and data of a matrix, as kernels take them."""
    return np.asarray(matrix.indptr), np.asarray(matrix.indices), np.asarray(matrix.data)


def emptied(matrix: sp.csr_array, kept: NDArray[np.bool_]) -> sp.csr_array:
    """The same matrix without the entries of columns that are not kept; as wide as before.

    Examples
    --------
    >>> emptied(sp.csr_array(np.array([[1.0, 3.0], [0.0, 2.0]])), np.array([True, False])).toarray()
    array([[1., 0.],
           [0., 0.]])
    """
    return _within(matrix, kept, None)


def take_columns(matrix: sp.csr_array, kept: NDArray[np.bool_]) -> sp.csr_array:
    """The columns that are kept, in their order.

    Examples
    --------
    >>> take_columns(sp.csr_array(np.array([[1.0, 3.0], [0.0, 2.0]])), np.array([False, True])).toarray()
    array([[3.],
           [2.]])
    """
    return _within(matrix, kept, np.cumsum(kept) - 1)


def _within(matrix: sp.csr_array, kept: NDArray[np.bool_], place: Ints | None) -> sp.csr_array:
    indptr, indices, data = arrays_of(matrix)
    stays = kept[indices]
    found = sp.csr_array(
        (matrix.shape[0], matrix.shape[1] if place is None else int(kept.sum())), dtype=matrix.dtype
    )
    found.indptr = np.concatenate(([0], np.cumsum(stays)))[indptr].astype(indptr.dtype)
    left = indices[stays]
    found.indices = left if place is None else place[left].astype(indices.dtype)
    found.data = data[stays]
    return found
