"""The terms of weighted PD-NMF's announced sums: ratings, of which only the stored entries count.

What a document adds to the sums of topic t is w_t (x - sum over u != t of w_u T_u) and w_t^2, both at the entries
that it has and 0 elsewhere: whoever rated an item adds to that item's weights. The coefficients w follow from the
topics before and from the order of the updates, step by step as in `factorisation.weighted_nmf`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from ksdp.audit.array_types import Floats


@dataclass(frozen=True, eq=False)
class RatedTerms:
    """What each document adds to the sums of sweeps 1, 2, ..., those of W_t^T R_t, and then to those of W_t^2."""

    rows: sp.csr_array
    """Documents, shape (n, d), canonical; stored zeros are ratings."""
    topics: Floats
    """Before the first sweep, and after each, shape (sweeps + 1, k, d)."""
    gamma: float = 0.0
    delta: float = 0.0
    """Regularisers of the coefficients."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Both kinds of sums, topic after topic of sweep after sweep."""
        sweeps, rank, features = self.topics.shape
        return 2, (sweeps - 1) * rank, features

    @property
    def entries(self) -> int:
        """Numbers in the sums."""
        return math.prod(self.shape)

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

    def along(self, direction: Floats) -> Floats:
        """<a_i, direction> of every document, shape (n,); each by itself, to the last bit."""
        total = np.empty(self.rows.shape[0])
        _along(*self._given, self.coefficients, direction.reshape(self.shape), total)
        return total

    def summed(self, shares: Floats) -> Floats:
        """sum_i shares_i a_i, shape (entries,)."""
        return self._added(shares, False)

    @cached_property
    def variances(self) -> Floats:
        """Second moments of all entries, summed over documents; shape (entries,)."""
        return self._added(np.ones(self.rows.shape[0]), True)

    def written(self) -> Floats:
        """All terms, shape (n, entries)."""
        found, (indptr, *rest), one = np.zeros((self.rows.shape[0], self.entries)), self._given, np.ones(1)
        for i, row in enumerate(found):
            mine = self.coefficients[i : i + 1]
            _add(indptr[i : i + 2], *rest, mine, one, False, row.reshape(self.shape))
        return found

    def entered(self) -> Floats:
        """What each stored entry adds to every sum of its column, shape (nnz, 2 sweeps k)."""
        found = np.zeros((self.rows.nnz, 2, self.shape[1]))
        _enter(*self._given, self.coefficients, found)
        return found.reshape(len(found), -1)

    def _added(self, shares: Floats, squared: bool) -> Floats:
        sums = np.zeros(self.shape)
        _add(*self._given, self.coefficients, shares, squared, sums)
        return sums.ravel()

    @property
    def _given(self) -> tuple[Any, ...]:
        return self.rows.indptr, self.rows.indices, self.rows.data, self.topics


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


@njit(cache=True, nogil=True)
def _enter(indptr: Any, indices: Any, data: Any, topics: Any, paths: Any, found: Any) -> None:
    """Every entry's own terms."""
    rank = topics.shape[1]
    for i in range(paths.shape[0]):
        columns, left = indices[indptr[i] : indptr[i + 1]], data[indptr[i] : indptr[i + 1]].copy()
        for step in range(paths.shape[1]):
            before, own = paths[i, step - rank] if step >= rank else 0.0, paths[i, step]
            topic, after = topics[step // rank, step % rank], topics[step // rank + 1, step % rank]
            for p in range(columns.size):
                apart = left[p] + before * topic[columns[p]]
                found[indptr[i] + p, 0, step] = own * apart
                found[indptr[i] + p, 1, step] = own * own
                left[p] = apart - own * after[columns[p]]
