"""Is an advantage above the margin, or below it? Two p-values for one measured distance.

With D = sup_t |F(t) - G(t)| the true advantage, d the measured one, m and n runs in the arms and c the margin:

- **below** (equivalence): were D at least c, some event "at most t" or "less than t" would have shares that differ
  by at least c, and d is at least as large as the difference measured there. So P(measured D <= d) is at most
  P(A / m - B / n <= d) with A ~ Bin(m, r + c) and B ~ Bin(n, r), at the rate r that makes it largest; a larger
  difference of the shares makes it smaller, and the other sign is the same with successes and failures exchanged
  (`ksdp.audit.verdicts.binomial_gap`). No distribution is assumed; ties may be any.
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

A **learned** column measures the mean advantage of attacks that were fixed before the runs that test them: there
is no largest of many thresholds, and Hoeffding's inequality (for martingales: Azuma) with the column's own arms
gives both. *Above* then says that somebody has an advantage above c: these attacks have. *Below* is about these
attacks alone, which is why no document is clear by learned columns: it is clear if every plain statistic is proved
to be below the margin, and what was learned is proved to be below it as well.

References: Anderson (1955), https://doi.org/10.1090/S0002-9939-1955-0069229-1; Wei & Dudley (2012),
https://doi.org/10.1016/j.spl.2012.01.010 (c = 0: how far exp(-2 N d^2) is from the truth for finite arms); Berger
(1982), https://doi.org/10.2307/1268811 (intersection-union: over statistics the largest p counts, uncorrected);
Wellek (2010), "Testing Statistical Hypotheses of Equivalence and Noninferiority".
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ksdp.audit.array_types import Floats, Ints
from ksdp.audit.spec.models import DecisionSpec
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.audit.verdicts.binomial_gap import LIKELY, hoeffding_log10_p, largest_log10_tail

SIDES = 2.4
"""Both signs of a difference, and a fifth more for finite arms: of those counted, none needs more than 2.06."""


def log10_above(tested: ArmTests, rule: DecisionSpec) -> Floats:
    """Log10 p of "the advantage is at most the margin", of the shape of the tests; 0 where an arm is empty.

    With margin 0 the tests' own p: what asks for any leak at all.
    """
    if rule.margin == 0:
        return _where_tested(tested, tested.log10_p)
    over = np.nan_to_num(tested.distance) - rule.margin
    arms = tested.n_with, tested.n_without
    fixed = hoeffding_log10_p(over, *arms)
    return _where_tested(tested, np.where(tested.learned, fixed, over_log10_p(over, *arms)))


def log10_below(tested: ArmTests, rule: DecisionSpec) -> Floats:
    """Log10 p of "the advantage is at least the margin", of the shape of the tests; 0 where an arm is empty."""
    measured = np.nan_to_num(tested.distance)
    short = rule.margin - measured
    if rule.margin == 0:
        return np.zeros_like(measured)
    out = hoeffding_log10_p(short, tested.n_with, tested.n_without)
    plain = ~tested.learned
    out[plain] = largest_log10_tail(
        measured[plain], tested.n_with[plain], tested.n_without[plain], float(rule.margin)
    )
    return _where_tested(tested, out)


@lru_cache(maxsize=2**16)
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


def over_log10_p(over: Floats, n_with: Ints | Floats, n_without: Ints | Floats) -> Floats:
    """Log10 of 2.4 exp(-2 N t^2), N = m n / (m + n): measured above the true D by t; 0 from a fifth on.

    Parameters
    ----------
    over : float64
        t: the measured distance less the margin.
    n_with, n_without : of the same shape
        m and n; 0 where one is empty.

    Examples
    --------
    >>> over_log10_p(np.array([0.0, 0.1]), np.array([1240, 1240]), np.array([2400, 2400])).round(1)
    array([ 0. , -6.7])
    """
    log10_p = math.log10(SIDES) + hoeffding_log10_p(over, n_with, n_without)
    return np.asarray(np.where(log10_p < math.log10(LIKELY), log10_p, 0.0))


def _where_tested(tested: ArmTests, log10_p: Floats) -> Floats:
    tested_at_all = (np.minimum(tested.n_with, tested.n_without) > 0) & np.isfinite(tested.distance)
    return np.where(tested_at_all, log10_p, 0.0)
