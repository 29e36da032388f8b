"""Corrections for many tests, on log10 p so that nothing underflows.

Over the statistics of one document: Bonferroni. Over documents: Benjamini-Yekutieli for the false discovery rate,
Holm for the family-wise error. Both hold under any dependence, and documents share runs.

References: Benjamini & Yekutieli (2001), https://doi.org/10.1214/aos/1013699998;
Holm (1979), https://www.jstor.org/stable/4615733;
Benjamini & Bogomolov (2014), https://doi.org/10.1111/rssb.12028 (families that were selected).

What documents drawn at random say of the whole corpus: bounds of the share that leaks.

Two things can be wrong: verdicts on those that were drawn, and the draw. Each gets half of the error on each side.

Verdicts: among n documents of which n0 are truly at most the margin, p <= t of "at most the margin" happens for
n0 t of them on average at most, however documents depend on each other; so, by Markov's inequality, for
c = n t / error or more of them with probability at most `error`. With t = error max(1 / n, 1 / 100), of the
documents with p <= t all truly leak but for fewer than n / 100 (all of them, where n is at most 100). Likewise
those that are proved below the margin.

The draw: without replacement, so that how many of those drawn leak is hypergeometric.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from ksdp.audit.numeric.array_types import Floats

TAIL_SHARE = 0.2
"""Part of each test's level that goes to the tails; the distance has the rest."""
ErrorRate = Literal["fdr", "fwer"]


def bonferroni(log10_p: Floats) -> Floats:
    """Log10 p of each document over all its statistics, min(1, S min_s p_s), of shape (n_documents, S)."""
    return np.asarray(np.minimum(log10_p.min(axis=1) + np.log10(log10_p.shape[1]), 0.0))


def adjust(log10_p: Floats, error: ErrorRate) -> Floats:
    """Adjusted log10 p: a document is rejected at a level iff its adjusted p is at or below it.

    Examples
    --------
    >>> (10 ** adjust(np.log10([0.01, 0.04, 0.03, 0.5]), "fwer")).round(4)
    array([0.04, 0.09, 0.09, 0.5 ])
    """
    count = len(log10_p)
    order = np.argsort(log10_p, kind="stable")
    rank = np.arange(1, count + 1)
    if error == "fwer":
        stepped = np.maximum.accumulate(log10_p[order] + np.log10(count + 1 - rank))
    elif error == "fdr":
        stepped = log10_p[order] + np.log10(count / rank) + np.log10((1 / rank).sum())
        stepped = np.minimum.accumulate(stepped[::-1])[::-1]
    else:
        raise ValueError(f"`error` must be fdr or fwer; got {error!r}.")
    out = np.empty(count)
    out[order] = np.minimum(stepped, 0.0)
    return out


def strictest_log10_p(level: float, documents: int, statistics: int, error: ErrorRate) -> float:
    """Log10 of the raw p that is always enough: what a single leaking document among many must reach."""
    log10_p = np.log10(level) - np.log10(documents) - np.log10(statistics)
    if error == "fdr":
        log10_p -= np.log10((1 / np.arange(1, documents + 1)).sum())
    return float(log10_p)


def strictest_distance_log10_p(level: float, documents: int, statistics: int, error: ErrorRate) -> float:
    """The same for the p of the distance alone, which has its part of the level only."""
    return strictest_log10_p(level, documents, statistics, error) + float(np.log10(1 - TAIL_SHARE))


def weighted_minimum(main: Floats, other: Floats) -> Floats:
    """Log10 p of two tests of one hypothesis: min(p_main / 0.8, p_other / 0.2), at most 1.

    Bonferroni with unequal parts of the level, valid under any dependence. The main test pays a factor of 1.25 and
    the other one of 5: what a second look at the tails should cost where most leaks are shifts.

    Examples
    --------
    >>> (10 ** weighted_minimum(np.log10([0.04, 0.5]), np.log10([0.5, 0.001]))).round(4)
    array([0.05 , 0.005])
    """
    return np.asarray(np.minimum(np.minimum(main - np.log10(1 - TAIL_SHARE), other - np.log10(TAIL_SHARE)), 0.0))


_SLACK = 0.01
"""Part of the documents that may be wrongly counted, so that not each of them must be proved beyond n / error."""


def surely(log10_p: Floats, error: float) -> int:
    """How many null hypotheses are false at least, with probability 1 - `error`, whatever their p-values share.

    Parameters
    ----------
    log10_p : shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> surely(np.array([-4.0, -3.0, -0.1]), 0.05), surely(np.full(1000, -4.0), 0.05)
    (2, 991)
    """
    count = len(log10_p)
    part = max(1 / count, _SLACK)
    small = int((log10_p <= math.log10(error * part)).sum())
    return max(small - (math.ceil(round(count * part, 9)) - 1), 0)


def share_upper_limit(found: int, drawn: int, level: float, population: int) -> float:
    """Upper confidence limit of a share of a finite population, given `found` of `drawn` at random.

    The construction of Clopper and Pearson (1934), https://doi.org/10.1093/biomet/26.4.404, one-sided, with the
    exact law of drawing without replacement: K / population for the largest K such that
    P(Hypergeometric(population, K, drawn) <= found) > level. As the population grows it becomes their limit, and
    where everything is drawn it is the share itself.

    Examples
    --------
    >>> round(share_upper_limit(0, 59, 0.05, 10**6), 3)
    0.05
    >>> share_upper_limit(3, 60, 0.05, 60)
    0.05
    """
    if not 0 <= found <= drawn <= population or drawn < 1 or not 0 < level < 1:
        raise ValueError(
            f"must have 0 <= found <= drawn <= population and a level in (0, 1); got {found}, {drawn}, "
            f"{population}, {level}."
        )
    from scipy.stats import hypergeom  # slow to load, and read by few commands

    level *= 1 - 1e-9  # rounding may not make the limit smaller
    low, high = found, population - (drawn - found)  # what was seen bounds K on both sides
    while low < high:
        middle = (low + high + 1) // 2
        if hypergeom.cdf(found, population, middle, drawn) > level:
            low = middle
        else:
            high = middle - 1
    return low / population


def share_lower_limit(found: int, drawn: int, level: float, population: int) -> float:
    """Lower confidence limit, as `share_upper_limit` is the upper one.

    Examples
    --------
    >>> share_lower_limit(60, 60, 0.05, 60), round(share_lower_limit(59, 59, 0.05, 10**6), 3)
    (1.0, 0.95)
    """
    return 1.0 - share_upper_limit(drawn - found, drawn, level, population)


def share_bounds(log10_above: Floats, log10_below: Floats, population: int, level: float) -> tuple[float, float]:
    """Bounds of the share of a population that leaks more than the margin; both hold with probability 1 - `level`.

    Parameters
    ----------
    log10_above, log10_below : shape (n,)
        p of "at most the margin" and of "at least the margin" of documents drawn at random, over all statistics.
    population : int
        Documents that they were drawn from.

    Examples
    --------
    A hundred of ten thousand, 80 proved to leak and 10 proved not to:

    >>> import numpy as np
    >>> above, below = np.repeat([-9.0, 0.0, 0.0], [80, 10, 10]), np.repeat([0.0, -9.0, 0.0], [80, 10, 10])
    >>> [round(bound, 2) for bound in share_bounds(above, below, 10_000, 0.05)]
    [0.7, 0.96]
    """
    drawn, error = len(log10_above), level / 4
    leaking, safe = surely(log10_above, error), surely(log10_below, error)
    return (
        share_lower_limit(leaking, drawn, error, population),
        share_upper_limit(drawn - safe, drawn, error, population),
    )
