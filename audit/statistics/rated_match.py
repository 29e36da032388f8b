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

from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.mechanisms.factorisation.weighted_nmf import fit_observed_coefficients
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.equations import Equations, own_mechanism, what_they_say

__all__ = ["StationaryTerms", "are_rated", "topics_of_ratings"]

Floats = NDArray[np.float64]

SHRINK = 1.0
"""Part of each number's variance over databases that is added to it: what a run that has not converged misses."""


@dataclass(frozen=True, eq=False)
class StationaryTerms:
    """What each document adds to the equations that a run's topics solve, shape (k, d); 0 where T is 0."""

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
        return int(self.topics.size)

    @property
    def work(self) -> int:
        """Multiplications of a sum and of products with all terms, about."""
        return 4 * int(self.rows.nnz) * len(self.topics)

    def along(self, direction: Floats) -> Floats:
        """<a_i, direction> of every document, shape (n,); each by itself, to the last bit."""
        total = np.empty(self.rows.shape[0])
        _along(*self._given, direction.reshape(self.topics.shape), total)
        return total

    def summed(self, shares: Floats) -> Floats:
        """sum_i shares_i a_i, shape (entries,)."""
        return self._added(shares, False)

    @cached_property
    def variances(self) -> Floats:
        """Second moments of all entries, summed over documents; shape (entries,)."""
        return self._added(np.ones(self.rows.shape[0]), True)

    def written(self) -> Floats:
        """All terms, shape (n, entries)."""
        found, one = np.zeros((self.rows.shape[0], self.entries)), np.ones(1)
        indptr, indices, data, topics, weights = self._given
        for i, row in enumerate(found):
            some = (indptr[i : i + 2], indices, data, topics, weights[i : i + 1])
            _add(*some, one, False, row.reshape(topics.shape))
        return found

    def _added(self, shares: Floats, squared: bool) -> Floats:
        sums = np.zeros_like(self.topics)
        _add(*self._given, shares, squared, sums)
        return sums.ravel()

    @cached_property
    def _given(self) -> tuple[Any, ...]:
        weights = fit_observed_coefficients(self.rows, self.topics, gamma=self.gamma, delta=self.delta)
        return self.rows.indptr, self.rows.indices, self.rows.data, self.topics, weights


def are_rated(documents: Documents) -> bool:
    """Whether missing entries are missing to the mechanism that runs on these, not zero."""
    return bool(getattr(own_mechanism(documents.made_of.mechanism), "weighted", False))


def topics_of_ratings(
    name: str, observables: Observables, documents: Documents, topics: NDArray[np.float64]
) -> Floats:
    """The matched filter on a run's topics, shape (k, d); one number a document."""
    own = own_mechanism(documents.made_of.mechanism)
    topics = np.ascontiguousarray(topics, dtype=np.float64)

    def terms(rows: sp.csr_array, turned: sp.csr_array | None = None) -> StationaryTerms:
        return StationaryTerms(rows, topics, own.gamma, own.delta)

    wanted = np.where(topics > 0.0, own.alpha + own.beta * topics, 0.0).ravel()
    return what_they_say(name, observables, documents, terms, Equations(wanted, shrink=SHRINK))


@njit(cache=True, nogil=True)
def _left(topics: Any, weights: Any, i: int, j: int, x: float) -> float:
    """What the topics leave of one entry of a document."""
    for t in range(topics.shape[0]):
        x -= weights[i, t] * topics[t, j]
    return x


@njit(cache=True, nogil=True)
def _along(indptr: Any, indices: Any, data: Any, topics: Any, weights: Any, direction: Any, total: Any) -> None:
    """The products of each document's terms with a direction."""
    for i in range(total.size):
        total[i] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            j, along = indices[p], 0.0
            for t in range(topics.shape[0]):
                if topics[t, j] > 0.0:
                    along += weights[i, t] * direction[t, j]
            total[i] += along * _left(topics, weights, i, j, data[p])


@njit(cache=True, nogil=True)
def _add(
    indptr: Any, indices: Any, data: Any, topics: Any, weights: Any, shares: Any, squared: bool, sums: Any
) -> None:
    """sums += every document's terms, or their squares, times its share."""
    for i in range(shares.size):
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            left = _left(topics, weights, i, j, data[p])
            for t in range(topics.shape[0]):
                if topics[t, j] > 0.0:
                    term = weights[i, t] * left
                    sums[t, j] += shares[i] * (term * term if squared else term)
