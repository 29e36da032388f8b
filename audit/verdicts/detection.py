"""Power of the two-sample Kolmogorov-Smirnov test: its critical distance, and how often that is reached.

Two alternatives of true distance D are known here.

- *A shift*: two normals of equal variance. The chance that the difference of the two empirical distribution
  functions crosses the critical distance is computed for the Gaussian process that has the same means, the same
  variances and the same covariances of neighbours at 63 thresholds, crossed between neighbours as a Brownian
  bridge is (one numerical integration a threshold). Within 0.03 of simulation for arms of 50 runs and more.
- *An event*: a statistic of two values. The difference shows at one threshold only, and no pair of distributions
  of the same D is found less often. By the normal approximation of a difference of two binomial shares, the
  event as unlucky as D allows.

References: Hodges (1958), https://doi.org/10.1007/BF02589501 (the law); Wang & Potzelberger (1997),
https://doi.org/10.2307/3215174 (crossing between neighbours).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numba import njit
from scipy.special import ndtr, ndtri

from ksdp.audit.array_types import Floats
from ksdp.audit.verdicts.law import log10_p, smallest_log10_p

_LN10 = math.log(10)
_TIMES = 64
_STATES = 192
# Above this, exact and asymptotic critical distances differ by less than 0.5 %, and the exact one costs seconds.
_EXACT_ARM = 1500


def first_true(true_from: Callable[[int], bool], near: int, most: int) -> int:
    """The smallest k in 1..most with true_from(k), a monotone condition that holds at `most`.

    A bracket around `near`, doubled until it holds, then halves.
    """
    low, high = 0, most
    reach = max(1, near // 128)
    at = min(max(near, 1), most)
    while low < at < high:
        if true_from(at):
            high, at = at, max(at - reach, low)
        else:
            low, at = at, min(at + reach, high)
        reach *= 2
    return low + 1 + bisect_left(range(low + 1, high), True, key=true_from)


@lru_cache(maxsize=4096)
def critical_distance(n_with: int, n_without: int, wanted_log10_p: float) -> float:
    """The smallest D = h / (n_with n_without) with exact log10 p at or below the wanted one; inf if there is none.

    Exact where the smaller arm holds at most 1,500 runs, asymptotic (within 0.5 %) above.

    Examples
    --------
    >>> round(critical_distance(200, 6500, -7.0), 4)
    0.2065
    """
    m, n = min(n_with, n_without), max(n_with, n_without)
    if m < 1 or smallest_log10_p(m, n) > wanted_log10_p:
        return math.inf
    pairs = m * n
    effective = pairs / (m + n)
    guess = min(math.sqrt((math.log(2) - wanted_log10_p * _LN10) / (2 * effective)), 1.0)
    if m > _EXACT_ARM:
        return guess
    step = math.gcd(m, n)  # D takes no other values

    def enough(k: int) -> bool:
        at = np.array([k * step])
        return bool(log10_p(at, np.array([m]), np.array([n]))[0] <= wanted_log10_p)

    centre = max(1, round(guess * pairs / step))
    return first_true(enough, centre, pairs // step) * step / pairs


@lru_cache(maxsize=4096)
def continuous_critical(n_with: int, n_without: int, wanted_log10_p: float) -> float:
    """The distance that a continuous process crosses as rarely as the exact test rejects; inf if it never does.

    The asymptotic law at the p that is attained, which discreteness keeps below the wanted one.
    """
    exact = critical_distance(n_with, n_without, wanted_log10_p)
    m, n = min(n_with, n_without), max(n_with, n_without)
    if not math.isfinite(exact) or m > _EXACT_ARM:
        return exact
    attained = float(log10_p(np.array([round(exact * m * n)]), np.array([m]), np.array([n]))[0])
    return math.sqrt((math.log(2) - attained * _LN10) * (m + n) / (2 * m * n))


def shift_power(advantage: float, n_with: int, n_without: int, wanted_log10_p: float) -> float:
    """P(exact log10 p <= the wanted one) where the arms are normals of equal variance at distance `advantage`.

    Parameters
    ----------
    advantage : float in [0, 1)
    """
    critical = continuous_critical(n_with, n_without, wanted_log10_p)
    if not math.isfinite(critical):
        return 0.0
    half = float(ndtri((1 + advantage) / 2))
    # Steps of about equal probability under the two normals together.
    times = ndtri(np.arange(1, _TIMES) / _TIMES) * math.sqrt(1 + half**2)
    return float(_crossing(ndtr(times + half), ndtr(times - half), critical, n_with, n_without))


def event_power(advantage: float, n_with: int, n_without: int, wanted_log10_p: float) -> float:
    """P(exact log10 p <= the wanted one) where one event tells the arms apart, as unlucky as `advantage` allows.

    Parameters are those of `shift_power`.
    """
    critical = critical_distance(n_with, n_without, wanted_log10_p)
    if not math.isfinite(critical):
        return 0.0
    rarer = np.linspace(0, 1 - advantage, 201)
    often = rarer + advantage
    one = rarer * (1 - rarer) / n_with + often * (1 - often) / n_without
    other = rarer * (1 - rarer) / n_without + often * (1 - often) / n_with
    spread = np.sqrt(np.maximum(np.concatenate([one, other]), 1e-300))
    return float(ndtr((advantage - critical) / spread).min())


@njit(cache=True, nogil=True)
def _crossing(upper: Floats, lower: Floats, critical: float, m: int, n: int) -> float:
    """P(sup_t (G_n - F_m)(t) >= critical), G = upper and F = lower at increasing t; starts and ends at 0."""
    spread = math.sqrt(0.25 / m + 0.25 / n)
    floor = -6.0 * spread
    if critical <= floor:
        return 1.0
    width = (critical - floor) / _STATES
    density, after = np.zeros(_STATES), np.zeros(_STATES)
    g0 = f0 = mean0 = variance0 = 0.0
    for k in range(len(upper)):
        g1, f1 = upper[k], lower[k]
        mean1 = g1 - f1
        variance1 = f1 * (1 - f1) / m + g1 * (1 - g1) / n
        shared = f0 * (1 - f1) / m + g0 * (1 - g1) / n
        slope = shared / variance0 if variance0 > 0 else 0.0
        rest = max(variance1 - slope * shared, 1e-300)
        travelled = (f1 - f0) * (1 - (f1 - f0)) / m + (g1 - g0) * (1 - (g1 - g0)) / n
        scale = width / math.sqrt(2 * math.pi * rest)
        reach = 7.0 * math.sqrt(rest)
        after[:] = 0.0
        for i in range(_STATES if k else 1):
            x = floor + (i + 0.5) * width if k else 0.0
            mass = density[i] if k else 1.0
            if mass < 1e-14:
                continue
            centre = mean1 + slope * (x - mean0)
            first = max(0, int((centre - reach - floor) / width))
            last = min(_STATES, int((centre + reach - floor) / width) + 1)
            for j in range(first, last):
                y = floor + (j + 0.5) * width
                stays = 1.0 - math.exp(-2.0 * (critical - x) * (critical - y) / travelled)
                after[j] += mass * stays * scale * math.exp(-0.5 * (y - centre) ** 2 / rest)
        density, after = after, density
        g0, f0, mean0, variance0 = g1, f1, mean1, variance1
    return 1.0 - min(float(density.sum()), 1.0)
