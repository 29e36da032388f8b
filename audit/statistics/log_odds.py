"""The most even guess that agrees with few sums over many documents, by few passes over these (`max_entropy`).

With three numbers for four documents or fewer the equations always leave open who is in, and the function whose
least value is looked for has as many unknowns as there are numbers: neither documents' products with one another
nor an orthonormal basis of what they span is needed. Newton's equations are solved by conjugate gradients, only as
well as a step is worth (Dembo, Eisenstat and Steihaug 1982, doi.org/10.1137/0719025), preconditioned by the last
matrix that was factored; it is factored anew where that has come to need many. Along each step the function is
known from documents' log odds alone, and so is how far to go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.special import expit, logit

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import one_thread

_PER_NUMBER = 4 / 3
"""Documents a number, from which on sums always leave open who is in."""
_ROUNDING = 2.0**-49
"""Of the sum of squares of a number, times the numbers: what products of numbers with one another lose."""
_EVEN = 2.0**24
"""What the least document adds, squared, over that, at least: less even ones are looked at one length each."""
MOST_STEPS = 40
_MOST_GRADIENTS = 100
SETTLED = 0.005
"""Of what a whole step takes from the function, a log likelihood of all documents, below which it is the last."""
_NOTHING = 1e-9
"""The same, below which a step is none."""
_ENOUGH = 0.3
"""Part of the gradient that may be left of Newton's equations."""
_MANY = 12
"""Gradients that a step may take before the matrix is factored anew."""
_FURTHER = 1.5
_SHORTEST = 2.0**-6
_TAKEN = 1e-4
"""Part of what its slope promises that a step must take from the function."""


def few_numbers(numbers: int, documents: int) -> bool:
    """Whether so few numbers are known of so many documents that no solution tells who is in."""
    return _PER_NUMBER * numbers <= documents


def log_odds(terms: Floats, apart: Floats, shares: Floats, noise: Floats) -> tuple[Floats, float] | None:
    """argmin over l of sum log(1 - p + p exp <l, a>) - p <l, a> - <apart, l> + <l, s l> / 2, and what one gets.

    None where documents differ too much in size for this arithmetic, or it stalls.

    Parameters
    ----------
    terms : a, shape (n, m)
    apart : the sums less what is expected of them, shape (m,)
    shares : p, between 0 and 1, shape (n,)
    noise : s, the variance of each number, shape (m,)

    Returns
    -------
    l, shape (m,), and what a document gets for being one: how many are in is known up to one.
    """
    n, m = terms.shape
    sizes = np.sqrt(np.einsum("ij,ij->j", terms, terms))
    sizes[sizes == 0.0] = 1.0
    rows = np.empty((n, m + 1))
    np.divide(terms, sizes, out=rows[:, :m])
    rows[:, m] = n**-0.5
    rounding = (m + 1) * _ROUNDING
    adds = np.einsum("ij,ij->i", rows[:, :m], rows[:, :m])
    if adds[adds > 0.0].min(initial=np.inf) < _EVEN * rounding:
        return None
    ridge = np.append(noise / np.square(sizes), 1.0 / n) + rounding
    with one_thread():
        found = _Guess(rows, np.append(apart / sizes, 0.0), shares, ridge).settled()
    return None if found is None else (found[:m] / sizes, float(found[m]) * n**-0.5)


@dataclass(frozen=True, eq=False)
class _Guess:
    """The function, of numbers in units of their root of the sum of squares."""

    rows: Floats
    """Shape (n, m)."""
    apart: Floats
    shares: Floats
    ridge: Floats
    """Diagonal, shape (m,)."""

    def settled(self) -> Floats | None:
        """Where a step takes little from it; None where none takes anything, or too many do little."""
        usual, pull = logit(self.shares), self.rows.T @ self.shares + self.apart
        found, moved, factor, gradients = np.zeros(len(pull)), np.zeros(len(usual)), None, 0
        for _ in range(MOST_STEPS):
            likely = expit(usual + moved)
            down = pull - self.rows.T @ likely - self.ridge * found
            varied = likely * (1.0 - likely)
            if factor is None or gradients > _MANY:
                factor = self._factor(varied)
                if factor is None:
                    return None
            step, across, gradients = self._step(factor, varied, down)
            gained = float(down @ step)
            if not gained > _NOTHING:
                return found
            height = self._along(usual + moved, across, found, step)
            length = _length(height, gained)
            if length is None:
                return None
            found, moved = found + length * step, moved + length * across
            if gained < SETTLED and length >= 1.0:
                return found
        return None

    def _factor(self, varied: Floats) -> Floats | None:
        """Cholesky's, of the matrix of second derivatives."""
        bend = dsyrk(1.0, (self.rows * np.sqrt(varied)[:, None]).T)
        bend[np.diag_indices_from(bend)] += self.ridge
        factor, missing = dpotrf(bend, clean=0, overwrite_a=1)
        return None if missing else factor

    def _step(self, factor: Floats, varied: Floats, down: Floats) -> tuple[Floats, Floats, int]:
        """Newton's, about, what it adds to every document's log odds, and after how many gradients."""
        left, step, across = down.copy(), np.zeros(len(down)), np.zeros(len(self.rows))
        way = dpotrs(factor, left)[0]
        size = begun = float(left @ way)
        number = 0
        while size > _ENOUGH**2 * begun * (number > 0) and number < _MOST_GRADIENTS:
            along = self.rows @ way
            turned = self.rows.T @ (varied * along) + self.ridge * way
            part = size / float(way @ turned)
            step += part * way
            across += part * along
            left -= part * turned
            rest = dpotrs(factor, left)[0]
            before, size, number = size, float(left @ rest), number + 1
            way = rest + size / before * way
        return step, across, number

    def _along(self, odds: Floats, across: Floats, found: Floats, step: Floats) -> Callable[[float], float]:
        """The function so far along a step, but for a constant."""
        scaled = self.ridge * step
        slope = float(self.shares @ across + self.apart @ step - found @ scaled)
        curved = 0.5 * float(step @ scaled)

        def height(length: float) -> float:
            total: Any = np.logaddexp(0.0, odds + length * across).sum()
            return float(total) + length * (length * curved - slope)

        return height


def _length(height: Callable[[float], float], gained: float) -> float | None:
    """How far to go: on while it goes down, or back until it does; None where it hardly does at all."""
    start, length, now = height(0.0), 1.0, height(1.0)
    if now <= start - _TAKEN * gained:
        while (then := height(_FURTHER * length)) < now:
            length, now = _FURTHER * length, then
        return length
    while now > start - _TAKEN * length * gained:
        length /= 2.0
        if length < _SHORTEST:
            return None
        now = height(length)
    return length
