"""Ways to solve the equations of a run for its documents, all by products with the equations alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.numeric.kernels import one_thread
from ksdp.audit.statistics.linear.coordinate_descent import MOST_PAIRS, Fitted, deduplicated, fitted, with_parts
from ksdp.audit.statistics.linear.operator import (
    LOST,
    ContributionOperator,
    EntryContributions,
    FactoredContributions,
    Scales,
    gram_of_contributions,
    scales_of,
)
from ksdp.audit.statistics.linear.tilting import (
    MOST_NOISY,
    MOST_WRITTEN,
    Direction,
    few_to_write,
    raised_factor,
    span_of,
)

MOST_SOLVED = 2048
"""Documents that may be in, up to which least squares are solved: a second a run, of twice as many four."""
MORE = 2.0
"""Numbers a document, from which on exact sums of more documents are solved one by one (enron-mail6, a third
of it, PD-SVD: D 0.48 against 0.62 by steps with 1.2, 0.71 against 0.70 with 2.4, 0.77 against 0.70 with 3.6)."""
LITTLE = 1e-2
"""Part of the mean second moment of the contributions: noise below it hides little, and steps are not enough."""
LEAST = 2.0**-46
"""Part of it that is noise in any case: terms are worked out from topics in single precision."""


@dataclass(frozen=True, eq=False)
class RunSystem:
    """Equations of one run, z = sum of b_i a_i + noise, and what is known of them."""

    made: ContributionOperator
    """Contributions of the candidates."""
    residual: Floats
    """The sums less what is expected of them, shape (numbers,)."""
    shares: Floats
    """How likely each document is in, shape (n,)."""
    noise: Floats
    """Its variance, shape (numbers,); 0 where it is not known."""
    exact: bool = False
    """Whether it is known that there is none."""
    lost: float = LOST
    """Squared rounding error of an announced number, as a part of its square (`lost_of`)."""
    shrink: float = 0.0
    """Part of each number's second moment that is added to the noise."""
    contents: Ints | None = None
    """A number that documents of the same content share, shape (n,)."""

    @property
    def varied(self) -> float:
        """The variance p (1 - p) of a document's being in, in the mean."""
        return max(float((self.shares * (1.0 - self.shares)).mean()), 1e-3) if len(self.shares) else 1e-3

    @property
    def hidden(self) -> Floats:
        """The noise, and what the equations miss, over p (1 - p)."""
        noise = self.noise / self.varied
        return noise + self.shrink * self.made.diagonal() if self.shrink else noise


Way = Callable[[RunSystem], "Fitted | Direction"]


def chosen_way(run: RunSystem) -> Way:
    """How the equations are solved, by how many they are, of how many documents, and what noise hides of these.

    What each way adds to steps is D of a case of `benchmarks.power`, by it and by steps.
    """
    n, m = run.made.shape
    if run.exact and isinstance(run.made, FactoredContributions) and _pairs(run.made) <= MOST_PAIRS:
        if n <= MOST_SOLVED:
            # Where even contents are twice as many as numbers, many draws agree with the sums, and the most even
            # says most (500 texts, PD-NMF of two rounds: 0.81, 0.55). With more numbers, parts of documents are
            # near 0 or 1, and steps would not get there (569 patients, PD-SVD: 1.00, 0.54).
            contents = n if run.contents is None else len(np.unique(run.contents))
            return most_even_draw if 0 < 2 * m <= contents else least_squares
        if m >= MORE * n:
            # Bounds make up for equations that are not solved to the end (17,706 mails, PD-SVD: 0.90, 0.58).
            return one_by_one
    if _lines_written(run) > 0:
        # Bounds tell more than a filter where numbers are few (569 patients, PD-SVD with noise: 0.68, 0.50).
        return most_even_draw
    if n <= MOST_SOLVED and _is_little(run):
        # Equations with so little noise are too badly conditioned for steps (800 pictures, FedPower: 0.89, 0.43).
        return least_squares
    return by_steps  # noise, or numbers that are few, bound what more than steps would tell


