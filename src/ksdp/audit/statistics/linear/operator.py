"""What documents add to the sums of a run, and products with it that never write it out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.numeric.kernels import add_rows_to_panel, csr_times_panel, lined, panel_of
from ksdp.audit.numeric.sparse_rows import arrays_of, take_rows
from ksdp.audit.statistics.products import row_dots, rows_times


class ContributionOperator(Protocol):
    """What documents add to the sums of one run, each by its own."""

    @property
    def rows(self) -> sp.csr_array:
        """Documents, shape (n, d), canonical."""
        ...

    @property
    def entries(self) -> int:
        """Numbers in the sums."""
        ...

    @property
    def work(self) -> int:
        """Multiplications of a sum and of products with all terms, about."""
        ...

    @property
    def variances(self) -> Floats:
        """Second moments of all entries, summed over documents, about; shape (entries,)."""
        ...

    def along(self, direction: Floats) -> Floats:
        """<a_i, direction> of every document, shape (n,); each by itself, to the last bit."""
        ...

    def summed(self, shares: Floats) -> Floats:
        """sum_i shares_i a_i, shape (entries,)."""
        ...

    def written(self) -> Floats:
        """All terms, shape (n, entries)."""
        ...


def at_even_steps(rows: sp.csr_array, most: int) -> sp.csr_array:
    """Every so many of the rows, `most` at most."""
    step = even_step(rows.shape[0], most)
    return rows if step <= 1 else sp.csr_array(rows[::step])


def even_step(rows: int, most: int) -> int:
    """Step that keeps at most `most` rows."""
    return max(-(-rows // most), 1)


SAMPLE = 1024
"""Documents that variances are taken from, at least, where there are as many."""


@dataclass(frozen=True, eq=False)
class FactoredContributions:
    """What documents add to the sums of one run: rows w (x - sum over u of q_u B_u), and single numbers."""

    rows: sp.csr_array
    """Documents, shape (n, d), canonical."""
    numbers: Floats
    """q, shape (n, m)."""
    basis: Floats
    """B, shape (m, d)."""
    weights: Floats
    """w of every document and row, shape (n, r)."""
    taken: NDArray[np.bool_]
    """Which numbers count in each row, shape (m, r)."""
    scalars: Floats
    """What documents add to single numbers, shape (n, s)."""

    @classmethod
    def plain(cls, rows: sp.csr_array, weights: Floats, scalars: Floats | None = None) -> FactoredContributions:
        """Rows w x, nothing subtracted, and single numbers."""
        n, r = weights.shape
        nothing, taken = np.zeros((n, 0)), np.zeros((0, r), np.bool_)
        return cls(
            rows, nothing, np.zeros((0, rows.shape[1])), weights, taken, nothing if scalars is None else scalars
        )

    def of(self, places: NDArray[Any]) -> FactoredContributions:
        """What some of the documents add."""
        numbers, weights, scalars = (a[places] for a in (self.numbers, self.weights, self.scalars))
        return replace(self, rows=take_rows(self.rows, places), numbers=numbers, weights=weights, scalars=scalars)

    def first(self, rows: int) -> FactoredContributions:
        """What they add to the first rows of the sums, and to no single number."""
        taken = self.taken[:, :rows]
        used = taken.any(axis=1)
        return replace(
            self,
            numbers=np.ascontiguousarray(self.numbers[:, used]),
            basis=self.basis[used],
            weights=np.ascontiguousarray(self.weights[:, :rows]),
            taken=taken[used],
            scalars=self.scalars[:, :0],
        )

    def within(self, columns: NDArray[Any]) -> FactoredContributions:
        """The same rows of the sums in these columns alone, ascending; no document has an entry in another."""
        place = np.zeros(self.rows.shape[1], self.rows.indices.dtype)
        place[columns] = np.arange(len(columns))
        rows = sp.csr_array((self.rows.shape[0], len(columns)))
        rows.indptr, rows.data, rows.indices = self.rows.indptr, self.rows.data, place[self.rows.indices]
        return replace(self, rows=rows, basis=np.ascontiguousarray(self.basis[:, columns]))

    @property
    def entries(self) -> int:
        """Numbers in the sums."""
        return int(self.weights.shape[1] * self.rows.shape[1] + self.scalars.shape[1])

    @property
    def work(self) -> int:
        """Multiplications of a sum and of products with all terms, about."""
        return int(2 * self.rows.nnz * self.weights.shape[1])

    def split(self, sums: Floats) -> tuple[Floats, Floats]:
        """The rows, shape (r, d), and the single numbers of numbers that stand one after the other."""
        wide = self.weights.shape[1] * self.rows.shape[1]
        return sums[:wide].reshape(-1, self.rows.shape[1]), sums[wide:]

    def along(self, direction: Floats) -> Floats:
        """<a_i, direction> of every document, shape (n,); each by itself, to the last bit."""
        rows, single = self.split(direction)
        found = np.empty((self.rows.shape[0], len(rows)))
        csr_times_panel(self.rows.indptr, self.rows.indices, self.rows.data, panel_of(rows), found)
        found -= rows_times(self.numbers, self.taken * (self.basis @ rows.T))
        total = row_dots(found, self.weights)
        return total + rows_times(self.scalars, single) if len(single) else total

    def summed(self, shares: Floats) -> Floats:
        """sum_i shares_i a_i, shape (entries,)."""
        weighed = panel_of(self.weights.T)
        weighed *= shares[:, None]
        sums = lined((self.rows.shape[1], weighed.shape[1]))
        add_rows_to_panel(self.rows.indptr, self.rows.indices, self.rows.data, weighed, sums)
        found = np.ascontiguousarray(sums[:, : self.weights.shape[1]].T)
        found -= (self.taken * (self.numbers.T @ weighed[:, : len(found)])).T @ self.basis
        return np.concatenate([found.ravel(), shares @ self.scalars])

    def written(self) -> Floats:
        """All terms, shape (n, entries)."""
        dense, found = self.rows.toarray(), []
        for weight, taken in zip(self.weights.T, self.taken.T, strict=True):
            left = dense - self.numbers[:, taken] @ self.basis[taken]
            found.append(weight[:, None] * left)
        return np.hstack([*found, self.scalars])

    @cached_property
    def mean(self) -> Floats:
        """Of all documents' terms, shape (entries,)."""
        return self.summed(np.full(self.rows.shape[0], 1.0 / max(self.rows.shape[0], 1)))

    @cached_property
    def variances(self) -> Floats:
        """Second moments of all entries, summed over documents, from some of these; shape (entries,).

        The squares of w (x - q B) multiplied out, so that documents stay sparse.
        """
        step = max(1, self.rows.shape[0] // SAMPLE)
        turned, numbers = sp.csr_array(self.rows[::step].T), self.numbers[::step]
        weights = np.square(self.weights[::step])
        found = np.asarray(turned.multiply(turned) @ weights).T
        found = np.ascontiguousarray(found)
        for r, taken in enumerate(self.taken.T):
            if not taken.any():
                continue
            mine = np.ascontiguousarray(numbers[:, taken])
            weighed = weights[:, [r]] * mine
            _add_form(
                weighed.T @ mine, np.asarray(turned @ weighed), np.ascontiguousarray(self.basis[taken]), found[r]
            )
        found = np.maximum(found, 0.0) * step  # what is left of nothing is rounding
        return np.concatenate([found.ravel(), np.square(self.scalars).sum(axis=0)])


@njit(cache=True, nogil=True)
def _add_form(form: Any, crossed: Any, basis: Any, found: Any) -> None:
    """found_j += sum_uv form_uv B_uj B_vj - 2 sum_u crossed_ju B_uj."""
    for u in range(basis.shape[0]):
        for j in range(found.shape[0]):
            found[j] -= 2.0 * crossed[j, u] * basis[u, j]
        for v in range(basis.shape[0]):
            for j in range(found.shape[0]):
                found[j] += form[u, v] * basis[u, j] * basis[v, j]


@dataclass(frozen=True, eq=False)
class Scales:
    """What a number of each sum is divided by: one factor a column, one a row, one a single number."""

    columns: Floats
    """Reciprocals, shape (d,); 0 where nobody has an entry."""
    rows: Floats
    """Shape (r,)."""
    single: Floats
    """Shape (s,)."""

    def of(self, columns: Ints) -> Scales:
        """Those of some columns."""
        return replace(self, columns=self.columns[columns])

    def written(self) -> Floats:
        """The factor of every number, as `FactoredContributions.written` has them; shape (entries,)."""
        return np.concatenate([np.outer(self.rows, self.columns).ravel(), self.single])


def scales_of(made: FactoredContributions) -> Scales:
    """The scales of what documents add.

    Notes
    -----
    The variance of w x_j is about that of a column times that of a row, so that a number's deviation is the
    product of two factors, and products of documents with topics need not be taken for each row apart. Beside
    directions of length 1, a column of less than their last digit tells nothing.
    """
    columns, rows = np.zeros(made.rows.shape[1]), np.zeros(made.weights.shape[1])
    _add_squares(*arrays_of(made.rows), made.weights, columns, rows)
    total, single = float(rows.sum()), np.square(made.scalars).sum(axis=0)
    if len(made.basis):
        columns[columns <= _LAST_DIGIT * columns.max(initial=0.0)] = 0.0
    return Scales(_one_over_root(columns), np.sqrt(total) * _one_over_root(rows), _one_over_root(single))


def _one_over_root(squares: Floats) -> Floats:
    found = np.zeros(len(squares))
    return np.divide(1.0, np.sqrt(squares), out=found, where=squares > np.finfo(np.float64).tiny)


@njit(cache=True, nogil=True)
def _add_squares(indptr: Any, indices: Any, data: Any, weights: Any, columns: Any, rows: Any) -> None:
    """Sums of squares of w x over documents: those of each column, and of each row."""
    for i in range(weights.shape[0]):
        size, total = 0.0, 0.0
        for r in range(weights.shape[1]):
            total += weights[i, r] * weights[i, r]
        for at in range(indptr[i], indptr[i + 1]):
            square = data[at] * data[at]
            size += square
            columns[indices[at]] += square * total
        for r in range(weights.shape[1]):
            rows[r] += weights[i, r] * weights[i, r] * size


_LAST_DIGIT = 2.0**-104
"""Squared: that of double precision."""
LEFT = 0.1
"""Part of what the least document adds, squared, that whoever was in may leave of the sums."""
LOST = 2.0**-48
"""Squared: what single precision loses of a number."""
LOST_ON_WIRE = 2.0**-58
"""The same of the wire, where vectors of length 1 are written by multiples of 2^-31."""
_SPARSE = 0.05
"""Part of the entries that are there, below which products of documents are those of sparse rows."""


def lost_of(numbers: Floats) -> float:
    """What was lost of announced numbers: as single precision, where it holds them, and as the wire otherwise.

    By the numbers themselves: double precision may hold what came in single.
    """
    return LOST if (numbers == numbers.astype(np.float32)).all() else LOST_ON_WIRE


_TILE = 64
"""Documents whose products are worked out together, so that what is added up stays in the processor's cache."""


def gram_of_contributions(made: FactoredContributions, scales: Scales) -> tuple[Floats, Floats]:
    """Products of documents' terms with one another, in these scales, shape (n, n); and how large numbers are
    that each one's own is the difference of, shape (n,).
    """
    rows = sp.csr_array(made.rows.multiply(scales.columns[None, :]))
    n, wide = rows.shape
    few = rows.nnz < _SPARSE * n * wide
    laid = rows if few else rows.toarray()
    basis, weights, scalars = made.basis * scales.columns, made.weights * scales.rows, made.scalars * scales.single
    found, across = (np.asarray(laid @ other) for other in (_dense(laid.T, few), basis.T))
    squares = np.square(weights).sum(axis=1) * found.diagonal() + np.square(scalars).sum(axis=1)
    form, parts = basis @ basis.T, []
    patterns, which = np.unique(made.taken, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        mine = np.ascontiguousarray(weights[:, which.ravel() == number])
        numbers = made.numbers[:, pattern]
        half = 0.5 * numbers @ form[np.ix_(pattern, pattern)] - across[:, pattern]
        parts.append((mine, np.hstack([numbers, half]), np.hstack([half, numbers])))
    for start in range(0, n, _TILE):
        end = min(start + _TILE, n)
        between, total = found[start:end, :end].copy(), scalars[start:end] @ scalars[:end].T
        left, together = np.empty_like(between), np.empty_like(between)
        for mine, ours, theirs in parts:
            np.matmul(ours[start:end], theirs[:end].T, out=left)
            left += between
            left *= np.matmul(mine[start:end], mine[:end].T, out=together)
            total += left
        found[start:end, :end], found[:end, start:end] = total, total.T
    return found, np.maximum(squares, found.diagonal())


def _dense(turned: Any, few: bool) -> Any:
    return turned.toarray() if few else turned


@dataclass(frozen=True, eq=False)
class RatingContributions:
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

    def split(self, sums: Floats) -> tuple[Floats, Floats]:
        """The rows, shape (2 sweeps k, d), and no single numbers."""
        return sums.reshape(-1, self.rows.shape[1]), sums[:0]

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
                residual = left[p] + before * topic[j]
                sums += residual * direction[0, step, j]
                squares += direction[1, step, j]
                left[p] = residual - found * after[j]
            total[i] += found * sums + found * found * squares


@njit(cache=True, nogil=True)
def _add(
    indptr: Any, indices: Any, data: Any, topics: Any, paths: Any, shares: Any, squared: bool, sums: Any
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
                residual = left[p] + before * topic[j]
                sums[0, step, j] += share * (residual * residual if squared else residual)
                sums[1, step, j] += share * (square if squared else found)
                left[p] = residual - found * after[j]


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
                residual = left[p] + before * topic[columns[p]]
                found[indptr[i] + p, 0, step] = own * residual
                found[indptr[i] + p, 1, step] = own * own
                left[p] = residual - own * after[columns[p]]
