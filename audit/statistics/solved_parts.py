"""Who was in, where exact sums are announced of a few documents: what their equations say, solved.

Of sums Z = sum of b_i a_i, every number in units of its deviation, A A^T b = A Z (a document a row of A) has as
many unknowns as there are documents. Its matrix is small where these are few, and is made of a few products: the
terms of a row are w (x - q B), so that those of two documents have the product

    w_x w_y (<x, y> - q_x <B, y> - q_y <B, x> + q_x B B^T q_y).

Every document counts as one of length 1. Otherwise what large ones add is all that the first steps of an
approximation look at, or that a ridge of the mean variance leaves, and small ones, whom the same equations tell
apart, seem hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.linalg

from ksdp.audit.array_types import Floats, Ints
from ksdp.audit.kernels import one_thread
from ksdp.audit.statistics.max_entropy import Direction, direction_of, few_to_write
from ksdp.audit.statistics.raised_factor import raised_factor
from ksdp.audit.statistics.term_numbers import TermNumbers
from ksdp.audit.statistics.term_products import LEFT, LOST, products_of_terms
from ksdp.audit.statistics.term_scales import scales_of

MOST_SOLVED = 2048
"""Documents that may be in, up to which they are solved for: it takes a second a run, of twice as many four times
that."""
_ROUNDING = 2.0**-52
"""Of the squares that products of terms are differences of; times the documents, as sums of as many round."""
_AGAIN = 4
_LESS = 0.1
"""Of what was thought to be lost, below which parts are solved for once more."""
_SAME = 1e-9
"""Part of their terms in which copies differ at most."""


@dataclass(frozen=True, eq=False)
class Solved:
    """What equations say of documents."""

    parts: Floats
    """Those that leave least of the sums, less what is expected of them, shape (n,); about 0 of documents that add
    hardly anything."""
    direction: Direction | None = None
    """Where parts leave open who is in."""


def solved_parts(made: TermNumbers, apart: Floats, shares: Floats, lost: float = LOST) -> Solved:
    """Who was in, by linear least squares; where that leaves it open, the direction of largest entropy.

    Parameters
    ----------
    made : the documents' terms
    apart : the sums less what is expected of them, shape (entries,)
    shares : how likely each is in, shape (n,)
    lost : of an announced number, squared, as a part of it (`lost_of`)

    Notes
    -----
    With parts normal of variance p (1 - p), and what is lost of announced numbers normal too, the
    parts are what is expected of them: least squares by the normal equations with the ridge that this gives (Golub
    and Van Loan, Matrix Computations, sections 5.3 and 6.1). How much is lost depends on who was in: where large
    documents turn out not to have been, it is solved once more.
    """
    scales = scales_of(made)
    factors = scales.written()
    varied = max(float((shares * (1.0 - shares)).mean()), 1e-3)
    missing = _losses(made, factors, lost)

    with one_thread():
        gram, squares = products_of_terms(made, scales)
        right = made.along(apart * np.square(factors))
        sizes, rounding = gram.diagonal().copy(), len(gram) * _ROUNDING * squares
        adds = sizes > rounding
        lengths = np.sqrt(np.where(adds, sizes, np.inf))
        gram /= lengths
        gram /= lengths[:, None]
        rounding /= np.square(lengths)
        before, now = np.inf, missing(shares)
        for _ in range(_AGAIN):
            diagonal = partial(_diagonal, 1.0 + now / varied / np.square(lengths), rounding)
            factor = raised_factor(gram, diagonal, check_finite=False)
            found = np.asarray(scipy.linalg.cho_solve(factor, right / lengths, check_finite=False) / lengths)
            before, now = now, missing(np.clip(shares + found, 0.0, 1.0))
            if not now < _LESS * before:
                break
        first = _copies(gram, np.where(adds, lengths, 0.0))
        found = _shared(found, first)
        told = _everybody(shares + found, shares, first)
        left = np.square((apart - made.summed(told - shares)) * factors).sum()
        if left < LEFT * sizes[adds].min(initial=np.inf) and 2.0 * told.sum() > shares.sum():
            return Solved(found)
        if not few_to_write(len(gram), made.entries):
            return Solved(found)
        now = max(now, _ROUNDING**2 * float(sizes.max()))
        return Solved(found, direction_of(made, apart, shares, _noise(now, factors)))


def _losses(made: TermNumbers, factors: Floats, lost: float) -> Callable[[Floats], float]:
    """What is lost of a run's numbers in these units, by who is in."""
    plain = TermNumbers.plain(made.rows, made.weights, made.scalars)
    return lambda likely: lost * float(np.square(plain.summed(likely) * factors).mean())


def _noise(lost: float, factors: Floats) -> Floats:
    """The variance of every number, shape (entries,); who adds nothing to a number adds none."""
    return np.asarray(lost / np.square(np.where(factors > 0.0, factors, 1.0)))


def _shared(parts: Floats, first: Ints) -> Floats:
    """The mean over copies, of which `first` is one: equations say no more, and the rest is rounding."""
    several = np.bincount(first, minlength=len(parts))
    return np.asarray((np.bincount(first, parts, len(parts)) / np.maximum(several, 1))[first])


def _everybody(parts: Floats, shares: Floats, first: Ints) -> Floats:
    """1 or 0, in or out, of each document; of copies, of which `first` is one, their part that is in.

    Sums of 0 tell parts up to a factor: about as many as are expected are in.
    """
    if not parts.sum() > 0.0:
        return np.zeros(len(parts))
    several = np.bincount(first, minlength=len(parts))
    inside = np.rint(np.bincount(first, parts * (shares.sum() / parts.sum()), len(parts)))
    return np.asarray((np.clip(inside, 0, several) / np.maximum(several, 1))[first])


def _copies(gram: Floats, lengths: Floats) -> Ints:
    """For each document the first that adds the same, itself or one before it; `gram` of terms of length 1."""
    same = gram > 1.0 - _SAME
    same &= np.abs(lengths - lengths[:, None]) <= _SAME * np.minimum(lengths, lengths[:, None])
    np.fill_diagonal(same, True)
    return np.asarray(same.argmax(axis=1))


def few_enough(documents: int) -> bool:
    """Whether equations of so many documents are solved for all of these at once."""
    return documents <= MOST_SOLVED


def _diagonal(ridged: Floats, rounding: Floats, times: float) -> Floats:
    """1 and a ridge, and what rounding may take so many times."""
    return ridged + rounding * times
