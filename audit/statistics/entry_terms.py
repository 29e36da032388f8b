"""What documents add to sums over ratings: something at each entry that they have, and nothing elsewhere."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["EntryTerms"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EntryTerms(ABC):
    """`terms.Additive`, of documents whose coefficients under some topics say what they add to each entry."""

    rows: sp.csr_array
    """Documents, shape (n, d), canonical; stored zeros are ratings."""
    topics: Floats
    """Shape (k, d), or of several sweeps."""
    gamma: float = 0.0
    delta: float = 0.0
    """Regularisers of the coefficients."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of the sums."""

    @property
    @abstractmethod
    def coefficients(self) -> Floats:
        """Of the documents, shape (n, ...)."""

    @property
    @abstractmethod
    def kernels(self) -> tuple[Any, Any]:
        """What fills in products with a direction, and what adds terms, or their squares, to sums.

        Both are given the documents' indptr, indices and data, the topics and the coefficients first.
        """

    @property
    def entries(self) -> int:
        """Numbers in the sums."""
        return math.prod(self.shape)

    def along(self, direction: Floats) -> Floats:
        """<a_i, direction> of every document, shape (n,); each by itself, to the last bit."""
        total = np.empty(self.rows.shape[0])
        self.kernels[0](*self._given, self.coefficients, direction.reshape(self.shape), total)
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
            self.kernels[1](indptr[i : i + 2], *rest, mine, one, False, row.reshape(self.shape))
        return found

    def _added(self, shares: Floats, squared: bool) -> Floats:
        sums = np.zeros(self.shape)
        self.kernels[1](*self._given, self.coefficients, shares, squared, sums)
        return sums.ravel()

    @property
    def _given(self) -> tuple[Any, ...]:
        return self.rows.indptr, self.rows.indices, self.rows.data, self.topics
