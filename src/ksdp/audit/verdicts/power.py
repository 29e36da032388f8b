"""Power of an audit before it runs: the leaks that it can find, and the documents that it can clear.

Decisions are those of `decide`: a leak is *detected* when a document's smallest p, times the number of statistics,
passes the correction over documents; a document is *clear* when the equivalence test of every statistic does. Both
are forecast for one document:

- *detection*: the document is the only one that leaks, and leaks through one statistic, so its p must reach
  `strictest_distance_log10_p` (other leaking documents only make it easier). The distance that gives this p
  is exact. How often it is reached depends on more than the advantage: a shift shows at many thresholds at
  once, and the
  largest of many differences is what is measured; an event (a statistic of two values) shows at one threshold
  only and is the worst case. `leak` chooses; an event needs up to twice the runs of a shift where few tests are
  made, 1.3 times where there are many.
- *clearance*: no document gives anything away, D has its exact null law, and the statistics are joined by the
  union bound: exact for one statistic, slightly conservative for several. What D must stay below is the margin
  less a normal quantile of the largest spread of a difference of two shares (`clearing_gap`). As all documents are
  alike, the false discovery rate asks of each what it asks of the last of those that are cleared.

Forecasts hold the arms at their expected sizes.

How far apart a document's arms must be measured for each verdict, and how many runs would bring it there.

Power of the two-sample Kolmogorov-Smirnov test: its critical distance, and how often that is reached.

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
from typing import Literal

import numpy as np
from numba import njit
from scipy.special import ndtr, ndtri

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.verdicts.laws import ArmTests, log10_p, smallest_log10_p
from ksdp.audit.verdicts.low_fpr import LowFpr
from ksdp.audit.verdicts.margins import LIKELY, SIDES, spread
from ksdp.audit.verdicts.multiplicity import CLEARING, TAIL_SHARE, strictest_distance_log10_p, strictest_log10_p

_LN10 = math.log(10)
_TIMES = 64
_STATES = 192
# Above this, exact and asymptotic critical distances differ by less than 0.5 %, and the exact one costs seconds.
_EXACT_ARM = 1500


def first_true(true_from: Callable[[int], bool], near: int, most: int) -> int:
    """The smallest k in 1..most with true_from(k), a monotone condition that holds at `most`."""
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
    """The smallest D = h / (n_with n_without) with exact log10 p at most the wanted one; inf if there is none."""
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
    """The distance that a continuous process crosses as rarely as the exact test rejects; inf if it never does."""
    exact = critical_distance(n_with, n_without, wanted_log10_p)
    m, n = min(n_with, n_without), max(n_with, n_without)
    if not math.isfinite(exact) or m > _EXACT_ARM:
        return exact
    attained = float(log10_p(np.array([round(exact * m * n)]), np.array([m]), np.array([n]))[0])
    return math.sqrt((math.log(2) - attained * _LN10) * (m + n) / (2 * m * n))


@lru_cache(maxsize=4096)
def shift_power(advantage: float, n_with: int, n_without: int, wanted_log10_p: float) -> float:
    """P(exact log10 p <= the wanted one) where the arms are normals of equal variance at distance `advantage`."""
    critical = continuous_critical(n_with, n_without, wanted_log10_p)
    if not math.isfinite(critical):
        return 0.0
    half = float(ndtri((1 + advantage) / 2))
    # Steps of about equal probability under the two normals together.
    times = ndtri(np.arange(1, _TIMES) / _TIMES) * math.sqrt(1 + half**2)
    return float(_crossing(ndtr(times + half), ndtr(times - half), critical, n_with, n_without))


def event_power(advantage: float, n_with: int, n_without: int, wanted_log10_p: float) -> float:
    """P(exact log10 p <= the wanted one) if one event tells the arms apart, as unlucky as `advantage` allows."""
    critical = critical_distance(n_with, n_without, wanted_log10_p)
    if not math.isfinite(critical):
        return 0.0
    rarer = np.linspace(0, 1 - advantage, 201)
    often = rarer + advantage
    variance = rarer * (1 - rarer) / n_with + often * (1 - often) / n_without
    other = rarer * (1 - rarer) / n_without + often * (1 - often) / n_with
    spread = np.sqrt(np.maximum(np.concatenate([variance, other]), 1e-300))
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


def detectable_distance(
    n_with: Ints, n_without: Ints, documents: int, statistics: int, rule: DecisionSpec, level: float | None = None
) -> Floats:
    """The measured D at which a document is surely detected, whatever the others do."""
    return _distance_at(
        n_with, n_without, strictest_distance_log10_p(level or rule.level, documents, statistics, rule.error)
    )


def _distance_at(n_with: Ints, n_without: Ints, wanted: float) -> Floats:
    log_p = math.log(10) * wanted
    effective = n_with * n_without / np.maximum(n_with + n_without, 1)
    return np.asarray(np.minimum(np.sqrt((math.log(2) - log_p) / (2 * np.maximum(effective, 1e-9))), 1.0))


def likely_distance(tested: ArmTests) -> Floats:
    """Each document's largest D, less the noise that it holds, shape (n_documents,)."""
    return _less_noise(*largest_distance(tested))


