"""Is an advantage above the margin, or below it? Two p-values for one measured distance.

With D = sup_t |F(t) - G(t)| the true advantage, d the measured one, m and n runs in the arms and c the margin:

- **below** (equivalence): were D at least c, some event "at most t" or "less than t" would have shares that differ
  by at least c, and d is at least as large as the difference measured there. So P(measured D <= d) is at most
  P(A / m - B / n <= d) with A ~ Bin(m, r + c) and B ~ Bin(n, r), at the rate r that makes it largest; a larger
  difference of the shares makes it smaller, and the other sign is the same with successes and failures exchanged.
  No distribution is assumed; ties may be any.
- **above**: were D at most c, both F - G and G - F would be at most c everywhere. Take the first. With U and V
  uniform, Y = G^-1(U) has law G, and X' = G^-1(V - c), below everything where V <= c, has law min(G + c, 1) >= F:
  it is X or smaller. So sup (F_m - G_n) is by chance the largest, whatever F and G are, for the **flat** pair: a
  share c of the runs with the document lies below all others, a share c of those without it above all others, and
  what is between them has one law (ties only leave thresholds out). There the chance of a measured d is a count of
  lattice paths: in the limit of many runs at most exp(-2 N (d - c)^2), N = m n / (m + n), and with finite arms at
  most 1.2 times that wherever twice this is below a fifth: counted, not proved, for all arms of up to 16 runs and
  a sample of larger ones (`tests/validity/test_flat.py`). Both signs together: 2.4 exp(-2 N (d - c)^2), called 1
  from a fifth on. The limit: the deviations of F_m - G_n, times the root of N, and an independent normal number
  times F - G together are a Brownian bridge, so by Anderson's inequality they exceed a bound no oftener than it.

References: Anderson (1955), https://doi.org/10.1090/S0002-9939-1955-0069229-1; Wei & Dudley (2012),
https://doi.org/10.1016/j.spl.2012.01.010 (c = 0: how far exp(-2 N d^2) is from the truth for finite arms); Berger
(1982), https://doi.org/10.2307/1268811 (intersection-union: over statistics the largest p counts, uncorrected);
Wellek (2010), "Testing Statistical Hypotheses of Equivalence and Noninferiority".

The largest chance that two shares lie no further apart than measured, were their rates so far apart.

A ~ Bin(m, r + gap) and B ~ Bin(n, r) are independent counts; the common rate r is not known. What is wanted is

    sup_r P(A / m - B / n <= d),

the p-value of an exact test whose hypothesis says nothing of r. At two rates r1 <= r2 the chance for any r between
them is at most the one with A at r1 + gap and B at r2, as A grows with its rate and B with its own. So a grid of
rates gives an upper bound, and halving intervals (branch and bound) the largest bound over the grid's cells: never
below the supremum, and no larger than the supremum for a gap that is smaller by one cell, a sixteenth of the
standard deviation of A / m - B / n. d is rounded up to steps of about the same size, so that documents share the
work. What falls out of a window of counts is below 1e-14.

Where Hoeffding's bound exp(-2 (gap - d)^2 m n / (m + n)) is below 1e-10 it is used as it is.

Reference: Hoeffding (1963), https://doi.org/10.1080/01621459.1963.10500830.

Confidence bands for D that hold whatever the two distributions are.

With F, G the true distribution functions and F_m, G_n the measured ones, D = sup |F - G| is above the measured one
by t only if F - G at the point where it is largest is above F_m - G_n there by t: two means of bounded variables,
so by Hoeffding's inequality with probability at most exp(-2 N t^2), N = m n / (m + n). The measured one is above D
by t with probability at most 2.4 exp(-2 N t^2), whatever D is (as above, with c = D). The
half-width is the t at which both together are the level. (The law of equal distributions would be valid only where
they are equal, which is not what a band is for.)

Reference: Hoeffding (1963), https://doi.org/10.1080/01621459.1963.10500830
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numba import njit

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.multiplicity import weighted_minimum

_CELLS = 16
"""Cells of the grid of rates in a standard deviation."""
_MOST_CELLS = 4096
_DEEP = 1e-10
_TINY = 1e-17
LIKELY = 0.2
"""Chances from here on are called 1: no level is as large."""


def spread(n_with: Ints, n_without: Ints) -> Floats:
    """The largest standard deviation of a difference of two shares; infinite where an arm is empty."""
    m, n = np.asarray(n_with, dtype=np.float64), np.asarray(n_without, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(0.5 * np.sqrt(1 / m + 1 / n))


def hoeffding_log10_p(short: Floats, n_with: Ints | Floats, n_without: Ints | Floats) -> Floats:
    """Log10 of exp(-2 N short^2), N = m n / (m + n): a difference of shares off its mean by `short`; 0 below 0."""
    m, n = np.asarray(n_with, dtype=np.float64), np.asarray(n_without, dtype=np.float64)
    effective = m * n / np.maximum(m + n, 1)
    return np.asarray(-2 * effective * np.maximum(short, 0) ** 2 / math.log(10))


def largest_log10_tail(measured: Floats, first: Ints, second: Ints, gap: float) -> Floats:
    """Log10 of an upper bound of sup_r P(A / m - B / n <= d), A ~ Bin(m, r + gap), B ~ Bin(n, r)."""
    if not -1 <= gap <= 1:
        raise ValueError(f"`gap` must be in [-1, 1]; got {gap}.")
    d = np.asarray(measured, dtype=np.float64)
    # Counting failures for successes exchanges the arms: the smaller goes first.
    m = np.minimum(first, second).astype(np.int64)
    n = np.maximum(first, second).astype(np.int64)
    out = np.where(m > 0, hoeffding_log10_p(gap - d, m, n), 0.0)
    near = np.flatnonzero((out > math.log10(_DEEP)) & (d < gap) & (m > 0))
    near = near[np.lexsort((n[near], m[near]))]
    starts = np.flatnonzero(np.diff(m[near], prepend=-1) | np.diff(n[near], prepend=-1))
    for rows in np.split(near, starts[1:]) if len(near) else []:
        tails = _of_arms(d[rows], int(m[rows[0]]), int(n[rows[0]]), gap)
        out[rows] = np.minimum(np.log10(np.maximum(tails, _DEEP)), out[rows])
    return np.asarray(out)


def _of_arms(measured: Floats, m: int, n: int, gap: float) -> Floats:
    step, last, table = _table(m, n, gap)
    place = np.ceil(measured * n / step - 1e-9).astype(np.int64)
    return np.asarray(table[last - place])


@lru_cache(maxsize=8192)
def _table(m: int, n: int, gap: float) -> tuple[int, int, Floats]:
    """Chances at every step of d from the gap down to where Hoeffding's bound is used; the first is of `last`."""
    step = max(1, int(n * float(spread(np.array(m), np.array(n))) / _CELLS))
    least = gap - math.sqrt(-math.log(_DEEP) * (1 / m + 1 / n) / 2)
    last, first = math.ceil(gap * n / step), math.floor(least * n / step) - 1
    return step, last, _tails(last, last - first + 1, step, m, n, gap)


