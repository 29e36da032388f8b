"""Who was in: which way a linear system is solved, and the ways."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, cast

import numpy as np
import scipy.linalg
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.numeric.kernels import add_row_to_panel, lined, one_thread, panel_of, row_times_panel
from ksdp.audit.statistics.linear.coordinate_descent import (
    MOST_PAIRS,
    Fitted,
    deduplicated,
    exact_memberships,
    fitted,
    with_parts,
)
from ksdp.audit.statistics.linear.operator import (
    LEFT,
    LOST,
    ContributionOperator,
    FactoredContributions,
    RatingContributions,
    Scales,
    gram_of_contributions,
    scales_of,
)
from ksdp.audit.statistics.linear.tilting import Direction, direction_of, few_to_write, raised_factor, span_of


def by_steps(times: Callable[[Floats], Floats], residual: Floats, steps: int) -> Floats:
    """Conjugate gradients for `times`(x) = residual from zero, this many steps."""
    solution, left, direction = np.zeros_like(residual), residual.copy(), residual.copy()
    size = float(left @ left)
    for _ in range(steps):
        if not size > 0.0:
            break
        image = times(direction)
        bent = float(direction @ image)
        if bent == 0.0:  # there already: what is left is too small to be squared
            break
        length = size / bent
        _moved(solution, left, direction, image, length)
        before, size = size, float(left @ left)
        _turned(direction, left, size / before)
    return solution


@njit(cache=True, nogil=True)
def _moved(solution: Any, left: Any, direction: Any, image: Any, length: Any) -> None:
    """One way along a direction, in one pass: solution += length direction, left -= length image."""
    for i in range(len(left)):
        solution[i] += length * direction[i]
        left[i] -= length * image[i]


@njit(cache=True, nogil=True)
def _turned(direction: Any, left: Any, part: Any) -> None:
    """direction = left + part direction."""
    for i in range(len(left)):
        direction[i] = part * direction[i] + left[i]


def approached(made: FactoredContributions, residual: Floats, ridge: Floats, steps: int) -> Floats:
    """About C^-1 residual, C the sum of (a - mean) (a - mean)^T over the documents, and `ridge`; shape (entries,).

    Every entry is measured in its own deviation, which preconditions, and keeps numbers near 1.

    Parameters
    ----------
    ridge : shape (entries,)
        Added to the variances, positive.
    """
    scale = 1.0 / np.sqrt(made.variances + ridge)
    right = residual * scale
    length = float(np.linalg.norm(right))
    if not length > 0.0:
        return np.zeros_like(residual)
    covariance = _Covariance(made, scale, ridge)
    found = by_steps(covariance.times, covariance.laid(right / length), steps)
    return covariance.written(found) * (length * scale)


class _Covariance:
    """C, as it acts on vectors of entries in units of their deviations, feature after feature."""

    def __init__(self, made: FactoredContributions, scale: Floats, ridge: Floats) -> None:
        self._made, self._csr = made, (made.rows.indptr, made.rows.indices, made.rows.data)
        self._numbers, self._scalars = np.ascontiguousarray(made.numbers), np.ascontiguousarray(made.scalars)
        self._weights = panel_of(made.weights.T)
        self._taken = np.zeros((len(made.taken), self._weights.shape[1]))
        self._taken[:, : made.taken.shape[1]] = made.taken
        self._scale, self._ridge = self.laid(scale), self.laid(ridge * np.square(scale))
        self._mean = self.laid(made.mean * scale)
        self._scaled, self._image = (lined(self._mean.shape, np.float64) for _ in range(2))
        self._less = np.empty((made.rows.shape[1], self._weights.shape[1]))

    def laid(self, entries: Floats) -> Any:
        """Entries as a panel, a feature's rows side by side, then the single numbers."""
        rows, single = self._made.split(entries)
        panel = panel_of(rows).ravel()
        laid = lined((len(panel) + len(single),), np.float64)
        laid[: len(panel)], laid[len(panel) :] = panel, single
        return laid

    def written(self, laid: Any) -> Floats:
        """One row of the sums after the other."""
        panel, single = self._parts(laid)
        return np.concatenate([panel[:, : self._made.weights.shape[1]].T.ravel(), single])

    def _parts(self, laid: Any) -> tuple[Any, Any]:
        wide = self._made.rows.shape[1] * self._weights.shape[1]
        return laid[:wide].reshape(-1, self._weights.shape[1]), laid[wide:]

    def times(self, direction: Any) -> Any:
        """C direction."""
        np.multiply(direction, self._scale, out=self._scaled)
        panel, single = self._parts(self._scaled)
        form = self._taken * (self._made.basis @ panel)
        image = self._image  # read before the next one is asked for
        image.fill(0)
        across, alone = self._parts(image)
        residual = np.empty(len(self._numbers))
        arrays = (self._numbers, self._weights, self._scalars)
        _pass(self._csr, arrays, (panel, form, single), self._mean @ direction, residual, across)
        form = self._taken * (self._numbers.T @ (self._weights * residual[:, None]))
        np.matmul(self._made.basis.T, form, out=self._less)
        alone += residual @ self._scalars
        _scaled_back(image, self._less.ravel(), self._scale, self._ridge, direction)
        return image


