"""Deviations of the numbers of a sum, as one factor a column times one a row, and documents' products in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit

from ksdp.audit.array_types import Floats, Ints
from ksdp.audit.sparse_rows import arrays_of
from ksdp.audit.statistics.term_numbers import TermNumbers


@dataclass(frozen=True, eq=False)
class Scales:
    """What a number of each sum is divided by: one factor a column, one a row, one a single number."""

    columns: Floats
    """Reciprocals, shape (d,); 0 where nobody has an entry."""
    rows: Floats
    """Shape (r,)."""
    single: Floats
    """Shape (s,)."""

    def of(self, columns: Ints) -> Scales:
        """Those of some columns."""
        return replace(self, columns=self.columns[columns])

    def written(self) -> Floats:
        """The factor of every number, as `TermNumbers.written` has them; shape (entries,)."""
        return np.concatenate([np.outer(self.rows, self.columns).ravel(), self.single])


def scales_of(made: TermNumbers) -> Scales:
    """The scales of what documents add.

    Notes
    -----
    The variance of w x_j is about that of a column times that of a row, so that a number's deviation is the
    product of two factors, and products of documents with topics need not be taken for each row apart.
    """
    columns, rows = np.zeros(made.rows.shape[1]), np.zeros(made.weights.shape[1])
    _add_squares(*arrays_of(made.rows), made.weights, columns, rows)
    total, single = float(rows.sum()), np.square(made.scalars).sum(axis=0)
    return Scales(_one_over_root(columns), np.sqrt(total) * _one_over_root(rows), _one_over_root(single))


def _one_over_root(squares: Floats) -> Floats:
    found = np.zeros(len(squares))
    return np.divide(1.0, np.sqrt(squares), out=found, where=squares > np.finfo(np.float64).tiny)


@njit(cache=True, nogil=True)
def _add_squares(indptr: Any, indices: Any, data: Any, weights: Any, columns: Any, rows: Any) -> None:
    """Sums of squares of w x over documents: those of each column, and of each row."""
    for i in range(weights.shape[0]):
        size, total = 0.0, 0.0
        for r in range(weights.shape[1]):
            total += weights[i, r] * weights[i, r]
        for at in range(indptr[i], indptr[i + 1]):
            square = data[at] * data[at]
            size += square
            columns[indices[at]] += square * total
        for r in range(weights.shape[1]):
            rows[r] += weights[i, r] * weights[i, r] * size
