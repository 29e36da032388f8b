"""The terms of PD-NMF's announced sums and of PD-SVD's announced blocks, document by document, as they are.

A party of a run can work all of this out: topics and blocks are public, and so is how a document's coefficients
follow from them.

- PD-NMF: sweep s announces, for one topic after the other, sum w_t (x - sum over u != t of w_u T_u) and sum w_t^2.
  The coefficients w of x follow from the topics of the moment and from those before (`coefficient_paths`).
- PD-SVD: iteration s announces the rows of sum x <x, V_{s-1}>, each divided by a norm that nobody sees. V_s spans
  them, so that what of the sum lies outside of V_s is known without the norms: it is 0,

      sum over documents of (x V_{s-1}^T)^T (x - (x V_s^T) V_s) = 0.

  Where a mean is announced it is subtracted from x first, and that the sum of all x - mean is 0 counts as well.
- The SVD that reveals Sigma announces the sums of x <x, V_{s-1}> as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import csr_times_panel, panel_of
from ksdp.audit.statistics.term_numbers import TermNumbers


def _products(rows: sp.csr_array, basis: Floats) -> Floats:
    """Of each document with each row, by itself to the last bit; shape (n, len(basis))."""
    found = np.empty((rows.shape[0], len(basis)))
    csr_times_panel(rows.indptr, rows.indices, rows.data, panel_of(basis), found)
    return found


def sweep_numbers(
    rows: sp.csr_array,
    topics: Floats,
    gamma: float = 0.0,
    delta: float = 0.0,
    products: tuple[Floats, Floats] | None = None,
) -> TermNumbers:
    """What each document adds to the sums of sweeps 1, 2, ...: those of W_t^T R_t, then those of ||W_t||^2.

    Parameters
    ----------
    rows : shape (n, d)
    topics : shape (sweeps + 1, k, d)
        Before the first sweep, and after each.
    gamma, delta : regularisers of the coefficients
    products : those of `sweep_products`, where somebody has them
    """
    rank = topics.shape[1]
    path = _paths(products or sweep_products(rows, topics), rank, gamma, delta)
    steps = np.arange(path.shape[1])
    since = steps[None, :] - steps[:, None]  # a coefficient counts for others until its topic's next turn
    taken = (since > 0) & (since < rank)
    basis = np.ascontiguousarray(topics[1:].reshape(len(steps), topics.shape[2]))
    return TermNumbers(rows, path, basis, path, taken, np.square(path))


def sweep_products(rows: sp.csr_array, topics: Floats) -> tuple[Floats, Floats]:
    """Of each document with the topics before the first sweep, after it, ..., and of these with one another."""
    flat = np.ascontiguousarray(topics.reshape(-1, topics.shape[2]))
    return _products(rows, flat), flat @ flat.T


def _paths(products: tuple[Floats, Floats], rank: int, gamma: float, delta: float) -> Floats:
    """The coefficient that each update gives every document, shape (n, sweeps k)."""
    path = np.empty((len(products[0]), len(products[1]) - rank))
    coefficient_paths(*products, gamma, delta, rank, path)
    return path


@njit(cache=True, nogil=True)
def coefficient_paths(products: Any, gram: Any, gamma: float, delta: float, rank: int, path: Any) -> None:
    """Fill in the coefficient that each update gives every document, in the order of the sweeps.

    Parameters
    ----------
    products : shape (n, (sweeps + 1) k)
        Of documents with the topics before the first sweep, after it, ...
    gram : of the topics with one another
    path : shape (n, sweeps k)
    """
    place = np.empty(rank, np.int64)
    w = np.empty(rank)
    for i in range(path.shape[0]):
        for u in range(rank):
            place[u] = u
            w[u] = 0.0
        for step in range(path.shape[1]):
            t = step % rank
            at = place[t]
            found = products[i, at] - gamma
            for u in range(rank):
                if u != t:
                    found -= w[u] * gram[place[u], at]
            below = gram[at, at] + delta
            w[t] = found / below if found > 0.0 and below > 0.0 else 0.0
            path[i, step] = w[t]
            place[t] += rank


def block_numbers(rows: sp.csr_array, blocks: Floats, mean: Floats | None, *, outside: bool = True) -> TermNumbers:
    """What each document adds to the sums of PD-SVD's iterations, outside of the block that follows or in all.

    Parameters
    ----------
    rows : shape (n, d)
    blocks : shape (rounds + 1, k, d)
        Orthonormal rows: the start, and what spans what each iteration announced.
    mean : shape (d,), optional
        Subtracted from every document.
    """
    flat, rank = np.ascontiguousarray(blocks.reshape(-1, blocks.shape[-1])), blocks.shape[1]
    numbers, before = _products(rows, flat), np.arange(len(flat) - rank)
    taken = (np.arange(len(flat))[:, None] // rank) == before[None, :] // rank + 1
    taken &= outside
    if mean is not None:
        numbers = np.hstack([numbers - flat @ mean, np.ones((len(numbers), 1))])
        flat, before = np.vstack([flat, mean]), np.append(before, len(flat))
        taken = np.pad(taken, ((0, 1), (0, 1)))
        taken[-1] = True
    weights = np.ascontiguousarray(numbers[:, before])
    return TermNumbers(rows, numbers, flat, weights, taken, np.zeros((len(numbers), 0)))


def part_terms(rows: sp.csr_array, V: Floats) -> Floats:
    """Squares of what is above 0, then of what is below, of each document's products with V; shape (n, 2 k)."""
    products = _products(rows, np.ascontiguousarray(V))
    return np.asarray(np.square(np.hstack([np.maximum(products, 0.0), np.maximum(-products, 0.0)])))