@njit(cache=True, nogil=True)
def _scaled_back(image: Any, less: Any, scale: Any, ridge: Any, direction: Any) -> None:
    """image = (image - less) scale + ridge direction; nothing is subtracted from what is beyond `less`."""
    for i in range(len(less)):
        image[i] = (image[i] - less[i]) * scale[i] + ridge[i] * direction[i]
    for i in range(len(less), len(image)):
        image[i] = image[i] * scale[i] + ridge[i] * direction[i]


@njit(cache=True, nogil=True)
def _pass(csr: Any, arrays: Any, direction: Any, mean: Any, residual: Any, across: Any) -> None:
    """Each document's product with a direction less `mean` into `residual`; its entries times it into `across`."""
    (indptr, indices, data), (numbers, weights, scalars), (panel, form, single) = csr, arrays, direction
    every = np.arange(numbers.shape[1])
    sums, less = np.empty(panel.shape[1], panel.dtype), np.empty(panel.shape[1], panel.dtype)
    for i in range(len(residual)):
        row_times_panel(indices, data, panel, indptr[i], indptr[i + 1], sums)
        row_times_panel(every, numbers[i], form, 0, numbers.shape[1], less)
        total = -mean
        for r in range(len(sums)):
            total += weights[i, r] * (sums[r] - less[r])
        for s in range(len(single)):
            total += scalars[i, s] * single[s]
        residual[i] = total
        for r in range(len(sums)):
            sums[r] = total * weights[i, r]
        add_row_to_panel(indices, data, indptr[i], indptr[i + 1], sums, across)


MOST_SOLVED = 2048
"""Documents that may be in, up to which they are solved for: it takes a second a run, of twice as many four times
that."""
_ROUNDING = 2.0**-52
"""Of the squares that products of terms are differences of; times the documents, as sums of as many round."""
_IN_TERMS = 2.0**-49
"""Of a number's second moments, times the numbers: what terms lose where they follow from single precision."""
_EVEN = 2.0**24
"""What the least document adds, squared, over that, at least: it would hide the documents that are smaller."""
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


def solved_parts(made: FactoredContributions, residual: Floats, shares: Floats, lost: float = LOST) -> Solved:
    """Who was in, by linear least squares; where that leaves it open, the direction of largest entropy.

    Parameters
    ----------
    made : the documents' terms
    residual : the sums less what is expected of them, shape (entries,)
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
        gram, squares = gram_of_contributions(made, scales)
        right = made.along(residual * np.square(factors))
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
        counts = _everybody(shares + found, shares, first)
        left = np.square((residual - made.summed(counts - shares)) * factors).sum()
        if left < LEFT * sizes[adds].min(initial=np.inf) and 2.0 * counts.sum() > shares.sum():
            return Solved(found)
        if not few_to_write(len(gram), made.entries):
            return Solved(found)
        noise = _noise(now, factors, sizes)
        if lost >= LOST:
            noise += _noise_of_terms(sizes[adds], made.variances)
        return Solved(found, direction_of(made, residual, shares, noise))


_MANY = 2
"""Documents of different lengths a number, from which on no parts tell who is in: they are not solved for."""
_NOTHING = 1e-4
"""Of the longest document's length; shorter ones, which what it loses might hide, are not counted among these."""


