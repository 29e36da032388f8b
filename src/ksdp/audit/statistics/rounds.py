"""Statistics of all rounds of a run, in single columns: no statistic is paid for once a round.

Raw sums of the first rounds show most: there the coefficients of a suspected document depend on what is public, so
what it adds is known; later ones move with everybody's. Rows of all rounds are one space, weights one sum. `span`
is an orthonormal basis of all that the power iteration announced (`factorisation.span`).

Where sums are solved for who was in, energies and weights decide nothing: they read what is announced of later
rounds and of the start, which no other column does. Of several rounds on a party's own documents (`fedpower` with
`period = 4`) no column sees more than the energies of `means` and `uploads`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np

from ksdp.audit.contract import Observables
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.statistic import Documents, TableStatistic
from ksdp.audit.statistics.geometry import SIGMA_FLOOR, nonnegative_coefficients, whitening
from ksdp.audit.statistics.products import announced, has_mean, row_squares, rows_times, wide_products

_ROUNDS_OF_RUN, _ROUNDS_OF_START = ("sweeps", "iterations"), ("init_sweeps",)


def _span_products(observables: Observables, documents: Documents) -> Floats:
    """Products of the documents with `span`, centred where the run announces a mean, shape (n, rows)."""

    def compute() -> Floats:
        rows = announced(observables, "span")
        projected = wide_products(observables, documents, "span", rows)
        if has_mean(observables):
            projected -= (rows @ announced(observables, "mean").ravel()).astype(np.float32)
        return cast(Floats, projected)

    return observables.derive(("span products", documents), compute)


def span_energy(observables: Observables, documents: Documents) -> Floats:
    """Energy of the document in the space that the announced blocks of all iterations span."""
    return row_squares(_span_products(observables, documents))


def span_leverage(observables: Observables, documents: Documents) -> Floats:
    """sum_t <x, s_t>^2 / sigma_t^2 over the Ritz vectors s_t of X^T X: leverage on what all blocks span."""
    sigma = announced(observables, "span_sigma")
    largest = sigma.max(initial=0.0)
    if largest == 0.0:
        return np.zeros(len(documents))
    weights = np.where(sigma > 0, 1.0 / np.maximum(sigma, SIGMA_FLOOR * largest) ** 2, 0.0)
    squares = np.square(_span_products(observables, documents))
    return rows_times(squares, weights)


@dataclass(frozen=True)
class _RoundCount:
    """How many rounds the run, or its start, took; the same for every document."""

    names: tuple[str, ...]

    def __call__(self, observables: Observables, documents: Documents) -> Floats:
        name = next(name for name in self.names if name in observables)
        return np.full(len(documents), float(announced(observables, name).ravel()[0]))


def largest_scale(observables: Observables, documents: Documents) -> Floats:
    """The largest of the numbers that a server gets without noise. The same for every document."""
    return np.full(len(documents), float(announced(observables, "scales").max()))


def row_space(observables: Observables, names: Iterable[str]) -> Floats:
    """An orthonormal basis of all rows of the named arrays, shape (rank, features); last axis features."""
    chosen = tuple(names)

    def compute() -> Floats:
        arrays = [announced(observables, name) for name in chosen]
        rows = np.concatenate([array.reshape(-1, array.shape[-1]) for array in arrays])
        return np.asarray(whitening(rows @ rows.T).T @ rows)

    return observables.derive(("row space", chosen), compute)


@dataclass(frozen=True)
class _Energy:
    """Energy of the document in the space of all rows of some announced arrays, between 0 and |x|^2."""

    needs: tuple[str, ...]
    reads: tuple[str, ...] = ()

    def __call__(self, observables: Observables, documents: Documents) -> Floats:
        names = (*self.needs, *(name for name in self.reads if name in observables))
        return row_squares(wide_products(observables, documents, names, row_space(observables, names)))


@dataclass(frozen=True)
class _WeightsSum:
    """a ."""

    names: tuple[str, ...]

    def __call__(self, observables: Observables, documents: Documents) -> Floats:
        coefficients = nonnegative_coefficients(observables, documents)
        total = np.zeros(coefficients.shape[1])
        for name in (name for name in self.names if name in observables):
            weights = announced(observables, name)
            if weights.shape[-1] != len(total) or weights.ndim > 2:
                weights = weights.mean(axis=-1)
            total += weights.reshape(-1, len(total)).sum(axis=0)
        return rows_times(coefficients, total)


def _energy_row(name: str, sentence: str, needs: tuple[str, ...], reads: tuple[str, ...] = ()) -> TableStatistic:
    return TableStatistic(name, "rounds", _Energy(needs, reads), sentence, needs, reads=reads)


ROUNDS = (
    TableStatistic(
        "largest-scale",
        "rounds",
        largest_scale,
        "The largest scale that a device sends to the server, which has no noise.",
        needs=("scales",),
    ),
    TableStatistic(
        "round-count",
        "rounds",
        _RoundCount(_ROUNDS_OF_RUN),
        "How many rounds the run took: everybody sees when it ends.",
        needs_any=_ROUNDS_OF_RUN,
    ),
    TableStatistic(
        "init-round-count",
        "rounds",
        _RoundCount(_ROUNDS_OF_START),
        "How many rounds the start took: everybody sees when it ends.",
        needs_any=_ROUNDS_OF_START,
    ),
    TableStatistic(
        "span-energy",
        "rounds",
        span_energy,
        "How much of the document is explained by what was announced in all rounds together.",
        needs=("span",),
        reads=("mean",),
    ),
    TableStatistic(
        "span-leverage",
        "rounds",
        span_leverage,
        "How strongly the document pulls at what was announced in all rounds together.",
        needs=("span", "span_sigma"),
        reads=("mean",),
    ),
    _energy_row(
        "sums-energy",
        "How much of the document is explained by all sums that were announced on the way.",
        ("sums",),
        ("total", "numerators"),
    ),
    _energy_row(
        "init-sums-energy",
        "How much of the document is explained by the sums announced for the start.",
        ("init_sums", "init_total"),
    ),
    _energy_row("start-energy", "How much of the document is explained by the announced start.", ("start",)),
    _energy_row("means-energy", "How much of the document is explained by the announced means.", ("means",)),
    _energy_row(
        "uploads-energy", "How much of the document is explained by what parties sent to the server.", ("uploads",)
    ),
    TableStatistic(
        "weights-sum",
        "rounds",
        _WeightsSum(("weights", "total_weights")),
        "The announced weights of the topics in all rounds, added up by how much of each the document holds.",
        needs=("T", "weights"),
        reads=("total_weights",),
    ),
    TableStatistic(
        "init-weights-sum",
        "rounds",
        _WeightsSum(("init_weights", "init_total_weights")),
        "The same for the weights announced while the start was computed.",
        needs=("T", "init_weights", "init_total_weights"),
    ),
)
