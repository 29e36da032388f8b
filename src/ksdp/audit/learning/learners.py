"""Learners: what a party learns from a run, and alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import Database, Mechanism, traits_of
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.nmf_kernels import PLAIN, Penalties
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.weighted_nmf import fit_observed_coefficients
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.registry import make_mechanism
from ksdp.audit.statistics.products import BASES

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
    items: NDArray[np.intp]
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
        """Predict the entries of `wanted` from the ratings `given`; the result has the same pattern."""
        W = self.coefficients(given)
        users = np.repeat(np.arange(wanted.shape[0]), np.diff(wanted.indptr))
        ratings = np.einsum("ij,ji->i", W[users], self.T[:, wanted.indices])
        means = np.asarray(given.sum(axis=1)) / np.maximum(np.diff(given.indptr), 1)
        ratings = np.where(np.max(self.T, axis=0)[wanted.indices] > 0, ratings, means[users])
        predicted = np.clip(ratings, self.low, self.high)
        return sp.csr_array((predicted, wanted.indices, wanted.indptr), shape=wanted.shape)

    def suggested(self, given: sp.csr_array, most: int) -> Iterator[Suggested]:
        """For every user at most so many items that are not among the given; equal ones in the columns' order."""
        W, catalogue = self.coefficients(given), np.flatnonzero(self.T.any(axis=0))
        for first in range(0, given.shape[0], _BLOCK):
            block = W[first : first + _BLOCK] @ self.T
            for row, scores in enumerate(block, start=first):
                rated = given.indices[given.indptr[row] : given.indptr[row + 1]]
                items = np.setdiff1d(catalogue, rated, assume_unique=True)
                best = items[np.argsort(-scores[items], kind="stable")[:most]]
                yield Suggested(row, best, np.clip(scores[best], self.low, self.high))


@dataclass(frozen=True, eq=False)
class Learnt:
    """Result of a learner, in columns of the corpus without levers."""

    rows: Floats
    """Its basis as it was announced, brought back: shape (k, features)."""
    mean: Floats | None
    nonnegative: bool
    """Whether the rows are topics."""
    of_ratings: Penalties | None = None
    """Where they are topics of ratings: the regularisers by which coefficients are fitted to them."""

    @cached_property
    def directions(self) -> Floats:
        """An orthonormal basis of the rows, shape (features, at most k)."""
        _, sizes, rows = np.linalg.svd(self.rows, full_matrices=False)
        floor = np.finfo(np.float64).eps * max(self.rows.shape) * (sizes[0] if len(sizes) else 0.0)
        return np.ascontiguousarray(rows[sizes > floor].T)


def exact_of(mechanism: Mechanism) -> Mechanism:
    """The mechanism without noise, at the same rank: what it would be if nothing had to be protected."""
    if isinstance(mechanism, Noisy):
        return mechanism.inner
    if isinstance(mechanism, GaussianReleases) or traits_of(mechanism).counts:
        name = "pd-svd" if traits_of(mechanism).counts or not traits_of(mechanism).nonnegative else "pd-nmf"
        return make_mechanism(name, {"rank": traits_of(mechanism).rank or 1})
    if not {a.name for a in mechanism.releases(2**20)} & set(BASES):
        raise SpecError(f"{mechanism.name} learns no basis: what is gained by it is not measured.")
    return mechanism


def quickly(mechanism: Mechanism) -> Mechanism:
    """The same result, without what only an observer of every round needs."""
    changes: dict[str, Any] = {}
    if isinstance(mechanism, Noisy):
        if "opens" in mechanism.parameters:
            changes["parameters"] = {**mechanism.parameters, "opens": "final"}
    elif dataclasses.is_dataclass(mechanism) and any(f.name == "opens" for f in dataclasses.fields(mechanism)):
        changes["opens"] = "final"
    if not changes:
        return mechanism
    same: Any = mechanism
    try:
        changed: Mechanism = dataclasses.replace(same, **changes)
    except ValueError:
        return mechanism
    return changed


def learn(
    mechanism: Mechanism, parties: Sequence[sp.csr_array], lift: sp.csr_array | None, rng: np.random.Generator
) -> Learnt:
    """Run once and bring the basis back to the columns of the corpus."""
    database = Database(tuple(parties))
    joint = {"made_by": len(parties)} if isinstance(mechanism, GaussianReleases) else {}
    seen = mechanism.run(database, rng, **joint)
    name = next((name for name in BASES if name in seen), None)
    if name is None:
        raise SpecError(f"{mechanism.name} announces no basis: what is gained by it is not measured.")
    rows = np.asarray(seen[name], dtype=np.float64)
    mean = np.asarray(seen["mean"], dtype=np.float64).ravel() if "mean" in seen else None
    if lift is not None:
        rows = np.asarray((lift @ rows.T).T)
        mean = None if mean is None else np.asarray(lift @ mean)
    how = mechanism.penalties if isinstance(mechanism, PDNMF) and mechanism.weighted else None
    return Learnt(rows, mean, name == "T", how)