def direction_of_few_numbers(
    made: FactoredContributions, residual: Floats, shares: Floats, lost: float = LOST
) -> Direction | None:
    """The direction of largest entropy, as `solved_parts` finds it, where documents are many more than numbers.

    None where they are not. A database is then one of many that agree with the sums, and least squares are of no
    use: nothing of the size of the documents' products is worked out.
    """
    many = _MANY * made.entries
    if not 0 < many <= made.rows.shape[0] or not few_to_write(made.rows.shape[0], made.entries):
        return None
    with one_thread():
        factors, terms = scales_of(made).written(), made.written()
        sizes = np.square(terms * factors).sum(axis=1)
        adds = sizes > _NOTHING**2 * sizes.max()
        if len(np.unique(np.sqrt(sizes[adds]).astype(np.float32))) < many:
            return None
        noise = _noise(_losses(made, factors, lost)(shares), factors, sizes)
        if lost >= LOST:
            noise += _noise_of_terms(sizes[adds], np.square(terms).sum(axis=0))
        return direction_of(made, residual, shares, noise, terms)


def _losses(made: FactoredContributions, factors: Floats, lost: float) -> Callable[[Floats], float]:
    """What is lost of a run's numbers in these units, by who is in."""
    plain = FactoredContributions.plain(made.rows, made.weights, made.scalars)
    return lambda likely: lost * float(np.square(plain.summed(likely) * factors).mean())


def _noise(lost: float, factors: Floats, sizes: Floats) -> Floats:
    """The variance of every number, shape (entries,); who adds nothing to a number adds none."""
    lost = max(lost, _ROUNDING**2 * float(sizes.max()))
    return np.asarray(lost / np.square(np.where(factors > 0.0, factors, 1.0)))


def _noise_of_terms(sizes: Floats, variances: Floats) -> Floats | float:
    """That of terms which follow from single precision; 0 where it would hide the least of the documents."""
    lost = (len(variances) + 1) * _IN_TERMS
    return lost * variances if sizes.min(initial=np.inf) > _EVEN * lost else 0.0


def _shared(parts: Floats, first: Ints) -> Floats:
    """The mean over copies, of which `first` is one: equations say no more, and the rest is rounding."""
    several = np.bincount(first, minlength=len(parts))
    return np.asarray((np.bincount(first, parts, len(parts)) / np.maximum(several, 1))[first])


def _everybody(parts: Floats, shares: Floats, first: Ints) -> Floats:
    """1 or 0, in or out, of each document; of copies, of which `first` is one, their part that is in."""
    if not parts.sum() > 0.0:
        return np.zeros(len(parts))
    several = np.bincount(first, minlength=len(parts))
    inside = np.rint(np.bincount(first, parts * (shares.sum() / parts.sum()), len(parts)))
    return np.asarray((np.clip(inside, 0, several) / np.maximum(several, 1))[first])


def _copies(gram: Floats, lengths: Floats) -> Ints:
    """For each document the first that adds the same, itself or one before it; `gram` of terms of length 1."""
    first, order = np.arange(len(lengths)), np.argsort(lengths, kind="stable")
    short = lengths[order]
    ends = np.flatnonzero(np.append(np.diff(short) > _SAME * short[:-1], True)) + 1
    counts = np.diff(ends, prepend=0)
    for end, count in zip(ends[counts > 1], counts[counts > 1], strict=True):
        alike = np.sort(order[end - count : end])
        same = gram[np.ix_(alike, alike)] > 1.0 - _SAME
        np.fill_diagonal(same, True)
        first[alike] = alike[same.argmax(axis=1)]
    return first


