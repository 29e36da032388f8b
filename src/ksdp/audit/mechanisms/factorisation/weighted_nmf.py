r"""Weighted NMF for matrices with missing entries: ratings.

Stored entries are the observed ones, explicit zeros among them; the rest is unknown, not zero. With weight 1 on
the observed entries :math:`\Omega` and 0 elsewhere the objective is

.. math:: \frac12 \sum_{(i,j) \in \Omega} \bigl(X_{ij} - (W T)_{ij}\bigr)^2
          + \alpha \|T\|_1 + \frac12 \beta \|T\|_F^2 + \gamma \|W\|_1 + \frac12 \delta \|W\|_F^2 .

It is a separable quadratic in one column of W (or one row of T) alone, whose minimum at or above 0 is, with
:math:`R_t = X - \sum_{u \ne t} W_u T_u` on :math:`\Omega`,

.. math:: W_{it} = \frac{[\sum_{j : (i,j) \in \Omega} R_{t,ij} T_{tj} - \gamma]_+}
                        {\sum_{j : (i,j) \in \Omega} T_{tj}^2 + \delta}, \qquad
          T_{tj} = \frac{[\sum_{i : (i,j) \in \Omega} W_{it} R_{t,ij} - \alpha]_+}
                        {\sum_{i : (i,j) \in \Omega} W_{it}^2 + \beta} .

Both sums of :math:`T_{tj}` are sums over rows, hence over parties: numerators and denominators are k x d. The
residual is kept on the pattern only. Source: Ho 2008 (thesis on non-negative matrix factorisation), section 6, to
which PD-ML-Lite, section 5.1, refers; derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import ArrayLike

from ksdp.audit.mechanisms.factorisation.nmf_kernels import PLAIN, Penalties, Rows, descend
from ksdp.audit.mechanisms.factorisation.rri_nmf import (
    FIT_SWEEPS,
    LAST_SUMS,
    Factorisation,
    KeptSums,
    SweepSnapshot,
    check_penalties,
    check_rule,
    check_start,
    iterate,
    penalised,
    stack,
)
from ksdp.audit.numeric.array_types import Matrix, Vector


@njit(cache=True, nogil=True)
def observed_residual(rows: Rows, T: Matrix, W: Matrix) -> Vector:
    """X - W T on the observed entries, shape (nnz,)."""
    residual = rows.data.copy()
    for i in range(W.shape[0]):
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            for t in range(T.shape[0]):
                residual[p] -= W[i, t] * T[t, rows.columns[p]]
    return residual


@njit(cache=True, nogil=True)
def observed_share(
    rows: Rows, party: int, t: int, topic: Vector, W: Matrix, residual: Vector, penalties: Penalties, share: Matrix
) -> None:
    """Update column t of W on one party's rows and fill its share of the sums; `residual` becomes R_t there."""
    numerator, denominator = share[0], share[1]
    numerator[:] = 0.0
    denominator[:] = 0.0
    for i in range(rows.bounds[party], rows.bounds[party + 1]):
        before = W[i, t]
        above = 0.0
        below = penalties.delta
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            weight = topic[rows.columns[p]]
            residual[p] += before * weight
            above += residual[p] * weight
            below += weight * weight
        above -= penalties.gamma
        w = above / below if above > 0.0 and below > 0.0 else 0.0
        W[i, t] = w
        if w > 0.0:
            for p in range(rows.indptr[i], rows.indptr[i + 1]):
                numerator[rows.columns[p]] += w * residual[p]
                denominator[rows.columns[p]] += w * w


