"""Releases as linear systems in who is in, who cannot be in, and the membership score of each document."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.contract import Mechanism, Observables
from ksdp.audit.mechanisms.schema import inner_of
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.numeric.kernels import csr_times_panel, panel_of
from ksdp.audit.numeric.sparse_rows import arrays_of, same_rows, take_rows
from ksdp.audit.statistic import Documents, Pool
from ksdp.audit.statistics.linear.coordinate_descent import Fitted
from ksdp.audit.statistics.linear.operator import LOST, ContributionOperator, FactoredContributions, at_even_steps
from ksdp.audit.statistics.linear.solve import RunSystem, solve
from ksdp.audit.statistics.linear.tilting import Direction

TOLERANCE = 1e-4
"""Relative tolerance of a sum; topics and sums are stored in single precision."""
SMALLEST = float(np.finfo(np.float32).tiny)
"""Below it single precision rounds by more than any part: topics so small count as 0, sums as so large."""


_ENTRY = np.dtype([("column", np.uint32), ("entry", np.float64)], align=True)

Memo = Callable[[Hashable, Callable[[sp.csr_array], NDArray[Any]]], NDArray[Any]]
"""A function of each of the documents, worked out once for them and a key."""
Feasibility = Callable[[sp.csr_array, Memo], NDArray[np.bool_]]
"""Which documents a run may have held, each by itself, shape (n,)."""


@dataclass(frozen=True, eq=False)
class FirstSumFeasible:
    """Whether w x_j <= s_j in every column j, w the first coefficient that PD-NMF gives x.

    The first sum of the first sweep is s = sum w x of the documents themselves: all other coefficients are 0.
    """

    topic: Floats
    """The first one, before the first sweep, shape (d,)."""
    total: Floats
    """s, shape (d,)."""
    gamma: float
    """Regularisers of the coefficients."""
    delta: float
    public: bool
    """Whether the topic is the same in every run."""

    def __call__(self, rows: sp.csr_array, memo: Memo) -> NDArray[np.bool_]:
        """Return a bound for each of the documents, nonnegative, shape (n,)."""
        key = ("first coefficient", self.topic.tobytes(), self.gamma, self.delta)
        weights = memo(key, self._weights) if self.public else self._weights(rows)
        feasible = np.empty(rows.shape[0], np.bool_)
        most = np.ascontiguousarray(_at_most(self.total))
        _fit(*arrays_of(rows), memo("rarest", _rarest_entries), weights, most, feasible)
        return feasible

    def _weights(self, rows: sp.csr_array) -> Floats:
        weights, below = np.empty((rows.shape[0], 1)), float(self.topic @ self.topic) + self.delta
        csr_times_panel(*arrays_of(rows), panel_of(_at_least(self.topic)[None, :]), weights)
        return np.asarray(_beyond(weights[:, 0], self.gamma) / (below if below > 0.0 else np.inf))


@dataclass(frozen=True, eq=False)
class FirstRatingsFeasible:
    """Whether w x_j <= s_j and w^2 <= q_j for every rating x_j, w what weighted PD-NMF gives x first.

    The first sums of the first sweep are s = sum w x, and q = sum w^2 over those who rated j.
    """

    topic: Floats
    """The first one, before the first sweep, shape (d,)."""
    total: Floats
    """s, shape (d,)."""
    squares: Floats
    """q, shape (d,)."""
    gamma: float
    """Regularisers of the coefficients."""
    delta: float

    def __call__(self, rows: sp.csr_array, memo: Memo) -> NDArray[np.bool_]:
        """Return a bound for each of the documents, nonnegative; stored zeros are ratings; shape (n,)."""
        indptr, indices, data = arrays_of(rows)
        ones, panel = np.ones_like(data), panel_of(np.stack([_at_least(self.topic), np.square(self.topic)]))
        above, below = (np.empty((rows.shape[0], 2)) for _ in range(2))
        csr_times_panel(indptr, indices, data, panel, above)
        csr_times_panel(indptr, indices, ones, panel, below)
        reach, size = _beyond(above[:, 0], self.gamma), below[:, 1] + self.delta
        weights = np.divide(reach, size, out=np.zeros_like(reach), where=size > 0.0)
        by_sums, by_weights = (np.empty(rows.shape[0], np.bool_) for _ in range(2))
        nothing = _none_first(len(weights))
        _fit(indptr, indices, data, nothing, weights, _at_most(self.total), by_sums)
        _fit(indptr, indices, ones, nothing, np.square(weights), _at_most(self.squares), by_weights)
        return by_sums & by_weights


@dataclass(frozen=True, eq=False)
class WithinColumns:
    """Whether all entries of a document stand in columns that the run touched; stored zeros touch none."""

    columns: NDArray[np.bool_]
    """Shape (d,)."""

    def __call__(self, rows: sp.csr_array, memo: Memo) -> NDArray[np.bool_]:
        """Return whether each of the documents is possible, shape (n,)."""
        feasible = np.empty(rows.shape[0], np.bool_)
        _within(*arrays_of(rows), self.columns, feasible)
        return feasible


@dataclass(frozen=True, eq=False)
class WithinBasis:
    """Whether all entries of a nonnegative document stand in columns of its run's singular vectors.

    Whoever is in and has a product with the first one gives all of their columns a part of it, and nobody takes it
    away: all that is added to it is of one sign. Whoever has none may share no column with it.
    """

    columns: NDArray[np.bool_]
    """Columns in which some vector has an entry, shape (d,)."""
    first: Floats
    """The leading vector, shape (d,)."""

    def __call__(self, rows: sp.csr_array, memo: Memo) -> NDArray[np.bool_]:
        """Return a bound for each of the documents, nonnegative, shape (n,)."""
        within = WithinColumns(self.columns)(rows, memo)
        projections, lengths = (
            np.empty((rows.shape[0], 1)),
            np.sqrt(
                np.bincount(
                    np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), np.square(rows.data), rows.shape[0]
                )
            ),
        )
        csr_times_panel(*arrays_of(rows), panel_of(np.abs(self.first)[None, :]), projections)
        return np.asarray(within | (projections[:, 0] <= 1e-6 * lengths))


def _at_least(topic: Floats) -> Floats:
    return np.where(topic < SMALLEST, 0.0, topic)


def _at_most(sums: Floats) -> Floats:
    return np.asarray(sums * (1 + TOLERANCE) + SMALLEST)


def _beyond(products: Floats, gamma: float) -> Floats:
    return np.maximum(products - gamma * (1 + TOLERANCE), 0.0)


def _none_first(documents: int) -> NDArray[np.void]:
    return np.zeros((documents, 0), _ENTRY)


def _rarest_entries(rows: sp.csr_array) -> NDArray[np.void]:
    """Four entries of each document in the columns that fewest have, shape (n, 4): they rule out most others."""
    lengths = np.diff(rows.indptr)
    if not 0 < rows.nnz <= 2**24:
        return _none_first(len(lengths))
    having = np.bincount(rows.indices, minlength=rows.shape[1])
    order = np.lexsort((having[rows.indices], np.repeat(np.arange(len(lengths)), lengths)))
    in_row = np.arange(4) % np.maximum(lengths, 1)[:, None]
    at = order[np.minimum(rows.indptr[:-1, None] + in_row, rows.nnz - 1)]
    entries = np.empty(at.shape, _ENTRY)
    entries["column"], entries["entry"] = rows.indices[at], np.where(lengths[:, None] > 0, rows.data[at], 0.0)
    return entries


@njit(cache=True, nogil=True)
def _fit(indptr: Any, indices: Any, data: Any, first: Any, weights: Any, most: Any, feasible: Any) -> None:
    for i in range(feasible.shape[0]):
        weight, fits = weights[i], True
        for k in range(first.shape[1]):
            if weight * first[i, k].entry > most[first[i, k].column]:
                fits = False
                break
        if fits:
            for at in range(indptr[i], indptr[i + 1]):
                if weight * data[at] > most[indices[at]]:
                    fits = False
                    break
        feasible[i] = fits


@njit(cache=True, nogil=True)
def _within(indptr: Any, indices: Any, data: Any, columns: Any, feasible: Any) -> None:
    for i in range(feasible.shape[0]):
        feasible[i] = True
        for at in range(indptr[i], indptr[i + 1]):
            if data[at] != 0.0 and not columns[indices[at]]:
                feasible[i] = False
                break


RULED_OUT = -2.0
"""Score of documents that the run cannot have held; others are between -1 and 1, about."""
LIKELIEST = 0.999
"""Upper limit for the inclusion probability once infeasible documents are removed."""


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """Sums over the documents of a run, and how well they are known."""

    sums: Floats | float = 0.0
    """Shape (entries,); or the same for all."""
    noise: Floats | float = 0.0
    """Variance of what was added to them, shape (entries,); or the same for all."""
    of_all: bool = True
    """Whether they are over the coalition's documents too, who subtract their own share of announced sums."""
    alone: bool = False
    """Whether they are over the victim's documents alone: what one party sends, not a sum over parties."""
    shrink: float = 0.0
    """Part of each number's variance over databases that is added to it: where the equations hold about."""
    exact: bool = False
    """Whether it is known that nothing was added to them."""
    about: bool = False
    """Whether they hold about: what they miss is to be measured (`_Solved.linear_model`)."""
    lost: float = LOST
    """Relative squared error of exact sums; `noise` is then that of `LOST`."""
    possible: Feasibility | None = None
    """Which documents the run may have held; None: nobody is ruled out."""

    def beside(self, pool: Pool) -> sp.csr_array | None:
        """Others' documents that the sums are over."""
        return None if self.alone else pool.fixed if self.of_all else pool.remaining