def fits_dense_solver(documents: int) -> bool:
    """Whether equations of so many documents are solved for all of these at once."""
    return documents <= MOST_SOLVED


def _diagonal(ridged: Floats, rounding: Floats, times: float) -> Floats:
    """1 and a ridge, and what rounding may take so many times."""
    return ridged + rounding * times


LEAST, LEAST_OF_RATINGS = 2.0**-46, 2.0**-36
"""Of what documents add, squared, that is noise in any case: terms are worked out from topics in single precision,
and a user's coefficients from few entries of these."""
LEAST_OF_FINE_RATINGS = 2.0**-50
"""The same where topics are known in double precision, for factors that are not products of terms."""
LITTLE = 1e-2
"""Of the mean variance of what documents add: noise below it hides little, and steps are not enough."""
MOST_TERMS = 2**24
"""Terms that are written out, at most: 128 MB."""
_KNOWN = 1e4
"""How well it is known how many documents are in: a number that each adds one to, over its variance."""
_BESIDE = 2.0**-4
"""Of the mean square of all numbers: what is beside the loss of one, that of what terms are worked out from."""


def lost(sums: Floats) -> Floats:
    """The variance of what single precision loses of announced sums, by number; shape (entries,)."""
    squares = np.square(sums)
    return np.asarray(LOST * (squares + _BESIDE * squares.mean()))


def is_low_noise(terms: ContributionOperator, noise: Floats) -> bool:
    """Whether the noise is known for every number, and some of it is small beside what documents add."""
    least = float(noise.min(initial=np.inf))
    return 0.0 < least < np.inf and least < LITTLE * float(terms.variances.mean())


def solved_filter(terms: ContributionOperator, residual: Floats, noise: Floats) -> Floats | None:
    """C^-1 residual, shape (entries,); None where it takes too much, rounding is in the way, or steps do.

    How many are in is known: C is of terms less their mean, up to what is the same for every document.

    Parameters
    ----------
    terms : of all that databases are drawn from
    residual : the announced sums less what is expected of them
    noise : shape (entries,)
        Its variance, over p (1 - p).

    References
    ----------
    Woodbury's identity: Golub and Van Loan, Matrix Computations, section 2.1.4.
    """
    if not fits_dense_solver(terms.rows.shape[0]) or not is_low_noise(terms, noise):
        return None
    noise = with_least(terms, noise)
    gram = _products(terms, noise)
    if gram is None:
        return None
    right = terms.along(residual / noise)
    found = _solved(gram, right)
    return None if found is None else np.asarray((residual - terms.summed(found)) / noise)


def with_least(terms: ContributionOperator, noise: Floats, *, fine: bool = False) -> Floats:
    """The noise, and what is noise in any case, over p (1 - p); shape (entries,).

    Parameters
    ----------
    fine : whether topics are known in double precision, and no products of terms are taken
    """
    if isinstance(terms, RatingContributions):
        return noise + (LEAST_OF_FINE_RATINGS if fine else LEAST_OF_RATINGS) * terms.variances
    return noise + LEAST * float(terms.variances.mean())


def _solved(gram: Floats, right: Floats) -> Floats | None:
    """(1 + gram + c 1 1^T)^-1 right; None where rounding leaves no root."""
    gram += _KNOWN
    gram[np.diag_indices_from(gram)] += 1.0
    try:
        factor = cast(Any, scipy.linalg.cho_factor(gram, check_finite=False))
    except scipy.linalg.LinAlgError:
        return None
    return np.asarray(scipy.linalg.cho_solve(factor, right, check_finite=False))


