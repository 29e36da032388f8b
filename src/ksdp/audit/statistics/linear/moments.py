"""The matched filter on a sum of x x^T over a run's documents, with or without noise of public size: x^T F x.

Numbers are those of the `isometric` triangle, in which noise is white.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from ksdp.audit.contract import Observables
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.numeric.kernels import one_thread
from ksdp.audit.numeric.triangles import isometric, of_isometric
from ksdp.audit.statistic import Documents, TableStatistic
from ksdp.audit.statistics.linear.expected import MOST_ENTRIES, step_of
from ksdp.audit.statistics.linear.operator import at_even_steps
from ksdp.audit.statistics.linear.solve import fits_dense_solver
from ksdp.audit.statistics.linear.system import own_mechanism
from ksdp.audit.statistics.linear.tilting import few_to_write, span_of
from ksdp.audit.statistics.products import announced, row_dots, rows_times


@runtime_checkable
class NoisyMoments(Protocol):
    """A mechanism that announces a sum of x x^T, or a part of it, with noise of public size."""

    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """Documents as they enter the sum."""

    def moment_noise(self, size: int, features: int, parties: int) -> float:
        """The deviation of the noise in each number of the isometric triangle, for a victim of so many rows,
        where so many parties' noise is not known.
        """


_Form = tuple[Floats, float]
"""F, symmetric, shape (r, r), and what to take from what it says of each document."""


@dataclass(frozen=True, eq=False)
class MomentFilter:
    """The part of a filter that is the same in every run."""

    solve: Callable[[Floats], _Form]
    """Solve for a run's sum, a symmetric matrix less its expectation."""

    def form(self, moments: Floats) -> _Form:
        """F for a run's sum, and what to take from what it says of each document."""
        with one_thread():
            return self.solve(moments)


def moment_filter(rows: Floats, share: float, noise: float | None, shrink: float) -> MomentFilter:
    """The filter of databases that are drawn from these rows."""
    n, r = rows.shape
    varied, mean = share * (1.0 - share), rows.T @ rows / max(n, 1)
    squares = np.square(rows)
    numbers = r * (r + 1) // 2
    spread = float(np.square(squares.sum(axis=1)).mean() - np.square(mean).sum())
    spread = max(spread, 0.0) / max(numbers, 1)
    least = max(1e-10 * spread, float(np.finfo(np.float64).tiny))
    added = max(shrink * spread if noise is None else noise**2 / max(n * varied, 1e-3), least)
    variance = added * max(n * varied, 1e-3)
    with one_thread():
        if noise is not None and few_to_write(n, numbers):
            return MomentFilter(_by_entropy(rows, share, variance))
        if fits_dense_solver(n):
            linear = _by_documents(rows, added)
        elif numbers <= MOST_ENTRIES:
            linear = _by_numbers(rows, added)
        else:
            variances = (squares.T @ squares / n - np.square(mean)) * (2.0 - np.eye(r)) + added

            def linear(moments: Floats) -> Floats:
                return np.asarray(moments / variances)

    return MomentFilter(partial(_linear, rows if noise is not None else rows[:0], linear))


def _linear(rows: Floats, solve: Callable[[Floats], Floats], moments: Floats) -> _Form:
    """C^-1 of a sum as a form; what it says of these rows in the mean is taken from what is said of each."""
    form = solve(moments)
    return form, float(np.vdot(rows @ form, rows)) / max(len(rows), 1)


def _numbers(rows: Floats) -> Floats:
    first, second = np.triu_indices(rows.shape[1])
    return np.asarray(rows[:, first] * rows[:, second] * isometric(np.ones((rows.shape[1],) * 2)))


def _by_entropy(rows: Floats, share: float, noise: float) -> Callable[[Floats], _Form]:
    """The direction of largest entropy, of numbers with noise of this variance, as a form."""
    span, shares = span_of(_numbers(rows), noise), np.full(len(rows), share)

    def solve(moments: Floats) -> _Form:
        numbers, offset = span.direction(isometric(moments), shares)
        return of_isometric(numbers), -offset

    return solve


