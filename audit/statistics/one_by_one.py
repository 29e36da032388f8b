"""Who was in, where equations outnumber documents: these are fitted one after the other, each as if alone.

Of sums Z = sum of b_i a_i with more numbers than documents, b is what leaves least of Z, every number in units of
its own deviation. A document's b is set to what leaves least, given everybody else's of the moment; so once
around, and again until that changes little: coordinate descent, or Gauss and Seidel's method on A A^T b = A Z, A
the terms (Golub and Van Loan, Matrix Computations, section 11.2). It nears the least squares solution with every
round, and rows that share few columns need few of them, where conjugate gradients need a step for each cluster of
eigenvalues; rows that share many need hundreds, so that it begins with what those found.

What is said of a document is what it would get next, <a_x, Z - sum over i != x of b_i a_i> / |a_x|^2: about 1 for
whom the run held, about 0 for others. It needs no b of its own, so that documents that nobody fitted have one too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.csr_rows import arrays_of
from ksdp.audit.lanes import add_row_to_panel, csr_times_panel, panel_of, row_times_panel
from ksdp.audit.statistics.term_numbers import TermNumbers
from ksdp.audit.statistics.term_units import Units, units_of

__all__ = ["MOST_PAIRS", "MOST_ROUNDS", "Fitted", "fitted"]

SETTLED = 0.02
"""Part of what documents have that a round changes, in the root mean square, below which there is no other."""
MOST_ROUNDS = 64
MOST_PAIRS = 2**25
"""Products of a weight with another number, in all documents, that are kept for a fit: some 540 MB."""


@dataclass(frozen=True, eq=False)
class _Scaled:
    """The terms of documents in these units, w (x - sum over u of q_u B_u), as the fit reads them."""

    csr: tuple[Any, Any, Any]
    weights: NDArray[np.float32]
    pairs: tuple[Any, Any, Any]
    """Where each document's begin; for each weight that is not 0 and each number u that counts in its row: their
    place among all such, and w times <x, B_u>, q_u and <x - sum over v of q_v B_v, B_u>."""
    scalars: Floats
    sizes: Floats
    """|a|^2, shape (n,)."""


@dataclass(frozen=True, eq=False)
class _Left:
    """What the fit leaves of the sums: panel + sum over u of c_u B_u, and single numbers."""

    panel: NDArray[np.float32]
    single: Floats
    across: Floats
    """c, and the products of what is left with B_u, of each row and each u that counts in it; shape (all, 2)."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """Documents that were fitted to a run's sums, one after the other."""

    said: Floats
    """Of each of them, between -1 and 1, shape (n,); 0 where it adds nothing."""
    columns: NDArray[Any]
    """Columns of the sums that one of them has an entry in, ascending."""
    _units: Units
    _left: _Left

    def of(self, others: TermNumbers) -> Floats:
        """Of other documents, whom the fit does not know; what they have in other columns is not looked at."""
        scaled = _scaled(others, self.columns, self._units)
        nobody = np.zeros(len(scaled.sizes))
        return _between(_gone_through(scaled, self._left, nobody, move=False))


def fitted(
    made: TermNumbers,
    columns: NDArray[Any],
    apart: Floats,
    start: Floats | None = None,
    rounds: int = MOST_ROUNDS,
    settled: float = SETTLED,
) -> Fitted:
    """Fit documents to what is left of sums, one after the other, until a round changes little.

    Parameters
    ----------
    made : their terms; no document has an entry outside of `columns`
    columns : ascending
    apart : the sums in these columns, less what is expected of them: rows, then the single numbers
    start : what documents begin with, shape (n,); 0 where it is left out. `apart` is what that leaves of the sums.
    rounds : at most
    settled : part of what documents have that the last round changes, at most
    """
    units = units_of(made)
    scaled = _scaled(made, columns, units)
    wide = len(units.rows) * len(columns)
    rows = apart[:wide].reshape(-1, len(columns)) * units.columns[columns] * units.rows[:, None]
    basis = made.basis[:, columns] * units.columns[columns]
    across = np.zeros((int(made.taken.sum()), 2))
    across[:, 1] = (rows @ basis.T)[made.taken.T]
    left = _Left(panel_of(rows, np.float32), apart[wide:] * units.single, across)
    parts = np.zeros(len(scaled.sizes)) if start is None else start.copy()
    for _ in range(rounds):
        before = parts.copy()
        _gone_through(scaled, left, parts, move=True)
        if np.square(parts - before).sum() <= settled**2 * np.square(parts).sum():
            break
    return Fitted(_between(_gone_through(scaled, left, parts, move=False)), columns, units, left)


def _between(found: Floats) -> Floats:
    """The same order, between -1 and 1."""
    return np.asarray(found / (1.0 + np.abs(found)))


