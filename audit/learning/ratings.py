"""Ratings predicted from topics of a weighted PD-NMF: what a party does with T for its own users."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Mechanism
from ksdp.audit.mechanisms.factorisation.nmf_kernels import PLAIN, Penalties
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.weighted_nmf import fit_observed_coefficients

_TOLERANCE = 1e-6
_BLOCK = 512
"""Users whose dense predictions are held at once."""


def predicts(mechanism: Mechanism) -> bool:
    """Whether its topics are of ratings, some of which are missing."""
    return isinstance(mechanism, PDNMF) and mechanism.weighted


@dataclass(frozen=True, eq=False)
class Suggested:
    """Some users' best items among those that they have not rated, the best first."""

    user: int
    """Row."""
    items: NDArray[np.intp]
    """Columns."""
    ratings: Floats


@dataclass(frozen=True, eq=False)
class Predictor:
    """Predicts clip(W T): a user's W is fitted to the ratings that are given, as the mechanism fits it.

    Of an item that is 0 in all topics (nobody rated it, or it was none of the run's columns) nothing was learnt:
    it is predicted to be the mean of what the user has given, and never suggested.

    Examples
    --------
    >>> given = sp.csr_array(([2.0, 4.0, 5.0], ([0, 0, 1], [0, 1, 2])), shape=(2, 4))
    >>> predictor = Predictor(np.array([[1.0, 2.0, 3.0, 0.0]]), low=1.0, high=5.0)
    >>> predictor.predicted(given, sp.csr_array([[False, False, True, False], [True, False, False, False]])).data
    array([5.        , 1.66666667])
    >>> predictor.predicted(given, sp.csr_array([[False, False, False, True], [False] * 4])).data
    array([3.])
    >>> [(found.user, found.items.tolist()) for found in predictor.suggested(given, 2)]
    [(0, [2]), (1, [1, 0])]
    """

    T: Floats
    """Topics, shape (k, items)."""
    low: float
    """The smallest rating there is; what is predicted is clipped to this."""
    high: float
    penalties: Penalties = PLAIN

    @classmethod
    def of(cls, mechanism: Mechanism, T: Floats, given: sp.csr_array) -> Predictor:
        """With the mechanism's own regularisers, and the range of the ratings that there are."""
        penalties = mechanism.penalties if isinstance(mechanism, PDNMF) else PLAIN
        return cls(T, float(given.data.min()), float(given.data.max()), penalties)

    def coefficients(self, given: sp.csr_array) -> Floats:
        """W, shape (users, k)."""
        return fit_observed_coefficients(
            given, self.T, gamma=self.penalties.gamma, delta=self.penalties.delta, tolerance=_TOLERANCE
        )

    def predicted(self, given: sp.csr_array, wanted: sp.csr_array) -> sp.csr_array:
        """What is predicted where `wanted` has entries, from the ratings `given`; of the same pattern."""
        W = self.coefficients(given)
        users = np.repeat(np.arange(wanted.shape[0]), np.diff(wanted.indptr))
        found = np.einsum("ij,ji->i", W[users], self.T[:, wanted.indices])
        means = np.asarray(given.sum(axis=1)) / np.maximum(np.diff(given.indptr), 1)
        found = np.where(np.max(self.T, axis=0)[wanted.indices] > 0, found, means[users])
        predicted = np.clip(found, self.low, self.high)
        return sp.csr_array((predicted, wanted.indices, wanted.indptr), shape=wanted.shape)

    def suggested(self, given: sp.csr_array, most: int) -> Iterator[Suggested]:
        """For every user at most so many items that are not among the given; equal ones in the columns' order."""
        W, known = self.coefficients(given), np.flatnonzero(self.T.any(axis=0))
        for first in range(0, given.shape[0], _BLOCK):
            block = W[first : first + _BLOCK] @ self.T
            for row, found in enumerate(block, start=first):
                rated = given.indices[given.indptr[row] : given.indptr[row + 1]]
                items = np.setdiff1d(known, rated, assume_unique=True)
                best = items[np.argsort(-found[items], kind="stable")[:most]]
                yield Suggested(row, best, np.clip(found[best], self.low, self.high))
