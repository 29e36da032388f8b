"""The terms of PD-NMF's announced sums and of PD-SVD's announced blocks, document by document, as they are.

A party of a run can work all of this out: topics and blocks are public, and so is how a document's coefficients
follow from them.

- PD-NMF: sweep s announces, for one topic after the other, sum w_t (x - sum over u != t of w_u T_u) and sum w_t^2.
  The coefficients w of x follow from the topics of the moment and from those before (`coefficient_paths`).
- PD-SVD: iteration s announces the rows of sum x <x, V_{s-1}>, each divided by a norm that nobody sees. V_s spans
  them, so that what of the sum lies outside of V_s is known without the norms: it is 0,

      sum over documents of (x V_{s-1}^T)^T (x - (x V_s^T) V_s) = 0.

  Where a mean is announced it is subtracted from x first, and that the sum of all x - mean is 0 counts as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.lanes import csr_times_panel, panel_of
from ksdp.audit.statistics.terms import Stage, Terms

__all__ = ["block_terms", "coefficient_paths", "sweep_terms"]

Floats = NDArray[np.float64]


def _products(rows: sp.csr_array, basis: Floats) -> Floats:
    """Of each document with each row, by itself to the last bit; shape (n, len(basis))."""
    found = np.empty((rows.shape[0], len(basis)))
    csr_times_panel(rows.indptr, rows.indices, rows.data, panel_of(basis), found)
    return found


def sweep_terms(
    rows: sp.csr_array,
    topics: Floats,
    gamma: float = 0.0,
    delta: float = 0.0,
    turned: sp.csr_array | None = None,
) -> Terms:
    """What each document adds to the sums of sweeps 1, 2, ...: those of W_t^T R_t, then those of ||W_t||^2.

    Parameters
    ----------
    rows : shape (n, d)
    topics : shape (sweeps + 1, k, d)
        Before the first sweep, and after each.
    gamma, delta : float
        Regularisers of the coefficients.
    turned : shape (d, n), optional
        The transpose of `rows`.
    """
    sweeps, rank, features = len(topics) - 1, topics.shape[1], topics.shape[2]
    flat = np.ascontiguousarray(topics.reshape(-1, features))
    steps = np.empty((sweeps * rank, rows.shape[0], rank))
    coefficient_paths(_products(rows, flat), flat @ flat.T, gamma, delta, steps)
    stages, scalars, now = [], np.empty((rows.shape[0], len(steps))), topics[0].copy()
    for step, found in enumerate(steps):
        sweep, topic = divmod(step, rank)
        weights = np.ascontiguousarray(found[:, [topic]])
        np.square(weights[:, 0], out=scalars[:, step])
        found[:, topic] = 0.0  # those of the others are left
        stages.append(Stage(weights, found, now.copy()))
        now[topic] = topics[sweep + 1, topic]
    return Terms(rows, tuple(stages), scalars, turned)


@njit(cache=True, nogil=True)
def coefficient_paths(products: Any, gram: Any, gamma: float, delta: float, steps: Any) -> None:
    """Fill in the coefficients of every document after each update, in the order of the sweeps.

    Parameters
    ----------
    products : shape (n, (sweeps + 1) k)
        Of documents with the topics before the first sweep, after it, ...
    gram : of the topics with one another
    steps : shape (sweeps k, n, k)
    """
    rank = steps.shape[2]
    place = np.empty(rank, np.int64)
    w = np.empty(rank)
    for i in range(steps.shape[1]):
        for u in range(rank):
            place[u] = u
            w[u] = 0.0
        for step in range(steps.shape[0]):
            t = step % rank
            at = place[t]
            found = products[i, at] - gamma
            for u in range(rank):
                if u != t:
                    found -= w[u] * gram[place[u], at]
            below = gram[at, at] + delta
            w[t] = found / below if found > 0.0 and below > 0.0 else 0.0
            for u in range(rank):
                steps[step, i, u] = w[u]
            place[t] += rank


def block_terms(
    rows: sp.csr_array, blocks: Floats, mean: Floats | None, turned: sp.csr_array | None = None
) -> Terms:
    """What each document adds to the sums that are 0 for a run's documents.

    Parameters
    ----------
    rows : shape (n, d)
    blocks : shape (rounds + 1, k, d)
        Orthonormal rows: the start, and what spans what each iteration announced.
    mean : shape (d,), optional
        Subtracted from every document.
    turned : shape (d, n), optional
        The transpose of `rows`.
    """
    flat, rank = np.ascontiguousarray(blocks.reshape(-1, blocks.shape[-1])), blocks.shape[1]
    products = _products(rows, flat)
    if mean is not None:
        products -= flat @ mean
    stages = []
    for at in range(rank, len(flat), rank):
        before, after = (np.ascontiguousarray(products[:, at + by : at + by + rank]) for by in (-rank, 0))
        stages.append(Stage(before, after, flat[at : at + rank], mean))
    if mean is not None:
        whole, nothing = np.ones((len(products), 1)), np.zeros((len(products), 1))
        stages.append(Stage(whole, nothing, np.zeros((1, len(mean))), mean))
    return Terms(rows, tuple(stages), np.zeros((len(products), 0)), turned)
