"""RRI-NMF on the rows of all parties: inputs, the loop over sweeps, objective and coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ksdp.audit.errors import CorpusError, InputError, SpecError
from ksdp.audit.mechanisms.factorisation.nmf_kernels import (
    PLAIN,
    Factors,
    Penalties,
    Rows,
    Silent,
    Sums,
    SweepSpace,
    column_map,
    descend,
    dot,
    expand,
    gram_rows,
    product,
    sweep,
)
from ksdp.audit.numeric.array_types import Matrix
from ksdp.audit.numeric.kernels import lined

FIT_SWEEPS = 10_000
"""Most sweeps of a fit to given topics: far more than any needs."""


def check_rule(sweeps: int, tolerance: float, penalties: Penalties) -> None:
    """Refuse a cap below 1, a tolerance or a regulariser that is negative or not finite."""
    if sweeps < 1:
        raise SpecError(f"`sweeps` must be at least 1; got {sweeps}.")
    _check_numbers(tolerance=tolerance, **penalties._asdict())


def check_penalties(*, gamma: float, delta: float) -> tuple[float, float]:
    """Return the regularisers of W as floats; refuse what is negative or not finite."""
    _check_numbers(gamma=gamma, delta=delta)
    return float(gamma), float(delta)


def _check_numbers(**named: float) -> None:
    for name, value in named.items():
        if not (math.isfinite(value) and value >= 0):
            raise SpecError(f"`{name}` must be a finite number of at least 0; got {value}.")


def check_start(start: ArrayLike, features: int) -> Matrix:
    """Return the start as float64 of shape (k, features)."""
    T = np.ascontiguousarray(start, dtype=np.float64)
    if T.ndim != 2 or T.shape[0] == 0 or T.shape[1] != features:
        raise InputError(f"`start` must have shape (k, {features}) with k at least 1; got {T.shape}.")
    if not (T.min() >= 0 and T.max() < np.inf):
        raise InputError("`start` must be finite and non-negative.")
    return T


def stack(parties: Sequence[sp.csr_array], coalition: Collection[int] = ()) -> tuple[Rows, int]:
    """Put the parties' rows one after the other; return them and the number of features."""
    if len({party.shape[1] for party in parties}) != 1:
        raise CorpusError(f"the parties must have the same features; got {[party.shape[1] for party in parties]}.")
    matrices = [party if party.format == "csr" else sp.csr_array(party) for party in parties]
    if len(matrices) == 1:
        data, columns = matrices[0].data, matrices[0].indices
    else:
        data = np.concatenate([matrix.data for matrix in matrices])
        columns = np.concatenate([matrix.indices for matrix in matrices])
    data = np.ascontiguousarray(data, dtype=np.float64)
    if data.size and not (data.min() >= 0 and data.max() < np.inf):
        raise CorpusError("the matrix must be finite and non-negative for a non-negative factorisation.")
    lengths = np.concatenate([np.diff(matrix.indptr) for matrix in matrices])
    indptr = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=indptr[1:])
    bounds = np.cumsum([0] + [matrix.shape[0] for matrix in matrices], dtype=np.int64)
    outside = np.array([party not in coalition for party in range(len(matrices))])
    return Rows(data, columns.astype(np.uint32), indptr, bounds, outside), int(matrices[0].shape[1])


@dataclass(frozen=True)
class KeptSums:
    """Which of the sums that are announced a factorisation returns: by default those of all, of the last sweep."""

    coalition: Collection[int] = ()
    """Parties whose shares are left out of the numerators and denominators: they know them."""
    at: Collection[int] = ()
    """Sweeps whose announcements are kept, besides the last."""


LAST_SUMS = KeptSums()
"""Sums over all documents, of the last sweep."""


@dataclass(frozen=True, eq=False)
class SweepSnapshot:
    """The announcements at the end of one sweep."""

    T: Matrix
    """Topics, shape (k, d)."""
    numerators: Matrix
    """The announced sums W_t^T R_t, shape (k, d), over the parties outside the coalition."""
    denominators: Matrix
    """The announced sums ||W_t||^2, shape (k,), over the same; (k, d) in the weighted form."""


@dataclass(frozen=True, eq=False)
class Factorisation(SweepSnapshot):
    """X ~ W T, and how it was reached."""

    W: Matrix
    """Coefficients, shape (n, k); the rows of the parties, one party after the other."""
    sweeps: int
    """Sweeps done."""
    converged: bool
    """Whether the stopping rule ended it, not the cap on sweeps."""
    snapshots: Mapping[int, SweepSnapshot] = field(default_factory=dict)
    """By sweep asked for; sweeps beyond the last one hold the last one."""
    total: Matrix | None = None
    """Numerators summed over all sweeps, shape (k, d); None where nobody asked for snapshots."""
    total_denominators: Matrix | None = None
    """Denominators summed over all sweeps."""


