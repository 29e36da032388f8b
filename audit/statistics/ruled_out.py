"""Documents that a run cannot have held: what they would have added to an announced number is not there.

Where every document adds something nonnegative to a number, each adds at most the whole. No normal model of who
is in knows that, and where parties are small it tells most: of 17,661 mails, 3,300 fit into what 530 announce.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import csr_times_panel, panel_of
from ksdp.audit.sparse_rows import arrays_of

TOLERANCE = 1e-4
"""Of a sum; topics and sums are stored in single precision."""
SMALLEST = float(np.finfo(np.float32).tiny)
"""Below it single precision rounds by more than any part: topics so small count as 0, sums as so large."""


_BESIDE = 1e-6
"""Of a document's length: a product with the leading vector that may be rounding."""
_ASKED_FIRST = 4
"""Entries of a document, those in the rarest columns: most of whom a run did not hold are told by them."""
_ENTRY = np.dtype([("column", np.uint32), ("entry", np.float64)], align=True)
_MOST_SORTED = 2**24
"""Entries of all documents whose rarest columns are looked for, at most."""

Once = Callable[[Hashable, Callable[[sp.csr_array], NDArray[Any]]], NDArray[Any]]
"""What a function says of each of the documents, worked out once for them and a key."""
Possible = Callable[[sp.csr_array, Once], NDArray[np.bool_]]
"""Which documents a run may have held, each by itself, shape (n,)."""


@dataclass(frozen=True, eq=False)
class FitsSum:
    """Whether w x_j <= s_j in every column j, w the first coefficient that PD-NMF gives x.

    The first sum of the first sweep is s = sum w x of the documents themselves: all other coefficients are 0.
    """

    topic: Floats
    """The first one, before the first sweep, shape (d,)."""
    total: Floats
    """s, shape (d,)."""
    gamma: float
    """Regularisers of the coefficients."""
    delta: float
    public: bool
    """Whether the topic is the same in every run."""

    def __call__(self, rows: sp.csr_array, once: Once) -> NDArray[np.bool_]:
        """Of each of the documents, nonnegative, shape (n,)."""
        key = ("first coefficient", self.topic.tobytes(), self.gamma, self.delta)
        weights = once(key, self._weights) if self.public else self._weights(rows)
        found = np.empty(rows.shape[0], np.bool_)
        most = np.ascontiguousarray(_at_most(self.total))
        _fit(*arrays_of(rows), once("rarest", _rarest_entries), weights, most, found)
        return found

    def _weights(self, rows: sp.csr_array) -> Floats:
        found, below = np.empty((rows.shape[0], 1)), float(self.topic @ self.topic) + self.delta
        csr_times_panel(*arrays_of(rows), panel_of(_at_least(self.topic)[None, :]), found)
        return np.asarray(_beyond(found[:, 0], self.gamma) / (below if below > 0.0 else np.inf))


@dataclass(frozen=True, eq=False)
class FitsRatings:
    """Whether w x_j <= s_j and w^2 <= q_j for every rating x_j, w what weighted PD-NMF gives x first.

    The first sums of the first sweep are s = sum w x, and q = sum w^2 over those who rated j.
    """

    topic: Floats
    """The first one, before the first sweep, shape (d,)."""
    total: Floats
    """s, shape (d,)."""
    squares: Floats
    """q, shape (d,)."""
    gamma: float
    """Regularisers of the coefficients."""
    delta: float

    def __call__(self, rows: sp.csr_array, once: Once) -> NDArray[np.bool_]:
        """Of each of the documents, nonnegative; stored zeros are ratings; shape (n,)."""
        indptr, indices, data = arrays_of(rows)
        ones, panel = np.ones_like(data), panel_of(np.stack([_at_least(self.topic), np.square(self.topic)]))
        above, below = (np.empty((rows.shape[0], 2)) for _ in range(2))
        csr_times_panel(indptr, indices, data, panel, above)
        csr_times_panel(indptr, indices, ones, panel, below)
        reach, size = _beyond(above[:, 0], self.gamma), below[:, 1] + self.delta
        weights = np.divide(reach, size, out=np.zeros_like(reach), where=size > 0.0)
        by_sums, by_weights = (np.empty(rows.shape[0], np.bool_) for _ in range(2))
        nothing = _none_first(len(weights))
        _fit(indptr, indices, data, nothing, weights, _at_most(self.total), by_sums)
        _fit(indptr, indices, ones, nothing, np.square(weights), _at_most(self.squares), by_weights)
        return by_sums & by_weights


