"""Contributions of documents to the sums of a run, and products with them that never write them out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.numeric.kernels import add_rows_to_panel, csr_times_panel, lined, panel_of
from ksdp.audit.numeric.sparse_rows import arrays_of, take_rows
from ksdp.audit.statistics.products import row_dots, rows_times

MOST_ROWS = 2**16
"""Documents of the pool that are looked at, at most; at even steps where there are more."""


def at_even_steps(rows: sp.csr_array, most: int = MOST_ROWS) -> sp.csr_array:
    """Every so many of the rows, `most` at most."""
    step = even_step(rows.shape[0], most)
    return rows if step <= 1 else sp.csr_array(rows[::step])


def even_step(rows: int, most: int = MOST_ROWS) -> int:
    """Step that keeps at most `most` rows."""
    return max(-(-rows // most), 1)


class ContributionOperator(LinearOperator):  # type: ignore[misc] # SciPy has no types
    """A, whose row a_i is what document i adds to the sums of one run; shape (documents, numbers).

    Subclasses give `_matvec`, `_rmatvec`, `diagonal` and `written`. `matvec` takes each document by itself, to the
    last bit.
    """

    rows: sp.csr_array
    """Documents, shape (n, d), canonical."""
    lines: int
    """Rows of d numbers in the sums; single numbers follow them."""

    if TYPE_CHECKING:
        shape: tuple[int, int]

        def matvec(self, x: Floats) -> Floats:
            """A x."""

        def rmatvec(self, x: Floats) -> Floats:
            """A^T x."""

    def _init(self, single: int = 0) -> None:
        super().__init__(np.dtype(np.float64), (self.rows.shape[0], self.lines * self.rows.shape[1] + single))

    @property
    def work(self) -> int:
        """Multiplications of a product with A and one with its transpose, about."""
        return int(2 * self.rows.nnz * self.lines)

    def diagonal(self) -> Floats:
        """The diagonal of A^T A, about: second moments of all numbers, summed over documents."""
        raise NotImplementedError

    def written(self) -> Floats:
        """A as an array."""
        raise NotImplementedError

    def split(self, sums: Floats) -> tuple[Floats, Floats]:
        """The rows of d numbers, and the single numbers after them."""
        wide = self.lines * self.rows.shape[1]
        return sums[:wide].reshape(-1, self.rows.shape[1]), sums[wide:]

    @cached_property
    def mean(self) -> Floats:
        """The mean of what documents add, shape (numbers,)."""
        return self.rmatvec(np.full(self.rows.shape[0], 1.0 / max(self.rows.shape[0], 1)))


@dataclass(eq=False)
class FactoredContributions(ContributionOperator):
    """Contributions to the sums of one run: rows w (x - sum over u of q_u B_u), and single numbers."""

    rows: sp.csr_array
    numbers: Floats
    """q, shape (n, m)."""
    basis: Floats
    """B, shape (m, d)."""
    weights: Floats
    """w of every document and row, shape (n, r)."""
    taken: NDArray[np.bool_]
    """Which numbers count in each row, shape (m, r)."""
    scalars: Floats
    """Contributions to single numbers, shape (n, s)."""

    def __post_init__(self) -> None:
        """Say how large it is."""
        self.lines = self.weights.shape[1]
        self._init(self.scalars.shape[1])

    @classmethod
    def plain(cls, rows: sp.csr_array, weights: Floats, scalars: Floats | None = None) -> FactoredContributions:
        """Rows w x, nothing subtracted, and single numbers."""
        n, r = weights.shape
        nothing, taken = np.zeros((n, 0)), np.zeros((0, r), np.bool_)
        return cls(
            rows, nothing, np.zeros((0, rows.shape[1])), weights, taken, nothing if scalars is None else scalars
        )

    def unreduced(self) -> FactoredContributions:
        """The sums of which these are what is left: what single precision loses is a part of them."""
        return FactoredContributions.plain(self.rows, self.weights, self.scalars)

    def of(self, places: NDArray[Any]) -> FactoredContributions:
        """Return the contributions of some of the documents."""
        numbers, weights, scalars = (a[places] for a in (self.numbers, self.weights, self.scalars))
        return replace(self, rows=take_rows(self.rows, places), numbers=numbers, weights=weights, scalars=scalars)

    def first(self, rows: int) -> FactoredContributions:
        """Return contributions to the first rows of the sums, and to no single number."""
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

    def _matvec(self, direction: Floats) -> Floats:
        rows, single = self.split(np.ravel(direction))
        values = np.empty((self.rows.shape[0], len(rows)))
        csr_times_panel(self.rows.indptr, self.rows.indices, self.rows.data, panel_of(rows), values)
        values -= rows_times(self.numbers, self.taken * (self.basis @ rows.T))
        total = row_dots(values, self.weights)
        return total + rows_times(self.scalars, single) if len(single) else total

    def _rmatvec(self, shares: Floats) -> Floats:
        shares = np.ravel(shares)
        weighed = panel_of(self.weights.T)
        weighed *= shares[:, None]
        sums = lined((self.rows.shape[1], weighed.shape[1]))
        add_rows_to_panel(self.rows.indptr, self.rows.indices, self.rows.data, weighed, sums)
        values = np.ascontiguousarray(sums[:, : self.weights.shape[1]].T)
        values -= (self.taken * (self.numbers.T @ weighed[:, : len(values)])).T @ self.basis
        return np.concatenate([values.ravel(), shares @ self.scalars])

    def written(self) -> Floats:
        """A as an array."""
        dense, columns = self.rows.toarray(), []
        for weight, taken in zip(self.weights.T, self.taken.T, strict=True):
            residual = dense - self.numbers[:, taken] @ self.basis[taken]
            columns.append(weight[:, None] * residual)
        return np.hstack([*columns, self.scalars])

    def diagonal(self) -> Floats:
        """Second moments of all numbers, summed over documents, from some of these."""
        return self._diagonal

    @cached_property
    def _diagonal(self) -> Floats:
        step = max(1, self.rows.shape[0] // 1024)
        turned, numbers = sp.csr_array(self.rows[::step].T), self.numbers[::step]
        weights = np.square(self.weights[::step])
        diagonal = np.asarray(turned.multiply(turned) @ weights).T
        diagonal = np.ascontiguousarray(diagonal)
        for r, taken in enumerate(self.taken.T):
            if not taken.any():
                continue
            mine = np.ascontiguousarray(numbers[:, taken])
            weighed = weights[:, [r]] * mine
            _add_form(
                weighed.T @ mine,
                np.asarray(turned @ weighed),
                np.ascontiguousarray(self.basis[taken]),
                diagonal[r],
            )
        diagonal = np.maximum(diagonal, 0.0) * step  # what is left of nothing is rounding
        return np.concatenate([diagonal.ravel(), np.square(self.scalars).sum(axis=0)])


@njit(cache=True, nogil=True)
def _add_form(form: Any, crossed: Any, basis: Any, values: Any) -> None:
    for u in range(basis.shape[0]):
        for j in range(values.shape[0]):
            values[j] -= 2.0 * crossed[j, u] * basis[u, j]
        for v in range(basis.shape[0]):
            for j in range(values.shape[0]):
                values[j] += form[u, v] * basis[u, j] * basis[v, j]


@dataclass(frozen=True, eq=False)
class Scales:
    """Divisors of the numbers of each sum: one factor a column, one a row, one a single number."""

    columns: Floats
    """Reciprocals, shape (d,); 0 where nobody has an entry."""
    rows: Floats
    """Shape (r,)."""
    single: Floats
    """Shape (s,)."""

    def of(self, columns: Ints) -> Scales:
        """Return the scales of some columns."""
        return replace(self, columns=self.columns[columns])

    def written(self) -> Floats:
        """The factor of every number, as `FactoredContributions.written` has them; shape (entries,)."""
        return np.concatenate([np.outer(self.rows, self.columns).ravel(), self.single])


def scales_of(made: FactoredContributions) -> Scales:
    """The scales of what documents add."""
    columns, rows = np.zeros(made.rows.shape[1]), np.zeros(made.weights.shape[1])
    _add_squares(*arrays_of(made.rows), made.weights, columns, rows)
    total, single = float(rows.sum()), np.square(made.scalars).sum(axis=0)
    if len(made.basis):
        columns[columns <= 2.0**-104 * columns.max(initial=0.0)] = 0.0
    return Scales(_one_over_root(columns), np.sqrt(total) * _one_over_root(rows), _one_over_root(single))


def _one_over_root(squares: Floats) -> Floats:
    roots = np.zeros(len(squares))
    return np.divide(1.0, np.sqrt(squares), out=roots, where=squares > np.finfo(np.float64).tiny)


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


LOST = 2.0**-48
"""Squared: what single precision loses of a number."""
LOST_ON_WIRE = 2.0**-58
"""The same of the wire, where vectors of length 1 are written by multiples of 2^-31."""


def lost_of(numbers: Floats) -> float:
    """Return the error of announced numbers: that of single precision, or of the wire."""
    return LOST if (numbers == numbers.astype(np.float32)).all() else LOST_ON_WIRE


def gram_of_contributions(made: FactoredContributions, scales: Scales) -> tuple[Floats, Floats]:
    """A A^T in these scales, shape (n, n); and how large the numbers are that its diagonal is the difference of,
    shape (n,).
    """
    rows = sp.csr_array(made.rows.multiply(scales.columns[None, :]))
    n, wide = rows.shape
    few = rows.nnz < 0.05 * n * wide  # products of sparse rows then take less
    laid = rows if few else rows.toarray()
    basis, weights, scalars = made.basis * scales.columns, made.weights * scales.rows, made.scalars * scales.single
    inner_products, across = (np.asarray(laid @ other) for other in (laid.T.toarray() if few else laid.T, basis.T))
    squares = np.square(weights).sum(axis=1) * inner_products.diagonal() + np.square(scalars).sum(axis=1)
    form, parts = basis @ basis.T, []
    patterns, which = np.unique(made.taken, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        mine = np.ascontiguousarray(weights[:, which.ravel() == number])
        numbers = made.numbers[:, pattern]
        half = 0.5 * numbers @ form[np.ix_(pattern, pattern)] - across[:, pattern]
        parts.append((mine, np.hstack([numbers, half]), np.hstack([half, numbers])))
    tile = 64  # documents whose products stay in the cache
    for start in range(0, n, tile):
        end = min(start + tile, n)
        between, total = inner_products[start:end, :end].copy(), scalars[start:end] @ scalars[:end].T
        products, together = np.empty_like(between), np.empty_like(between)
        for mine, ours, theirs in parts:
            np.matmul(ours[start:end], theirs[:end].T, out=products)
            products += between
            products *= np.matmul(mine[start:end], mine[:end].T, out=together)
            total += products
        inner_products[start:end, :end], inner_products[:end, start:end] = total, total.T
    return inner_products, np.maximum(squares, inner_products.diagonal())


_HELD = 2**24
"""Numbers that documents' entries add which are kept at a time: 128 MB."""