def iterate(
    sweep: Callable[[], tuple[float, float]],
    snapshot: Callable[[], SweepSnapshot],
    W: Matrix,
    *,
    sweeps: int,
    tolerance: float,
    at: Collection[int],
) -> Factorisation:
    """Sweep until T moves by at most `tolerance` times its norm, or `sweeps` times."""
    snapshots: dict[int, SweepSnapshot] = {}
    done, converged = 0, False
    while done < sweeps and not converged:
        changed, before = sweep()
        done += 1
        converged = math.sqrt(changed) <= tolerance * math.sqrt(before)
        if done in at:
            snapshots[done] = snapshot()
    last = snapshot()
    snapshots |= {number: last for number in at if number > done}
    return Factorisation(last.T, last.numerators, last.denominators, W, done, converged, snapshots)


def penalised(squares: float, W: Matrix, T: Matrix, penalties: Penalties) -> float:
    """The objective from the squared error of the fit: half of it, plus the regularisers."""
    alpha, beta, gamma, delta = penalties
    return float(
        0.5 * squares
        + alpha * T.sum()
        + 0.5 * beta * (T * T).sum()
        + gamma * W.sum()
        + 0.5 * delta * (W * W).sum()
    )


def pd_nmf_iter(
    parties: Sequence[sp.csr_array],
    start: ArrayLike,
    *,
    sweeps: int = 20,
    tolerance: float = 1e-4,
    penalties: Penalties = PLAIN,
    simplex: bool | None = None,
    kept: KeptSums = LAST_SUMS,
) -> Factorisation:
    r"""PD-NMF-Iter: RRI-NMF among parties that share nothing but sums (PD-ML-Lite, Algorithm 1).

    In each sweep, for each topic t = 1, ..., k: every party updates its :math:`W_t`, the sums of :math:`W_t^T R_t`
    and :math:`\|W_t\|^2` over the parties are announced, and everybody computes

    .. math:: W_t = \frac{[R_t T_t^T - \gamma]_+}{\|T_t\|^2 + \delta}, \qquad
              T_t = \frac{[\sum_m W_t^{(m)T} R_t^{(m)} - \alpha]_+}{\sum_m \|W_t^{(m)}\|^2 + \beta},
              \qquad R_t = X - \sum_{u \ne t} W_u T_u,

    the row :math:`T_t` projected on the unit simplex where there is no regulariser. It stops after the first sweep
    with :math:`\|T_{new} - T_{old}\|_F \le` tolerance :math:`\|T_{old}\|_F`, or after `sweeps`. Where ||W_t||^2 +
    beta = 0 the topic stays as it was; where ||T_t||^2 + delta = 0 its coefficients are 0. With the projection the
    objective may go up from one sweep to the next; without it, it never does.
    """
    penalties = Penalties(*map(float, penalties))
    check_rule(sweeps, tolerance, penalties)
    project = not any(penalties) if simplex is None else simplex
    if project and any(penalties):
        raise SpecError("`simplex` must be false where a regulariser is set; got true.")
    rows, features = stack(parties, kept.coalition)
    start = check_start(start, features)
    topics = start.shape[0]
    W = np.zeros((len(rows.indptr) - 1, topics))

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
    r"""Return :math:`\arg\min_{W \ge 0} \frac12 \|X - W T\|_F^2 + \gamma \|W\|_1 + \frac12 \delta \|W\|_F^2`."""
    gamma, delta = check_penalties(gamma=gamma, delta=delta)
    rows, features = stack([matrix])
    T = check_start(T, features)
    fits = np.empty((matrix.shape[0], T.shape[0]))
    product(rows, T, np.empty((features, 8)), fits)
    W = np.zeros_like(fits)
    descend(fits, gram_rows(T), gamma, delta, W, FIT_SWEEPS, tolerance)
    return W


def objective(matrix: sp.csr_array, W: Matrix, T: Matrix, *, penalties: Penalties = PLAIN) -> float:
    """Return 0.5 ||X - W T||_F^2 plus the regularisers (equations 2 and 3), without forming the residual."""
    rows, features = stack([matrix])
    W, T = np.ascontiguousarray(W), check_start(T, features)
    fits = np.empty_like(W)
    product(rows, T, np.empty((features, 8)), fits)
    overlap = float((gram_rows(np.ascontiguousarray(W.T)) * gram_rows(T)).sum())
    fit = max(float(dot(rows.data, rows.data)) - 2.0 * float((fits * W).sum()) + overlap, 0.0)
    return penalised(fit, W, T, penalties)
