"""What the raw sums of a run's rounds show: sums over documents, before anything is divided, projected or
converged.

Those of the first rounds show most. There the coefficients of a suspected document depend on what is public, so
what it adds is known; later ones move with everybody's. No statistic is paid for once a round: rows of all rounds
are one space, weights of all rounds one sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.blocked import wide_products
from ksdp.audit.statistics.computed import Computed
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.geometry import whitening
from ksdp.audit.statistics.geometry_nonnegative import nonnegative_coefficients
from ksdp.audit.statistics.products import announced, csr_arrays, row_squares, rows_times
from ksdp.audit.statistics.support import NEAR_ZERO


def row_space(observables: Observables, names: Iterable[str]) -> Floats:
    """An orthonormal basis of all rows of the named arrays, shape (rank, features); last axis features.

    Rows are brought to unit length first, and directions that all but vanish drop out, as in `geometry.whitening`.
    """
    chosen = tuple(names)

    def compute() -> Floats:
        arrays = [announced(observables, name) for name in chosen]
        rows = np.concatenate([array.reshape(-1, array.shape[-1]) for array in arrays])
        return np.asarray(whitening(rows @ rows.T).T @ rows)

    return cast(Floats, observables.derive(("row space", chosen), compute))


@dataclass(frozen=True)
class _OverRounds:
    name: str
    needs: tuple[str, ...]
    reads: tuple[str, ...] = ()
    """Further arrays, where they are announced."""
    version: int = 1
    family: str = "rounds"


@dataclass(frozen=True)
class RowsEnergy(_OverRounds):
    """Energy of the document in the space of all rows of some announced arrays: one number for all their
    rounds."""

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,), between 0 and |x|^2."""
        names = (*self.needs, *(name for name in self.reads if name in observables))
        projected = wide_products(observables, documents, names, row_space(observables, names))
        return row_squares(projected)


@njit(cache=True, nogil=True)
def _largest(
    indptr: NDArray[np.int64], indices: NDArray[np.int64], data: Floats, inverse: Floats, out: Floats
) -> None:
    for i in range(out.shape[0]):
        for at in range(indptr[i], indptr[i + 1]):
            out[i] = max(out[i], data[at] * inverse[indices[at]])


def _floored(total: Floats) -> Floats:
    """At least `NEAR_ZERO` of the largest entry, and positive."""
    least = max(NEAR_ZERO * float(total.max(initial=0.0)), float(np.finfo(np.float32).tiny))
    return np.asarray(np.maximum(total, least))


def sums_share(observables: Observables, documents: Documents) -> Floats:
    """log of max_j x_j / s_j for the first announced sum s = sum_i w_i x_i: whether x fits into it at all.

    The first topic's sum of the first round is one of the documents themselves, less nothing. If x was among them
    then w x_j <= s_j for every feature j, so a large value says that it was not.
    """
    first = announced(observables, "sums")[0, 0]
    out = np.full(len(documents), float(np.finfo(np.float32).tiny))
    _largest(*csr_arrays(documents), 1.0 / _floored(first), out)
    return np.asarray(np.log(out))


def sums_log_support(observables: Observables, documents: Documents) -> Floats:
    """sum_j x_j log s_j, s the positive part of the first round's sums over all topics: are x's features in?"""
    total = np.maximum(announced(observables, "sums")[0], 0.0).sum(axis=0)
    return np.asarray(documents.matrix @ np.log(_floored(total)), dtype=np.float64)


@dataclass(frozen=True)
class WeightsSum(_OverRounds):
    """a . v, with a the document's nonnegative least squares on T and v the announced weights, summed over rounds.

    Weights an entry (of ratings) count with their mean over the features.
    """

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        coefficients = nonnegative_coefficients(observables, documents)
        total = np.zeros(coefficients.shape[1])
        for name in (*self.needs, *self.reads):
            if name == "T" or name not in observables:
                continue
            weights = announced(observables, name)
            if weights.shape[-1] != len(total) or weights.ndim > 2:
                weights = weights.mean(axis=-1)
            total += weights.reshape(-1, len(total)).sum(axis=0)
        return rows_times(coefficients, total)


ROUND_SUMS: tuple[Statistic, ...] = (
    RowsEnergy("sums-energy", ("sums",), reads=("total", "numerators")),
    RowsEnergy("init-sums-energy", ("init_sums", "init_total")),
    RowsEnergy("start-energy", ("start",)),
    RowsEnergy("means-energy", ("means",)),
    RowsEnergy("uploads-energy", ("uploads",)),
    RowsEnergy("site-energy", ("P",)),
    Computed("sums-log-support", 1, "rounds", sums_log_support, needs=("sums",)),
    Computed("sums-share", 1, "rounds", sums_share, needs=("sums",)),
    WeightsSum("weights-sum", ("T", "weights"), reads=("total_weights",)),
    WeightsSum("init-weights-sum", ("T", "init_weights", "init_total_weights")),
)
"""What the entry point gives."""