def solve(run: RunSystem) -> Fitted | Direction:
    """Score every document by the equations of the columns in which some document has an entry."""
    with one_thread():
        made = run.made
        if not run.exact or not isinstance(made, FactoredContributions):
            return chosen_way(run)(run)
        columns = np.flatnonzero(np.bincount(made.rows.indices, minlength=made.rows.shape[1]))
        if len(columns) == made.rows.shape[1]:
            return chosen_way(run)(run)
        numbers = _numbers_of(made, columns)
        narrow = replace(run, made=made.within(columns), residual=run.residual[numbers], noise=run.noise[numbers])
        solution = chosen_way(narrow)(narrow)
        if isinstance(solution, Fitted):
            return replace(solution, columns=columns[solution.columns])
        coefficients = np.zeros(made.shape[1])
        coefficients[numbers] = solution.numbers
        return replace(solution, numbers=coefficients)


def _pairs(made: FactoredContributions) -> int:
    return int(((made.weights != 0.0) @ made.taken.sum(axis=0)).sum())


def _numbers_of(made: FactoredContributions, columns: NDArray[Any]) -> NDArray[np.int64]:
    rows, single = made.split(np.arange(float(made.shape[1])))
    return np.concatenate([rows[:, columns].ravel(), single]).astype(np.int64)


def fits_dense_solver(documents: int) -> bool:
    """Whether equations of so many documents are solved for all of these at once."""
    return documents <= MOST_SOLVED


def is_low_noise(terms: ContributionOperator, noise: Floats) -> bool:
    """Whether noise over p (1 - p) is known for every number, and some of it small beside what documents add."""
    least = float(noise.min(initial=np.inf))
    return 0.0 < least < np.inf and least < LITTLE * float(terms.diagonal().mean())


def _is_little(run: RunSystem) -> bool:
    return is_low_noise(run.made, run.noise / run.varied)


# The most even draw