class EntryContributions(ContributionOperator):
    """Contributions to the sums at a document's own entries alone, as users' to the sums of the items they rated.

    Subclasses say how much each entry adds to every row of its column (`entered`).
    """

    def entered(self, rows: sp.csr_array) -> Floats:
        """Return the contribution of each stored entry to every row of its column, shape (nnz, lines)."""
        raise NotImplementedError

    def _parts(self) -> Iterator[tuple[slice, sp.csr_array, Floats]]:
        if self.rows.nnz * self.lines <= _HELD:
            yield slice(0, self.rows.shape[0]), self.rows, self._all
            return
        most = max(_HELD // max(self.lines * int(np.diff(self.rows.indptr).max(initial=1)), 1), 1)
        for start in range(0, self.rows.shape[0], most):
            part = slice(start, min(start + most, self.rows.shape[0]))
            rows = take_rows(self.rows, np.arange(part.start, part.stop))
            yield part, rows, self.entered(rows)

    @cached_property
    def _all(self) -> Floats:
        return self.entered(self.rows)

    def _matvec(self, direction: Floats) -> Floats:
        panel = np.ascontiguousarray(np.ravel(direction).reshape(self.lines, -1).T)
        values = np.zeros(self.rows.shape[0])
        for part, rows, entered in self._parts():
            _entries_along(rows.indptr, rows.indices, entered, panel, values[part])
        return values

    def _rmatvec(self, shares: Floats) -> Floats:
        return self._added(np.ravel(shares), squared=False)

    def diagonal(self) -> Floats:
        """Second moments of all numbers, summed over documents."""
        return self._diagonal

    @cached_property
    def _diagonal(self) -> Floats:
        return self._added(np.ones(self.rows.shape[0]), squared=True)

    def _added(self, shares: Floats, squared: bool) -> Floats:
        sums = np.zeros((self.rows.shape[1], self.lines))
        for part, rows, entered in self._parts():
            _add_entries(rows.indptr, rows.indices, entered, shares[part], squared, sums)
        return sums.T.ravel()

    def written(self) -> Floats:
        """A as an array."""
        lines_written = np.zeros((self.rows.shape[0], self.lines, self.rows.shape[1]))
        documents = np.repeat(np.arange(self.rows.shape[0]), np.diff(self.rows.indptr))
        lines_written[documents, :, self.rows.indices] = self.entered(self.rows)
        return lines_written.reshape(self.rows.shape[0], -1)

    def gram(self, noise: Floats) -> Floats:
        """A A^T over the noise, column by column: two documents share numbers where both have an entry."""
        each, columns = self.entered(self.rows), self.rows.indices
        factors = 1.0 / np.sqrt(noise.reshape(self.lines, -1))
        order = np.argsort(columns, kind="stable")
        documents = np.repeat(np.arange(self.rows.shape[0]), np.diff(self.rows.indptr))[order]
        starts = np.searchsorted(columns[order], np.arange(self.rows.shape[1] + 1))
        products = np.zeros((self.rows.shape[0],) * 2)
        for column, (first, last) in enumerate(pairwise(starts)):
            mine = each[order[first:last]] * factors[:, column]
            products[np.ix_(documents[first:last], documents[first:last])] += mine @ mine.T
        return products


@njit(cache=True, nogil=True)
def _entries_along(indptr: Any, indices: Any, entered: Any, panel: Any, values: Any) -> None:
    for i in range(values.size):
        for p in range(indptr[i], indptr[i + 1]):
            for r in range(panel.shape[1]):
                values[i] += entered[p, r] * panel[indices[p], r]


@njit(cache=True, nogil=True)
def _add_entries(indptr: Any, indices: Any, entered: Any, shares: Any, squared: bool, sums: Any) -> None:
    """sums += what every document's entries add, or their squares, times its share."""
    for i in range(shares.size):
        for p in range(indptr[i], indptr[i + 1]):
            for r in range(sums.shape[1]):
                entry = entered[p, r]
                sums[indices[p], r] += shares[i] * (entry * entry if squared else entry)


@dataclass(eq=False)
class RatingContributions(EntryContributions):
    """Contributions to the sums of sweeps 1, 2, ..., those of W_t^T R_t, and then to those of W_t^2."""

    rows: sp.csr_array
    """Documents, shape (n, d), canonical; stored zeros are ratings."""
    topics: Floats
    """Before the first sweep, and after each, shape (sweeps + 1, k, d)."""
    gamma: float = 0.0
    delta: float = 0.0
    """Regularisers of the coefficients."""

    def __post_init__(self) -> None:
        """Say how large it is."""
        self.lines = 2 * (len(self.topics) - 1) * self.topics.shape[1]
        self._init()

    def entered(self, rows: sp.csr_array) -> Floats:
        """Return the contribution of each rating to every sum of its item, shape (nnz, 2 sweeps k)."""
        entries = np.zeros((rows.nnz, self.lines))
        _enter(*arrays_of(rows), self.topics, float(self.gamma), float(self.delta), entries)
        return entries


@njit(cache=True, nogil=True)
def _enter(indptr: Any, indices: Any, data: Any, topics: Any, gamma: float, delta: float, entries: Any) -> None:
    rank, steps = topics.shape[1], entries.shape[1] // 2
    path = np.empty(steps)
    for i in range(len(indptr) - 1):
        start, end = indptr[i], indptr[i + 1]
        columns, residual = indices[start:end], data[start:end].copy()
        for step in range(steps):
            before = path[step - rank] if step >= rank else 0.0
            topic, after = topics[step // rank, step % rank], topics[step // rank + 1, step % rank]
            above, below = -gamma, delta
            for p in range(columns.size):
                weight = topic[columns[p]]
                residual[p] += before * weight
                above += residual[p] * weight
                below += weight * weight
            own = above / below if above > 0.0 and below > 0.0 else 0.0
            path[step] = own
            for p in range(columns.size):
                entries[start + p, step] = own * residual[p]
                entries[start + p, steps + step] = own * own
                residual[p] -= own * after[columns[p]]