@njit(cache=True, nogil=True)
def _window(trials: int, rate: float, values: Floats) -> tuple[int, int]:
    """Fill `values` with the probabilities of the counts that matter; the first of them, and how many."""
    if rate <= 0.0 or rate >= 1.0:
        values[0] = 1.0
        return (0 if rate <= 0.0 else trials), 1
    mode = min(int((trials + 1) * rate), trials)
    odds = rate / (1.0 - rate)
    peak = math.exp(
        math.lgamma(trials + 1.0)
        - math.lgamma(mode + 1.0)
        - math.lgamma(trials - mode + 1.0)
        + mode * math.log(rate)
        + (trials - mode) * math.log1p(-rate)
    )
    low, at = mode, peak
    while low > 0 and at > _TINY:
        at *= low / ((trials - low + 1) * odds)
        low -= 1
    count = 0
    # From the mode down to `low`, then turned, then up.
    at = peak
    for k in range(mode, low - 1, -1):
        values[k - low] = at
        if k > 0:
            at *= k / ((trials - k + 1) * odds)
        count += 1
    at, k = peak, mode
    while k < trials and at > _TINY:
        at *= (trials - k) * odds / (k + 1)
        k += 1
        values[count] = at
        count += 1
    return low, count


@njit(cache=True, nogil=True)
def _widest(trials: int) -> int:
    """No window is wider: 20 standard deviations, and 100 counts for the skewed ones."""
    return min(trials, int(20.0 * math.sqrt(0.25 * trials)) + 100) + 2


