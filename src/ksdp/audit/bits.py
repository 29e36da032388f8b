"""How much numbers show about who was in, by runs of a few databases: bits of it, and the part that is no sum.

A document is in or it is not. Whoever uses that needs far fewer exact numbers than there are documents: the means
of 30 columns tell who of 120 patients were in, within seconds. So exact numbers of few documents clear nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.contract import Mechanism, Observables, Release
from ksdp.audit.mechanisms.recorded import RecordedRuns
from ksdp.audit.mechanisms.schema import exact_throughout
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.statistic import Pool
from ksdp.audit.statistics.linear.pilot import DATABASES, crossed_runs, repeated_runs

DIGITS = 52
"""Bits of a number in double precision."""
REDUCED = math.log2(1.009)
"""log2 of the root Hermite factor that lattice reduction reaches in a day or so (Gama & Nguyen, Predicting lattice
reduction, 2008, doi.org/10.1007/978-3-540-78967-3_3: 1.0219 by LLL, 1.0109 by BKZ-28)."""
_TWICE, _REPEATS = 2, 10
"""Runs of each database, and where these differ."""
_NEAR = 1 / 45
"""Share of pairs of runs, the nearest ones, by whose difference noise is told from a choice among few answers."""
_HIDDEN = 4.0
"""Times the noise, within which who is in does not show."""
_LOOKED_AT = 1_000
"""Numbers of an array, at even steps, that stand for all."""


def found_by_lattice(documents: int, share: float, bits: float) -> bool:
    """Whether lattice reduction finds who was in.

    Equations with B bits in n unknowns of which each is 0 or 1 make a lattice of dimension n and determinant 2^B.
    Who was in is its one short vector where B is more than the n H(p) bits that say so (Lagarias & Odlyzko,
    Solving low-density subset sum problems, 1985, doi.org/10.1145/2455.2461), and reduction finds it where

        n H(p) + n^2 log2(f) < B, f the root Hermite factor.
    """
    entropy = -sum(p * math.log2(p) for p in (share, 1.0 - share) if p > 0.0)
    return documents * entropy + documents**2 * REDUCED < bits


@dataclass(frozen=True)
class Shown:
    """How much the numbers of a run show about who was in."""

    bits: float
    """Sum over numbers of log2 of the deviation over databases to the noise or the last digit, the larger one:
    whole numbers have few bits. Numbers within their noise count as nothing."""
    numbers: float
    """How many they are, each as the share of its variance that is not noise."""
    interaction: float
    """Share of their variance that is no sum over documents, from 0 to 1; 1 where nobody looks."""


def shown(mechanism: Mechanism, arrays: Sequence[Release], pool: Pool, *, crossed: bool = True) -> Shown:
    """Estimate from runs of some databases how much a run shows about who was in."""
    values = _announced(mechanism, arrays, pool)
    if values is None or not np.isfinite(values).all():
        return Shown(most_bits(arrays), most_bits(arrays) / DIGITS, 1.0)
    spread, digit = values.std(axis=(0, 1)), _last_digit(values)
    noise, shares = _noise(values, digit)
    bits = np.log2(spread / np.maximum(noise, digit), out=np.zeros(len(spread)), where=shares & (spread > digit))
    bits = np.clip(bits, 0.0, DIGITS)
    counts = [len(_places(array)) for array in arrays]
    weights = np.repeat(np.divide([array.numbers for array in arrays], counts), counts)
    rounded = np.maximum(noise, digit / math.sqrt(12.0))
    exact = 1.0 - np.square(np.divide(rounded, spread, out=np.ones(len(spread)), where=spread > rounded))
    signal = np.where(shares, exact, _not_noise(values))
    interaction = _interaction(mechanism, arrays, pool, np.maximum(signal, 0.0), weights) if crossed else 1.0
    return Shown(float(bits @ weights), max(float(signal @ weights), 0.0), interaction)


def _not_noise(values: Floats) -> Floats:
    """Share of the variance that runs of one database do not have; of noise alone 0 on average."""
    total = values.reshape(-1, values.shape[2]).var(axis=0, ddof=1)
    within = values.var(axis=1, ddof=1).mean(axis=0) if values.shape[1] > 1 else total
    return np.asarray(1.0 - np.divide(within, total, out=np.ones_like(total), where=total > 0.0))


def _interaction(
    mechanism: Mechanism, arrays: Sequence[Release], pool: Pool, signal: Floats, weights: Floats
) -> float:
    if isinstance(mechanism, RecordedRuns):
        return mechanism.unexplained
    values = crossed_runs(mechanism, pool, lambda seen: _numbers(seen, arrays))
    if values is None:
        return 1.0
    residual = np.square(values[:, 0] - values[:, 1] - values[:, 2] + values[:, 3]).mean(axis=0) / 4.0
    total = values.var(axis=(0, 1))
    share = np.divide(residual, total, out=np.zeros(len(residual)), where=total > 0.0) @ weights
    return min(float(share / (signal @ weights)), 1.0) if signal.any() else 0.0


def most_bits(arrays: Iterable[Release]) -> float:
    """Bits of arrays whose every digit shows who was in."""
    return DIGITS * float(sum(array.numbers for array in arrays))


def _places(array: Release) -> NDArray[np.int64]:
    size = math.prod(array.shape)
    return np.unique(np.linspace(0, size - 1, min(size, _LOOKED_AT)).round().astype(np.int64))


def _announced(mechanism: Mechanism, arrays: Sequence[Release], pool: Pool) -> Floats | None:
    """Shape (databases, runs of each, numbers); None where it cannot be run, or does not announce this."""
    if isinstance(mechanism, RecordedRuns):
        some = range(min(mechanism.tested, DATABASES * _REPEATS))
        return np.array([[_numbers(mechanism.of_run(run), arrays)] for run in some])
    few = 1 if exact_throughout(mechanism) else _TWICE
    released_values = repeated_runs(mechanism, pool, range(few), lambda seen: _numbers(seen, arrays))
    if released_values is None or np.array_equal(released_values[:, 0], released_values[:, -1], equal_nan=True):
        return released_values
    more = repeated_runs(mechanism, pool, range(few, _REPEATS), lambda seen: _numbers(seen, arrays))
    return None if more is None else np.concatenate([released_values, more], axis=1)


def _numbers(seen: Observables, arrays: Sequence[Release]) -> Floats:
    return np.concatenate([np.ravel(np.asarray(seen[array.name], np.float64))[_places(array)] for array in arrays])


def _noise(values: Floats, digit: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The noise of each number, and whether its databases differ by far more."""
    flat, databases = values.reshape(-1, values.shape[2]), np.repeat(np.arange(len(values)), values.shape[1])
    first, other = np.triu_indices(len(flat), 1)
    same = databases[first] == databases[other]
    within = np.abs(flat[other[same]] - flat[first[same]])
    random = within.any(axis=0)
    if not random.any():
        return np.zeros(len(digit)), ~random
    noise = np.where(random, _deviation(within, digit), 0.0)
    between = np.abs(flat[other[~same]] - flat[first[~same]])
    return noise, ~random | (_deviation(between, digit) > _HIDDEN * noise)


def _deviation(gaps: Floats, digit: Floats) -> Floats:
    near = np.maximum(np.quantile(gaps, _NEAR, axis=0), digit / 2.0)
    return np.asarray(len(gaps) * near / (math.sqrt(math.pi) * (gaps <= near).sum(axis=0)))


def _last_digit(values: Floats) -> Floats:
    """The largest power of 2 of which all values are multiples, of each number; of 0 the least there is."""
    fraction, exponent = np.frexp(values.reshape(-1, values.shape[2]))
    multiples = (fraction * 2.0**53).astype(np.int64)
    digit = np.where(multiples == 0, np.inf, np.ldexp((multiples & -multiples).astype(np.float64), exponent - 53))
    least = digit.min(axis=0)
    return np.where(np.isfinite(least), least, np.finfo(np.float64).tiny)