@njit(cache=True, nogil=True)
def _sweep(
    rows: Rows,
    T: Matrix,
    W: Matrix,
    residual: Vector,
    numerators: Matrix,
    denominators: Matrix,
    penalties: Penalties,
) -> tuple[float, float]:
    topics, features = T.shape
    share = np.empty((2, features))
    above = np.empty(features)
    below = np.empty(features)
    numerators[:] = 0.0
    denominators[:] = 0.0
    changed = 0.0
    before = 0.0
    for t in range(topics):
        above[:] = -penalties.alpha
        below[:] = penalties.beta
        topic = T[t]
        for party in range(rows.outside.size):
            observed_share(rows, party, t, topic, W, residual, penalties, share)
            above += share[0]
            below += share[1]
            if rows.outside[party]:
                numerators[t] += share[0]
                denominators[t] += share[1]
        for j in range(features):
            before += topic[j] * topic[j]
            if below[j] > 0.0:
                new = max(above[j], 0.0) / below[j]
                changed += (new - topic[j]) ** 2
                topic[j] = new
        for i in range(W.shape[0]):
            w = W[i, t]
            if w > 0.0:
                for p in range(rows.indptr[i], rows.indptr[i + 1]):
                    residual[p] -= w * topic[rows.columns[p]]
    return changed, before


@njit(cache=True, nogil=True)
def _fit(rows: Rows, columns: Matrix, gamma: float, delta: float, sweeps: int, tolerance: float) -> Matrix:
    topics = columns.shape[1]
    n = rows.indptr.size - 1
    W = np.zeros((n, topics))
    fits = np.empty((1, topics))
    gram = np.empty((topics, topics))
    for i in range(n):
        fits[:] = 0.0
        gram[:] = 0.0
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            column = columns[rows.columns[p]]
            for t in range(topics):
                fits[0, t] += rows.data[p] * column[t]
                for u in range(topics):
                    gram[t, u] += column[t] * column[u]
        descend(fits, gram, gamma, delta, W[i : i + 1], sweeps, tolerance)
    return W


def weighted_nmf_iter(
    parties: Sequence[sp.csr_array],
    start: ArrayLike,
    *,
    sweeps: int = 20,
    tolerance: float = 1e-4,
    penalties: Penalties = PLAIN,
    kept: KeptSums = LAST_SUMS,
) -> Factorisation:
    """PD-NMF-Iter on the observed entries, among parties that share nothing but sums, of shape (k, d) both."""
    penalties = Penalties(*map(float, penalties))
    check_rule(sweeps, tolerance, penalties)
    rows, features = stack(parties, kept.coalition)
    T = check_start(start, features).copy()
    if penalties.beta == 0.0:
        T[:, np.bincount(rows.columns, minlength=features) == 0] = 0.0
    W = np.zeros((len(rows.indptr) - 1, len(T)))
    residual = observed_residual(rows, T, W)
    numerators, denominators = np.empty_like(T), np.empty_like(T)
    total, total_denominators = np.zeros_like(T), np.zeros_like(T)

    def one_sweep() -> tuple[float, float]:
        changed, before = _sweep(rows, T, W, residual, numerators, denominators, penalties)
        np.add(total, numerators, out=total)
        np.add(total_denominators, denominators, out=total_denominators)
        return changed, before

    def snapshot() -> SweepSnapshot:
        return SweepSnapshot(T.copy(), numerators.copy(), denominators.copy())

    fit = iterate(one_sweep, snapshot, W, sweeps=sweeps, tolerance=tolerance, at=kept.at)
    return replace(fit, total=total, total_denominators=total_denominators) if kept.at else fit


def fit_observed_coefficients(
    matrix: sp.csr_array, T: ArrayLike, *, gamma: float = 0.0, delta: float = 0.0, tolerance: float = 1e-9
) -> Matrix:
    """Return the non-negative W, shape (n, k), that fits T best to the observed entries of each row."""
    gamma, delta = check_penalties(gamma=gamma, delta=delta)
    rows, features = stack([matrix])
    columns = np.ascontiguousarray(check_start(T, features).T)
    W: Matrix = _fit(rows, columns, gamma, delta, FIT_SWEEPS, tolerance)
    return W


def observed_objective(matrix: sp.csr_array, W: Matrix, T: Matrix, *, penalties: Penalties = PLAIN) -> float:
    """Return half the squared error on the observed entries plus the regularisers."""
    rows, features = stack([matrix])
    residual = observed_residual(rows, check_start(T, features), np.ascontiguousarray(W))
    return penalised((residual * residual).sum(), W, T, penalties)