def _products(terms: ContributionOperator, noise: Floats) -> Floats | None:
    """Products of documents' terms over the noise, shape (n, n); None where they take too much."""
    if isinstance(terms, RatingContributions):
        return _of_ratings(terms, noise)
    if isinstance(terms, FactoredContributions):
        rows, single = terms.split(noise)
        if (rows == rows[:, :1]).all():
            scales = Scales(np.ones(rows.shape[1]), 1.0 / np.sqrt(rows[:, 0]), 1.0 / np.sqrt(single))
            return gram_of_contributions(terms, scales)[0]
    if terms.rows.shape[0] * len(noise) > MOST_TERMS:
        return None
    written = terms.written()
    written /= np.sqrt(noise)
    return np.asarray(written @ written.T)


def _of_ratings(terms: RatingContributions, noise: Floats) -> Floats:
    """The same of ratings, item by item: two users share numbers where both have rated."""
    each = terms.entered()
    factors = 1.0 / np.sqrt(noise.reshape(-1, terms.rows.shape[1]))
    order = np.argsort(terms.rows.indices, kind="stable")
    users = np.repeat(np.arange(terms.rows.shape[0]), np.diff(terms.rows.indptr))[order]
    starts = np.searchsorted(terms.rows.indices[order], np.arange(terms.rows.shape[1] + 1))
    found = np.zeros((terms.rows.shape[0],) * 2)
    for item, (first, last) in enumerate(pairwise(starts)):
        mine = each[order[first:last]] * factors[:, item]
        found[np.ix_(users[first:last], users[first:last])] += mine @ mine.T
    return found


SHRINK = 1e-5
"""Part of the mean variance that is added to every one: announcements are stored in single precision."""
DENSE = 2**32
"""Multiplications for a filter, up to which it is solved for; it is approached by steps beyond."""
WORK = 2**28
"""Multiplications for a run's filter by steps, about."""
FEWEST_STEPS, MOST_STEPS = 12, 60


def filtered(
    terms: ContributionOperator, residual: Floats, noise: Floats | float = 0.0, work: int | None = None
) -> Floats:
    """C^-1 residual, C the sum of (a - mean) (a - mean)^T over documents, shrunk, and of noise; shape (entries,).

    Zeros where all documents add the same.

    Parameters
    ----------
    terms : of all that databases are drawn from
    residual : the announced sums less what is expected of them
    noise : shape (entries,)
        Its variance, over p (1 - p).
    work : int, optional
        What the number of steps goes by; the terms' own by default.
    """
    with one_thread():
        exactly = solved_filter(terms, residual, np.broadcast_to(np.asarray(noise, np.float64), residual.shape))
        if exactly is not None:
            return exactly
        if solved_for(terms.rows.shape[0], terms.entries):
            return _solved_of_terms(terms, residual, noise)
        if isinstance(terms, FactoredContributions):
            ridge = _ridge(float(terms.variances.sum()), noise, len(residual))
            return approached(terms, residual, ridge, _steps(terms.work if work is None else work))
        return _approached(terms, residual, noise)


def solved_for(n: int, entries: int) -> bool:
    """Whether so many documents' equations for so many numbers are solved, and not approached by steps."""
    return n * entries * min(n, entries) <= DENSE