LinearModel = tuple[Callable[[sp.csr_array], ContributionOperator], LinearSystem]
"""Contributions of documents to sums, and the sums."""


def own_mechanism(mechanism: Mechanism | None) -> Mechanism | None:
    """The mechanism, or the one that it adds noise to."""
    return None if mechanism is None else inner_of(mechanism)


@runtime_checkable
class _AddsNoise(Protocol):
    """A mechanism that adds noise to what another one releases."""

    noise: float
    inner: Mechanism

    def deviation(self, name: str) -> float | None:
        """Standard deviation of one release; None if it varies with the release."""


def added_variance(mechanism: Mechanism | None, name: str, array: Floats) -> float:
    """Return the variance of `noisy`'s noise in each entry of another mechanism's release; 0 without it."""
    if not isinstance(mechanism, _AddsNoise) or not mechanism.noise or not array.size:
        return 0.0
    deviation = mechanism.deviation(name)
    size = mechanism.noise * float(np.sqrt(np.square(array).mean())) if deviation is None else deviation
    return float(size) ** 2


def _who_may_be_in(pool: Pool) -> tuple[sp.csr_array, Floats]:
    rows = at_even_steps(pool.drawn)
    shares = np.full(rows.shape[0], pool.share * pool.drawn.shape[0] / max(rows.shape[0], 1))
    if pool.fixed is not None and pool.fixed_share < 1.0:
        rows = sp.csr_array(sp.vstack([rows, pool.fixed], format="csr"))
        shares = np.concatenate([shares, np.full(pool.fixed.shape[0], pool.fixed_share)])
    return rows, shares


