"""What the support of the announcement says: features of a document that the announcement leaves out.

A feature of x that every row of the basis leaves out was in none of the run's documents (or was clipped away, for
topics), so that x was not among them: an almost certain leak for every document with a rare feature. Measured on
tf-idf text it is the strongest thing there is to see in V_k. The simplex projection lifts what is left out of a
topic to a constant, which is the smallest entry of that topic and 0 only where nothing was lifted.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.statistics.contract import Documents, TableStatistic
from ksdp.audit.statistics.products import (
    BASES,
    EntryColumns,
    announced,
    ask,
    basis_name,
    csr_arrays,
    over_entries,
)

Ints = NDArray[Any]

NEAR_ZERO = 1e-7
"""Columns of size at most this part of the largest are left out: what float32 rounding can leave of zero."""


@njit(cache=True, nogil=True)
def _missing(indptr: Ints, indices: Ints, data: Floats, left_out: NDArray[np.bool_]) -> Floats:
    """Part of |x|^2 on features that are left out, shape (n_documents,)."""
    out = np.zeros(indptr.shape[0] - 1)
    left = left_out.astype(np.float64)  # times 0 or 1: branches that nobody can guess cost more
    for i in range(len(out)):
        missing = total = 0.0
        for at in range(indptr[i], indptr[i + 1]):
            square = data[at] * data[at]
            total += square
            missing += square * left[indices[at]]
        out[i] = missing / total if total > 0.0 else 0.0
    return out


def _supports(observables: Observables, documents: Documents) -> tuple[Floats, Floats]:
    """Part of |x|^2 on features left out, and the log support, once a run; of V both are sums of squares."""

    def compute() -> tuple[Floats, Floats]:
        if basis_name(observables) == "V":
            sums = over_entries(observables, documents, "support", _support_lanes(observables)).astype(np.float64)
            part = np.divide(sums[:, 0], sums[:, 2], out=np.zeros(len(sums)), where=sums[:, 2] > 0)
            return part, sums[:, 1].copy()
        topics = announced(observables, "T")
        left_out, logs = _covered(topics - topics.min(axis=1, keepdims=True))
        return _missing(*csr_arrays(documents), left_out), np.asarray(documents.matrix @ logs)

    return cast(tuple[Floats, Floats], observables.derive(("support", documents), compute))


def _covered(above: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """Which features all rows of the basis leave out, and logarithms of the largest entries."""
    sizes = above.max(axis=0, initial=0.0)
    floor = NEAR_ZERO * sizes.max(initial=0.0)
    return sizes <= floor, np.log(np.maximum(sizes, max(floor, np.finfo(np.float32).tiny)))


def _support_lanes(observables: Observables) -> EntryColumns:
    """Columns that are 1 where the basis leaves a feature out, its logarithm, and 1."""

    def fill(lanes: NDArray[np.float32]) -> None:
        lanes[:, 0], lanes[:, 1] = _covered(np.abs(announced(observables, "V")))
        lanes[:, 2] = 1.0

    return EntryColumns(3, fill)


def _ask_support(observables: Observables, documents: Documents) -> None:
    """Have the support of V looked at in the next pass over the documents."""
    if basis_name(observables) == "V":
        ask(observables, documents, "support", _support_lanes(observables))


def missing_weight(observables: Observables, documents: Documents) -> Floats:
    """Part of |x|^2 on features that every row of the basis leaves out (V_tj = 0, T_tj = min_j T_tj).

    One number a document, in [0, 1].
    """
    return _supports(observables, documents)[0].copy()


def log_support(observables: Observables, documents: Documents) -> Floats:
    """sum_j x_j log max_t (T_tj - min_j T_tj), or sum_j x_j^2 log max_t |V_tj|: how well x's features are covered.

    Logarithms are floored at `NEAR_ZERO` of the largest column.
    """
    return _supports(observables, documents)[1].copy()


def mean_missing(observables: Observables, documents: Documents) -> Floats:
    """Part of |x|^2 on features where the announced mean is exactly zero: x took part only if it is 0.

    One number a document, in [0, 1].
    """
    absent = announced(observables, "mean").ravel() == 0.0
    return cast(Floats, _missing(*csr_arrays(documents), absent))


SUPPORT = (
    TableStatistic(
        "missing-weight",
        "geometry",
        missing_weight,
        "How much of the document lies on words or columns that the announcement leaves out.",
        needs_any=BASES,
        shares=_ask_support,
    ),
    TableStatistic(
        "log-support",
        "geometry",
        log_support,
        "How well the announcement covers each word or column that the document uses.",
        needs_any=BASES,
        shares=_ask_support,
    ),
    TableStatistic(
        "mean-missing",
        "geometry",
        mean_missing,
        "How much of the document lies where the announced mean is exactly zero.",
        needs=("mean",),
    ),
)
