"""Power of an audit before it runs: the leaks that it can find, and the documents that it can clear.

Decisions are those of `decide`: a leak is *detected* when a document's smallest p, times the number of statistics,
passes the correction over documents; a document is *clear* when the equivalence test of every statistic does. Both
are forecast for one document:

- *detection*: the document is the only one that leaks, and leaks through one statistic, so its p must reach
  `strictest_distance_log10_p` (other leaking documents only make it easier). The distance that gives this p
  is exact. How often it is reached depends on more than the advantage. The forecast is of the leak that is found
  least often: an event (a statistic of two values), which shows at one threshold only. By the normal approximation
  of a difference of two binomial shares, the event is as unlucky as the advantage allows. A shift, which shows at
  many thresholds at once, needs down to half the runs where few tests are made, and 3 in 4 where there are many.
- *clearance*: no document gives anything away, D has its exact null law, and the statistics are joined by the
  union bound: exact for one statistic, slightly conservative for several. What D must stay below is the margin
  less a normal quantile of the largest spread of a difference of two shares (`clearing_gap`). As all documents are
  alike, the false discovery rate asks of each what it asks of the last of those that are cleared.

Forecasts hold the arms at their expected sizes.

How far apart a document's arms must be measured for each verdict, and how many runs would bring it there.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.verdicts.laws import ArmTests, log10_p, smallest_log10_p
from ksdp.audit.verdicts.low_fpr import LowFpr
from ksdp.audit.verdicts.margins import LIKELY, SIDES, spread
from ksdp.audit.verdicts.multiplicity import CLEARING, TAIL_SHARE, strictest_distance_log10_p, strictest_log10_p

_LN10 = math.log(10)
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


def event_power(advantage: float, n_with: int, n_without: int, wanted_log10_p: float) -> float:
    """P(exact log10 p <= the wanted one) where one event tells the arms apart, as unlucky as can be."""
    critical = critical_distance(n_with, n_without, wanted_log10_p)
    if not math.isfinite(critical):
        return 0.0
    rarer = np.linspace(0, 1 - advantage, 201)
    often = rarer + advantage
    variance = rarer * (1 - rarer) / n_with + often * (1 - often) / n_without
    other = rarer * (1 - rarer) / n_without + often * (1 - often) / n_with
    spread = np.sqrt(np.maximum(np.concatenate([variance, other]), 1e-300))
    return float(ndtr((advantage - critical) / spread).min())


def detectable_distance(
    n_with: Ints, n_without: Ints, documents: int, statistics: int, rule: DecisionSpec, level: float | None = None
) -> Floats:
    """The measured D at which a document is surely detected, whatever the others do.

    From the asymptotic law 2 exp(-2 N D^2) with N = n m / (n + m); 1 where the arms cannot reach it.
    """
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
    """How far below the margin the measured D must be for a p of `level`; infinite where an arm is empty.

    The normal quantile of the largest spread, and an eighth of that spread for what the exact bound rounds.
    """
    return np.asarray((0.125 - float(ndtri(level))) * spread(n_with, n_without))


def least_over(n_with: Ints, n_without: Ints, wanted: float) -> Floats:
    """The smallest t with `margin.over_log10_p` at the wanted log10 p or below; infinite where an arm is empty."""
    depth = math.log(SIDES) - min(wanted * math.log(10), math.log(LIKELY))
    return np.asarray(np.sqrt(2 * depth) * spread(n_with, n_without))


_MOST_RUNS = 10**9


def minimal_detectable(
    n_with: int, n_without: int, documents: int, statistics: int, rule: DecisionSpec, power: float = 0.8
) -> float:
    """Return the advantage at which any leak is detected with probability `power`; inf if none is."""
    _check(documents=documents, statistics=statistics, power=power)
    wanted = strictest_distance_log10_p(rule.level, documents, statistics, rule.error)
    low, high = 0.0, 1 - 1e-9
    if event_power(high, n_with, n_without, wanted) < power:
        return math.inf
    while high - low > 1e-5:
        middle = (low + high) / 2
        if event_power(middle, n_with, n_without, wanted) >= power:
            high = middle
        else:
            low = middle
    return high


def smallest_margin(
    n_with: int, n_without: int, documents: int, statistics: int, rule: DecisionSpec, power: float = 0.8
) -> float:
    """The smallest margin under which a document that gives nothing away is called clear with chance `power`.

    The noise of the largest D of the statistics, and what the equivalence test needs beyond it; inf where no
    margin up to 1 would do.
    """
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
