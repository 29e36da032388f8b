"""Discrete Laplace noise: the law, two samplers, and how far it may reach.

P(X = k) = (1 - q) / (1 + q) * q^|k| for integers k, with q = exp(-1 / scale). An integer vector whose L1
sensitivity is D is epsilon-private with scale D / epsilon, exactly: no floating-point number is added to anything.
(Real-valued Laplace noise leaks through its low bits: Mironov 2012.)

`Vetted` draws with OpenDP, exactly and from the operating system's randomness: this is what protects.
`Simulated` draws with NumPy from a seed, hundreds of times faster and repeatable: for simulations and
audits of the ideal functionality. Every run says which it used.

References: Ghosh, Roughgarden, Sundararajan 2009; Inusah, Kozubowski 2006.
"""

from __future__ import annotations

import importlib.metadata
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ksdp.audit.errors import InputError

Signed = NDArray[np.int64]


class Sampler(Protocol):
    """What draws noise for a server."""

    @property
    def label(self) -> str:
        """Which it is, for every output."""
        ...

    def draw(self, scale: float, entries: int, parties: int = 1) -> Signed:
        """Sums of `parties` independent discrete Laplace numbers each, shape (entries,); zeros for scale 0."""
        ...


def _check(scale: float, entries: int, parties: int) -> None:
    if not (math.isfinite(scale) and scale >= 0):
        raise InputError(f"`scale` must be finite and at least 0; got {scale}.")
    if entries < 0 or parties < 0:
        raise InputError(f"`entries` and `parties` must not be negative; got {entries} and {parties}.")


@lru_cache(maxsize=1)
def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


@dataclass(frozen=True)
class Vetted:
    """OpenDP's discrete Laplace sampler: exact, from the operating system's randomness, about 10 us a number."""

    @property
    def label(self) -> str:
        """Which it is, with OpenDP's version."""
        return f"OpenDP {importlib.metadata.version('opendp')} (exact discrete Laplace)"

    def draw(self, scale: float, entries: int, parties: int = 1) -> Signed:
        """Sums of `parties` independent numbers each, shape (entries,)."""
        _check(scale, entries, parties)
        total = np.zeros(entries, dtype=np.int64)
        if scale == 0 or not entries:
            return total
        dp = _opendp()
        measurement = dp.m.make_laplace(
            dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=float(scale)
        )
        for _ in range(parties):
            total += np.array(measurement([0] * entries), dtype=np.int64)
        return total


@dataclass(frozen=True, eq=False)
class Simulated:
    """NumPy's: repeatable, fast, floating point inside. It protects nothing outside a simulation.

    A discrete Laplace number is the difference of two geometric ones, so a sum of n of them is the difference of
    two negative binomial ones, drawn at once.
    """

    rng: np.random.Generator

    @property
    def label(self) -> str:
        """Which it is."""
        return "NumPy (simulation only, protects nothing)"

    def draw(self, scale: float, entries: int, parties: int = 1) -> Signed:
        """Sums of `parties` independent numbers each, shape (entries,)."""
        _check(scale, entries, parties)
        if scale == 0 or not parties:
            return np.zeros(entries, dtype=np.int64)
        success = -math.expm1(-1.0 / scale)
        return self.rng.negative_binomial(parties, success, entries) - self.rng.negative_binomial(
            parties, success, entries
        )


def law(scale: float, numbers: NDArray[np.integer]) -> NDArray[np.float64]:
    """Probabilities of integers under the discrete Laplace law.

    Examples
    --------
    >>> law(1.0, np.array([-1, 0, 1])).round(4)
    array([0.17  , 0.4621, 0.17  ])
    """
    _check(scale, 0, 0)
    if scale == 0:
        return np.where(np.asarray(numbers) == 0, 1.0, 0.0)
    return np.asarray(math.tanh(0.5 / scale) * np.exp(-np.abs(numbers) / scale), dtype=np.float64)


def log_law(scale: float, numbers: NDArray[np.integer], parties: int = 1) -> NDArray[np.float64]:
    """Logarithms of the probabilities of integers under the law of a sum of `parties` independent numbers.

    With q = exp(-1 / scale), w = q^2 / (1 - q^2), n parties and k >= 0 they are, exactly::

        P(k) = ((1 - q) / (1 + q))^n q^k sum_{i < n} c_i w^i (k + i + 1) ... (k + n - 1),
        c_i = (n + i - 1)! / ((n - 1)! (n - 1 - i)! i!)

    which is the series of the convolution, sum_i C(n-1+k+i, n-1) C(n-1+i, n-1) q^(k+2i) (1-q)^(2n), after Pfaff's
    transformation of its 2F1: a polynomial with positive terms only, so nothing cancels.

    Parameters
    ----------
    scale : float
        Above 0.
    parties : int
        At least 1.

    Examples
    --------
    >>> np.exp(log_law(1.0, np.array([-1, 0, 1]))).round(4)
    array([0.17  , 0.4621, 0.17  ])
    """
    if not (math.isfinite(scale) and scale > 0) or parties < 1:
        raise InputError(f"`scale` must be above 0 and `parties` at least 1; got {scale} and {parties}.")
    k = np.abs(np.asarray(numbers, dtype=np.float64))
    log_w = -2.0 / scale - math.log(-math.expm1(-2.0 / scale))
    tail, terms = np.zeros_like(k), []
    for i in range(parties - 1, -1, -1):
        log_c = math.lgamma(parties + i) - math.lgamma(parties) - math.lgamma(parties - i) - math.lgamma(i + 1)
        terms.append(log_c + i * log_w + tail)
        tail = tail + np.log(k + i) if i else tail
    head = parties * math.log(math.tanh(0.5 / scale)) - k / scale
    return np.asarray(head + logsumexp(terms, axis=0), dtype=np.float64)


def reach(scale: float, entries: int, parties: int, chance: float = 2.0**-60) -> int:
    """A size that no entry of the noise passes, but with probability `chance`.

    Some of `parties` numbers is larger than t in size with probability at most parties * 2 q^(t+1) / (1 + q),
    and unless one is, their sum is at most parties * t: a union bound over parties and entries.

    Examples
    --------
    >>> reach(10.0, entries=100, parties=2)
    952
    """
    _check(scale, entries, parties)
    if scale == 0 or not entries or not parties:
        return 0
    return parties * math.ceil(scale * math.log(2 * parties * entries / chance))
