"""The terms of DP-NMF's sums: those of PD-NMF's sweeps, each document's clipped at every update."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from ksdp.audit.array_types import Floats
from ksdp.audit.statistics.round_terms import sweep_numbers, sweep_products
from ksdp.audit.statistics.term_numbers import TermNumbers


def clipped_sweeps(rows: sp.csr_array, topics: Floats, bound: float) -> TermNumbers:
    """As `sweep_numbers`: a document's numerator and denominator of an update are together no longer than `bound`.

    Parameters
    ----------
    topics : shape (sweeps + 1, k, d)
        Before the first sweep, and after each.
    """
    products = sweep_products(rows, topics)
    made = sweep_numbers(rows, topics, products=products)
    weights = made.weights.copy()
    _clip(rows.indptr, rows.data, *products, bound, topics.shape[1], weights)
    return replace(made, weights=weights, scalars=weights * made.weights)


@njit(cache=True, nogil=True)
def _clip(indptr: Any, data: Any, products: Any, gram: Any, bound: float, rank: int, weights: Any) -> None:
    """Scale down in place the weight of each update whose w (x - others, w) is longer than `bound`.

    Parameters
    ----------
    indptr, data : of the documents, shape (n, d)
    products : shape (n, (sweeps + 1) k)
        Of documents with the topics before the first sweep, after it, ...
    gram : of the topics with one another
    weights : shape (n, sweeps k)
        The coefficient that each update gives.
    """
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
            left = square
            for u in range(rank):
                left -= 2.0 * w[u] * products[i, place[u]]
                for v in range(rank):
                    left += w[u] * w[v] * gram[place[u], place[v]]
            w[t] = weights[i, step]
            place[t] += rank
            length = w[t] * np.sqrt(max(left, 0.0) + w[t] * w[t])
            if length > bound:
                weights[i, step] *= bound / length
