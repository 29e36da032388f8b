"""RRI-NMF: non-negative matrix factorisation by rank-one residual iterations, centralised or among parties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ksdp.audit.array_types import Matrix
from ksdp.audit.errors import SpecError
from ksdp.audit.kernels import lined
from ksdp.audit.mechanisms.factorisation.nmf_inputs import (
    FIT_SWEEPS,
    check_coefficients,
    check_penalties,
    check_rule,
    check_start,
    stack,
)
from ksdp.audit.mechanisms.factorisation.nmf_iterations import (
    LAST_SUMS,
    Factorisation,
    KeptSums,
    SweepSnapshot,
    iterate,
    penalised,
)
from ksdp.audit.mechanisms.factorisation.nmf_kernels import (
    PLAIN,
    Factors,
    Penalties,
    Silent,
    Sums,
    SweepSpace,
    column_map,
    descend,
    dot,
    expand,
    gram_rows,
    product,
)
from ksdp.audit.mechanisms.factorisation.nmf_sweep import sweep


def pd_nmf_iter(
    parties: Sequence[sp.csr_array],
    start: ArrayLike,
    *,
    sweeps: int = 20,
    tolerance: float = 1e-4,
    penalties: Penalties = PLAIN,
    simplex: bool | None = None,
    coefficients: ArrayLike | None = None,
    kept: KeptSums = LAST_SUMS,
) -> Factorisation:
    r"""PD-NMF-Iter: RRI-NMF among parties that share nothing but sums.

    In each sweep, for each topic t = 1, ..., k: every party updates its :math:`W_t`, the sums of
    :math:`W_t^T R_t` and :math:`\|W_t\|^2` over the parties are announced, and everybody computes

    .. math:: W_t = \frac{[R_t T_t^T - \gamma]_+}{\|T_t\|^2 + \delta}, \qquad
              T_t = \frac{[\sum_m W_t^{(m)T} R_t^{(m)} - \alpha]_+}{\sum_m \|W_t^{(m)}\|^2 + \beta},
              \qquad R_t = X - \sum_{u \ne t} W_u T_u,

    the row :math:`T_t` projected on the unit simplex where that is right, i.e. without regularisers. It stops
    after the first sweep with :math:`\|T_{new} - T_{old}\|_F \le` tolerance :math:`\|T_{old}\|_F`, which everybody
    can compute from what is announced, or after `sweeps`.

    Parameters
    ----------
    parties : sequence of CSR arrays, shape (n_m, d)
        Non-negative.
    start : array, shape (k, d)
        The topics to start from, its rows of sum 1 where they are projected: the projection is not a scaling.
    simplex : bool, optional
        Project the rows of T; by default where there is no regulariser.
    coefficients : array, shape (n, k), optional
        W to start from; zero by default.
    kept : KeptSums
        Which of the announced numerators and denominators are returned.

    Raises
    ------
    SpecError
        Where a number is out of range, or `simplex` is set together with a regulariser.
    InputError
        Where a matrix, `start` or `coefficients` does not fit or is negative or not finite.

    Notes
    -----
    PD-ML-Lite, Algorithm 1 (and equation 5, with one party), with topics 1 to k: as printed it has one too many.
    A sum of nobody's weight leaves nothing to divide by: where ||W_t||^2 + beta = 0 the topic stays as it was;
    where ||T_t||^2 + delta = 0 its coefficients are 0. With the simplex projection the objective may go up from
    one sweep to the next: the projection is no step of descent. Without it, it never does.

    Examples
    --------
    With one party it is the centralised RRI-NMF (equation 5):

    >>> X = sp.csr_array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    >>> fit = pd_nmf_iter([X], [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]], sweeps=100, tolerance=1e-9)
    >>> fit.T.round(3)
    array([[0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    >>> fit.W.round(3)
    array([[2., 0.],
           [4., 0.],
           [0., 3.]])
    >>> fit.converged
    True
    """
    penalties = Penalties(*map(float, penalties))
    check_rule(sweeps, tolerance, penalties)
    project = not any(penalties) if simplex is None else simplex
    if project and any(penalties):
        raise SpecError("`simplex` must be false where a regulariser is set; got true.")
    rows, features = stack(parties, kept.coalition)
    start = check_start(start, features)
    topics = start.shape[0]
    W = check_coefficients(coefficients, rows, topics)

    position, columns = column_map(rows.columns, features)
    rows = rows._replace(columns=columns)
    is_touched = position >= 0
    T = np.ascontiguousarray(start[:, is_touched])
    untouched = np.ascontiguousarray(start[:, ~is_touched])
    width, fresh = untouched.shape[1], np.ones(topics, dtype=np.bool_)
    silent = Silent(width, gram_rows(untouched), untouched.sum(axis=1), np.zeros(topics), fresh)
    factors = Factors(T, W, gram_rows(T) + silent.gram)
    sums = Sums(np.empty_like(T), np.empty(topics), np.empty((topics, topics)), np.empty(topics))
    space = SweepSpace(np.zeros(topics), np.empty_like(W), lined((T.shape[1], 8)))

    running = Sums(*(np.zeros_like(part) for part in sums))

    def one_sweep() -> tuple[float, float]:
        changed, before = sweep(rows, factors, silent, sums, penalties, project, space)
        for part, new in zip(running, sums, strict=True):
            part += new
        return changed, before

    def snapshot() -> SweepSnapshot:
        return SweepSnapshot(
            expand(T, silent.level, np.diag(silent.fresh.astype(np.float64)), start, position),
            expand(sums.numerators, sums.offset, sums.mix, start, position),
            sums.denominators.copy(),
        )

    fit = iterate(one_sweep, snapshot, W, sweeps=sweeps, tolerance=tolerance, at=kept.at)
    if not kept.at:
        return fit
    total = expand(running.numerators, running.offset, running.mix, start, position)
    return replace(fit, total=total, total_denominators=running.denominators)


def fit_coefficients(
    matrix: sp.csr_array, T: ArrayLike, *, gamma: float = 0.0, delta: float = 0.0, tolerance: float = 1e-9
) -> Matrix:
    r"""Return :math:`\arg\min_{W \ge 0} \frac12 \|X - W T\|_F^2 + \gamma \|W\|_1 + \frac12 \delta \|W\|_F^2`.

    Row by row, by cyclic coordinate descent on the k x k Gram matrix, until no entry of the row moves by more than
    tolerance times its largest one.

    Returns
    -------
    array, shape (n, k)
    """
    gamma, delta = check_penalties(gamma=gamma, delta=delta)
    rows, features = stack([matrix])
    T = check_start(T, features)
    fits = np.empty((matrix.shape[0], T.shape[0]))
    product(rows, T, np.empty((features, 8)), fits)
    W = np.zeros_like(fits)
    descend(fits, gram_rows(T), gamma, delta, W, FIT_SWEEPS, tolerance)
    return W


def objective(matrix: sp.csr_array, W: Matrix, T: Matrix, *, penalties: Penalties = PLAIN) -> float:
    """Return 0.5 ||X - W T||_F^2 plus the regularisers (equations 2 and 3), without forming the residual.

    ||X - W T||^2 = ||X||^2 - 2 <X T^T, W> + <W^T W, T T^T>: its absolute rounding error is about 1e-16 ||X||^2,
    so that a perfect fit gives a small number of either sign, returned as 0 where negative.
    """
    rows, features = stack([matrix])
    W, T = np.ascontiguousarray(W), check_start(T, features)
    fits = np.empty_like(W)
    product(rows, T, np.empty((features, 8)), fits)
    overlap = float((gram_rows(np.ascontiguousarray(W.T)) * gram_rows(T)).sum())
    fit = max(float(dot(rows.data, rows.data)) - 2.0 * float((fits * W).sum()) + overlap, 0.0)
    return penalised(fit, W, T, penalties)
