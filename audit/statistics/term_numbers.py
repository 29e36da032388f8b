"""The terms of large corpora, by the few numbers of each document that they are made of.

Every term of a round is w (x - sum over u of q_u B_u), and w and the q_u are numbers of the document: coefficients
under the topics of a sweep, or products with a block. So a document is described by some twenty numbers, whatever
its length, and all rows of a sum share one pass over its entries (`filter_steps`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import add_rows_to_panel, csr_times_panel, lined, panel_of
from ksdp.audit.sparse_rows import take_rows
from ksdp.audit.statistics.products import row_dots, rows_times

SAMPLE = 1024
"""Documents that variances are taken from, at least, where there are as many."""


@dataclass(frozen=True, eq=False)
class TermNumbers:
    """What documents add to the sums of one run: rows w (x - sum over u of q_u B_u), and single numbers."""

    rows: sp.csr_array
    """Documents, shape (n, d), canonical."""
    numbers: Floats
    """q, shape (n, m)."""
    basis: Floats
    """B, shape (m, d)."""
    weights: Floats
    """w of every document and row, shape (n, r)."""
    taken: NDArray[np.bool_]
    """Which numbers count in each row, shape (m, r)."""
    scalars: Floats
    """What documents add to single numbers, shape (n, s)."""

    @classmethod
    def plain(cls, rows: sp.csr_array, weights: Floats, scalars: Floats | None = None) -> TermNumbers:
        """Rows w x, nothing subtracted, and single numbers."""
        n, r = weights.shape
        nothing, taken = np.zeros((n, 0)), np.zeros((0, r), np.bool_)
        return cls(
            rows, nothing, np.zeros((0, rows.shape[1])), weights, taken, nothing if scalars is None else scalars
        )

    def of(self, places: NDArray[Any]) -> TermNumbers:
        """What some of the documents add."""
        numbers, weights, scalars = (a[places] for a in (self.numbers, self.weights, self.scalars))
        return replace(self, rows=take_rows(self.rows, places), numbers=numbers, weights=weights, scalars=scalars)

    def first(self, rows: int) -> TermNumbers:
        """What they add to the first rows of the sums, and to no single number."""
        taken = self.taken[:, :rows]
        used = taken.any(axis=1)
        return replace(
            self,
            numbers=np.ascontiguousarray(self.numbers[:, used]),
            basis=self.basis[used],
            weights=np.ascontiguousarray(self.weights[:, :rows]),
            taken=taken[used],
            scalars=self.scalars[:, :0],
        )

    def within(self, columns: NDArray[Any]) -> TermNumbers:
        """The same rows of the sums in these columns alone, ascending; no document has an entry in another."""
        place = np.zeros(self.rows.shape[1], self.rows.indices.dtype)
        place[columns] = np.arange(len(columns))
        rows = sp.csr_array((self.rows.shape[0], len(columns)))
        rows.indptr, rows.data, rows.indices = self.rows.indptr, self.rows.data, place[self.rows.indices]
        return replace(self, rows=rows, basis=np.ascontiguousarray(self.basis[:, columns]))

    @property
    def entries(self) -> int:
        """Numbers in the sums."""
        return int(self.weights.shape[1] * self.rows.shape[1] + self.scalars.shape[1])

    @property
    def work(self) -> int:
        """Multiplications of a sum and of products with all terms, about."""
        return int(2 * self.rows.nnz * self.weights.shape[1])

    def apart(self, sums: Floats) -> tuple[Floats, Floats]:
        """The rows, shape (r, d), and the single numbers of numbers that stand one after the other."""
        wide = self.weights.shape[1] * self.rows.shape[1]
        return sums[:wide].reshape(-1, self.rows.shape[1]), sums[wide:]

    def along(self, direction: Floats) -> Floats:
        """<a_i, direction> of every document, shape (n,); each by itself, to the last bit."""
        rows, single = self.apart(direction)
        found = np.empty((self.rows.shape[0], len(rows)))
        csr_times_panel(self.rows.indptr, self.rows.indices, self.rows.data, panel_of(rows), found)
        found -= rows_times(self.numbers, self.taken * (self.basis @ rows.T))
        total = row_dots(found, self.weights)
        return total + rows_times(self.scalars, single) if len(single) else total

    def summed(self, shares: Floats) -> Floats:
        """sum_i shares_i a_i, shape (entries,)."""
        weighed = panel_of(self.weights.T)
        weighed *= shares[:, None]
        sums = lined((self.rows.shape[1], weighed.shape[1]))
        add_rows_to_panel(self.rows.indptr, self.rows.indices, self.rows.data, weighed, sums)
        found = np.ascontiguousarray(sums[:, : self.weights.shape[1]].T)
        found -= (self.taken * (self.numbers.T @ weighed[:, : len(found)])).T @ self.basis
        return np.concatenate([found.ravel(), shares @ self.scalars])

    def written(self) -> Floats:
        """All terms, shape (n, entries)."""
        dense, found = self.rows.toarray(), []
        for weight, taken in zip(self.weights.T, self.taken.T, strict=True):
            left = dense - self.numbers[:, taken] @ self.basis[taken]
            found.append(weight[:, None] * left)
        return np.hstack([*found, self.scalars])

    @cached_property
    def mean(self) -> Floats:
        """Of all documents' terms, shape (entries,)."""
        return self.summed(np.full(self.rows.shape[0], 1.0 / max(self.rows.shape[0], 1)))

    @cached_property
    def variances(self) -> Floats:
        """Second moments of all entries, summed over documents, from some of these; shape (entries,).

        The squares of w (x - q B) multiplied out, so that documents stay sparse.
        """
        step = max(1, self.rows.shape[0] // SAMPLE)
        turned, numbers = sp.csr_array(self.rows[::step].T), self.numbers[::step]
        weights = np.square(self.weights[::step])
        found = np.asarray(turned.multiply(turned) @ weights).T
        found = np.ascontiguousarray(found)
        for r, taken in enumerate(self.taken.T):
            if not taken.any():
                continue
            mine = np.ascontiguousarray(numbers[:, taken])
            weighed = weights[:, [r]] * mine
            _add_form(
                weighed.T @ mine, np.asarray(turned @ weighed), np.ascontiguousarray(self.basis[taken]), found[r]
            )
        found = np.maximum(found, 0.0) * step  # what is left of nothing is rounding
        return np.concatenate([found.ravel(), np.square(self.scalars).sum(axis=0)])


@njit(cache=True, nogil=True)
def _add_form(form: Any, crossed: Any, basis: Any, found: Any) -> None:
    """found_j += sum_uv form_uv B_uj B_vj - 2 sum_u crossed_ju B_uj."""
    for u in range(basis.shape[0]):
        for j in range(found.shape[0]):
            found[j] -= 2.0 * crossed[j, u] * basis[u, j]
        for v in range(basis.shape[0]):
            for j in range(found.shape[0]):
                found[j] += form[u, v] * basis[u, j] * basis[v, j]