def _steps(work: int) -> int:
    return int(np.clip(WORK // max(work, 1), FEWEST_STEPS, MOST_STEPS))


def _ridge(total: float, noise: Floats | float, entries: int) -> Floats:
    least = max(SHRINK * total / max(entries, 1), float(np.finfo(np.float32).tiny))
    return np.asarray(np.full(entries, least) + noise)


def _solved_of_terms(terms: ContributionOperator, residual: Floats, noise: Floats | float) -> Floats:
    written = terms.written()
    written -= written.mean(axis=0)
    total = float(np.square(written).sum())
    if not total > 0.0:
        return np.zeros_like(residual)
    root = np.sqrt(_ridge(total, noise, written.shape[1]))
    written /= root
    scaled = residual / root
    tall = len(written) >= written.shape[1]
    gram = written.T @ written if tall else written @ written.T
    gram[np.diag_indices_from(gram)] += 1.0
    factor = cast(Any, scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False))
    if tall:
        return np.asarray(scipy.linalg.cho_solve(factor, scaled, check_finite=False) / root)
    inside = scipy.linalg.cho_solve(factor, written @ scaled, check_finite=False)
    return np.asarray((scaled - written.T @ inside) / root)


def _approached(terms: ContributionOperator, residual: Floats, noise: Floats | float) -> Floats:
    """By conjugate gradients, preconditioned by the variances."""
    ridge = _ridge(float(terms.variances.sum()), noise, terms.entries)
    scale = 1.0 / np.sqrt(terms.variances + ridge)

    def times(direction: Floats) -> Floats:
        along = terms.along(scale * direction)
        return scale * (terms.summed(along - along.mean()) + ridge * scale * direction)

    return np.asarray(scale * by_steps(times, scale * residual, _steps(terms.work)))


QUICKLY = 256
"""Documents up to which equations are solved for all at once; of more they are where documents that are fitted one
by one do not explain the sums, which costs a tenth where they do."""
MORE = 2.0
"""Numbers a document, from which on documents are fitted one by one; with fewer a filter is approached, which says
more there (enron-mail6, a third, PD-SVD: D 0.62 against 0.48 with 1.2, 0.70 against 0.71 with 2.4, 0.70 against
0.77 with 3.6)."""


def overdetermined(
    made: FactoredContributions,
    shares: Floats,
    sums: Floats,
    entries: int,
    same: Ints | None = None,
    lost: float = LOST,
) -> Fitted | Direction | None:
    """Documents fitted to the sums one by one; None where numbers are fewer than documents, or these too many.

    Where they are few the equations are solved for all of them (`solve`), however few the numbers are.

    Parameters
    ----------
    entries : of all documents' rows, whoever may be in
    same : a number that documents of the same content share, where somebody knows it, shape (n,)
    lost : of an announced number, squared, as a part of it
    """
    pairs = int(((made.weights != 0.0) @ made.taken.sum(axis=0)).sum())
    used, solved = _columns(made), fits_dense_solver(made.rows.shape[0])
    many = len(used) * made.weights.shape[1] >= MORE * made.rows.shape[0]
    if not (solved or many) or pairs > MOST_PAIRS:
        return None
    narrow, seen = made.within(used), _within(made, used, sums)
    residual = seen - narrow.summed(shares)
    if solved:
        if many and made.rows.shape[0] > QUICKLY:
            exact = exact_memberships(deduplicated(narrow, shares, same), used, residual)
            if exact is not None:
                return exact
        direction = direction_of_few_numbers(narrow, residual, shares, lost)
        if direction is None:
            found = solved_parts(narrow, residual, shares, lost)
            if found.direction is None:
                return with_parts(narrow, used, seen - narrow.summed(shares + found.parts), found.parts)
            direction = found.direction
        return replace(direction, numbers=_spread(made, used, direction.numbers))

    def begin() -> tuple[Floats, Floats]:
        found, offset = _filter_in(narrow, residual, np.zeros(narrow.entries), _work(made, entries))
        start = made.along(_spread(made, used, found)) - offset
        return start, seen - narrow.summed(shares + start)

    return fitted(deduplicated(narrow, shares, same), used, residual, begin)


def narrow_filter(
    made: FactoredContributions, shares: Floats, sums: Floats, noise: Floats | float, entries: int
) -> tuple[Floats, float]:
    """The filter, and its mean over documents, in the columns that one of the documents has an entry in.

    It takes the steps that all documents, with so many `entries`, would take: what is left of them costs less.
    """
    used = _columns(made)
    narrow, heard = made.within(used), np.broadcast_to(noise, made.entries)
    residual = _within(made, used, sums) - narrow.summed(shares)
    found, offset = _filter_in(narrow, residual, _within(made, used, heard), _work(made, entries))
    return _spread(made, used, found), offset


def _filter_in(narrow: FactoredContributions, residual: Floats, noise: Floats, work: int) -> tuple[Floats, float]:
    """The filter within some columns, and its mean over documents."""
    found = filtered(narrow, residual, noise, work)
    return found, float(narrow.mean @ found)


def _work(made: FactoredContributions, entries: int) -> int:
    """That of as many entries as all documents have."""
    return int(made.work // max(made.rows.nnz, 1) * entries)


def _columns(made: FactoredContributions) -> NDArray[Any]:
    """Those that a document has an entry in."""
    touched = np.zeros(made.rows.shape[1], np.bool_)
    touched[made.rows.indices] = True
    return np.flatnonzero(touched)


def _within(made: FactoredContributions, columns: NDArray[Any], numbers: Floats) -> Floats:
    """The numbers of the sums in some columns, and the single ones."""
    rows, single = made.split(numbers)
    return np.concatenate([rows[:, columns].ravel(), single])


def _spread(made: FactoredContributions, columns: NDArray[Any], narrow: Floats) -> Floats:
    """Numbers of `_within` where they stand among all; 0 in other columns."""
    whole = np.zeros(made.entries)
    rows, single = made.split(whole)
    rows[:, columns] = narrow[: len(rows) * len(columns)].reshape(len(rows), -1)
    single[:] = narrow[len(rows) * len(columns) :]
    return whole


MOST_WRITTEN = 2**31
"""Documents times the square of the numbers, at most: a second or two a run."""
MOST_EXACT = 2**28
"""The same of exact sums, all of whose numbers are then solved for: steps, which take all of them, tell more of
these than half of the numbers do (5,611 docstrings of 60 terms, PD-SVD of rank 2: D by steps 0.14, by 218 of 1,320
numbers 0.10, by 618 of them 0.21, by all 0.25, which takes six seconds a run)."""


def leading_rows_direction(
    made: ContributionOperator, residual: Floats, shares: Floats, noise: Floats | None, varied: float
) -> Direction | None:
    """The direction of largest entropy by the first rows of the sums; None where it is not asked for.

    That is where documents are few enough to be solved for, where noise is not small, where not even one row is
    written out, and where these are not all rows of exact sums.

    Parameters
    ----------
    made : terms of all that may be in
    residual : the announced sums less what is expected of them, shape (entries,)
    shares : how likely each is in, shape (n,)
    noise : its variance over p (1 - p), shape (entries,); None of exact sums, of which single precision loses some
    varied : p (1 - p)
    """
    if fits_dense_solver(made.rows.shape[0]) or not isinstance(made, FactoredContributions):
        return None
    exact = noise is None
    if noise is None:
        noise = lost(_plain(made).summed(shares)) / varied
    if not is_low_noise(made, noise):
        return None
    wide = made.rows.shape[1]
    numbers = written_out(made, exact=exact)
    first, whole = numbers // max(wide, 1), _rows_of_sums(made)
    if first < (whole if exact else 1):
        return None
    least = (noise[:numbers] + LEAST * float(made.variances[:numbers].mean())) * varied
    units = 1.0 / np.sqrt(least)
    with one_thread():
        span = span_of(made.first(first).written() * units, 1.0)
        found, offset = span.direction(residual[:numbers] * units, shares)
    return Direction(np.concatenate([found * units, np.zeros(made.entries - numbers)]), offset)


def written_out(made: ContributionOperator, *, exact: bool = False) -> int:
    """How many numbers of the first rows are solved for, of sums with little noise."""
    if not isinstance(made, FactoredContributions):
        return 0
    n, wide = made.rows.shape
    most = MOST_EXACT if exact else MOST_WRITTEN
    return int(min(math.isqrt(most // max(n, 1)) // max(wide, 1), _rows_of_sums(made)) * wide)


def _rows_of_sums(made: FactoredContributions) -> int:
    return int(made.entries - made.scalars.shape[1]) // max(int(made.rows.shape[1]), 1)


def _plain(made: FactoredContributions) -> FactoredContributions:
    """The sums of which terms are what is left: what single precision loses is a part of these."""
    return FactoredContributions.plain(made.rows, made.weights, made.scalars)
