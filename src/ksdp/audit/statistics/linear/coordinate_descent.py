"""Coordinate descent for more equations than documents: one document after the other, each within its bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.numeric.kernels import add_row_to_panel, csr_times_panel, panel_of, row_times_panel
from ksdp.audit.numeric.sparse_rows import arrays_of, contents, contents_of
from ksdp.audit.statistics.linear.operator import FactoredContributions, Scales, scales_of


@njit(cache=True, nogil=True)
def go_round(
    csr: Any, about: Any, pairs: Any, residual: Any, parts: Any, bounds: Any, resting: Any, minimisers: Any
) -> None:
    """Once through the documents: minimisers[i] = parts[i] + <a_i, residual> / |a_i|^2."""
    (indptr, indices, data), (weights, scalars, sizes) = csr, about
    (starts, places, values), (panel, single, across) = pairs, residual
    sums = np.zeros(panel.shape[1], panel.dtype)
    for i in range(len(parts)):
        minimisers[i] = 0.0
        if not sizes[i] > 0.0 or (len(resting) and resting[i]):
            continue
        row_times_panel(indices, data, panel, indptr[i], indptr[i + 1], sums)
        plus, less, odd = 0.0, 0.0, (starts[i + 1] - starts[i]) % 2
        more, fewer = 0.0, 0.0  # two chains of sums each: one waits for itself
        for p in range(starts[i], starts[i + 1] - odd, 2):
            first_place, two = places[p], places[p + 1]
            plus += values[p, 0] * across[first_place, 0]
            less += values[p, 1] * across[first_place, 1]
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
        minimisers[i] = parts[i] + total / sizes[i]
        if not bounds.shape[1]:
            continue
        new = min(max(minimisers[i], bounds[0, i]), bounds[1, i])
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
    """Contributions of documents, each content once."""

    made: FactoredContributions
    """Contributions of one document of each content."""
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
        """Share the part of a content among its copies, shape (n,)."""
        return np.asarray((parts / self.several)[self.which])


def deduplicated(made: FactoredContributions, shares: Floats, same: Ints | None = None) -> Deduplicated:
    """Documents that may be in, by their content."""
    places, which, several = contents(made.rows) if same is None else contents_of(same)
    return Deduplicated(
        made.of(places), np.bincount(which, shares).astype(np.float64), several.astype(np.float64), which
    )


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
    """Residual of the sums after the fit: panel + sum over u of c_u B_u, and single numbers."""

    panel: NDArray[np.float32]
    single: Floats
    across: Floats
    """c, and the products of what is left with B_u, of each row and each u that counts in it; shape (all, 2)."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """Documents that were fitted to a run's sums, one after the other."""

    score: Floats
    """Score of each of them, between -1 and 1, shape (n,); 0 if it adds nothing."""
    columns: NDArray[Any]
    """Columns of the sums that one of them has an entry in, ascending."""
    _scales: Scales
    _left: _Left

    def of(self, others: FactoredContributions) -> Floats:
        """Score other documents, which the fit does not know; their entries in other columns are not looked at."""
        kept = np.zeros(others.rows.shape[1], np.bool_)
        kept[self.columns] = True
        basis = np.ascontiguousarray(others.basis[:, self.columns])
        scaled = _scaled(replace(others, rows=others.rows[:, kept], basis=basis), self._scales)
        return between(_gone_through(scaled, self._left, np.zeros(len(scaled.sizes))))


def fitted(unique: Deduplicated, residual: Floats, begin: Callable[[], tuple[Floats, Floats]]) -> Fitted:
    """Fit documents to what is left of sums, one after the other, until a round changes little."""
    scales = scales_of(unique.made)
    scaled = _scaled(unique.made, scales)
    parts = np.zeros(len(unique.shares))
    remaining = _left_of(residual, unique.made, scales)
    # A round that changes half a percent, in the root mean square, is the last one; after five, a percent will do.
    # After eight, documents that still move wait for one another: they begin anew, without bounds.
    if not _settles(scaled, remaining, parts, unique.bounds, [0.005] * 5 + [0.01] * 3, between=3):
        start, residual = begin()
        remaining, parts = (
            _left_of(residual, unique.made, scales),
            np.bincount(unique.which, start).astype(np.float64),
        )
        _settles(scaled, remaining, parts, np.array([[-np.inf], [np.inf]]).repeat(len(parts), axis=1), [0.02] * 64)
    weights = unique.of_each(_gone_through(scaled, remaining, parts))
    return Fitted(between(weights), np.arange(unique.made.rows.shape[1]), scales, remaining)


