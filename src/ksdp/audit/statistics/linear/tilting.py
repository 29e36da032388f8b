"""Exponential tilting: the most even draw of documents that agrees with the sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dormqr
from scipy.special import expit, logit

from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.statistics.linear.coordinate_descent import between
from ksdp.audit.statistics.linear.operator import ContributionOperator

Factor = tuple[Floats, bool]
"""Factor of Cholesky, as `scipy.linalg.cho_solve` takes it, and whether it is the lower one."""


def raised_factor(matrix: Floats, diagonal: Callable[[float], Floats], *, check_finite: bool = True) -> Factor:
    """The factor; that of 1 where no raising helps: each by itself."""
    places, times = np.diag_indices_from(matrix), 1.0
    for _ in range(8):
        matrix[places] = diagonal(times)
        try:
            return cast(Factor, scipy.linalg.cho_factor(matrix, check_finite=check_finite))
        except scipy.linalg.LinAlgError:
            times *= 64.0
    return cast(Factor, scipy.linalg.cho_factor(np.eye(len(matrix)), check_finite=False))


MOST_WRITTEN = 2**31
"""Documents times numbers times the fewer of both, up to which the direction of largest entropy is looked for."""
MOST_NOISY = 2**28
"""The same of sums with noise, which hides most of what bounds add."""


@dataclass(frozen=True, eq=False)
class Direction:
    """Score of a document with these terms: <l, a_x> + c."""

    numbers: Floats
    """l, shape (numbers,)."""
    offset: float
    """c."""
    log_odds: bool = True
    """Whether that moves the log odds of being in; a filter's is taken as it is."""

    def of(self, made: ContributionOperator) -> Floats:
        """Score documents; log odds between -1 and 1, in the same order."""
        values = made.matvec(self.numbers) + self.offset
        return between(values) if self.log_odds else np.asarray(values)


def few_to_write(documents: int, numbers: int, *, noisy: bool = False) -> bool:
    """Whether so many numbers of so many documents are written out, and their span is looked for."""
    work = documents * numbers * max(min(documents, numbers), 128)
    return work <= (MOST_NOISY if noisy else MOST_WRITTEN)


@dataclass(frozen=True, eq=False)
class _Turn:
    """A matrix of orthonormal columns, as the reflections that it is the first columns of."""

    reflected: Floats
    factors: Floats

    def times(self, vector: Floats) -> Floats:
        """The matrix times a vector; times its first columns, where that is shorter."""
        turned = np.zeros(len(self.reflected))
        turned[: len(vector)] = vector
        return self._turned(turned, "N")

    def across(self, vector: Floats) -> Floats:
        """Its transpose times a vector."""
        return self._turned(vector, "T")[: len(self.factors)]

    def _turned(self, vector: Floats, way: str) -> Floats:
        product, _, _ = dormqr("L", way, self.reflected, self.factors, vector[:, None], lwork=1)
        return cast(Floats, product[:, 0])


@dataclass(frozen=True, eq=False)
class Span:
    """Terms A of documents, shape (n, m + 1), as Q R W^T: R triangular, Q and W of r orthonormal columns.

    The last number counts documents: how many are in is known up to one.
    """

    q: Floats
    """Shape (n, r)."""
    right: Floats
    """R, upper triangular, shape (r, r)."""
    turns: tuple[_Turn, ...]
    """W is the first columns of their product."""
    noise: float
    """s."""
    least: float
    """The sum of squares of the least document's terms, of those that add anything."""

    def direction(self, residual: Floats, shares: Floats) -> tuple[Floats, float]:
        """l of the sums' numbers, shape (m,), and what a document gets for being one."""
        inverse = _solved(self.right, np.eye(len(self.right)))
        sums = np.append(residual, 0.0)
        for turn in self.turns:
            sums = turn.across(sums)
        sums = _solved(self.right, sums[: len(inverse)], trans=1)
        solution = _newton(self.q, sums, shares, self.noise * (inverse.T @ inverse), self._settled)
        vector = _solved(self.right, solution)
        for turn in reversed(self.turns):
            vector = turn.times(vector)
        return vector[:-1], float(vector[-1]) * self.noise**0.5

    def _settled(self, short: Floats) -> bool:
        noise = self.noise * len(short)
        return self.least > 100.0 * noise and bool(np.square(self.right.T @ short).sum() <= noise)


def span_of(terms: Floats, noise: float) -> Span:
    """Return the span of documents' terms, shape (n, m), however much longer some of them are."""
    squares = np.square(terms).sum(axis=1)
    terms, lengths = np.hstack([terms, np.full((len(terms), 1), noise**0.5)]), np.sqrt(squares + noise)
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
    numbers, turns = (terms * scale[:, None]).T, []
    if len(numbers) >= 2 * len(terms):
        reflections, upper = scipy.linalg.qr(numbers, mode="raw", overwrite_a=True, check_finite=False)
        numbers, turns = upper[: len(terms)], [_Turn(*reflections)]
    (reflected, factors), across, pivots = scipy.linalg.qr(numbers, mode="raw", pivoting=True)
    turns.append(_Turn(reflected[:, : len(factors)], factors))
    rank = int((np.abs(across.diagonal()) > len(terms) * 2.0**-50).sum())  # what is left beside other documents
    laid = np.empty((len(terms), rank))
    laid[pivots] = across[:rank].T
    q, right = scipy.linalg.qr(laid * lengths[:, None], mode="economic", overwrite_a=True)
    least = float(squares.min(where=squares > 0.0, initial=np.inf))
    return Span(q, right, tuple(turns), noise, least)


def _newton(q: Floats, seen: Floats, shares: Floats, ridge: Floats, settled: Callable[[Floats], bool]) -> Floats:
    """argmin over l of sum log(1 - p + p exp(q l)) - p q l - <seen, l> + <l, ridge l> / 2, shape (r,)."""
    offset, solution = logit(shares), np.zeros(len(seen))

    def height(at: Floats) -> float:
        moved = q @ at
        return float(
            (np.logaddexp(0.0, offset + moved) - shares * moved).sum() - seen @ at + 0.5 * at @ ridge @ at
        )

    now = height(solution)
    for _ in range(40):
        likely = expit(offset + q @ solution)
        if settled(q.T @ ((likely > 0.5) - shares) - seen):
            break  # who is likelier in than not makes up the sums: further steps only say it louder
        slope = q.T @ (likely - shares) - seen + ridge @ solution
        bend = dsyrk(1.0, np.sqrt(likely * (1.0 - likely))[:, None] * q, beta=1.0, c=ridge, trans=1)
        factor = raised_factor(bend, partial(_diagonal, bend.diagonal().copy()))
        step = -scipy.linalg.cho_solve(factor, slope)
        gained, length = -float(slope @ step), 1.0
        if not gained > 1e-3:  # of a log likelihood
            break
        while (then := height(solution + length * step)) > now - 1e-4 * length * gained and length > 2.0**-20:
            length /= 2.0
        if not then < now:
            break
        solution, now = solution + length * step, then
    return solution


def _diagonal(curved: Floats, times: float) -> Floats:
    return curved * (1.0 + 1e-10 * times)


def _solved(right: Floats, given: Floats, trans: int = 0) -> Floats:
    return cast(Floats, scipy.linalg.solve_triangular(right, given, trans=trans))
