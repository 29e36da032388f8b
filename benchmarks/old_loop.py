"""The loop of commit 9962f76, kept as the reference: every document in every run, in double precision.

What has changed since in a statistic's kernel is kept here as it was; everything else is the same code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.paper_svd import spectrum
from ksdp.audit.statistics.products import announced, csr_arrays, padded_transpose

__all__ = ["old_documents", "old_statistics"]

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def _pair_panel(padded: Floats, first: Any, second: Any) -> Floats:
    features, pairs = padded.shape[0], first.shape[0]
    panel = np.empty((features, pairs))
    for a in range(features):
        for p in range(pairs):
            panel[a, p] = padded[a, first[p]] * padded[a, second[p]]
    return panel


@njit(cache=True, nogil=True)
def _weighted_squares(
    indptr: Any, indices: Any, data: Floats, panel: Floats, weights: Floats, out: Floats
) -> None:
    pairs = panel.shape[1]
    moments = np.empty(pairs)
    for i in range(indptr.shape[0] - 1):
        moments[:] = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            a = indices[j]
            x = data[j] * data[j]
            for p in range(pairs):
                moments[p] += x * panel[a, p]
        total = 0.0
        for p in range(pairs):
            total += weights[p] * moments[p] * moments[p]
        out[i] += total


@dataclass(frozen=True)
class _OldSquareSum:
    """`w-square-sum` with hidden sigma, without a mean."""

    name: str = "w-square-sum"
    version: int = 1
    family: str = "paper"
    needs: tuple[str, ...] = ("V",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        values = spectrum(observables, documents, revealed=False)
        first, second = np.tril_indices(len(values))
        weights = values[first] * values[second] * np.where(first == second, 1.0, 2.0)
        panel = _pair_panel(padded_transpose(announced(observables, "V")), first, second)
        out = np.zeros(len(documents))
        _weighted_squares(*csr_arrays(documents), panel, weights, out)
        return out


def old_statistics(chosen: tuple[Statistic, ...]) -> tuple[Statistic, ...]:
    """The same statistics, as they were computed."""
    old = _OldSquareSum()
    return tuple(old if statistic.name == old.name else statistic for statistic in chosen)


def old_documents(documents: Documents) -> Documents:
    """The same documents; everybody was the population."""
    return Documents(documents.matrix, documents.background)