def membership_scores(
    name: str,
    observables: Observables,
    documents: Documents,
    terms: Callable[[sp.csr_array], ContributionOperator],
    system: LinearSystem,
) -> Floats:
    """<C^-1 (a_x - mean), Z - E Z> of each document, shape (n_documents,); `RULED_OUT` where it cannot be in."""
    pool = documents.source_pool
    if system.alone:
        pool = pool.derive(
            "the victim's own", lambda: replace(pool, fixed=None, fixed_share=1.0, honest=None, coalition=None)
        )

    scores = observables.derive((name, pool), lambda: _run_says(pool, terms, system))
    if isinstance(scores, Direction):
        return _possibly(system, documents, lambda some: scores.of(terms(some)))
    key = ("place among those who may be in", pool)
    places = documents.of_each(key, lambda parent: same_rows(parent.matrix, scores.rows))
    score = scores.score[places]
    unknown = places < 0
    if unknown.any():
        others = _possibly(
            system, documents, lambda some: scores.fit.of(cast(FactoredContributions, terms(some))), unknown
        )
        score[unknown] = others[unknown]
    return np.asarray(score)


@dataclass(frozen=True, eq=False)
class _Scores:
    """Scores of all documents that may be in, in order."""

    rows: sp.csr_array
    score: Floats
    fit: Fitted


