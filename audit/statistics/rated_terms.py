"""The terms of weighted PD-NMF's announced sums: ratings, of which only the stored entries count.

What a document adds to the sums of topic t is w_t (x - sum over u != t of w_u T_u) and w_t^2, both at the entries
that it has and 0 elsewhere: whoever rated an item adds to that item's weights. The coefficients w follow from the
topics before and from the order of the updates, step by step as in `factorisation.weighted_nmf`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.statistics.entry_terms import EntryTerms

__all__ = ["RatedTerms"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RatedTerms(EntryTerms):
    """What each document adds to the sums of sweeps 1, 2, ..., those of W_t^T R_t, and then to those of W_t^2.

    `topics` are those before the first sweep, and after each, shape (sweeps + 1, k, d).
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Both kinds of sums, topic after topic of sweep after sweep."""
        sweeps, rank, features = self.topics.shape
        return 2, (sweeps - 1) * rank, features

    @property
    def work(self) -> int:
        """Multiplications of a sum and of products with all terms, about."""
        return 2 * 4 * int(self.rows.nnz) * self.shape[1]

    @cached_property
    def coefficients(self) -> Floats:
        """After each update, of the topic that it is of, shape (n, sweeps k)."""
        found = np.empty((self.rows.shape[0], self.shape[1]))
        _coefficient_paths(*self._given, float(self.gamma), float(self.delta), found)
        return found

    @property
    def kernels(self) -> tuple[Any, Any]:
        """As the updates follow one another."""
        return _along, _add


@njit(cache=True, nogil=True)
def _coefficient_paths(
    indptr: Any, indices: Any, data: Any, topics: Any, gamma: float, delta: float, paths: Any
) -> None:
    rank = topics.shape[1]
    for i in range(paths.shape[0]):
        columns, left = indices[indptr[i] : indptr[i + 1]], data[indptr[i] : indptr[i + 1]].copy()
        for step in range(paths.shape[1]):
            before = paths[i, step - rank] if step >= rank else 0.0
            topic, after = topics[step // rank, step % rank], topics[step // rank + 1, step % rank]
            above, below = -gamma, delta
            for p in range(columns.size):
                weight = topic[columns[p]]
                left[p] += before * weight
                above += left[p] * weight
                below += weight * weight
            found = above / below if above > 0.0 and below > 0.0 else 0.0
            paths[i, step] = found
            for p in range(columns.size):
                left[p] -= found * after[columns[p]]


@njit(cache=True, nogil=True)
def _along(indptr: Any, indices: Any, data: Any, topics: Any, paths: Any, direction: Any, total: Any) -> None:
    """The products of each document's terms with a direction."""
    rank = topics.shape[1]
    for i in range(total.size):
        columns, left = indices[indptr[i] : indptr[i + 1]], data[indptr[i] : indptr[i + 1]].copy()
        total[i] = 0.0
        for step in range(paths.shape[1]):
            before, found = paths[i, step - rank] if step >= rank else 0.0, paths[i, step]
            topic, after = topics[step // rank, step % rank], topics[step // rank + 1, step % rank]
            sums, squares = 0.0, 0.0
            for p in range(columns.size):
                j = columns[p]
                apart = left[p] + before * topic[j]
                sums += apart * direction[0, step, j]
                squares += direction[1, step, j]
                left[p] = apart - found * after[j]
            total[i] += found * sums + found * found * squares


@njit(cache=True, nogil=True)
def _add(
    indptr: Any,
    indices: Any,
    data: Any,
    topics: Any,
    paths: Any,
    shares: Any,
    squared: bool,
    sums: Any,
) -> None:
    """sums += every document's terms, or their squares, times its share."""
    rank = topics.shape[1]
    for i in range(shares.size):
        columns, left = indices[indptr[i] : indptr[i + 1]], data[indptr[i] : indptr[i + 1]].copy()
        for step in range(paths.shape[1]):
            before, found = paths[i, step - rank] if step >= rank else 0.0, paths[i, step]
            topic, after = topics[step // rank, step % rank], topics[step // rank + 1, step % rank]
            share, square = shares[i] * (found if not squared else found * found), found * found
            for p in range(columns.size):
                j = columns[p]
                apart = left[p] + before * topic[j]
                sums[0, step, j] += share * (apart * apart if squared else apart)
                sums[1, step, j] += share * (square if squared else found)
                left[p] = apart - found * after[j]
