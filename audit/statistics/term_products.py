"""Products of documents' terms with one another: the matrix of the equations in who is in (`solved_parts`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Floats
from ksdp.audit.statistics.term_numbers import TermNumbers
from ksdp.audit.statistics.term_scales import Scales

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


def products_of_terms(made: TermNumbers, scales: Scales) -> tuple[Floats, Floats]:
    """Products of documents' terms with one another, in these scales, shape (n, n); and how large numbers are
    that each one's own is the difference of, shape (n,)."""
    rows = sp.csr_array(made.rows.multiply(scales.columns[None, :]))
    n, wide = rows.shape
    few = rows.nnz < _SPARSE * n * wide
    laid = rows if few else rows.toarray()
    basis, weights, scalars = made.basis * scales.columns, made.weights * scales.rows, made.scalars * scales.single
    between, across = (np.asarray(laid @ other) for other in (_dense(laid.T, few), basis.T))
    form = basis @ basis.T
    found = scalars @ scalars.T
    squares = np.square(weights).sum(axis=1) * between.diagonal() + np.square(scalars).sum(axis=1)
    left = np.empty_like(found)
    patterns, which = np.unique(made.taken, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        mine = weights[:, which.ravel() == number]
        numbers = np.ascontiguousarray(made.numbers[:, pattern])
        half = 0.5 * numbers @ form[np.ix_(pattern, pattern)] - across[:, pattern]
        np.matmul(np.hstack([numbers, half]), np.hstack([half, numbers]).T, out=left)
        left += between
        left *= mine @ mine.T
        found += left
    return found, np.maximum(squares, found.diagonal())


def _dense(turned: Any, few: bool) -> Any:
    return turned.toarray() if few else turned
