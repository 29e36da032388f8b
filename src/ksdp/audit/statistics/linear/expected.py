"""Matched filters on a final output: what moved it from what is expected of any run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, cast

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.blas import ssymv
from scipy.linalg.lapack import dpotri
from scipy.sparse.linalg import LinearOperator, eigsh

from ksdp.audit.contract import Database, Observables, traits_of
from ksdp.audit.errors import KsdpError
from ksdp.audit.mechanisms.factorisation.pd_svd import hidden_mean
from ksdp.audit.mechanisms.factorisation.rri_nmf import stack
from ksdp.audit.mechanisms.factorisation.weighted_nmf import fit_observed_coefficients, observed_residual
from ksdp.audit.mechanisms.parameters import given_fields
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.numeric.kernels import add_rows_to_panel, csr_times_panel, lined, one_thread, panel_of
from ksdp.audit.numeric.sparse_rows import arrays_of
from ksdp.audit.statistic import Documents, Pool
from ksdp.audit.statistics.boxed import box_least_squares
from ksdp.audit.statistics.linear.operator import EntryContributions, at_even_steps
from ksdp.audit.statistics.linear.system import LinearSystem, membership_scores, own_mechanism
from ksdp.audit.statistics.products import announced, csr_arrays, has_mean, products_beside, row_dots, rows_times

MOST_ENTRIES = 4096
"""Entries of a sum whose whole covariance is looked at; of larger sums, the variance of each."""
ROWS_PER_ENTRY, FEWEST_ROWS = 6, 2**13
"""Documents looked at for a covariance, at most, by its size, and however small it is."""


def step_of(rows: int, entries: int) -> int:
    """Return the step at which documents are looked at for the covariance of so many entries."""
    return max(1, rows // max(ROWS_PER_ENTRY * entries, FEWEST_ROWS))


@dataclass(frozen=True, eq=False)
class CovarianceFilter:
    """The terms of many documents, by their coefficients."""

    rows: sp.csr_array
    """Documents, shape (n, d)."""
    weights: Floats
    """Their coefficients, shape (n, k)."""
    basis: Floats
    """The residual of a document is x - mean - w B, shape (k, d)."""
    mean: Floats
    """Zeros where nothing is subtracted, shape (d,)."""

    def filtered(self, total: Floats) -> Floats:
        """A sum by the inverse of its covariance, up to one factor; shape (k, d)."""
        if total.size > MOST_ENTRIES:
            return total / self._variances
        scale = float(np.abs(total).max()) or 1.0
        terms = (total / scale).astype(np.float32).ravel()
        solved = ssymv(1.0, self._inverse, terms)
        return np.asarray(solved.reshape(total.shape).astype(np.float64) * scale)

    def _terms(self, step: int) -> Any:
        for start in range(0, len(self.weights), step * 1024):
            part = slice(start, start + step * 1024, step)
            weights = self.weights[part]
            yield weights, self.rows[part].toarray() - self.mean - weights @ self.basis

    @cached_property
    def _inverse(self) -> NDArray[np.float32]:
        with one_thread():
            return self._inverted()

    def _inverted(self) -> NDArray[np.float32]:
        entries = self.basis.size
        step = step_of(len(self.weights), entries)
        covariance, total, count = np.zeros((entries, entries)), np.zeros(entries), 0
        for weights, matrix in self._terms(step):
            terms = (weights[:, :, None] * matrix[:, None, :]).reshape(-1, entries)
            covariance += terms.T @ terms
            total += terms.sum(axis=0)
            count += len(terms)
        rounding = _ROUNDING * covariance.trace()
        covariance -= np.outer(total, total) / max(count, 1)
        # Where all documents are the same, rounding is all that is left.
        covariance[np.diag_indices_from(covariance)] += max(_shrunk(covariance.trace() / entries), rounding)
        covariance /= float(covariance.diagonal().max())
        factor, _ = cast(Any, scipy.linalg.cho_factor(covariance, overwrite_a=True, check_finite=False))
        inverse, _ = dpotri(factor, lower=0, overwrite_c=True)
        return np.asfortranarray(inverse, dtype=np.float32)  # read once a run, and half as long

    @cached_property
    def _variances(self) -> Floats:
        """Second moments of the entries of w^T e, which are little more than variances; shape (k, d)."""
        with one_thread():
            lines = np.vstack([self.mean, self.basis])
            parts = np.column_stack([np.ones(len(self.weights)), self.weights])
            squares = np.square(self.weights)
            plain = sp.csr_array((np.square(self.rows.data), self.rows.indices, self.rows.indptr), self.rows.shape)
            total = np.ascontiguousarray((plain.T @ squares).T)
            variances = np.empty(self.basis.shape)
            for r in range(len(variances)):
                weighed = squares[:, r, None] * parts
                less = (parts.T @ weighed) @ lines - 2.0 * (self.rows.T @ weighed).T
                variances[r] = total[r] + (lines * less).sum(axis=0)
            # Where the basis explains documents wholly, rounding is all that is left.
            rounding = _ROUNDING * total.mean(axis=1, keepdims=True)
            variances = np.maximum(variances, 0.0)
            return np.asarray(variances + np.maximum(_shrunk(variances.mean(axis=1, keepdims=True)), rounding))


_ROUNDING = 2.0**-44
"""Part of sums of squares that is added: below, a covariance is not positive definite."""


def _shrunk(mean: Any) -> Any:
    return np.maximum(0.01 * mean, np.finfo(np.float64).tiny)


DENSE = 2048
"""Columns up to which second moments are written out."""
BEYOND = 64
"""Directions beyond V_0 whose eigenvalues are told apart; the others have their mean."""
_COLUMNS = 2048


@dataclass(frozen=True, eq=False)
class Expected:
    """The expected second moments of a run, by their leading directions."""

    values: Floats
    """Leading eigenvalues of M, descending, shape (k + more,)."""
    rows: Floats
    """Their directions, orthonormal, shape (k + more, d)."""
    rest: float
    """Mean of the other eigenvalues."""
    additions: CovarianceFilter
    """Covariance of the contributions of the pool's documents."""

    @property
    def basis(self) -> Floats:
        """V_0, shape (k, d)."""
        return self.additions.basis

    def sums(self, run_basis: Floats) -> Floats:
        """Return what the documents of a run added to (M v_t) outside of V_0, to first order; shape (k, d)."""
        basis = self.basis
        common = run_basis @ basis.T
        turn = np.linalg.pinv(common, rcond=1e-8)
        within = turn @ common
        beyond, turned_beyond, weights = self._beyond
        outside, along = np.empty(basis.shape), np.zeros((len(basis), len(beyond)), np.float32)
        # Some columns at a time: they stay in the first caches, and products so small are not copied before.
        parts = [slice(start, start + _COLUMNS) for start in range(0, basis.shape[1], _COLUMNS)]
        for part in parts:
            here = turn @ run_basis[:, part]
            here -= within @ basis[:, part]
            outside[:, part] = here
            along += here.astype(np.float32) @ turned_beyond[part]
        along *= weights
        larger = self.values[: len(basis), None] - self.rest
        for part in parts:
            outside[:, part] = larger * outside[:, part] - along @ beyond[:, part]
        return outside

    @cached_property
    def _beyond(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Directions beyond V_0, their transpose, and how far their eigenvalues are from the rest."""
        rank = len(self.basis)
        rows = self.rows[rank:].astype(np.float32)
        return rows, np.ascontiguousarray(rows.T), (self.values[rank:] - self.rest).astype(np.float32)


def expected(pool: Pool, rank: int, centred: bool) -> Expected | None:
    """The expected second moments of runs; None where there are too few documents or columns for the rank."""
    moments = pool.derive(("expected", rank, centred), lambda: _expected(pool, rank, centred))
    return moments


def _expected(pool: Pool, rank: int, centred: bool) -> Expected | None:
    drawn = at_even_steps(pool.drawn)
    share = pool.share * pool.drawn.shape[0] / max(drawn.shape[0], 1)
    size, total = share * drawn.shape[0], share * np.asarray(drawn.sum(axis=0)).ravel()
    parts = [(share, drawn)]
    if pool.fixed is not None:
        parts.append((1.0, pool.fixed))
        size, total = size + pool.fixed.shape[0], total + np.asarray(pool.fixed.sum(axis=0)).ravel()
    features = drawn.shape[1]
    if not 0 < rank < min(features, size):
        return None
    mean = total / size if centred else np.zeros(features)
    with one_thread():
        values, rows = _leading(parts, mean * np.sqrt(size), min(rank + BEYOND, features - 1))
    squares = sum(weight * float(part.multiply(part).sum()) for weight, part in parts)
    trace = squares - size * float(mean @ mean)
    rest = max(trace - float(values.sum()), 0.0) / max(features - len(values), 1)
    basis = np.ascontiguousarray(rows[:rank])
    return Expected(values, rows, rest, CovarianceFilter(drawn, drawn @ basis.T - basis @ mean, basis, mean))


def _leading(parts: list[tuple[float, sp.csr_array]], less: Floats, count: int) -> tuple[Floats, Floats]:
    """The largest eigenvalues of the sum of weight * X^T X, less an outer product, and their vectors, as rows."""
    features = len(less)
    if features <= DENSE:
        moments = -np.outer(less, less)
        for weight, rows in parts:
            moments += weight * (rows.T @ rows).toarray()
        values, vectors = np.linalg.eigh(moments)
    else:

        def times(vector: Floats) -> Floats:
            image = -less * float(less @ vector)
            for weight, rows in parts:
                image += weight * (rows.T @ (rows @ vector))
            return image

        shape = (features, features)
        moments = LinearOperator(shape, matvec=lambda v: times(np.ravel(v)), dtype=np.float64)
        values, vectors = eigsh(moments, count, v0=np.ones(features), tol=1e-6)
    order = np.argsort(-values, kind="stable")[:count]
    return np.maximum(values[order], 0.0), np.ascontiguousarray(vectors[:, order].T)


@dataclass(frozen=True, eq=False)
class ExpectedTopics:
    """The topics that are expected, and the documents that tell how far a run's are from them."""

    additions: CovarianceFilter
    some: sp.csr_array
    """Documents whose terms are added up at each run's topics."""

    @property
    def topics(self) -> Floats:
        """T_0, shape (k, d)."""
        return self.additions.basis

    def sums(self, run_topics: Floats) -> Floats:
        """How far the terms of everybody are from those at T_0, with T `run_topics` in the run; shape (k, d)."""
        residual = _total(self.some, run_topics) - self._at_expected
        residual[(run_topics <= 0.0) & (self.topics <= 0.0)] = 0.0
        return residual

    @cached_property
    def _at_expected(self) -> Floats:
        return _total(self.some, self.topics)


def coefficients_under(topics: Floats, products: Floats) -> Floats:
    """Nonnegative least squares of documents under topics, from their products with these; shape (n, k)."""
    form = np.ascontiguousarray(topics @ topics.T)
    return box_least_squares(np.ascontiguousarray(products), form, upper=np.inf)


def _total(rows: sp.csr_array, topics: Floats) -> Floats:
    csr = arrays_of(rows)
    panel, products = panel_of(topics), np.empty((rows.shape[0], len(topics)))
    csr_times_panel(*csr, panel, products)
    weights = coefficients_under(topics, products)
    across = panel_of(weights.T)
    total = lined((topics.shape[1], across.shape[1]))
    add_rows_to_panel(*csr, across, total)
    return np.asarray(total[:, : len(topics)].T - (weights.T @ weights) @ topics)


def expected_topics(pool: Pool, rank: int) -> ExpectedTopics | None:
    """Return the expectation of runs; None if the mechanism cannot run, or has another number of topics."""
    topics = pool.derive(("expected topics", rank), lambda: _expected_topics(pool, rank))
    return topics


def _expected_topics(pool: Pool, rank: int) -> ExpectedTopics | None:
    if pool.mechanism is None:
        return None
    rows = at_even_steps(pool.drawn)
    drawn, parties = rows, []
    if pool.fixed is not None:
        drawn, parties = at_even_steps(drawn, max(1, int(pool.share * drawn.shape[0]))), [pool.fixed]
    try:
        released = pool.mechanism.run(Database((drawn, *parties)), np.random.default_rng(0))
    except KsdpError:  # too few documents for its rank, say
        return None
    topics = np.asarray(released.get("T", np.empty(0)), dtype=np.float64)
    if topics.shape != (rank, drawn.shape[1]):
        return None
    with one_thread():
        weights = coefficients_under(topics, rows @ topics.T)
    additions = CovarianceFilter(rows, weights, topics, np.zeros(topics.shape[1]))
    return ExpectedTopics(additions, at_even_steps(pool.drawn, 2**12))


UNCONVERGED = 1.0
"""Part of each number's variance over databases that is added to it: what a run that has not converged misses."""


@dataclass(eq=False)
class StationaryContributions(EntryContributions):
    """Contributions of documents to the equations of topics: w^T (x - w T) at their entries, 0 where T is 0."""

    rows: sp.csr_array
    """Documents, shape (n, d), canonical; stored zeros are ratings."""
    topics: Floats
    """T, shape (k, d)."""
    gamma: float = 0.0
    delta: float = 0.0
    """Regularisers of the coefficients."""

    def __post_init__(self) -> None:
        """Say how large it is."""
        self.lines = len(self.topics)
        self._init()

    def entered(self, rows: sp.csr_array) -> Floats:
        """Return the contribution of each entry to every row of its column, shape (nnz, k)."""
        weights, residual = self._fit(rows)
        entries = np.repeat(weights, np.diff(rows.indptr), axis=0) * residual.data[:, None]
        return np.where(self.topics.T[rows.indices] > 0.0, entries, 0.0)

    def _fit(self, rows: sp.csr_array) -> tuple[Floats, sp.csr_array]:
        """w, shape (n, k), and x - w T at the entries."""
        weights = fit_observed_coefficients(rows, self.topics, gamma=self.gamma, delta=self.delta)
        residual = observed_residual(stack([rows])[0], self.topics, weights)
        return weights, sp.csr_array((residual, rows.indices, rows.indptr), shape=rows.shape)

    @cached_property
    def _fitted(self) -> tuple[Floats, sp.csr_array]:
        return self._fit(self.rows)

    def _matvec(self, direction: Floats) -> Floats:
        weights, residual = self._fitted
        panel = np.where(self.topics > 0.0, np.ravel(direction).reshape(self.topics.shape), 0.0)
        return np.asarray(((residual @ panel.T) * weights).sum(axis=1))

    def _added(self, shares: Floats, squared: bool) -> Floats:
        weights, residual = self._fitted
        if squared:
            weights, residual = np.square(weights), residual.power(2)
        return np.where(self.topics > 0.0, (residual.T @ (shares[:, None] * weights)).T, 0.0).ravel()


def are_rated(documents: Documents) -> bool:
    """Whether missing entries are missing to the mechanism that runs on these, not zero."""
    return traits_of(own_mechanism(documents.source_pool.mechanism)).weighted


def topics_of_ratings(
    name: str, observables: Observables, documents: Documents, topics: NDArray[np.float64]
) -> Floats:
    """The matched filter on a run's topics, shape (k, d); one number a document."""
    given = given_fields(own_mechanism(documents.source_pool.mechanism))
    topics = np.ascontiguousarray(topics, dtype=np.float64)

    def terms(rows: sp.csr_array) -> StationaryContributions:
        return StationaryContributions(rows, topics, given["gamma"], given["delta"])

    wanted = np.where(topics > 0.0, given["alpha"] + given["beta"] * topics, 0.0).ravel()
    return membership_scores(name, observables, documents, terms, LinearSystem(wanted, shrink=UNCONVERGED))


@dataclass(frozen=True)
class FirstOrderMean:
    """How the announced mean differs from the expected one, by what the document would have added to it.

    <C^-1 (x - m), a - m> for the announced mean a and the mean m and covariance C of the documents that may be in:
    the log likelihood ratio of the normal model, up to one factor and what is the same in every run.
    """

    sentence = "Whether the announced mean moved the way this document would move it, best weighed."

    name: str = "first-order-mean"
    version: int = 1
    family: str = "geometry"
    needs: tuple[str, ...] = ("mean",)
    weighs: ClassVar[bool] = True

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        pool = documents.source_pool
        additions = pool.derive("documents in a mean", lambda: _in_mean(pool))
        residual = announced(observables, "mean").reshape(1, -1) - additions.mean
        weights = cast(
            Floats, observables.derive(("mean", additions), lambda: additions.filtered(residual).ravel())
        )
        return np.asarray(documents.matrix @ weights - additions.mean @ weights)


def _in_mean(pool: Pool) -> CovarianceFilter:
    drawn = at_even_steps(pool.drawn)
    mean = np.asarray(drawn.mean(axis=0)).ravel()
    return CovarianceFilter(drawn, np.ones((drawn.shape[0], 1)), np.zeros((1, len(mean))), mean)


@dataclass(frozen=True)
class FirstOrderBasis:
    """How the announced V differs from the expected one, by what the document would have added to it.

    <C^-1 (w_x^T e_x), Z> for the coefficients w_x of x under the expected vectors, what these leave of it, e_x,
    and the sum Z that the run's V is solved from (`expected`); C is its covariance over databases (`additions`).
    It is the likelihood ratio of the linear, normal model, which no energy of x in V comes near to.
    """

    sentence = "Whether the announced directions moved the way this document would move them, best weighed."

    name: str = "first-order-basis"
    version: int = 1
    family: str = "geometry"
    needs: tuple[str, ...] = ("V",)
    weighs: ClassVar[bool] = True

    def ask(self, observables: Observables, documents: Documents) -> None:
        """Have the products with V made beside its own, before another statistic makes them alone."""
        self.evaluate(observables, documents)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,); all 0 where there are too few documents to expect a V."""
        basis = announced(observables, "V")
        pool = documents.source_pool
        centred = has_mean(observables) or hidden_mean(own_mechanism(pool.mechanism))
        picture = expected(pool, len(basis), centred)
        if picture is None:
            return np.zeros(len(documents))
        _, filtered, weights = _matched(observables, documents, basis, picture)
        return row_dots(filtered, weights)


@dataclass(frozen=True)
class FirstOrderTopics:
    """How the announced topics differ from the expected ones, by what the document would have added to them.

    As `FirstOrderBasis`, with nonnegative coefficients and the sum that topics are stationary for. Of ratings that
    sum is over stored entries, and taken at the run's own topics.
    """

    sentence = "Whether the announced topics moved the way this document would move them, best weighed."

    name: str = "first-order-topics"
    version: int = 1
    family: str = "geometry"
    needs: tuple[str, ...] = ("T",)
    weighs: ClassVar[bool] = True

    def ask(self, observables: Observables, documents: Documents) -> None:
        """As of `FirstOrderBasis`; topics of ratings share no pass."""
        if not are_rated(documents):
            self.evaluate(observables, documents)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,); all 0 where nothing is known of what is expected."""
        topics = announced(observables, "T")
        if are_rated(documents):
            return topics_of_ratings(self.name, observables, documents, topics)
        picture = expected_topics(documents.source_pool, len(topics))
        if picture is None:
            return np.zeros(len(documents))
        rows, filtered, _ = _matched(observables, documents, topics, picture)
        weights = documents.of_each(("weights under", picture), lambda all_: _weights(all_, picture))
        return row_dots(filtered - rows_times(weights, picture.topics @ rows.T), weights)


