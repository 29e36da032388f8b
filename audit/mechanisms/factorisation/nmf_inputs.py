"""What the NMF mechanisms are given: checked, and put in the form that the kernels take."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ksdp.audit.array_types import Matrix
from ksdp.audit.errors import CorpusError, InputError, SpecError
from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties, Rows

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
    """Put the parties' rows one after the other; return them and the number of features.

    Raises
    ------
    CorpusError
        Where there is no party, the parties have different features, or an entry is negative or not finite.
    """
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


def check_coefficients(given: ArrayLike | None, rows: Rows, topics: int) -> Matrix:
    """Return a copy of the given W, or zeros, as float64 of shape (n, k)."""
    shape = (len(rows.indptr) - 1, topics)
    if given is None:
        return np.zeros(shape)
    W = np.array(given, dtype=np.float64, order="C")
    if W.shape != shape or not (W.min(initial=0.0) >= 0 and W.max(initial=0.0) < np.inf):
        raise InputError(f"`coefficients` must be finite, non-negative and of shape {shape}; got shape {W.shape}.")
    return W