def _scaled(made: TermNumbers, columns: NDArray[Any], units: Units) -> _Scaled:
    indptr, indices, data = arrays_of(made.rows)
    place = np.zeros(made.rows.shape[1], np.int32)
    place[columns] = np.arange(len(columns), dtype=np.int32)
    apart = np.zeros(made.rows.shape[1])
    apart[columns] = units.columns[columns]
    csr = indptr, place[indices], data * apart[indices]
    weights = np.ascontiguousarray(made.weights * units.rows)
    scalars = np.ascontiguousarray(made.scalars * units.single)
    basis = made.basis[:, columns] * units.columns[columns]
    products = np.empty((len(weights), len(basis)))
    csr_times_panel(*csr, panel_of(basis), products)
    lists, counts, same = _lists(made.taken)
    most = int(((weights != 0.0) @ counts).sum())
    pairs = np.zeros(len(weights) + 1, np.int64), np.empty(most, np.uint32), np.empty((most, 3), np.float32)
    sizes = np.empty(len(weights))
    numbers = np.ascontiguousarray(made.numbers)
    _fill_pairs(csr, (weights, numbers, products, scalars), (lists, counts, same), basis @ basis.T, pairs, sizes)
    return _Scaled((csr[0], csr[1], csr[2].astype(np.float32)), weights.astype(np.float32), pairs, scalars, sizes)


def _lists(taken: NDArray[np.bool_]) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.bool_]]:
    """The numbers that count in each row, how many, and whether they are those of the row before."""
    counts = taken.sum(axis=0).astype(np.int64)
    lists = np.zeros((taken.shape[1], max(int(counts.max(initial=0)), 1)), np.uint32)
    same = np.zeros(taken.shape[1], np.bool_)
    for r, mine in enumerate(taken.T):
        lists[r, : counts[r]] = np.flatnonzero(mine)
        same[r] = r > 0 and bool((mine == taken[:, r - 1]).all())
    return lists, counts, same


def _gone_through(scaled: _Scaled, left: _Left, parts: Floats, *, move: bool) -> Floats:
    """What each document would get, one after the other; where they move, it is taken from what is left."""
    found = np.empty(len(parts))
    about = scaled.weights, scaled.scalars, scaled.sizes
    _round(scaled.csr, about, scaled.pairs, (left.panel, left.single, left.across), parts, move, found)
    return found


@njit(cache=True, nogil=True)
def _fill_pairs(csr: Any, arrays: Any, structure: Any, form: Any, pairs: Any, sizes: Any) -> None:
    """Fill in `_Scaled.pairs` and sizes; `form` is B B^T."""
    (indptr, _, data), (weights, numbers, products, scalars) = csr, arrays
    (lists, counts, same), (starts, places, values) = structure, pairs
    left = np.empty(lists.shape[1])
    at = 0
    for i in range(len(sizes)):
        whole = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            whole += data[p] * data[p]
        total, inner, known, place = 0.0, 0.0, False, 0
        for r in range(weights.shape[1]):
            weight, known = weights[i, r], known and same[r]
            if weight != 0.0:
                if not known:
                    inner, known = whole, True
                    for a in range(counts[r]):
                        u = lists[r, a]
                        left[a] = products[i, u]
                        for b in range(counts[r]):
                            left[a] -= form[u, lists[r, b]] * numbers[i, lists[r, b]]
                        inner -= numbers[i, u] * (products[i, u] + left[a])
                for a in range(counts[r]):
                    u = lists[r, a]
                    places[at] = place + a
                    values[at, 0] = weight * products[i, u]
                    values[at, 1] = weight * numbers[i, u]
                    values[at, 2] = weight * left[a]
                    at += 1
                total += weight * weight * max(inner, 0.0)
            place += counts[r]
        for s in range(scalars.shape[1]):
            total += scalars[i, s] * scalars[i, s]
        sizes[i] = total
        starts[i + 1] = at


@njit(cache=True, nogil=True)
def _round(csr: Any, about: Any, pairs: Any, left: Any, parts: Any, move: bool, found: Any) -> None:
    """Once through the documents: parts[i] += <a_i, left> / |a_i|^2, and left -= that times a_i, if they move."""
    (indptr, indices, data), (weights, scalars, sizes) = csr, about
    (starts, places, values), (panel, single, across) = pairs, left
    sums = np.zeros(panel.shape[1], panel.dtype)
    for i in range(len(parts)):
        found[i] = 0.0
        if not sizes[i] > 0.0:
            continue
        row_times_panel(indices, data, panel, indptr[i], indptr[i + 1], sums)
        plus, less, odd = 0.0, 0.0, (starts[i + 1] - starts[i]) % 2
        more, fewer = 0.0, 0.0  # two chains of sums each: one waits for itself
        for p in range(starts[i], starts[i + 1] - odd, 2):
            one, two = places[p], places[p + 1]
            plus += values[p, 0] * across[one, 0]
            less += values[p, 1] * across[one, 1]
            more += values[p + 1, 0] * across[two, 0]
            fewer += values[p + 1, 1] * across[two, 1]
        if odd:
            p = starts[i + 1] - 1
            plus += values[p, 0] * across[places[p], 0]
            less += values[p, 1] * across[places[p], 1]
        total = (plus + more) - (less + fewer)
        for r in range(weights.shape[1]):
            total += weights[i, r] * sums[r]
        for s in range(len(single)):
            total += scalars[i, s] * single[s]
        step = total / sizes[i]
        found[i] = parts[i] + step
        if not move:
            continue
        parts[i] += step
        for r in range(weights.shape[1]):
            sums[r] = -step * weights[i, r]
        for r in range(weights.shape[1], len(sums)):
            sums[r] = 0.0
        add_row_to_panel(indices, data, indptr[i], indptr[i + 1], sums, panel)
        for p in range(starts[i], starts[i + 1]):
            across[places[p], 0] += step * values[p, 1]
            across[places[p], 1] -= step * values[p, 2]
        for s in range(len(single)):
            single[s] -= step * scalars[i, s]