@dataclass(frozen=True, eq=False)
class WithinColumns:
    """Whether all entries of a document stand in columns that the run touched; stored zeros touch none."""

    columns: NDArray[np.bool_]
    """Shape (d,)."""

    def __call__(self, rows: sp.csr_array, once: Once) -> NDArray[np.bool_]:
        """Of each of the documents, shape (n,)."""
        found = np.empty(rows.shape[0], np.bool_)
        _within(*arrays_of(rows), self.columns, found)
        return found


@dataclass(frozen=True, eq=False)
class WithinBasis:
    """Whether all entries of a nonnegative document stand in columns of its run's singular vectors.

    Whoever is in and has a product with the first one gives all of their columns a part of it, and nobody takes it
    away: all that is added to it is of one sign. Whoever has none may share no column with it.
    """

    columns: NDArray[np.bool_]
    """Those that some vector has an entry in, shape (d,)."""
    first: Floats
    """The leading vector, shape (d,)."""

    def __call__(self, rows: sp.csr_array, once: Once) -> NDArray[np.bool_]:
        """Of each of the documents, nonnegative, shape (n,)."""
        within = WithinColumns(self.columns)(rows, once)
        found, lengths = (
            np.empty((rows.shape[0], 1)),
            np.sqrt(
                np.bincount(
                    np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), np.square(rows.data), rows.shape[0]
                )
            ),
        )
        csr_times_panel(*arrays_of(rows), panel_of(np.abs(self.first)[None, :]), found)
        return np.asarray(within | (found[:, 0] <= _BESIDE * lengths))


def _at_least(topic: Floats) -> Floats:
    return np.where(topic < SMALLEST, 0.0, topic)


def _at_most(sums: Floats) -> Floats:
    return np.asarray(sums * (1 + TOLERANCE) + SMALLEST)


def _beyond(products: Floats, gamma: float) -> Floats:
    """What is left of products beyond the regulariser, at least: just beyond it, rounding is all that is left."""
    return np.maximum(products - gamma * (1 + TOLERANCE), 0.0)


def _none_first(documents: int) -> NDArray[np.void]:
    return np.zeros((documents, 0), _ENTRY)


def _rarest_entries(rows: sp.csr_array) -> NDArray[np.void]:
    """Entries of each document in the columns that fewest have, shape (n, some).

    Of short rows some are there twice, of empty ones zeros; none where sorting would take too much memory.
    """
    lengths = np.diff(rows.indptr)
    if not 0 < rows.nnz <= _MOST_SORTED:
        return _none_first(len(lengths))
    having = np.bincount(rows.indices, minlength=rows.shape[1])
    order = np.lexsort((having[rows.indices], np.repeat(np.arange(len(lengths)), lengths)))
    in_row = np.arange(_ASKED_FIRST) % np.maximum(lengths, 1)[:, None]
    at = order[np.minimum(rows.indptr[:-1, None] + in_row, rows.nnz - 1)]
    found = np.empty(at.shape, _ENTRY)
    found["column"], found["entry"] = rows.indices[at], np.where(lengths[:, None] > 0, rows.data[at], 0.0)
    return found


@njit(cache=True, nogil=True)
def _fit(indptr: Any, indices: Any, data: Any, first: Any, weights: Any, most: Any, found: Any) -> None:
    """Whether no entry is too large; those that `first` names are asked first."""
    for i in range(found.shape[0]):
        weight, fits = weights[i], True
        for k in range(first.shape[1]):
            if weight * first[i, k].entry > most[first[i, k].column]:
                fits = False
                break
        if fits:
            for at in range(indptr[i], indptr[i + 1]):
                if weight * data[at] > most[indices[at]]:
                    fits = False
                    break
        found[i] = fits


@njit(cache=True, nogil=True)
def _within(indptr: Any, indices: Any, data: Any, columns: Any, found: Any) -> None:
    for i in range(found.shape[0]):
        found[i] = True
        for at in range(indptr[i], indptr[i + 1]):
            if data[at] != 0.0 and not columns[indices[at]]:
                found[i] = False
                break
