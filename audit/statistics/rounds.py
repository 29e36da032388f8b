"""What every round of a run shows, in single columns: no statistic is paid for once a round.

`span` is an orthonormal basis of all that the power iteration announced (`factorisation.span`), `sums` are the raw
sums of early rounds, first axis rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.blocked import wide_products
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.geometry import SIGMA_FLOOR
from ksdp.audit.statistics.products import announced, has_mean, row_squares, rows_times

__all__ = ["ROUNDS", "LargestScale", "RoundCount", "SpanEnergy", "SpanLeverage"]


def _span_products(observables: Observables, documents: Documents) -> Floats:
    """Products of the documents with `span`, centred where the run announces a mean, shape (n, rows)."""

    def compute() -> Floats:
        rows = announced(observables, "span")
        projected = wide_products(observables, documents, "span", rows)
        if has_mean(observables):
            projected -= (rows @ announced(observables, "mean").ravel()).astype(np.float32)
        return cast(Floats, projected)

    return cast(Floats, observables.derive(("span products", documents), compute))


@dataclass(frozen=True)
class SpanEnergy:
    """Energy of the document in the space that the announced blocks of all iterations span."""

    name: str = "span-energy"
    version: int = 1
    family: str = "rounds"
    needs: tuple[str, ...] = ("span",)
    reads: tuple[str, ...] = ("mean",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,), between 0 and |x|^2."""
        return row_squares(_span_products(observables, documents))


@dataclass(frozen=True)
class SpanLeverage:
    """sum_t <x, s_t>^2 / sigma_t^2 over the Ritz vectors s_t of X^T X: leverage on what all blocks span.

    Where singular values are hidden they are known up to one factor, which is part of what is announced. A value
    counts as at least `SIGMA_FLOOR` times the largest.
    """

    name: str = "span-leverage"
    version: int = 1
    family: str = "rounds"
    needs: tuple[str, ...] = ("span", "span_sigma")
    reads: tuple[str, ...] = ("mean",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,), >= 0."""
        sigma = announced(observables, "span_sigma")
        largest = sigma.max(initial=0.0)
        if largest == 0.0:
            return np.zeros(len(documents))
        weights = np.where(sigma > 0, 1.0 / np.maximum(sigma, SIGMA_FLOOR * largest) ** 2, 0.0)
        squares = np.square(_span_products(observables, documents))
        return rows_times(squares, weights)


@dataclass(frozen=True)
class RoundCount:
    """How many rounds the run took, where that depends on data: everybody sees when a protocol ends.

    The same number for every document.
    """

    name: str = "round-count"
    version: int = 1
    family: str = "rounds"
    needs: tuple[str, ...] = ()
    needs_any: tuple[str, ...] = ("sweeps", "iterations")

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        name = next(name for name in self.needs_any if name in observables)
        return np.full(len(documents), float(announced(observables, name).ravel()[0]))


@dataclass(frozen=True)
class LargestScale:
    """The largest of the numbers that a server gets without noise. The same for every document."""

    name: str = "largest-scale"
    version: int = 1
    family: str = "rounds"
    needs: tuple[str, ...] = ("scales",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        return np.full(len(documents), float(announced(observables, "scales").max()))


ROUNDS: tuple[Statistic, ...] = (
    LargestScale(),
    RoundCount(),
    RoundCount("init-round-count", needs_any=("init_sweeps",)),
    SpanEnergy(),
    SpanLeverage(),
)
"""What the entry point gives."""
