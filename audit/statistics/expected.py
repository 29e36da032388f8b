"""What an adversary expects of a run's singular vectors, and how the vectors move when a document is added.

The adversary knows what databases are drawn from, as one who runs the mechanism on databases of its own does. To
first order the leading right singular vectors V of a run differ from those of the expected second moments M,
V_0 with eigenvalues l, by

    dv_t = sum over directions u_s beyond them of u_s <u_s, (X^T X - M) v_t> / (l_t - l_s),

so that (l_t - M) dv_t is the part of (X^T X - M) v_t outside of V_0: a sum over the run's documents of
<x, v_t> (x less its part in V_0), one random term a document. Telling whether x is among them is then telling
whether a known vector was added to a sum of known covariance: a matched filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh
from threadpoolctl import threadpool_limits

from ksdp.audit.statistics.contract import Pool

__all__ = ["Expected", "expected"]

Floats = NDArray[np.float64]

MOST_ROWS = 2**16
"""Documents of the pool that are looked at, at most; at even steps where there are more."""
MOST_ENTRIES = 4096
"""Entries of V outside of V_0 whose whole covariance is looked at; beyond, that of single entries."""
DENSE = 2048
"""Columns up to which second moments are written out."""
BEYOND = 64
"""Directions beyond V_0 whose eigenvalues are told apart; the others have their mean."""
SHRINK = 0.01
"""Part of the mean variance that is added to every one."""
ROWS_PER_ENTRY = 6
"""Documents looked at for a covariance, at most, by its size."""


@dataclass(frozen=True, eq=False)
class Expected:
    """The expected second moments of a run, by their leading directions."""

    pool: sp.csr_array
    """Documents that covariances are estimated from."""
    mean: Floats
    """What is subtracted from every document, shape (d,): zeros where nothing is."""
    values: Floats
    """Leading eigenvalues of M, descending, shape (k + more,)."""
    rows: Floats
    """Their directions, orthonormal, shape (k + more, d)."""
    rest: float
    """Mean of the other eigenvalues."""
    rank: int
    """k."""

    @property
    def basis(self) -> Floats:
        """V_0, shape (k, d)."""
        return self.rows[: self.rank]

    def sums(self, found: Floats) -> Floats:
        """What the documents of a run added to (M v_t) outside of V_0, to first order; shape (k, d).

        Parameters
        ----------
        found : shape (k, d)
            The run's V. Its signs and rotations within its space mean nothing.
        """
        basis, leading = self.basis, self.values[: self.rank]
        turned = np.linalg.pinv(found @ basis.T, rcond=1e-8) @ found
        apart = turned - (turned @ basis.T) @ basis
        along = apart @ self.rows.T
        return np.asarray((leading[:, None] - self.rest) * apart - (along * (self.values - self.rest)) @ self.rows)

    def filtered(self, sums: Floats) -> Floats:
        """The sums by the inverse of their covariance, up to one factor; shape (k, d)."""
        if self._factor is None:
            return sums / self._variances
        outside, scale = self._outside, float(np.abs(sums).max()) or 1.0
        terms = ((sums @ outside.T) / scale).astype(np.float32).ravel()
        solved = scipy.linalg.cho_solve(cast(Any, self._factor), terms, check_finite=False)
        return np.asarray(solved.reshape(len(sums), -1).astype(np.float64) @ outside) * scale

    @cached_property
    def _outside(self) -> Floats:
        """An orthonormal basis of what is outside of V_0, shape (d - k, d)."""
        return cast(Floats, scipy.linalg.null_space(self.basis).T)

    @cached_property
    def _factor(self) -> tuple[NDArray[np.float32], bool] | None:
        """Of the covariance of <x, v_t> x outside of V_0, topic after topic; None where that is too large."""
        entries = self.rank * (self.rows.shape[1] - self.rank)
        if entries > MOST_ENTRIES:
            return None
        some = _at_even_steps(self.pool, ROWS_PER_ENTRY * entries)
        weights = np.asarray(some @ self.basis.T) - self.basis @ self.mean
        outside = np.asarray(some @ self._outside.T) - self._outside @ self.mean
        covariance, total = np.zeros((entries, entries)), np.zeros(entries)
        for start in range(0, len(weights), 1024):
            part = slice(start, start + 1024)
            terms = (weights[part, :, None] * outside[part, None, :]).reshape(-1, entries)
            covariance += terms.T @ terms
            total += terms.sum(axis=0)
        covariance -= np.outer(total, total) / max(len(weights), 1)
        shrunk = SHRINK * float(np.trace(covariance)) / entries
        covariance[np.diag_indices_from(covariance)] += max(shrunk, np.finfo(np.float64).tiny)
        covariance /= float(covariance.diagonal().max())
        factor, lower = scipy.linalg.cho_factor(covariance, overwrite_a=True, check_finite=False)
        return factor.astype(np.float32), lower  # read once a run, and half as long

    @cached_property
    def _variances(self) -> Floats:
        """Of <x, v_t> x, entry by entry, shape (k, d); of the second moment, which is little more."""
        squares = np.square(np.asarray(self.pool @ self.basis.T) - self.basis @ self.mean).T
        plain = np.asarray((self.pool.multiply(self.pool)).T @ squares.T).T
        cross = np.asarray(self.pool.T @ squares.T).T
        spread = plain - 2 * cross * self.mean + squares.sum(axis=1)[:, None] * self.mean**2
        shrunk = np.maximum(SHRINK * spread.mean(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return cast(Floats, np.maximum(spread, 0.0) + shrunk)


@lru_cache(maxsize=4)
def expected(pool: Pool, rank: int, centred: bool) -> Expected | None:
    """The expected second moments of runs; None where there are too few documents or columns for the rank.

    Parameters
    ----------
    pool : Pool
    rank : int
        k, the vectors that a run announces.
    centred : bool
        Whether the run announces a mean, which is then subtracted.
    """
    drawn = _at_even_steps(pool.drawn, MOST_ROWS)
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
    with threadpool_limits(1):  # the order of additions, and so the last bits, depend on the threads
        values, rows = _leading(parts, mean * np.sqrt(size), min(rank + BEYOND, features - 1))
    trace = sum(weight * float(held.multiply(held).sum()) for weight, held in parts) - size * float(mean @ mean)
    rest = max(trace - float(values.sum()), 0.0) / max(features - len(values), 1)
    return Expected(drawn, mean, values, rows, rest, rank)


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
            found = -less * float(less @ vector)
            for weight, rows in parts:
                found += weight * (rows.T @ (rows @ vector))
            return found

        shape = (features, features)
        moments = LinearOperator(shape, matvec=lambda v: times(np.ravel(v)), dtype=np.float64)
        values, vectors = eigsh(moments, count, v0=np.ones(features), tol=1e-6)
    order = np.argsort(-values, kind="stable")[:count]
    return np.maximum(values[order], 0.0), np.ascontiguousarray(vectors[:, order].T)


def _at_even_steps(rows: sp.csr_array, most: int) -> sp.csr_array:
    step = -(-rows.shape[0] // most)
    return rows if step <= 1 else sp.csr_array(rows[::step])
