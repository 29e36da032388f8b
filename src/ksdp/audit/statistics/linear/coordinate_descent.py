"""Who was in, where equations outnumber documents: one document after the other, each within its bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.numeric.kernels import add_row_to_panel, csr_times_panel, panel_of, row_times_panel
from ksdp.audit.numeric.sparse_rows import arrays_of, contents, contents_of
from ksdp.audit.statistics.linear.operator import (
    LEFT,
    LOST,
    FactoredContributions,
    Scales,
    gram_of_contributions,
    scales_of,
)


@njit(cache=True, nogil=True)
def go_round(
    csr: Any, about: Any, pairs: Any, left: Any, parts: Any, bounds: Any, resting: Any, found: Any
) -> None:
    """Once through the documents: found[i] = parts[i] + <a_i, left> / |a_i|^2.

    Parts move there, or as far as bounds[0] and bounds[1] let them, and what that adds is taken from what is left;
    without bounds, of shape (2, 0), they stay. Who is `resting`, shape (n,) or nobody, is passed over.
    """
    (indptr, indices, data), (weights, scalars, sizes) = csr, about
    (starts, places, values), (panel, single, across) = pairs, left
    sums = np.zeros(panel.shape[1], panel.dtype)
    for i in range(len(parts)):
        found[i] = 0.0
        if not sizes[i] > 0.0 or (len(resting) and resting[i]):
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
        found[i] = parts[i] + total / sizes[i]
        if not bounds.shape[1]:
            continue
        new = min(max(found[i], bounds[0, i]), bounds[1, i])
        step = new - parts[i]
        if step == 0.0:
            continue
        parts[i] = new
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


@dataclass(frozen=True, eq=False)
class Deduplicated:
    """What documents add, each content once."""

    made: FactoredContributions
    """Of one document of each content."""
    shares: Floats
    """How many of its copies are expected to be in, shape (contents,)."""
    several: Floats
    """How many there are."""
    which: Ints
    """The content of every document, shape (n,)."""

    @property
    def bounds(self) -> Floats:
        """Between which parts lie: nobody is in, everybody; less what is expected, shape (2, contents)."""
        return np.stack([-self.shares, self.several - self.shares])

    def of_each(self, parts: Floats) -> Floats:
        """What its copies share of the parts of a content, shape (n,)."""
        return np.asarray((parts / self.several)[self.which])


def deduplicated(made: FactoredContributions, shares: Floats, same: Ints | None = None) -> Deduplicated:
    """Documents that may be in, by their content.

    Parameters
    ----------
    shares : how likely each is in, shape (n,)
    same : a number that documents of the same content share, where somebody knows it, shape (n,)
    """
    places, which, several = contents(made.rows) if same is None else contents_of(same)
    return Deduplicated(
        made.of(places), np.bincount(which, shares).astype(np.float64), several.astype(np.float64), which
    )


DOUBT = (0.1, 0.02, 0.004, 0.0008)
"""How far from in or out a document is, or how much what is left speaks of it, to be in doubt: few, then more."""
MOST = 0.5
"""Part of the documents that are solved for at most."""
RIDGE = 2.0**-30
"""Part of what each adds, for those whom the equations do not tell apart."""


def integer_solution(
    unique: Deduplicated, residual: Floats, parts: Floats, scales: Scales, sizes: Floats
) -> Floats | None:
    """How many of each content were in, less what is expected; None where none that is found explains the sums.

    Parameters
    ----------
    residual : the sums less what is expected of them, shape (entries,)
    parts : about how many were in, less what is expected, shape (contents,)
    scales : those of the sums
    sizes : |a|^2 of what one of each content adds, in these units

    Notes
    -----
    What is left of the sums must be less than a tenth of what the least document adds, squared. Sums of 0 tell
    parts up to a factor: where hardly anybody would be in, about as many as are expected are.
    """
    inside, adds = unique.shares + parts, sizes > LOST * sizes.max(initial=0.0)
    if not adds.any() or not inside[adds].sum() > 0.0:
        return None
    least, factors = LEFT * float(sizes[adds].min()), scales.written()
    counts = np.clip(np.rint(inside), 0.0, unique.several)
    if not _enough(unique, counts, adds):
        inside = inside * (unique.shares[adds].sum() / inside[adds].sum())
        counts = np.clip(np.rint(inside), 0.0, unique.several)
    doubted = adds & (np.abs(inside - counts) > DOUBT[0])
    for doubt in (*DOUBT, None):
        left = residual - unique.made.summed(counts - unique.shares)
        if np.square(left * factors).sum() < least:
            return counts - unique.shares if _enough(unique, counts, adds) else None
        if doubt is None:
            break
        along = unique.made.along(left * np.square(factors))
        speaks = np.abs(np.divide(along, sizes, out=np.zeros_like(along), where=adds))
        doubted |= adds & (speaks > doubt)
        places = np.flatnonzero(doubted)
        if len(places) > MOST * len(counts):
            break
        if len(places):
            counts[places] = _solved(unique, scales, places, counts[places], along[places])
    return None


def _enough(unique: Deduplicated, counts: Floats, adds: NDArray[np.bool_]) -> bool:
    return bool(2.0 * counts[adds].sum() > unique.shares[adds].sum())


def _solved(
    unique: Deduplicated, scales: Scales, places: NDArray[np.int64], counts: Floats, along: Floats
) -> Floats:
    """Re-solve the doubtful counts against the residual and round them."""
    gram, _ = gram_of_contributions(unique.made.of(places), scales)
    gram[np.diag_indices_from(gram)] *= 1.0 + RIDGE
    try:
        more = scipy.linalg.cho_solve(scipy.linalg.cho_factor(gram, check_finite=False), along, check_finite=False)
    except scipy.linalg.LinAlgError:
        return counts
    return np.asarray(np.clip(np.rint(counts + more), 0.0, unique.several[places]))


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

    score: Floats
    """Of each of them, between -1 and 1, shape (n,); 0 where it adds nothing."""
    columns: NDArray[Any]
    """Columns of the sums that one of them has an entry in, ascending."""
    _scales: Scales
    _left: _Left

    def of(self, others: FactoredContributions) -> Floats:
        """Of other documents, whom the fit does not know; what they have in other columns is not looked at."""
        kept = np.zeros(others.rows.shape[1], np.bool_)
        kept[self.columns] = True
        basis = np.ascontiguousarray(others.basis[:, self.columns])
        scaled = _scaled(replace(others, rows=others.rows[:, kept], basis=basis), self._scales)
        return between(_gone_through(scaled, self._left, np.zeros(len(scaled.sizes)), _NO_BOUNDS))


def fitted(
    unique: Deduplicated, columns: NDArray[Any], residual: Floats, begin: Callable[[], tuple[Floats, Floats]]
) -> Fitted:
    """Fit documents to what is left of sums, one after the other, until a round changes little.

    Copies are fitted as one, which may be in as often as there are of them, and share what that gets.

    Parameters
    ----------
    unique : their terms within `columns`, outside of which no document has an entry, each content once; b lies
        between 0 and 1, and is counted from what is expected of each
    columns : ascending
    residual : the sums in these columns, less what is expected of them: rows, then the single numbers
    begin : what documents begin with who wait for one another, shape (n,), and what that leaves of `residual`
    """
    scales = scales_of(unique.made)
    scaled = _scaled(unique.made, scales)
    parts = _by_first_rows(unique, residual)
    if parts.any():
        residual = residual - unique.made.summed(parts)
    left = _left_of(residual, unique.made, scales)
    if not _settles(scaled, left, parts, unique.bounds, _marks(), BETWEEN):
        start, residual = begin()
        left, parts = (
            _left_of(residual, unique.made, scales),
            np.bincount(unique.which, start).astype(np.float64),
        )
        bounds = np.array([[-np.inf], [np.inf]]).repeat(len(parts), axis=1)
        _settles(scaled, left, parts, bounds, [FREELY] * MOST_ROUNDS)
    found = unique.of_each(_gone_through(scaled, left, parts, _NO_BOUNDS))
    return Fitted(between(found), columns, scales, left)


def exact_memberships(unique: Deduplicated, columns: NDArray[Any], residual: Floats) -> Fitted | None:
    """Who was in, to the last document, where documents that are in or out explain the sums (`integer_solution`).

    None where none that are found do. Parameters as those of `fitted`.
    """
    scales = scales_of(unique.made)
    scaled, left = _scaled(unique.made, scales), _left_of(residual, unique.made, scales)
    parts = np.zeros(len(unique.shares))
    _settles(scaled, left, parts, unique.bounds, _marks(), BETWEEN)
    exactly = integer_solution(unique, residual, parts, scales, scaled.sizes)
    if exactly is None:
        return None
    left = _left_of(residual - unique.made.summed(exactly), unique.made, scales)
    return Fitted(between(unique.of_each(exactly)), columns, scales, left)


def _by_first_rows(unique: Deduplicated, residual: Floats) -> Floats:
    """The parts that the first rows of the sums tell, where these are numbers enough for all documents; else 0."""
    parts, columns = np.zeros(len(unique.shares)), unique.made.rows.shape[1]
    rows = math.ceil(PLENTY * len(parts) / max(columns, 1))
    if 2 * rows <= unique.made.weights.shape[1]:
        first = unique.made.first(rows)
        scales = scales_of(first)
        left = _left_of(residual[: rows * columns], first, scales)
        _settles(_scaled(first, scales), left, parts, unique.bounds, [FIRST] * PATIENCE, BETWEEN)
    return parts


def with_parts(made: FactoredContributions, columns: NDArray[Any], residual: Floats, parts: Floats) -> Fitted:
    """The same of documents whose parts are known: `residual` is what these leave of the sums within `columns`."""
    scales = scales_of(made)
    left = _left_of(residual, made, scales)
    counts = _gone_through(_scaled(made, scales), left, parts, _NO_BOUNDS)
    return Fitted(between(counts), columns, scales, left)


def _left_of(residual: Floats, made: FactoredContributions, scales: Scales) -> _Left:
    """What is left of the sums, in these scales."""
    wide = len(scales.rows) * len(scales.columns)
    rows = residual[:wide].reshape(-1, len(scales.columns)) * scales.columns * scales.rows[:, None]
    basis = np.asfortranarray(made.basis) * scales.columns
    across = np.zeros((int(made.taken.sum()), 2))
    across[:, 1] = (rows @ basis.T)[made.taken.T]
    return _Left(panel_of(rows, np.float32), residual[wide:] * scales.single, across)


def _marks() -> list[float]:
    return [SETTLED] * SLOW + [2 * SETTLED] * (PATIENCE - SLOW)


def _settles(
    scaled: _Scaled, left: _Left, parts: Floats, bounds: Floats, settled: Sequence[float], between: int = 0
) -> bool:
    """Go around as often as there are marks, until a round changes no more than its mark; whether one did."""
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


def _scaled(made: FactoredContributions, scales: Scales) -> _Scaled:
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