@njit(cache=True, nogil=True, fastmath=True)
def _add(out: Floats, source: Floats, chance: float) -> None:
    for k in range(len(out)):
        out[k] += chance * source[k]


@njit(cache=True, nogil=True)
def _chances(
    out: Floats,
    last: int,
    step: int,
    ratio: tuple[int, int],
    a: tuple[int, int, Floats],
    b: tuple[int, int, Floats],
) -> None:
    """P(A / m - B / n <= (last - k) step / n) for k = 0, 1, ...: the sum over A of P(B >= n A / m - ...)."""
    m, n = ratio
    low_a, count_a, of_a = a
    low_b, count_b, upper_b = b
    places = len(out)
    out[:] = 0.0
    sure = np.zeros(places + 1)
    rows = (count_b + step - 1) // step
    for at in range(count_a):
        first = -((-n * (low_a + at)) // m) - step * last - low_b
        rest = first % step
        row = first // step  # of k = 0; negative where B is surely as large
        begin = min(max(-row, 0), places)
        count_held = (count_b - rest + step - 1) // step
        end = min(max(count_held - row, begin), places)
        sure[begin] += of_a[at]
        shift = rest * rows + row
        if end > begin:
            _add(out[begin:end], upper_b[begin + shift : end + shift], of_a[at])
    total = 0.0
    for k in range(places - 1, -1, -1):
        total += sure[k + 1]
        out[k] += total


@njit(cache=True, nogil=True)
def _upper(count: int, step: int, values: Floats) -> None:
    """Turn the chances of low, low + 1, ... into P(B >= low + t), ordered as `_chances` wants them."""
    for k in range(count - 2, -1, -1):
        values[k] += values[k + 1]
    copy = values[:count].copy()
    rows = (count + step - 1) // step
    for k in range(count):
        values[(k % step) * rows + k // step] = copy[k]


@njit(cache=True, nogil=True)
def _likeliest(lowest: float, width: float, cells: int, m: int, n: int, gap: float) -> int:
    """The cell of rates in which the difference of the two shares varies most."""
    middle = 0
    widest = -1.0
    for k in range(cells):
        r = lowest + (k + 0.5) * width
        variance = (r + gap) * (1.0 - r - gap) / m + r * (1.0 - r) / n
        if variance > widest:
            middle, widest = k, variance
    return middle


@njit(cache=True, nogil=True)
def _raises(chance: Floats, best: Floats) -> bool:
    """Whether any chance is above the best one so far, where that is below `LIKELY`."""
    for k in range(len(best)):  # noqa: SIM110 - a generator is a function more to compile
        if chance[k] > best[k] and best[k] < LIKELY:
            return True
    return False


@njit(cache=True, nogil=True)
def _tails(last: int, places: int, step: int, m: int, n: int, gap: float) -> Floats:
    lowest, highest = max(0.0, -gap), min(1.0, 1.0 - gap)
    cell = 0.5 * math.sqrt(1.0 / m + 1.0 / n) / _CELLS
    cells = min(max(1, math.ceil((highest - lowest) / cell)), _MOST_CELLS)
    width = (highest - lowest) / cells
    of_a, upper_b = np.zeros((cells + 1, _widest(m))), np.zeros((cells + 1, _widest(n) + step))
    low_a, count_a = np.full(cells + 1, -1, np.int64), np.zeros(cells + 1, np.int64)
    low_b, count_b = np.full(cells + 1, -1, np.int64), np.zeros(cells + 1, np.int64)
    middle = _likeliest(lowest, width, cells, m, n, gap)
    best, chance = np.zeros(places), np.zeros(places)
    starts, ends = np.empty(256, np.int64), np.empty(256, np.int64)
    starts[0], ends[0] = 0, cells
    starts[1], ends[1] = middle, middle + 1
    depth = 2
    while depth > 0:
        depth -= 1
        i, j = starts[depth], ends[depth]
        if low_a[i] < 0:
            low_a[i], count_a[i] = _window(m, min(max(lowest + i * width + gap, 0.0), 1.0), of_a[i])
        if low_b[j] < 0:
            low_b[j], count_b[j] = _window(n, min(max(lowest + j * width, 0.0), 1.0), upper_b[j])
            _upper(count_b[j], step, upper_b[j])
        _chances(chance, last, step, (m, n), (low_a[i], count_a[i], of_a[i]), (low_b[j], count_b[j], upper_b[j]))
        if not _raises(chance, best):
            continue
        if j - i == 1:
            for k in range(places):
                best[k] = max(best[k], chance[k])
            continue
        half = (i + j) // 2
        if half > middle:  # the half nearer to the likely rate goes first
            starts[depth], ends[depth] = half, j
            starts[depth + 1], ends[depth + 1] = i, half
        else:
            starts[depth], ends[depth] = i, half
            starts[depth + 1], ends[depth + 1] = half, j
        depth += 2
    for k in range(places):
        if best[k] >= LIKELY:
            best[k] = 1.0
    return best


SIDES = 2.4
"""Both signs of a difference, and a fifth more for finite arms: of those counted, none needs more than 2.06."""


def log10_above(tested: ArmTests, rule: DecisionSpec) -> Floats:
    """Log10 p of "the advantage is at most the margin", of the shape of the tests; 0 where an arm is empty.

    With margin 0 the tests' own p: what asks for any leak at all. With `margin_at_low_fpr`, of "both are at most
    their limits": four fifths of the level for the advantage, one fifth for that.
    """
    if rule.margin == 0:
        return _where_tested(tested, tested.log10_p)
    over = np.nan_to_num(tested.distance) - rule.margin
    out = over_log10_p(over, tested.n_with, tested.n_without)
    if rule.margin_at_low_fpr is not None:
        out = weighted_minimum(out, tested.log10_low_above)
    return _where_tested(tested, out)


def log10_below(tested: ArmTests, rule: DecisionSpec) -> Floats:
    """Log10 p of "the advantage is at least the margin", of the shape of the tests; 0 where an arm is empty.

    With `margin_at_low_fpr`, of "one of the two is at least its limit": the larger p (intersection-union).
    """
    measured = np.nan_to_num(tested.distance)
    if rule.margin == 0:
        return np.zeros_like(measured)
    arms = tested.n_with.ravel(), tested.n_without.ravel()
    out = largest_log10_tail(measured.ravel(), *arms, float(rule.margin)).reshape(measured.shape)
    if rule.margin_at_low_fpr is not None:
        out = np.maximum(out, tested.log10_low_below)
    return _where_tested(tested, out)


@lru_cache(maxsize=2**16)
def attack_above_log10_p(hits: int, n_with: int, alarms: int, n_without: int, margin: float) -> float:
    """Log10 p of "this attack's TPR - FPR is at most the margin": the attack fixed beforehand, on fresh runs.

    Exact for the worst false positive rate.
    """
    # The false alarms' rate is the true positives' less the margin.
    apart = alarms / max(n_without, 1) - hits / max(n_with, 1)
    sizes = np.array([n_without]), np.array([n_with])
    return float(largest_log10_tail(np.array([apart]), *sizes, -margin)[0])


def over_log10_p(over: Floats, n_with: Ints | Floats, n_without: Ints | Floats) -> Floats:
    """Log10 of 2.4 exp(-2 N t^2), N = m n / (m + n): measured above the true D by t; 0 from a fifth on."""
    log10_p = math.log10(SIDES) + hoeffding_log10_p(over, n_with, n_without)
    return np.asarray(np.where(log10_p < math.log10(LIKELY), log10_p, 0.0))


def _where_tested(tested: ArmTests, log10_p: Floats) -> Floats:
    tested_at_all = (np.minimum(tested.n_with, tested.n_without) > 0) & np.isfinite(tested.distance)
    return np.where(tested_at_all, log10_p, 0.0)


def band_width(n_with: Ints | Floats, n_without: Ints | Floats, level: float) -> Floats:
    """Half-width of the band for D: P(|measured - true| <= width) >= 1 - level, any distributions."""
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1); got {level}.")
    m, n = np.asarray(n_with, dtype=np.float64), np.asarray(n_without, dtype=np.float64)
    depth = max(math.log((SIDES + 1) / level), math.log(SIDES / LIKELY))
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(depth * (1 / m + 1 / n) / 2))


def distance_band(distance: Floats, n_with: Ints, n_without: Ints, level: float) -> tuple[Floats, Floats]:
    """Return (low, high), clipped to [0, 1]; (0, 1) where an arm is empty."""
    width = band_width(n_with, n_without, level)
    finite = np.isfinite(width)
    low = np.where(finite, np.clip(distance - width, 0, 1), 0.0)
    high = np.where(finite, np.clip(distance + width, 0, 1), 1.0)
    return low, high