def largest_distance(tested: ArmTests) -> tuple[Floats, Ints, Ints]:
    """Each document's largest D, 0 where none is known, and the sizes of its arms."""
    measured = np.nan_to_num(tested.distance, nan=0.0)
    top = measured.argmax(axis=1)[:, None]
    m, n = (np.take_along_axis(arm, top, axis=1)[:, 0] for arm in (tested.n_with, tested.n_without))
    return np.take_along_axis(measured, top, axis=1)[:, 0], m, n


def _less_noise(distance: Floats, n_with: Ints, n_without: Ints) -> Floats:
    """The true D, about: E[D^2] = (pi^2 / 12) / N where there is no leak, N = n m / (n + m)."""
    effective = np.maximum(n_with * n_without / np.maximum(n_with + n_without, 1), 1e-9)
    return np.asarray(np.sqrt(np.maximum(distance**2 - math.pi**2 / 12 / effective, 0)))


def sensitive_distance(
    n_with: Ints, n_without: Ints, documents: int, statistics: int, rule: DecisionSpec, level: float | None = None
) -> Floats:
    """The measured D at which a document is surely called sensitive, whatever the others do; above 1: no D is."""
    wanted = (strictest_log10_p(level or rule.level, documents, statistics, rule.error),) * 2
    return np.asarray(rule.margin + _needed_gaps(n_with, n_without, wanted, rule)[0])


def runs_to_decide(
    distance: Floats,
    n_with: Ints,
    n_without: Ints,
    wanted: tuple[float, float],
    rule: DecisionSpec,
    statistics: int,
) -> Floats:
    """Return the runs needed: the correction of D shrinks like 1 / sqrt(runs), so the present ones say how many.

    The measured D holds noise, which is taken off for the true D. The measurement to come is granted the noise
    that the largest of all statistics stays below with probability one half, ln(4 S) = 2 N x^2, where it must stay
    below the margin, and none where it must be above. `wanted` are the log10 p that
    prove it above the margin, over statistics, and below.
    """
    runs = (n_with + n_without).astype(np.float64)
    effective = np.maximum(n_with * n_without / np.maximum(runs, 1), 1e-9)
    true = _less_noise(distance, n_with, n_without)
    noise = np.sqrt(math.log(4 * statistics) / (2 * effective))
    over, under = _needed_gaps(n_with, n_without, wanted, rule)
    room = rule.margin - true
    with np.errstate(divide="ignore", invalid="ignore"):
        clear = np.where(room > 0, runs * ((under + noise) / room) ** 2, np.inf)
        runs_needed = np.where(room < 0, runs * (over / room) ** 2, np.inf)
    needed = np.fmin(clear, runs_needed)
    return np.where(np.isfinite(needed), np.ceil(np.maximum(needed, runs + 1)), np.inf)


def _needed_gaps(
    n_with: Ints, n_without: Ints, wanted: tuple[float, float], rule: DecisionSpec
) -> tuple[Floats, Floats]:
    """How far above the margin, and how far below it, a document must be measured with these arms."""
    high, low = wanted
    if rule.margin == 0:
        distances = _distance_at(n_with, n_without, high + math.log10(1 - TAIL_SHARE))
        return distances, np.full(np.shape(n_with), np.inf)
    if rule.margin_at_low_fpr is not None:  # which has the other part
        high += math.log10(1 - TAIL_SHARE)
    high = min(high, -0.31)
    return least_over(n_with, n_without, high), clearing_gap(n_with, n_without, 10 ** min(low, -0.31))


def clearing_gap(n_with: Ints, n_without: Ints, level: float) -> Floats:
    """How far below the margin the measured D must be for a p of `level`; infinite where an arm is empty."""
    return np.asarray((0.125 - float(ndtri(level))) * spread(n_with, n_without))


def least_over(n_with: Ints, n_without: Ints, wanted: float) -> Floats:
    """The smallest t with `margin.over_log10_p` at the wanted log10 p or below; infinite where an arm is empty."""
    depth = math.log(SIDES) - min(wanted * math.log(10), math.log(LIKELY))
    return np.asarray(np.sqrt(2 * depth) * spread(n_with, n_without))


