"""Contributions of each document to the sums that PD-NMF, PD-SVD and DP-NMF announce, round by round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.numeric.kernels import csr_times_panel, panel_of
from ksdp.audit.statistics.linear.operator import FactoredContributions


def row_products(rows: sp.csr_array, basis: Floats) -> Floats:
    """Return the product of each document with each row, by itself to the last bit; shape (n, len(basis))."""
    products_out = np.empty((rows.shape[0], len(basis)))
    csr_times_panel(rows.indptr, rows.indices, rows.data, panel_of(basis), products_out)
    return products_out


def sweep_numbers(
    rows: sp.csr_array,
    topics: Floats,
    gamma: float = 0.0,
    delta: float = 0.0,
    products: tuple[Floats, Floats] | None = None,
) -> FactoredContributions:
    """Return contributions to the sums of sweeps 1, 2, ...: those of W_t^T R_t, then those of ||W_t||^2."""
    rank = topics.shape[1]
    own, shared = products or sweep_products(rows, topics)
    path = np.empty((len(own), len(shared) - rank))
    coefficient_paths(own, shared, gamma, delta, rank, path)
    steps = np.arange(path.shape[1])
    since = steps[None, :] - steps[:, None]  # a coefficient counts for others until its topic's next turn
    taken = (since > 0) & (since < rank)
    basis = np.ascontiguousarray(topics[1:].reshape(len(steps), topics.shape[2]))
    return FactoredContributions(rows, path, basis, path, taken, np.square(path))


def sweep_products(rows: sp.csr_array, topics: Floats) -> tuple[Floats, Floats]:
    """Return products of documents with the topics of every sweep, and of these with one another."""
    flat = np.ascontiguousarray(topics.reshape(-1, topics.shape[2]))
    return row_products(rows, flat), flat @ flat.T


@njit(cache=True, nogil=True)
def coefficient_paths(products: Any, gram: Any, gamma: float, delta: float, rank: int, path: Any) -> None:
    """Fill in the coefficient that each update gives every document, in the order of the sweeps."""
    place = np.empty(rank, np.int64)
    w = np.empty(rank)
    for i in range(path.shape[0]):
        for u in range(rank):
            place[u] = u
            w[u] = 0.0
        for step in range(path.shape[1]):
            t = step % rank
            at = place[t]
            weight = products[i, at] - gamma
            for u in range(rank):
                if u != t:
                    weight -= w[u] * gram[place[u], at]
            below = gram[at, at] + delta
            w[t] = weight / below if weight > 0.0 and below > 0.0 else 0.0
            path[i, step] = w[t]
            place[t] += rank


def block_numbers(
    rows: sp.csr_array, blocks: Floats, mean: Floats | None, *, outside: bool = True
) -> FactoredContributions:
    """Return contributions to the sums of PD-SVD's iterations, outside of the block that follows or in all."""
    flat, rank = np.ascontiguousarray(blocks.reshape(-1, blocks.shape[-1])), blocks.shape[1]
    numbers, before = row_products(rows, flat), np.arange(len(flat) - rank)
    taken = (np.arange(len(flat))[:, None] // rank) == before[None, :] // rank + 1
    taken &= outside
    if mean is not None:
        numbers = np.hstack([numbers - flat @ mean, np.ones((len(numbers), 1))])
        flat, before = np.vstack([flat, mean]), np.append(before, len(flat))
        taken = np.pad(taken, ((0, 1), (0, 1)))
        taken[-1] = True
    weights = np.ascontiguousarray(numbers[:, before])
    return FactoredContributions(rows, numbers, flat, weights, taken, np.zeros((len(numbers), 0)))


def part_terms(rows: sp.csr_array, V: Floats) -> Floats:
    """Squares of what is above 0, then of what is below, of each document's products with V; shape (n, 2 k)."""
    products = row_products(rows, np.ascontiguousarray(V))
    return np.asarray(np.square(np.hstack([np.maximum(products, 0.0), np.maximum(-products, 0.0)])))


def clipped_sweeps(rows: sp.csr_array, topics: Floats, bound: float) -> FactoredContributions:
    """As `sweep_numbers`; a document's numerator and denominator of an update are at most `bound` long."""
    products = sweep_products(rows, topics)
    made = sweep_numbers(rows, topics, products=products)
    weights = made.weights.copy()
    _clip(rows.indptr, rows.data, *products, bound, topics.shape[1], weights)
    return replace(made, weights=weights, scalars=weights * made.weights)


@njit(cache=True, nogil=True)
def _clip(indptr: Any, data: Any, products: Any, gram: Any, bound: float, rank: int, weights: Any) -> None:
    """Scale down in place the weight of each update whose w (x - others, w) is longer than `bound`."""
    place, w = np.empty(rank, np.int64), np.empty(rank)
    for i in range(weights.shape[0]):
        square = 0.0
        for at in range(indptr[i], indptr[i + 1]):
            square += data[at] * data[at]
        for u in range(rank):
            place[u] = u
            w[u] = 0.0
        for step in range(weights.shape[1]):
            t = step % rank
            w[t] = 0.0
            residual = square
            for u in range(rank):
                residual -= 2.0 * w[u] * products[i, place[u]]
                for v in range(rank):
                    residual += w[u] * w[v] * gram[place[u], place[v]]
            w[t] = weights[i, step]
            place[t] += rank
            length = w[t] * np.sqrt(max(residual, 0.0) + w[t] * w[t])
            if length > bound:
                weights[i, step] *= bound / length
