"""Exact sums that are more numbers than the documents that may be in: who was in, document by document.

Few documents are solved for all at once (`solved_parts`). More are fitted one after the other (`one_by_one`), in
the columns that one of them has an entry in.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats, Ints
from ksdp.audit.statistics.distinct import distinct
from ksdp.audit.statistics.max_entropy import Direction
from ksdp.audit.statistics.one_by_one import MOST_PAIRS, Fitted, fitted, told, with_parts
from ksdp.audit.statistics.solved_parts import few_enough, open_direction, solved_parts
from ksdp.audit.statistics.term_numbers import TermNumbers
from ksdp.audit.statistics.terms import filtered

__all__ = ["MORE", "narrow_filter", "outnumbered"]

QUICKLY = 256
"""Documents up to which equations are solved for all at once; of more they are where documents that are fitted one
by one do not explain the sums, which costs a tenth where they do."""
MORE = 2.0
"""Numbers a document, from which on documents are fitted one by one; with fewer a filter is approached, which says
more there (enron-mail6, a third, PD-SVD: D 0.62 against 0.48 with 1.2, 0.70 against 0.71 with 2.4, 0.70 against
0.77 with 3.6)."""


def outnumbered(
    made: TermNumbers, shares: Floats, sums: Floats, entries: int, same: Ints | None = None
) -> Fitted | Direction | None:
    """Documents fitted to the sums one by one; None where numbers are fewer than documents, or these too many.

    Where they are few the equations are solved for all of them (`solved_parts`), however few the numbers are.

    Parameters
    ----------
    entries : of all documents' rows, whoever may be in
    same : a number that documents of the same content share, where somebody knows it, shape (n,)
    """
    pairs = int(((made.weights != 0.0) @ made.taken.sum(axis=0)).sum())
    used, solved = _columns(made), few_enough(made.rows.shape[0])
    many = len(used) * made.weights.shape[1] >= MORE * made.rows.shape[0]
    if not (solved or many) or pairs > MOST_PAIRS:
        return None
    narrow, at = _narrowed(made, used)
    apart = sums[at] - narrow.summed(shares)
    if solved:
        if many and made.rows.shape[0] > QUICKLY:
            all_told = told(distinct(narrow, shares, same), used, apart)
            if all_told is not None:
                return all_told
        direction = open_direction(narrow, apart, shares)
        if direction is None:
            found = solved_parts(narrow, apart, shares)
            if found.direction is None:
                return with_parts(narrow, used, sums[at] - narrow.summed(shares + found.parts), found.parts)
            direction = found.direction
        numbers = np.zeros(made.entries)
        numbers[at] = direction.numbers
        return replace(direction, numbers=numbers)

    def begin() -> tuple[Floats, Floats]:
        direction, usual = _narrowly(made, (narrow, at), shares, sums, 0.0, entries)
        start = made.along(direction) - usual
        return start, sums[at] - narrow.summed(shares + start)

    return fitted(distinct(narrow, shares, same), used, apart, begin)


def _narrowed(made: TermNumbers, columns: NDArray[Any]) -> tuple[TermNumbers, NDArray[Any]]:
    """The terms within some columns, and where their numbers stand among all."""
    return made.within(columns), _places(made, columns)


def narrow_filter(
    made: TermNumbers, shares: Floats, sums: Floats, noise: Floats | float, entries: int
) -> tuple[Floats, float]:
    """The filter, and its mean over documents, in the columns that one of the documents has an entry in.

    It takes the steps that all documents, with so many `entries`, would take: what is left of them costs less.
    """
    return _narrowly(made, _narrowed(made, _columns(made)), shares, sums, noise, entries)


def _narrowly(
    made: TermNumbers,
    narrowed: tuple[TermNumbers, NDArray[Any]],
    shares: Floats,
    sums: Floats,
    noise: Floats | float,
    entries: int,
) -> tuple[Floats, float]:
    fewer, at = narrowed
    whole = made.work // max(made.rows.nnz, 1) * entries
    found = filtered(fewer, sums[at] - fewer.summed(shares), np.broadcast_to(noise, made.entries)[at], whole)
    direction = np.zeros(made.entries)
    direction[at] = found
    return direction, float(fewer.mean @ found)


def _columns(made: TermNumbers) -> NDArray[Any]:
    """Those that a document has an entry in."""
    touched = np.zeros(made.rows.shape[1], np.bool_)
    touched[made.rows.indices] = True
    return np.flatnonzero(touched)


def _places(made: TermNumbers, columns: NDArray[Any]) -> NDArray[Any]:
    """Where the rows of the sums in some columns stand among all numbers, and the single numbers."""
    wide = made.weights.shape[1] * made.rows.shape[1]
    at = np.arange(wide).reshape(-1, made.rows.shape[1])[:, columns].ravel()
    return np.concatenate([at, np.arange(wide, made.entries)])