Leak = Literal["shift", "event"]

_MOST_RUNS = 10**9


def minimal_detectable(
    n_with: int,
    n_without: int,
    documents: int,
    statistics: int,
    rule: DecisionSpec,
    power: float = 0.8,
    leak: Leak = "shift",
) -> float:
    """Return the true advantage detected with probability `power`; inf if the arms give no p so small."""
    _check(documents=documents, statistics=statistics, power=power)
    wanted = strictest_distance_log10_p(rule.level, documents, statistics, rule.error)
    low, high = 0.0, 1 - 1e-9
    if _power(high, n_with, n_without, wanted, leak) < power:
        return math.inf
    while high - low > 1e-5:
        middle = (low + high) / 2
        if _power(middle, n_with, n_without, wanted, leak) >= power:
            high = middle
        else:
            low = middle
    return high


def smallest_margin(
    n_with: int, n_without: int, documents: int, statistics: int, rule: DecisionSpec, power: float = 0.8
) -> float:
    """The smallest margin under which a document that gives nothing away is called clear with chance `power`."""
    _check(documents=documents, statistics=statistics, power=power)
    if min(n_with, n_without) < 1:
        return math.inf
    arms = np.array([n_with]), np.array([n_without])
    needed = float(clearing_gap(*arms, _clearing_level(rule, documents, power))[0])
    margin = needed + critical_distance(n_with, n_without, math.log10((1 - power) / statistics))
    return margin if margin <= 1 else math.inf


def runs_for_margin(
    share: float, margin: float, documents: int, statistics: int, rule: DecisionSpec, power: float = 0.8
) -> int:
    """All runs of an audit after which a document that gives nothing away is called clear with chance `power`."""
    _check(documents=documents, statistics=statistics, power=power, share=share)
    if not 0 < margin <= 1:
        raise ValueError(f"`margin` must be in (0, 1]; got {margin}.")
    return _fewest_runs(
        share, lambda m, n: smallest_margin(m, n, documents, statistics, rule, power) <= margin, margin
    )


def smallest_limit(
    n_with: int, n_without: int, documents: int, statistics: int, rule: DecisionSpec, low: LowFpr
) -> float:
    """As `smallest_margin`, 8 times in 10, of true positives at 1 % false ones; 1 where no limit would do."""
    power = 0.8
    return low.least_limit(n_with, n_without, _clearing_level(rule, documents, power), statistics, power)


def runs_for_limit(share: float, documents: int, statistics: int, rule: DecisionSpec, low: LowFpr) -> int:
    """As `runs_for_margin`, of the limit of true positives at 1 % false ones; `ValueError` as there."""

    def enough(m: int, n: int) -> bool:
        return smallest_limit(m, n, documents, statistics, rule, low) <= low.limit

    return _fewest_runs(share, enough, low.limit)


def _clearing_level(rule: DecisionSpec, documents: int, power: float) -> float:
    """The raw p at which a document is cleared, where this share of all documents is."""
    rank = max(math.floor(power * documents), 1)
    return float(10 ** strictest_log10_p(rule.for_clear, documents, 1, rule.error, rank=rank, uniform=CLEARING))


def _check(*, documents: int, statistics: int, power: float = 0.5, share: float = 0.5) -> None:
    for name, count in (("documents", documents), ("statistics", statistics)):
        if count < 1:
            raise ValueError(f"`{name}` must be at least 1; got {count}.")
    for name, part in (("power", power), ("share", share)):
        if not 0 < part < 1:
            raise ValueError(f"`{name}` must be in (0, 1); got {part}.")


def _fewest_runs(share: float, enough: Callable[[int, int], bool], distance: float) -> int:
    def at(runs: int) -> bool:
        with_runs = round(share * runs)
        return enough(with_runs, runs - with_runs)

    near = math.ceil(8 / distance**2 / min(share, 1 - share))
    high = min(near, _MOST_RUNS)
    while not at(high):
        if high == _MOST_RUNS:
            raise ValueError(f"a distance of {distance:g} needs more than {_MOST_RUNS:,} runs.")
        high = min(2 * high, _MOST_RUNS)
    return first_true(at, high, high)


def _power(advantage: float, n_with: int, n_without: int, wanted_log10_p: float, leak: Leak) -> float:
    if leak not in ("shift", "event"):
        raise ValueError(f"`leak` must be shift or event; got {leak!r}.")
    power = shift_power if leak == "shift" else event_power
    return power(advantage, n_with, n_without, wanted_log10_p)
