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
from ksdp.audit.statistics.solved_parts import few_enough, solved_parts
from ksdp.audit.statistics.term_numbers import TermNumbers
from ksdp.audit.statistics.term_products import LOST
from ksdp.audit.statistics.terms import filtered

QUICKLY = 256
"""Documents up to which equations are solved for all at once; of more they are where documents that are fitted one
by one do not explain the sums, which costs a tenth where they do."""
MORE = 2.0
"""Numbers a document, from which on documents are fitted one by one; with fewer a filter is approached, which says
more there (enron-mail6, a third, PD-SVD: D 0.62 against 0.48 with 1.2, 0.70 against 0.71 with 2.4, 0.70 against
0.77 with 3.6)."""


def outnumbered(
    made: TermNumbers,
    shares: Floats,
    sums: Floats,
    entries: int,
    same: Ints | None = None,
    lost: float = LOST,
) -> Fitted | Direction | None:
    """Documents fitted to the sums one by one; None where numbers are fewer than documents, or these too many.

    Where they are few the equations are solved for all of them (`solved_parts`), however few the numbers are.

    Parameters
    ----------
    entries : of all documents' rows, whoever may be in
    same : a number that documents of the same content share, where somebody knows it, shape (n,)
    lost : of an announced number, squared, as a part of it
    """
    pairs = int(((made.weights != 0.0) @ made.taken.sum(axis=0)).sum())
    used, solved = _columns(made), few_enough(made.rows.shape[0])
    many = len(used) * made.weights.shape[1] >= MORE * made.rows.shape[0]
    if not (solved or many) or pairs > MOST_PAIRS:
        return None
    narrow, seen = made.within(used), _within(made, used, sums)
    apart = seen - narrow.summed(shares)
    if solved:
        if many and made.rows.shape[0] > QUICKLY:
            all_told = told(distinct(narrow, shares, same), used, apart)
            if all_told is not None:
                return all_told
        found = solved_parts(narrow, apart, shares, lost)
        if found.direction is None:
            return with_parts(narrow, used, seen - narrow.summed(shares + found.parts), found.parts)
        return replace(found.direction, numbers=_spread(made, used, found.direction.numbers))

    def begin() -> tuple[Floats, Floats]:
        found, usual = _filter_in(narrow, apart, np.zeros(narrow.entries), _work(made, entries))
        start = made.along(_spread(made, used, found)) - usual
        return start, seen - narrow.summed(shares + start)

    return fitted(distinct(narrow, shares, same), used, apart, begin)


def narrow_filter(
    made: TermNumbers, shares: Floats, sums: Floats, noise: Floats | float, entries: int
) -> tuple[Floats, float]:
    """The filter, and its mean over documents, in the columns that one of the documents has an entry in.

    It takes the steps that all documents, with so many `entries`, would take: what is left of them costs less.
    """
    used = _columns(made)
    narrow, heard = made.within(used), np.broadcast_to(noise, made.entries)
    apart = _within(made, used, sums) - narrow.summed(shares)
    found, usual = _filter_in(narrow, apart, _within(made, used, heard), _work(made, entries))
    return _spread(made, used, found), usual


def _filter_in(narrow: TermNumbers, apart: Floats, noise: Floats, work: int) -> tuple[Floats, float]:
    """The filter within some columns, and its mean over documents."""
    found = filtered(narrow, apart, noise, work)
    return found, float(narrow.mean @ found)


def _work(made: TermNumbers, entries: int) -> int:
    """That of as many entries as all documents have."""
    return int(made.work // max(made.rows.nnz, 1) * entries)


def _columns(made: TermNumbers) -> NDArray[Any]:
    """Those that a document has an entry in."""
    touched = np.zeros(made.rows.shape[1], np.bool_)
    touched[made.rows.indices] = True
    return np.flatnonzero(touched)


def _within(made: TermNumbers, columns: NDArray[Any], numbers: Floats) -> Floats:
    """The numbers of the sums in some columns, and the single ones."""
    rows, single = made.apart(numbers)
    return np.concatenate([rows[:, columns].ravel(), single])


def _spread(made: TermNumbers, columns: NDArray[Any], narrow: Floats) -> Floats:
    """Numbers of `_within` where they stand among all; 0 in other columns."""
    whole = np.zeros(made.entries)
    rows, single = made.apart(whole)
    rows[:, columns] = narrow[: len(rows) * len(columns)].reshape(len(rows), -1)
    single[:] = narrow[len(rows) * len(columns) :]
    return whole
