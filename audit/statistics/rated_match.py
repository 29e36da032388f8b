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
from ksdp.audit.statistics.entry_terms import EntryTerms
from ksdp.audit.statistics.equations import Equations, own_mechanism, what_they_say

__all__ = ["StationaryTerms", "are_rated", "topics_of_ratings"]

Floats = NDArray[np.float64]

SHRINK = 1.0
"""Part of each number's variance over databases that is added to it: what a run that has not converged misses."""


@dataclass(frozen=True, eq=False)
class StationaryTerms(EntryTerms):
    """What each document adds to the equations that a run's topics solve, shape (k, d); 0 where T is 0."""

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the topics."""
        return self.topics.shape

    @property
    def work(self) -> int:
        """Multiplications of a sum and of products with all terms, about."""
        return 4 * int(self.rows.nnz) * len(self.topics)

    @cached_property
    def coefficients(self) -> Floats:
        """Under the topics, shape (n, k)."""
        return fit_observed_coefficients(self.rows, self.topics, gamma=self.gamma, delta=self.delta)

    @property
    def kernels(self) -> tuple[Any, Any]:
        """Where T is above 0."""
        return _along, _add


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
