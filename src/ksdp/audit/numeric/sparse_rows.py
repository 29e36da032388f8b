"""Rows of sparse matrices: some of them, and which are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[Any]


def take_rows(matrix: sp.csr_array, rows: NDArray[np.int64]) -> sp.csr_array:
    """These rows of a canonical matrix, in this order."""
    if len(rows) and not 0 <= rows.min() <= rows.max() < matrix.shape[0]:
        raise IndexError(f"rows must be from 0 to {matrix.shape[0] - 1}.")
    return matrix[rows]


def rows_of(matrix: sp.csr_array, rows: NDArray[np.int64]) -> sp.csr_array:
    """`take_rows`, without a copy where the rows follow one another: a corpus on disk stays there."""
    if not len(rows) or rows[-1] - rows[0] + 1 != len(rows) or (np.diff(rows) != 1).any():
        return take_rows(matrix, rows)
    first, last = int(matrix.indptr[rows[0]]), int(matrix.indptr[rows[-1] + 1])
    rows_found = sp.csr_array((len(rows), matrix.shape[1]), dtype=matrix.dtype)
    # Set one by one: the constructor copies what is a small part of a large array.
    rows_found.indptr = matrix.indptr[rows[0] : rows[-1] + 2] - matrix.indptr[rows[0]]
    rows_found.indices, rows_found.data = matrix.indices[first:last], matrix.data[first:last]
    return rows_found


def arrays_of(matrix: sp.csr_array) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """indptr, indices and data of a matrix, as kernels take them."""
    return np.asarray(matrix.indptr), np.asarray(matrix.indices), np.asarray(matrix.data)


def same_rows(rows: sp.csr_array, among: sp.csr_array) -> NDArray[np.int64]:
    """The first of the others that is equal to each row, shape (n,); -1 where none is."""
    marks = [np.empty(matrix.shape[0], np.uint64) for matrix in (rows, among)]
    for matrix, mark in zip((rows, among), marks, strict=True):
        _mark(*_csr(matrix), mark)
    order = np.argsort(marks[1], kind="stable")
    first_row = np.empty(rows.shape[0], np.int64)
    first = np.searchsorted(marks[1][order], marks[0])
    _first_equal(_csr(rows), _csr(among), (marks[0], marks[1], order, first), first_row)
    return first_row


def unlike_rows(first: sp.csr_array, second: sp.csr_array) -> NDArray[np.intp]:
    """Rows in which two canonical matrices differ: a rating of 0 is another than one that is missing."""
    return np.flatnonzero(same_rows(first, second) != same_rows(second, second))


def contents(rows: sp.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Each content once: where it stands first; which of them every row is, shape (n,); how many rows are it."""
    return contents_of(same_rows(rows, rows))


def contents_of(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """As `contents`, of rows that have the same number where they are the same."""
    _, first, which, several = np.unique(numbers, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[which], several[order]


def _csr(rows: sp.csr_array) -> tuple[Any, Any, Any]:
    bits = np.ascontiguousarray(rows.data, dtype=np.float64).view(np.uint64)
    return np.asarray(rows.indptr), np.asarray(rows.indices), bits


@njit(cache=True, nogil=True)
def _mark(indptr: Any, indices: Any, data: Any, marks: Any) -> None:
    """A number of each row that equal rows share (Fowler, Noll and Vo's, of words)."""
    prime = np.uint64(1099511628211)
    for i in range(len(marks)):
        mark = np.uint64(14695981039346656037)
        for at in range(indptr[i], indptr[i + 1]):
            mark = (mark ^ np.uint64(indices[at])) * prime
            mark = (mark ^ (data[at] ^ (data[at] >> np.uint64(32)))) * prime
        marks[i] = mark


@njit(cache=True, nogil=True)
def _first_equal(rows: Any, others: Any, marks: Any, matches: Any) -> None:
    (starts, columns, values), (places, other_columns, other_values) = rows, others
    mine, theirs, order, first = marks
    for i in range(len(matches)):
        matches[i] = -1
        at = first[i]
        while matches[i] < 0 and at < len(order) and theirs[order[at]] == mine[i]:
            j = order[at]
            equal = starts[i + 1] - starts[i] == places[j + 1] - places[j]
            p, q = starts[i], places[j]
            while equal and p < starts[i + 1]:
                equal = columns[p] == other_columns[q] and values[p] == other_values[q]
                p, q = p + 1, q + 1
            if equal:
                matches[i] = j
            at += 1