def _by_documents(rows: Floats, added: float) -> Callable[[Floats], Floats]:
    """C^-1 z = (z - A^T b) / added, (A A^T / n + added) b = A z / n: C is A^T A / n + added, A centred."""
    n = len(rows)
    gram = np.square(rows @ rows.T)
    gram -= gram.mean(axis=0)
    gram -= gram.mean(axis=1)[:, None]
    gram /= n
    rounding = float(np.finfo(np.float64).eps) * n * float(gram.diagonal().max(initial=0.0))
    gram[np.diag_indices_from(gram)] += added + rounding
    factor = cast(Any, scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False))

    def solve(moments: Floats) -> Floats:
        along = np.einsum("ij,ij->i", rows @ moments, rows) / n
        parts = scipy.linalg.cho_solve(factor, along - along.mean(), check_finite=False)
        parts -= parts.mean()
        return np.asarray((moments - (rows * parts[:, None]).T @ rows) / added)

    return solve


def _by_numbers(rows: Floats, added: float) -> Callable[[Floats], Floats]:
    numbers = rows.shape[1] * (rows.shape[1] + 1) // 2
    some = rows[:: step_of(len(rows), numbers)]
    covariance, total = np.zeros((numbers, numbers)), np.zeros(numbers)
    for start in range(0, len(some), 1024):
        terms = _numbers(some[start : start + 1024])
        covariance += terms.T @ terms
        total += terms.sum(axis=0)
    covariance /= len(some)
    covariance -= np.outer(total, total) / len(some) ** 2
    rounding = float(np.finfo(np.float64).eps) * len(total) * float(covariance.diagonal().max(initial=0.0))
    covariance[np.diag_indices_from(covariance)] += added + rounding
    factor = cast(Any, scipy.linalg.cho_factor(covariance, overwrite_a=True, check_finite=False))

    def solve(moments: Floats) -> Floats:
        return of_isometric(scipy.linalg.cho_solve(factor, isometric(moments), check_finite=False))

    return solve


def moment_match(observables: Observables, documents: Documents) -> Floats:
    """The matched filter <C^-1 (x x^T - mean), S>, C the covariance over databases and noise."""
    moments = observables.derive(("moments",), lambda: of_isometric(announced(observables, "moments").ravel()))
    return _matched(moments, documents)


def site_match(observables: Observables, documents: Documents) -> Floats:
    """As `moment_match`, of P^T P: what is left of a site's noisy second moments in the root that it sends."""
    root = announced(observables, "P")
    return _matched(documents.source_pool.sizes[0] * (root.T @ root), documents, alone=True)


def _matched(moments: Floats, documents: Documents, alone: bool = False) -> Floats:
    pool = documents.source_pool
    own = own_mechanism(pool.mechanism)

    def bounded(rows: sp.csr_array) -> Floats:
        return np.asarray((own.bounded(rows) if isinstance(own, NoisyMoments) else rows).toarray())

    def compute() -> MomentFilter:
        rows, noise = at_even_steps(pool.drawn, 2**14), None
        if isinstance(own, NoisyMoments):
            parties = 1 + (pool.remaining is not None)
            noise = own.moment_noise(pool.sizes[0], rows.shape[1], parties)
        return moment_filter(bounded(rows), pool.share, noise, 0.05)

    def expected() -> Floats:
        total = np.zeros_like(moments)
        for rows, share in ((pool.drawn, pool.share), (None if alone else pool.remaining, pool.fixed_share)):
            if rows is not None:
                dense = bounded(rows)
                total += share * (dense.T @ dense)
        return total

    residual = moments - pool.derive(("expected moments", alone), expected)
    form, offset = pool.derive("moment filter", compute).form(residual)
    rows = documents.derive("bounded", lambda: bounded(documents.matrix))
    return row_dots(rows_times(rows, form), rows) - offset


MOMENTS = (
    TableStatistic(
        "linear-moments",
        "geometry",
        moment_match,
        "How well the announced second moments match the document’s own, best weighed.",
        needs=("moments",),
        weighs=True,
    ),
    TableStatistic(
        "linear-site",
        "geometry",
        site_match,
        "How well the second moments that a site sends match the document’s own, best weighed.",
        needs=("P",),
        weighs=True,
    ),
)
