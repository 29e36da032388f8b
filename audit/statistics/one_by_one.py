"""Who was in, where equations outnumber documents: these are fitted one after the other, each as if alone.

Of sums Z = sum of b_i a_i with more numbers than documents, b is what leaves least of Z, every number in units of
its own deviation, and lies between 0 and 1. A document's b is set to what leaves least, given everybody else's of
the moment, or to the nearer bound; so once around, and again until that changes little: coordinate descent, or
Gauss and Seidel's method on A A^T b = A Z, A the terms (Golub and Van Loan, Matrix Computations, section 11.2),
within bounds (Cryer 1971, doi.org/10.1137/0309028). Most documents soon stay at 0 and are asked again every fourth
round, and what they leave is told of others. Rows that share few columns need few rounds. Rows that share many
wait for one another for hundreds: where two dozens do not do it begins anew with what conjugate gradients find,
without bounds, which would hold them up.

What is said of a document is what it would get next, <a_x, Z - sum over i != x of b_i a_i> / |a_x|^2: about 1 for
whom the run held, about 0 for others. It needs no b of its own, so that documents that nobody fitted have one too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import csr_times_panel, panel_of
from ksdp.audit.sparse_rows import arrays_of
from ksdp.audit.statistics.distinct import Distinct
from ksdp.audit.statistics.explained import explained
from ksdp.audit.statistics.fit_passes import go_round
from ksdp.audit.statistics.term_numbers import TermNumbers
from ksdp.audit.statistics.term_scales import Scales, scales_of

SETTLED = 0.005
"""Part of what documents have that a round changes, in the root mean square, below which there is no other."""
FIRST = 0.003
"""The same of the first rows, by which they begin."""
PLENTY = 8
"""Numbers a document that these rows have: less work for each, and nearly all that there is to tell."""
SLOW = 5
"""Rounds after which twice as much will do."""
PATIENCE = 8
"""Rounds after which documents that still move wait for one another: they begin anew, with steps."""
BETWEEN = 3
"""Rounds between two of these, in which who stayed at a bound is passed over."""
FREELY = 0.02
"""The same of documents that begin with what steps found."""
MOST_ROUNDS = 64
_NO_BOUNDS = np.zeros((2, 0))
_NOBODY = np.zeros(0, np.bool_)
MOST_PAIRS = 2**25
"""Products of a weight with another number, in all documents, that are kept for a fit: some 540 MB."""


@dataclass(frozen=True, eq=False)
class _Scaled:
    """The terms of documents in these scales, w (x - sum over u of q_u B_u), as the fit reads them."""

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
    _scales: Scales
    _left: _Left

    def of(self, others: TermNumbers) -> Floats:
        """Of other documents, whom the fit does not know; what they have in other columns is not looked at."""
        kept = np.zeros(others.rows.shape[1], np.bool_)
        kept[self.columns] = True
        basis = np.ascontiguousarray(others.basis[:, self.columns])
        scaled = _scaled(replace(others, rows=others.rows[:, kept], basis=basis), self._scales)
        return between(_gone_through(scaled, self._left, np.zeros(len(scaled.sizes)), _NO_BOUNDS))


def fitted(
    once: Distinct, columns: NDArray[Any], apart: Floats, begin: Callable[[], tuple[Floats, Floats]]
) -> Fitted:
    """Fit documents to what is left of sums, one after the other, until a round changes little.

    Copies are fitted as one, which may be in as often as there are of them, and share what that gets.

    Parameters
    ----------
    once : their terms within `columns`, outside of which no document has an entry, each content once; b lies
        between 0 and 1, and is counted from what is expected of each
    columns : ascending
    apart : the sums in these columns, less what is expected of them: rows, then the single numbers
    begin : what documents begin with who wait for one another, shape (n,), and what that leaves of `apart`
    """
    scales = scales_of(once.made)
    scaled = _scaled(once.made, scales)
    parts = _by_first_rows(once, apart)
    if parts.any():
        apart = apart - once.made.summed(parts)
    left = _left_of(apart, once.made, scales)
    if not _settles(scaled, left, parts, once.bounds, _marks(), BETWEEN):
        start, apart = begin()
        left, parts = (
            _left_of(apart, once.made, scales),
            np.bincount(once.which, start).astype(np.float64),
        )
        bounds = np.array([[-np.inf], [np.inf]]).repeat(len(parts), axis=1)
        _settles(scaled, left, parts, bounds, [FREELY] * MOST_ROUNDS)
    found = once.of_each(_gone_through(scaled, left, parts, _NO_BOUNDS))
    return Fitted(between(found), columns, scales, left)


def told(once: Distinct, columns: NDArray[Any], apart: Floats) -> Fitted | None:
    """Who was in, to the last document, where documents that are in or out explain the sums (`explained`).

    None where none that are found do. Parameters as those of `fitted`.
    """
    scales = scales_of(once.made)
    scaled, left = _scaled(once.made, scales), _left_of(apart, once.made, scales)
    parts = np.zeros(len(once.shares))
    _settles(scaled, left, parts, once.bounds, _marks(), BETWEEN)
    exactly = explained(once, apart, parts, scales, scaled.sizes)
    if exactly is None:
        return None
    left = _left_of(apart - once.made.summed(exactly), once.made, scales)
    return Fitted(between(once.of_each(exactly)), columns, scales, left)


def _by_first_rows(once: Distinct, apart: Floats) -> Floats:
    """The parts that the first rows of the sums tell, where these are numbers enough for all documents; else 0."""
    parts, columns = np.zeros(len(once.shares)), once.made.rows.shape[1]
    rows = math.ceil(PLENTY * len(parts) / max(columns, 1))
    if 2 * rows <= once.made.weights.shape[1]:
        first = once.made.first(rows)
        scales = scales_of(first)
        left = _left_of(apart[: rows * columns], first, scales)
        _settles(_scaled(first, scales), left, parts, once.bounds, [FIRST] * PATIENCE, BETWEEN)
    return parts


def with_parts(made: TermNumbers, columns: NDArray[Any], apart: Floats, parts: Floats) -> Fitted:
    """The same of documents whose parts are known: `apart` is what these leave of the sums within `columns`."""
    scales = scales_of(made)
    left = _left_of(apart, made, scales)
    told = _gone_through(_scaled(made, scales), left, parts, _NO_BOUNDS)
    return Fitted(between(told), columns, scales, left)


def _left_of(apart: Floats, made: TermNumbers, scales: Scales) -> _Left:
    """What is left of the sums, in these scales."""
    wide = len(scales.rows) * len(scales.columns)
    rows = apart[:wide].reshape(-1, len(scales.columns)) * scales.columns * scales.rows[:, None]
    basis = np.asfortranarray(made.basis) * scales.columns
    across = np.zeros((int(made.taken.sum()), 2))
    across[:, 1] = (rows @ basis.T)[made.taken.T]
    return _Left(panel_of(rows, np.float32), apart[wide:] * scales.single, across)


def _marks() -> list[float]:
    return [SETTLED] * SLOW + [2 * SETTLED] * (PATIENCE - SLOW)


def _settles(
    scaled: _Scaled, left: _Left, parts: Floats, bounds: Floats, settled: Sequence[float], between: int = 0
) -> bool:
    """Go around as often as there are marks, until a round changes no more than its mark; whether one did.

    Only a round through everybody tells that; `between` two of these who stayed at a bound is passed over.
    """
    for mark in settled:
        before = parts.copy()
        _gone_through(scaled, left, parts, bounds)
        if np.square(parts - before).sum() <= mark**2 * np.square(parts).sum():
            return True
        resting = (parts == before) & ((parts == bounds[0]) | (parts == bounds[1]))
        for _ in range(between):
            _gone_through(scaled, left, parts, bounds, resting)
    return False


def between(found: Floats) -> Floats:
    """The same order, between -1 and 1."""
    return np.asarray(found / (1.0 + np.abs(found)))


def _scaled(made: TermNumbers, scales: Scales) -> _Scaled:
    indptr, indices, data = arrays_of(made.rows)
    csr = indptr, indices, data * scales.columns[indices]
    weights = np.ascontiguousarray(made.weights * scales.rows)
    scalars = np.ascontiguousarray(made.scalars * scales.single)
    basis = np.asfortranarray(made.basis) * scales.columns
    along = np.empty((len(weights), len(basis)))
    csr_times_panel(*csr, panel_of(basis), along)
    lists, counts, same = _lists(made.taken)
    most = int(((weights != 0.0) @ counts).sum())
    pairs = np.zeros(len(weights) + 1, np.int64), np.empty(most, np.uint32), np.empty((most, 3), np.float32)
    sizes = np.empty(len(weights))
    numbers = np.ascontiguousarray(made.numbers)
    _fill_pairs(csr, (weights, numbers, along, scalars), (lists, counts, same), basis @ basis.T, pairs, sizes)
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


def _gone_through(
    scaled: _Scaled, left: _Left, parts: Floats, bounds: Floats, resting: NDArray[np.bool_] = _NOBODY
) -> Floats:
    """What each document would get, one after the other; where they have bounds, it is taken from what is left."""
    found = np.empty(len(parts))
    about, rest = (scaled.weights, scaled.scalars, scaled.sizes), (left.panel, left.single, left.across)
    go_round(scaled.csr, about, scaled.pairs, rest, parts, bounds, resting, found)
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
