"""Is an advantage above the margin, or below it? Two p-values for one measured distance.

With D = sup_t |F(t) - G(t)| the true advantage, d the measured one, m and n runs in the arms and c the margin:

- **below** (equivalence): were D at least c, some event "at most t" or "less than t" would have shares that differ
  by at least c, and d is at least as large as the difference measured there. So P(measured D <= d) is at most
  P(A / m - B / n <= d) with A ~ Bin(m, r + c) and B ~ Bin(n, r), at the rate r that makes it largest; a larger
  difference of the shares makes it smaller, and the other sign is the same with successes and failures exchanged
  (`ksdp.audit.verdicts.binomial_gap`). No distribution is assumed; ties may be any.
- **above**: were D at most c, d - c would be at most sup (F_m - F) + sup (G - G_n), or the same with the signs
  exchanged. By Massart's inequality either supremum is stochastically below a variable with tail exp(-2 m x^2)
  (from where that is one half; 1 before), and the arms are independent. So P(measured D >= d) is at most twice the
  tail of the sum of two such variables, which is known in closed form; it has the exponent
  exp(-2 (d - c)^2 m n / (m + n)) of the best threshold known beforehand.

A **learned** column measures the mean advantage of attacks that were fixed before the runs that test them: there
is no largest of many thresholds, and Hoeffding's inequality (for martingales: Azuma) with the column's own arms
gives both. *Above* then says that somebody has an advantage above c: these attacks have. *Below* is about these
attacks alone, which is why no document is clear by learned columns: it is clear if every plain statistic is proved
to be below the margin, and what was learned is proved to be below it as well.

At any moment (`anytime`), the p-value is the level whose band just reaches the margin.

References: Massart (1990), https://doi.org/10.1214/aop/1176990746; Berger (1982), https://doi.org/10.2307/1268811
(intersection-union: over statistics the largest p counts, uncorrected); Wellek (2010), "Testing Statistical
Hypotheses of Equivalence and Noninferiority".
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from ksdp.audit.spec import DecisionSpec
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.audit.verdicts.binomial_gap import hoeffding_log10_p, largest_log10_tail
from ksdp.audit.verdicts.sequential import anytime_log10_p

__all__ = ["attack_above_log10_p", "log10_above", "log10_below", "sum_of_suprema_log10_p"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_LN10 = math.log(10)


def log10_above(tested: ArmTests, rule: DecisionSpec) -> Floats:
    """Log10 p of "the advantage is at most the margin", of the shape of the tests; 0 where an arm is empty.

    With margin 0 the tests' own p: what asks for any leak at all.
    """
    if rule.margin == 0:
        return _where_tested(tested, _any_leak(tested, rule))
    over = np.nan_to_num(tested.distance) - rule.margin
    arms = tested.n_with, tested.n_without
    if rule.stopping == "anytime":
        return _where_tested(tested, np.minimum(anytime_log10_p(np.maximum(over, 0), *arms), 0.0))
    fixed = hoeffding_log10_p(over, *arms)
    return _where_tested(tested, np.where(tested.learned, fixed, sum_of_suprema_log10_p(over, *arms)))


def log10_below(tested: ArmTests, rule: DecisionSpec) -> Floats:
    """Log10 p of "the advantage is at least the margin", of the shape of the tests; 0 where an arm is empty."""
    measured = np.nan_to_num(tested.distance)
    short = rule.margin - measured
    if rule.margin == 0:
        return np.zeros_like(measured)
    arms = tested.n_with, tested.n_without
    if rule.stopping == "anytime":
        return _where_tested(tested, np.minimum(anytime_log10_p(np.maximum(short, 0), *arms), 0.0))
    out = hoeffding_log10_p(short, *arms)
    plain = ~tested.learned
    out[plain] = largest_log10_tail(
        measured[plain], tested.n_with[plain], tested.n_without[plain], float(rule.margin)
    )
    return _where_tested(tested, out)


def attack_above_log10_p(hits: int, n_with: int, alarms: int, n_without: int, margin: float) -> float:
    """Log10 p of "this attack's TPR - FPR is at most the margin": the attack fixed beforehand, on fresh runs.

    Exact for the worst false positive rate.

    Parameters
    ----------
    hits, n_with : int
        How often the attack said "with", among the runs with the document.
    alarms, n_without : int
        The same without it.
    margin : float in [0, 1]

    Examples
    --------
    >>> round(attack_above_log10_p(80, 200, 1500, 15_000, 0.2), 1)
    -2.5
    """
    # The false alarms' rate is the true positives' less the margin.
    apart = alarms / max(n_without, 1) - hits / max(n_with, 1)
    sizes = np.array([n_without]), np.array([n_with])
    return float(largest_log10_tail(np.array([apart]), *sizes, -margin)[0])


def sum_of_suprema_log10_p(over: Floats, n_with: Ints, n_without: Ints) -> Floats:
    """Log10 of 2 P(X + Y >= t), P(X >= x) = min(1, exp(-2 m x^2)) from where it is 1/2, Y the same with n.

    Parameters
    ----------
    over : float64
        t: the measured distance less the margin.
    n_with, n_without : int64, of the same shape
        m and n; 0 where one is empty.

    Examples
    --------
    >>> sum_of_suprema_log10_p(np.array([0.0, 0.1]), np.array([1240, 1240]), np.array([2400, 2400])).round(1)
    array([ 0., -6.])
    """
    t = np.asarray(over, dtype=np.float64)
    m, n = np.maximum(n_with, 1).astype(np.float64), np.maximum(n_without, 1).astype(np.float64)
    # Each is at least its x with exp(-2 m x^2) = 1/2, and exactly that with probability 1/2.
    least_x, least_y = np.sqrt(math.log(2) / (2 * m)), np.sqrt(math.log(2) / (2 * n))
    total = m + n
    centre = n * t / total
    start, end = least_x - centre, t - least_y - centre
    # Everything is divided by exp(-2 t^2 m n / (m + n)), which the completed square leaves.
    at_start, at_end = np.exp(-2 * total * start**2), np.exp(-2 * total * end**2)
    scale = np.sqrt(2 * total)
    between = m / total * (at_start - at_end)
    between += 4 * m * centre * np.sqrt(math.pi / (8 * total)) * (erf(scale * end) - erf(scale * start))
    factor = at_start + between + 2 * at_end
    log_p = math.log(2) - 2 * t**2 * m * n / total + np.log(np.maximum(factor, 1e-300))
    known = (t > least_x + least_y) & (np.minimum(n_with, n_without) > 0)
    return np.asarray(np.where(known, np.minimum(log_p / _LN10, 0.0), 0.0))


def _any_leak(tested: ArmTests, rule: DecisionSpec) -> Floats:
    if rule.stopping == "anytime":
        return anytime_log10_p(tested.distance, tested.n_with, tested.n_without)
    return tested.log10_p


def _where_tested(tested: ArmTests, log10_p: Floats) -> Floats:
    tested_at_all = (np.minimum(tested.n_with, tested.n_without) > 0) & np.isfinite(tested.distance)
    return np.where(tested_at_all, log10_p, 0.0)
