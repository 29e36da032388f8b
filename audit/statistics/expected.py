"""What an adversary expects of a run's singular vectors, and how the vectors move when a document is added.

The adversary knows what databases are drawn from, as one who runs the mechanism on databases of its own does. To
first order the leading right singular vectors V of a run differ from those of the expected second moments M,
V_0 with eigenvalues l, by

    dv_t = sum over directions u_s beyond them of u_s <u_s, (X^T X - M) v_t> / (l_t - l_s),

so that (l_t - M) dv_t is the part of (X^T X - M) v_t outside of V_0: a sum over the run's documents of
<x, v_t> (x less its part in V_0), one random term a document (`additions`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import one_thread
from ksdp.audit.statistics.additions import Additions, at_even_steps
from ksdp.audit.statistics.contract import Pool

MOST_ROWS = 2**16
"""Documents of the pool that are looked at, at most; at even steps where there are more."""
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
    additions: Additions
    """What documents of the pool add."""

    @property
    def basis(self) -> Floats:
        """V_0, shape (k, d)."""
        return self.additions.basis

    def sums(self, found: Floats) -> Floats:
        """What the documents of a run added to (M v_t) outside of V_0, to first order; shape (k, d).

        Parameters
        ----------
        found : shape (k, d)
            The run's V. Its signs and rotations within its space mean nothing.
        """
        basis = self.basis
        common = found @ basis.T
        turn = np.linalg.pinv(common, rcond=1e-8)
        within = turn @ common
        beyond, turned_beyond, weights = self._beyond
        apart, along = np.empty(basis.shape), np.zeros((len(basis), len(beyond)), np.float32)
        # Some columns at a time: they stay in the first caches, and products so small are not copied before.
        parts = [slice(start, start + _COLUMNS) for start in range(0, basis.shape[1], _COLUMNS)]
        for part in parts:
            here = turn @ found[:, part]
            here -= within @ basis[:, part]
            apart[:, part] = here
            along += here.astype(np.float32) @ turned_beyond[part]
        along *= weights
        larger = self.values[: len(basis), None] - self.rest
        for part in parts:
            apart[:, part] = larger * apart[:, part] - along @ beyond[:, part]
        return apart

    @cached_property
    def _beyond(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Directions beyond V_0, their transpose, and how far their eigenvalues are from the rest.

        In single precision, as V is stored: they are read twice a run, and memory is what that waits for.
        """
        rank = len(self.basis)
        rows = self.rows[rank:].astype(np.float32)
        return rows, np.ascontiguousarray(rows.T), (self.values[rank:] - self.rest).astype(np.float32)


def expected(pool: Pool, rank: int, centred: bool) -> Expected | None:
    """The expected second moments of runs; None where there are too few documents or columns for the rank.

    Parameters
    ----------
    pool : Pool
        What databases are drawn from.
    rank : int
        k, the vectors that a run announces.
    centred : bool
        Whether the run announces a mean, which is then subtracted.
    """
    found = pool.derive(("expected", rank, centred), lambda: _expected(pool, rank, centred))
    return cast(Expected | None, found)


def _expected(pool: Pool, rank: int, centred: bool) -> Expected | None:
    drawn = at_even_steps(pool.drawn, MOST_ROWS)
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
    trace = sum(weight * float(held.multiply(held).sum()) for weight, held in parts) - size * float(mean @ mean)
    rest = max(trace - float(values.sum()), 0.0) / max(features - len(values), 1)
    basis = np.ascontiguousarray(rows[:rank])
    return Expected(values, rows, rest, Additions(drawn, drawn @ basis.T - basis @ mean, basis, mean))


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
