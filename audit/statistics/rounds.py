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
from ksdp.audit.statistics.computed import Computed
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.geometry import SIGMA_FLOOR
from ksdp.audit.statistics.products import announced, has_mean, row_squares, rows_times


def _span_products(observables: Observables, documents: Documents) -> Floats:
    """Products of the documents with `span`, centred where the run announces a mean, shape (n, rows)."""

    def compute() -> Floats:
        rows = announced(observables, "span")
        projected = wide_products(observables, documents, "span", rows)
        if has_mean(observables):
            projected -= (rows @ announced(observables, "mean").ravel()).astype(np.float32)
        return cast(Floats, projected)

    return cast(Floats, observables.derive(("span products", documents), compute))


def span_energy(observables: Observables, documents: Documents) -> Floats:
    """Energy of the document in the space that the announced blocks of all iterations span.

    One number a document, between 0 and |x|^2.
    """
    return row_squares(_span_products(observables, documents))


def span_leverage(observables: Observables, documents: Documents) -> Floats:
    """sum_t <x, s_t>^2 / sigma_t^2 over the Ritz vectors s_t of X^T X: leverage on what all blocks span.

    A value counts as at least `SIGMA_FLOOR` times the largest.

    One number a document, >= 0.
    """
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


def largest_scale(observables: Observables, documents: Documents) -> Floats:
    """The largest of the numbers that a server gets without noise. The same for every document."""
    return np.full(len(documents), float(announced(observables, "scales").max()))


ROUNDS: tuple[Statistic, ...] = (
    Computed("largest-scale", 1, "rounds", largest_scale, needs=("scales",)),
    RoundCount(),
    RoundCount("init-round-count", needs_any=("init_sweeps",)),
    Computed("span-energy", 1, "rounds", span_energy, needs=("span",), reads=("mean",)),
    Computed("span-leverage", 1, "rounds", span_leverage, needs=("span", "span_sigma"), reads=("mean",)),
)
"""What the entry point gives."""