def _weights(documents: Documents, picture: ExpectedTopics) -> Floats:
    return coefficients_under(picture.topics, _expected_products(documents, picture))


def _expected_products(documents: Documents, picture: Expected | ExpectedTopics) -> Floats:
    return documents.of_each(("expected", picture), lambda all_: _centred(all_, picture.additions))


def _matched(
    observables: Observables, documents: Documents, run_factor: Floats, picture: Expected | ExpectedTopics
) -> tuple[Floats, Floats, Floats]:
    """The run's filter, shape (k, d), and products of the centred documents with it and with what is expected."""
    additions, name = picture.additions, "V" if isinstance(picture, Expected) else "T"
    rows = observables.derive(("matched", picture), lambda: additions.filtered(picture.sums(run_factor)))
    key = ("matched", picture)
    beside = partial(products_beside, observables, documents, name, key, rows)
    filtered = observables.derive((*key, documents), beside)
    if additions.mean.any():
        filtered = filtered - rows @ additions.mean
    return rows, filtered, _expected_products(documents, picture)


def _centred(documents: Documents, additions: CovarianceFilter) -> Floats:
    products = np.empty((len(documents), len(additions.basis)))
    csr_times_panel(*csr_arrays(documents), panel_of(additions.basis), products)
    return products - additions.basis @ additions.mean
