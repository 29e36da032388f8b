"""The matched filter on the topics of ratings: of a row, only the stored entries count.

Topics T that a run ends with are stationary for its documents: at every entry of T above 0

    sum over documents that have the entry of w_t (x - w T) = alpha + beta T_t,

w >= 0 the coefficients of x under T, so that T too gives linear equations in who is in, at the run's own T. A run
that ends before it has converged satisfies them about: `SHRINK` of each variance stands for what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import add_rows_to_panel, csr_times_panel, lined, panel_of
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.mechanisms.factorisation.weighted_nmf import fit_observed_coefficients
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.equations import Equations, own_mechanism, what_they_say
from ksdp.audit.statistics.products import row_dots

SHRINK = 1.0
"""Part of each number's variance over databases that is added to it: what a run that has not converged misses."""


@dataclass(frozen=True, eq=False)
class StationaryTerms:
    """What each document adds to the equations that a run's topics solve, shape (k, d); 0 where T is 0.

    It is w^T (x - w T) at the entries of x, the product of two short vectors: one pass over all entries a sum.
    """

    rows: sp.csr_array
    """Documents, shape (n, d), canonical; stored zeros are ratings."""
    topics: Floats
    """T, shape (k, d)."""
    gamma: float = 0.0
    delta: float = 0.0
    """Regularisers of the coefficients."""

    @property
    def entries(self) -> int:
        """Numbers in the sums."""
        return self.topics.size

    @property
    def work(self) -> int:
        """Multiplications of a sum and of products with all terms, about."""
        return 4 * int(self.rows.nnz) * len(self.topics)

    @cached_property
    def coefficients(self) -> Floats:
        """w, shape (n, k)."""
        return fit_observed_coefficients(self.rows, self.topics, gamma=self.gamma, delta=self.delta)

    @cached_property
    def left(self) -> Floats:
        """x - w T at every entry, in the order of the rows."""
        found = np.empty(self.rows.nnz)
        _leave(
            self.rows.indptr, self.rows.indices, self.rows.data, panel_of(self.topics), self.coefficients, found
        )
        return found

    def along(self, direction: Floats) -> Floats:
        """<a_i, direction> of every document, shape (n,); each by itself, to the last bit."""
        panel = panel_of(self._where_above(direction.reshape(self.topics.shape)))
        found = np.empty(self.coefficients.shape)
        csr_times_panel(self.rows.indptr, self.rows.indices, self.left, panel, found)
        return row_dots(found, self.coefficients)

    def summed(self, shares: Floats) -> Floats:
        """sum_i shares_i a_i, shape (entries,)."""
        return self._added(self.left, shares[:, None] * self.coefficients)

    @cached_property
    def variances(self) -> Floats:
        """Second moments of all entries, summed over documents; shape (entries,)."""
        return self._added(np.square(self.left), np.square(self.coefficients))

    def written(self) -> Floats:
        """All terms, shape (n, entries)."""
        left = sp.csr_array((self.left, self.rows.indices, self.rows.indptr), shape=self.rows.shape).toarray()
        terms = self.coefficients[:, :, None] * left[:, None, :]
        return self._where_above(terms).reshape(len(left), self.entries)

    def _added(self, data: Floats, weights: Floats) -> Floats:
        across = panel_of(weights.T)
        sums = lined((self.topics.shape[1], across.shape[1]))
        add_rows_to_panel(self.rows.indptr, self.rows.indices, data, across, sums)
        return self._where_above(sums[:, : len(self.topics)].T).ravel()

    def _where_above(self, numbers: Floats) -> Floats:
        return np.where(self.topics > 0.0, numbers, 0.0)


def are_rated(documents: Documents) -> bool:
    """Whether missing entries are missing to the mechanism that runs on these, not zero."""
    return bool(getattr(own_mechanism(documents.made_of.mechanism), "weighted", False))


def topics_of_ratings(
    name: str, observables: Observables, documents: Documents, topics: NDArray[np.float64]
) -> Floats:
    """The matched filter on a run's topics, shape (k, d); one number a document."""
    own = own_mechanism(documents.made_of.mechanism)
    topics = np.ascontiguousarray(topics, dtype=np.float64)

    def terms(rows: sp.csr_array) -> StationaryTerms:
        return StationaryTerms(rows, topics, own.gamma, own.delta)

    wanted = np.where(topics > 0.0, own.alpha + own.beta * topics, 0.0).ravel()
    return what_they_say(name, observables, documents, terms, Equations(wanted, shrink=SHRINK))


@njit(cache=True, nogil=True)
def _leave(indptr: Any, indices: Any, data: Any, topics: Any, weights: Any, left: Any) -> None:
    """What the topics leave of every entry; `topics` as `panel_of` makes them."""
    for i in range(weights.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            said = 0.0
            for t in range(weights.shape[1]):
                said += weights[i, t] * topics[indices[p], t]
            left[p] = data[p] - said
