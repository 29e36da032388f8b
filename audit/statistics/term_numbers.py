"""The terms of large corpora, by the few numbers of each document that they are made of.

Every term of a round is w (x - sum over u of q_u B_u), and w and the q_u are numbers of the document: coefficients
under the topics of a sweep, or products with a block. So a document is described by some twenty numbers, whatever
its length, and all rows of a sum share one pass over its entries (`filter_steps`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.lanes import csr_times_panel, panel_of
from ksdp.audit.scattered import add_rows_to_panel
from ksdp.audit.statistics.products import row_dots, rows_times

__all__ = ["TermNumbers"]

Floats = NDArray[np.float64]

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
    weight_at: NDArray[np.int64]
    """Which of the numbers is the weight w of each row, shape (r,)."""
    taken: NDArray[np.bool_]
    """Which numbers count in each row, shape (m, r)."""
    scalars: Floats
    """What documents add to single numbers, shape (n, s)."""

    @property
    def entries(self) -> int:
        """Numbers in the sums."""
        return len(self.weight_at) * int(self.rows.shape[1]) + int(self.scalars.shape[1])

    @property
    def work(self) -> int:
        """Multiplications of a sum and of products with all terms, about."""
        return 2 * int(self.rows.nnz) * len(self.weight_at)

    @property
    def weights(self) -> Floats:
        """Of every document and row, shape (n, r)."""
        return np.ascontiguousarray(self.numbers[:, self.weight_at])

    def apart(self, sums: Floats) -> tuple[Floats, Floats]:
        """The rows, shape (r, d), and the single numbers of what `Terms` writes one after the other."""
        wide = len(self.weight_at) * self.rows.shape[1]
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
        sums = np.zeros((self.rows.shape[1], weighed.shape[1]))
        add_rows_to_panel(self.rows.indptr, self.rows.indices, self.rows.data, weighed, sums)
        found = np.ascontiguousarray(sums[:, : len(self.weight_at)].T)
        found -= (self.taken * (self.numbers.T @ weighed[:, : len(found)])).T @ self.basis
        return np.concatenate([found.ravel(), shares @ self.scalars])

    def written(self) -> Floats:
        """All terms, shape (n, entries)."""
        dense, found = self.rows.toarray(), []
        for at, taken in zip(self.weight_at, self.taken.T, strict=True):
            left = dense - self.numbers[:, taken] @ self.basis[taken]
            found.append(self.numbers[:, [at]] * left)
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
        weights = np.square(numbers[:, self.weight_at])
        found = np.asarray(turned.multiply(turned) @ weights).T
        for r, taken in enumerate(self.taken.T):
            weighed, basis = weights[:, [r]] * numbers[:, taken], self.basis[taken]
            crossed = np.asarray(turned @ weighed).T
            found[r] += (((weighed.T @ numbers[:, taken]) @ basis - 2 * crossed) * basis).sum(axis=0)
        found = np.maximum(found, 0.0) * step  # what is left of nothing is rounding
        return np.concatenate([found.ravel(), np.square(self.scalars).sum(axis=0)])