def written_lines(made: ContributionOperator, most: int = MOST_WRITTEN) -> int:
    """How many of the first rows of sums are written out, of more than `MOST_SOLVED` documents."""
    if not isinstance(made, FactoredContributions):
        return 0
    n, wide = made.rows.shape
    return int(min(math.isqrt(most // max(n, 1)) // max(wide, 1), made.lines))


def _lines_written(run: RunSystem) -> int:
    made, (n, m) = run.made, run.made.shape
    if run.exact and isinstance(made, FactoredContributions):
        few = few_to_write(n, m) if n <= MOST_SOLVED else written_lines(made, MOST_NOISY) == made.lines
        return made.lines if few and m > 0 else 0
    if not np.all(run.noise) or m == 0:
        return 0
    first = written_lines(made) if n > MOST_SOLVED and _is_little(run) else 0
    return first or (made.lines if few_to_write(n, m, noisy=run.lost >= LOST) else 0)


def most_even_draw(run: RunSystem) -> Direction:
    """The direction of largest entropy, by all numbers or those of the first rows (`tilting`)."""
    made, numbers = run.made, np.arange(run.made.shape[1])
    lines = _lines_written(run)
    if lines < made.lines and isinstance(made, FactoredContributions):
        numbers = numbers[: lines * made.rows.shape[1]]
        made = made.first(lines)
    terms = made.written()
    if run.exact and isinstance(made, FactoredContributions):
        scales = scales_of(made).written()
        sizes = np.square(terms * scales).sum(axis=1)
        adding = sizes[sizes > 1e-8 * sizes.max()]  # shorter ones the longest's loss might hide
        noise = _noise_of_exact(made, scales, adding, run, _loss(made, scales, run)(run.shares))
    else:
        noise = with_least(made, run.hidden[numbers], run.lost) * run.varied
    return _direction(terms, run, noise, numbers)


def _direction(terms: Floats, run: RunSystem, noise: Floats, numbers: Ints) -> Direction:
    units = 1.0 / np.sqrt(noise)
    direction, offset = span_of(terms * units, 1.0).direction(run.residual[numbers] * units, run.shares)
    coefficients = np.zeros(run.made.shape[1])
    coefficients[numbers] = direction * units
    return Direction(coefficients, offset)


def with_least(terms: ContributionOperator, noise: Floats, lost: float = LOST) -> Floats:
    """The noise, and what is noise in any case, over p (1 - p); a user's coefficients come from few entries."""
    if isinstance(terms, EntryContributions):
        if lost < LOST:  # topics are known in double precision
            return noise * (lost / LOST) + 2.0**-4 * LEAST * terms.diagonal()
        return noise + 2.0**10 * LEAST * terms.diagonal()
    return noise + LEAST * float(terms.diagonal().mean())


def lost(sums: Floats) -> Floats:
    """The variance of what single precision loses of announced sums, and of what terms are worked out from."""
    squares = np.square(sums)
    return np.asarray(LOST * (squares + 2.0**-4 * squares.mean()))


def _loss(made: FactoredContributions, scales: Floats, run: RunSystem) -> Callable[[Floats], float]:
    unreduced = made.unreduced()
    return lambda likely: run.lost * float(np.square(unreduced.rmatvec(likely) * scales).mean())


def _noise_of_exact(
    made: FactoredContributions, scales: Floats, sizes: Floats, run: RunSystem, missing: float
) -> Floats:
    """The variance of every exact number, `missing` in these units; that of terms where it hides no document."""
    least = max(missing, np.finfo(np.float64).eps ** 2 * float(sizes.max(initial=0.0)))
    noise = least / np.square(np.where(scales > 0.0, scales, 1.0))
    of_terms = (made.shape[1] + 1) * 2.0**-49
    if run.lost >= LOST and sizes.min(initial=np.inf) > 2.0**24 * of_terms:
        noise = noise + of_terms * made.diagonal()
    return np.asarray(noise)


# Least squares


def least_squares(run: RunSystem) -> Fitted | Direction:
    """Solve n normal equations (Golub and Van Loan, Matrix Computations: 5.3, 6.1; Woodbury: 2.1.4)."""
    if run.exact and isinstance(run.made, FactoredContributions):
        return _parts(run, run.made)
    solution = _woodbury(run.made, run.residual, with_least(run.made, run.hidden))
    return by_steps(run) if solution is None else _plain(run.made, solution)


def _plain(made: ContributionOperator, numbers: Floats) -> Direction:
    return Direction(numbers, -float(made.mean @ numbers), False)


def _parts(run: RunSystem, made: FactoredContributions) -> Fitted | Direction:
    """Parts of documents; where these leave open who was in, the most even draw."""
    scales, shares = scales_of(made), run.shares
    factors = scales.written()
    gram, squares = gram_of_contributions(made, scales)
    right = made.matvec(run.residual * np.square(factors))
    sizes, rounding = gram.diagonal().copy(), len(gram) * np.finfo(np.float64).eps * squares
    adds = sizes > rounding
    lengths = np.sqrt(np.where(adds, sizes, np.inf))
    gram /= lengths
    gram /= lengths[:, None]
    rounding /= np.square(lengths)
    lost_here = _loss(made, factors, run)(shares)
    ridged = 1.0 + lost_here / run.varied / np.square(lengths)
    factor = raised_factor(gram, lambda times: ridged + rounding * times, check_finite=False)
    parts = np.asarray(scipy.linalg.cho_solve(factor, right / lengths, check_finite=False) / lengths)
    parts = _shared(parts, run.contents)
    counts = _everybody(shares + parts, shares, run.contents)
    unexplained = np.square((run.residual - made.rmatvec(counts - shares)) * factors).sum()
    # Whoever was in may leave a tenth of what the least document adds, squared.
    explained = unexplained < 0.1 * sizes[adds].min(initial=np.inf) and 2.0 * counts.sum() > shares.sum()
    if explained or not few_to_write(*made.shape):
        return with_parts(made, run.residual - made.rmatvec(parts), parts)
    noise = _noise_of_exact(made, factors, sizes[adds], run, lost_here)
    return _direction(made.written(), run, noise, np.arange(made.shape[1]))


def _shared(parts: Floats, contents: Ints | None) -> Floats:
    if contents is None:
        return parts
    several = np.bincount(contents, minlength=len(parts))
    return np.asarray((np.bincount(contents, parts, len(parts)) / np.maximum(several, 1))[contents])


def _everybody(parts: Floats, shares: Floats, contents: Ints | None) -> Floats:
    if not parts.sum() > 0.0:
        return np.zeros(len(parts))
    contents = np.arange(len(parts)) if contents is None else contents
    several = np.bincount(contents, minlength=len(parts))
    inside = np.rint(np.bincount(contents, parts * (shares.sum() / parts.sum()), len(parts)))
    return np.asarray((np.clip(inside, 0, several) / np.maximum(several, 1))[contents])


def _woodbury(terms: ContributionOperator, residual: Floats, noise: Floats) -> Floats | None:
    """C^-1 residual, of terms less their mean and noise over p (1 - p); None where rounding leaves no root."""
    gram = _products(terms, noise)
    if gram is None:
        return None
    right = terms.matvec(residual / noise)
    gram += 1e4  # how well it is known how many are in: a number that each adds one to, over its variance
    gram[np.diag_indices_from(gram)] += 1.0
    try:
        factor = cast(Any, scipy.linalg.cho_factor(gram, check_finite=False))
    except scipy.linalg.LinAlgError:
        return None
    solution = np.asarray(scipy.linalg.cho_solve(factor, right, check_finite=False))
    return np.asarray((residual - terms.rmatvec(solution)) / noise)


def _products(terms: ContributionOperator, noise: Floats) -> Floats | None:
    """Products of documents' terms over the noise, shape (n, n); None where they take too much."""
    if isinstance(terms, FactoredContributions):
        rows, single = terms.split(noise)
        if (rows == rows[:, :1]).all():
            scales = Scales(np.ones(rows.shape[1]), 1.0 / np.sqrt(rows[:, 0]), 1.0 / np.sqrt(single))
            return gram_of_contributions(terms, scales)[0]
    if isinstance(terms, EntryContributions):
        return terms.gram(noise)
    if terms.shape[0] * len(noise) > 2**24:
        return None
    written = terms.written()
    written /= np.sqrt(noise)
    return np.asarray(written @ written.T)


# One document after the other, and steps


def one_by_one(run: RunSystem) -> Fitted:
    """Parts within their bounds, by coordinate descent; who wait for one another begin with what steps found."""
    made = cast(FactoredContributions, run.made)

    def begin() -> tuple[Floats, Floats]:
        start = by_steps(run).of(made)
        return start, run.residual - made.rmatvec(start)

    return fitted(deduplicated(made, run.shares, run.contents), run.residual, begin)


def by_steps(run: RunSystem) -> Direction:
    """C^-1 residual, C = A^T A, A less its mean, and noise, by SciPy's conjugate gradients."""
    made = run.made
    squares = made.diagonal()
    least = max(1e-5 * float(squares.mean()) if len(squares) else 0.0, float(np.finfo(np.float32).tiny))
    ridge = least + run.hidden
    scale = 1.0 / np.sqrt(squares + ridge)
    right = scale * run.residual
    length = float(np.linalg.norm(right))
    if not length > 0.0:
        return Direction(np.zeros(len(right)), 0.0, False)

    def times(direction: Floats) -> Floats:
        along = made.matvec(scale * np.ravel(direction))
        return np.asarray(scale * (made.rmatvec(along - along.mean()) + ridge * scale * np.ravel(direction)))

    covariance = LinearOperator((len(right), len(right)), matvec=times, dtype=np.float64)
    steps = int(np.clip(2**28 // max(made.work, 1), 12, 60))
    solution, _ = cg(covariance, right / length, rtol=1e-12, maxiter=steps)
    return _plain(made, length * scale * solution)