def with_parts(made: FactoredContributions, residual: Floats, parts: Floats) -> Fitted:
    """The same of documents whose parts are known: `residual` is what these leave of the sums."""
    scales = scales_of(made)
    remaining = _left_of(residual, made, scales)
    counts = _gone_through(_scaled(made, scales), remaining, parts)
    return Fitted(between(counts), np.arange(made.rows.shape[1]), scales, remaining)


def _left_of(residual: Floats, made: FactoredContributions, scales: Scales) -> _Left:
    wide = len(scales.rows) * len(scales.columns)
    rows = residual[:wide].reshape(-1, len(scales.columns)) * scales.columns * scales.rows[:, None]
    basis = np.asfortranarray(made.basis) * scales.columns
    across = np.zeros((int(made.taken.sum()), 2))
    across[:, 1] = (rows @ basis.T)[made.taken.T]
    return _Left(panel_of(rows, np.float32), residual[wide:] * scales.single, across)


def _settles(
    scaled: _Scaled, residual: _Left, parts: Floats, bounds: Floats, settled: Sequence[float], between: int = 0
) -> bool:
    """Go around as often as there are marks, until a round changes no more than its mark; whether one did."""
    for mark in settled:
        before = parts.copy()
        _gone_through(scaled, residual, parts, bounds)
        if np.square(parts - before).sum() <= mark**2 * np.square(parts).sum():
            return True
        resting = (parts == before) & ((parts == bounds[0]) | (parts == bounds[1]))
        for _ in range(between):
            _gone_through(scaled, residual, parts, bounds, resting)
    return False


def between(scores: Floats) -> Floats:
    """The same order, between -1 and 1."""
    return np.asarray(scores / (1.0 + np.abs(scores)))


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
    scaled: _Scaled,
    residual: _Left,
    parts: Floats,
    bounds: Floats | None = None,
    resting: NDArray[np.bool_] | None = None,
) -> Floats:
    weights = np.empty(len(parts))
    bounds = np.zeros((2, 0)) if bounds is None else bounds
    resting = np.zeros(0, np.bool_) if resting is None else resting
    about = scaled.weights, scaled.scalars, scaled.sizes
    rest = residual.panel, residual.single, residual.across
    go_round(scaled.csr, about, scaled.pairs, rest, parts, bounds, resting, weights)
    return weights


@njit(cache=True, nogil=True)
def _fill_pairs(csr: Any, arrays: Any, structure: Any, form: Any, pairs: Any, sizes: Any) -> None:
    (indptr, _, data), (weights, numbers, products, scalars) = csr, arrays
    (lists, counts, same), (starts, places, values) = structure, pairs
    residual = np.empty(lists.shape[1])
    at = 0
    for i in range(len(sizes)):
        square = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            square += data[p] * data[p]
        total, inner, is_settled, place = 0.0, 0.0, False, 0
        for r in range(weights.shape[1]):
            weight, is_settled = weights[i, r], is_settled and same[r]
            if weight != 0.0:
                if not is_settled:
                    inner, is_settled = square, True
                    for a in range(counts[r]):
                        u = lists[r, a]
                        residual[a] = products[i, u]
                        for b in range(counts[r]):
                            residual[a] -= form[u, lists[r, b]] * numbers[i, lists[r, b]]
                        inner -= numbers[i, u] * (products[i, u] + residual[a])
                for a in range(counts[r]):
                    u = lists[r, a]
                    places[at] = place + a
                    values[at, 0] = weight * products[i, u]
                    values[at, 1] = weight * numbers[i, u]
                    values[at, 2] = weight * residual[a]
                    at += 1
                total += weight * weight * max(inner, 0.0)
            place += counts[r]
        for s in range(scalars.shape[1]):
            total += scalars[i, s] * scalars[i, s]
        sizes[i] = total
        starts[i + 1] = at