def _run_says(
    pool: Pool, terms: Callable[[sp.csr_array], ContributionOperator], system: LinearSystem
) -> _Scores | Direction:
    rows, shares = pool.derive("who may be in", lambda: _who_may_be_in(pool))
    fixed = system.beside(pool) if pool.fixed_share == 1.0 else None
    contents = pool.derive("the same content", lambda: same_rows(rows, rows)) if system.exact else None
    unknown, may = rows, np.ones(rows.shape[0], np.bool_)
    if system.possible is not None:
        may = system.possible(rows, lambda key, of: pool.derive(("may be in", key), lambda: of(rows)))
        if (ruled_out := _left(rows, shares, may)) is not None:
            unknown, shares = ruled_out
            contents = None if contents is None else contents[may]
    made = terms(unknown)
    sums, noise = (
        np.broadcast_to(np.asarray(of, np.float64), made.shape[1]) for of in (system.sums, system.noise)
    )
    if fixed is not None:
        sums = sums - terms(fixed).rmatvec(np.ones(fixed.shape[0]))
    residual = sums - made.rmatvec(shares)
    scores = solve(RunSystem(made, residual, shares, noise, system.exact, system.lost, system.shrink, contents))
    if isinstance(scores, Direction):
        return scores
    score = np.empty(rows.shape[0])
    score[may if unknown is not rows else slice(None)] = scores.score
    score[~may] = RULED_OUT
    return _Scores(rows, score, scores)


def _possibly(
    system: LinearSystem,
    documents: Documents,
    say: Callable[[sp.csr_array], Floats],
    mask: NDArray[np.bool_] | None = None,
) -> Floats:
    if system.possible is None and mask is None:
        return say(documents.matrix)
    may = _who_may(system.possible, documents)
    places = np.flatnonzero(may if mask is None else may & mask)
    score = np.full(len(documents), RULED_OUT)
    score[places] = say(take_rows(documents.matrix, places))
    return score


def _who_may(possible: Feasibility | None, documents: Documents) -> NDArray[np.bool_]:
    """Which documents the run may have held; which groups, all of whose documents it may have held."""
    if documents.rows is not None and documents.starts is not None:
        # What a group adds is what its documents add, not what their sum would.
        return np.logical_and.reduceat(_who_may(possible, documents.rows), documents.starts[:-1])
    if possible is None:
        return np.ones(len(documents), np.bool_)
    return possible(documents.matrix, lambda key, of: documents.of_each(key, lambda parent: of(parent.matrix)))


def _left(rows: sp.csr_array, shares: Floats, may: NDArray[np.bool_]) -> tuple[sp.csr_array, Floats] | None:
    """Candidates with the probability that they are in a run; None if these are all documents, or hardly any."""
    places = np.flatnonzero(may)
    if len(places) == rows.shape[0] or len(places) < 2:
        return None
    likelier = shares[places] * (shares.sum() / shares[places].sum())
    return take_rows(rows, places), np.minimum(likelier, LIKELIEST)
