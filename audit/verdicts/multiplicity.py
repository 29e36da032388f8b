"""Corrections for having looked many times, on log10 p so that nothing underflows.

Over the statistics of one document: Bonferroni. Over documents: Benjamini-Yekutieli (false discovery rate
under any dependence; documents share runs, so this is the default), Benjamini-Hochberg (needs positive
dependence, unproved here), e-BH on calibrated p-values (any dependence again; finds less than BY) or Holm
(family-wise error under any dependence). e-values, which may be multiplied over independent audits of one
document, go through e-BH.

References: Benjamini & Yekutieli (2001), https://doi.org/10.1214/aos/1013699998;
Holm (1979), https://www.jstor.org/stable/4615733; Vovk & Wang (2021), https://doi.org/10.1214/20-AOS2020
(calibration); Wang & Ramdas (2022), https://doi.org/10.1111/rssb.12489 (e-BH);
Benjamini & Bogomolov (2014), https://doi.org/10.1111/rssb.12028 (families that were selected).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from ksdp.audit.array_types import Floats

TAIL_SHARE = 0.2
"""Part of each test's level that goes to the tails; the distance has the rest."""
EXACT_SHARE = 0.2
"""Part of a document's level that exact laws keep where permutations have the rest."""
Procedure = Literal["by", "bh", "holm", "e-bh"]


def bonferroni(log10_p: Floats) -> Floats:
    """Log10 p of each document over all its statistics: min(1, S min_s p_s).

    Parameters
    ----------
    log10_p : shape (n_documents, n_statistics)
    """
    return np.asarray(np.minimum(log10_p.min(axis=1) + np.log10(log10_p.shape[1]), 0.0))


def adjust(log10_p: Floats, procedure: Procedure) -> Floats:
    """Adjusted log10 p: a document is rejected at a level iff its adjusted p is at or below it.

    Parameters
    ----------
    log10_p : shape (n_documents,)
    procedure : {"by", "bh", "holm", "e-bh"}
        `e-bh` turns p into e-values first (`e_from_p`).

    Examples
    --------
    >>> (10 ** adjust(np.log10([0.01, 0.04, 0.03, 0.5]), "bh")).round(4)
    array([0.04  , 0.0533, 0.0533, 0.5   ])
    """
    if procedure == "e-bh":
        return adjust_e(e_from_p(log10_p))
    count = len(log10_p)
    order = np.argsort(log10_p, kind="stable")
    rank = np.arange(1, count + 1)
    if procedure == "holm":
        stepped = np.maximum.accumulate(log10_p[order] + np.log10(count + 1 - rank))
    elif procedure in ("by", "bh"):
        penalty = np.log10((1 / rank).sum()) if procedure == "by" else 0.0
        stepped = log10_p[order] + np.log10(count / rank) + penalty
        stepped = np.minimum.accumulate(stepped[::-1])[::-1]
    else:
        raise ValueError(f"`procedure` must be one of by, bh, holm, e-bh; got {procedure!r}.")
    out = np.empty(count)
    out[order] = np.minimum(stepped, 0.0)
    return out


def strictest_log10_p(level: float, documents: int, statistics: int, procedure: Procedure) -> float:
    """Log10 of the raw p that is always enough: what a single leaking document among many must reach."""
    if procedure == "e-bh":
        return p_from_e(math.log10(documents / level)) - math.log10(statistics)
    log10_p = np.log10(level) - np.log10(documents) - np.log10(statistics)
    if procedure == "by":
        log10_p -= np.log10((1 / np.arange(1, documents + 1)).sum())
    return float(log10_p)


def strictest_distance_log10_p(
    level: float, documents: int, statistics: int, procedure: Procedure, joint: bool = False
) -> float:
    """The same for the p of the distance alone, which has its part of the level only.

    With `joint` (max-T beside the exact laws, `over_statistics`), a fifth of the level is left to the exact laws,
    and it is their p that is asked for: what surely suffices, though permutations often need less.
    """
    share = (1 - TAIL_SHARE) * (EXACT_SHARE if joint else 1.0)
    return strictest_log10_p(level, documents, statistics, procedure) + float(np.log10(share))


def weighted_minimum(main: Floats, other: Floats, share: float = TAIL_SHARE) -> Floats:
    """Log10 p of two tests of one hypothesis: min(p_main / (1 - share), p_other / share), at most 1.

    Bonferroni with unequal parts of the level, valid under any dependence. With the default, the main test pays a
    factor of 1.25 and the other one of 5: what a second look at the tails should cost where most leaks are shifts.

    Parameters
    ----------
    main, other : log10 p, of one shape
    share : float in (0, 1)

    Examples
    --------
    >>> (10 ** weighted_minimum(np.log10([0.04, 0.5]), np.log10([0.5, 0.001]))).round(4)
    array([0.05 , 0.005])
    """
    if not 0 < share < 1:
        raise ValueError(f"`share` must be in (0, 1); got {share}.")
    return np.asarray(np.minimum(np.minimum(main - np.log10(1 - share), other - np.log10(share)), 0.0))


def e_from_p(log10_p: Floats) -> Floats:
    """Log10 of an e-value of each p: the calibrator integral of k p^(k-1) over k = (1 - p + p ln p) / (p ln^2 p).

    Expectation 1 for a uniform p, at most 1 for a conservative one. The price is a factor of ln^2 p: p = 1e-8
    becomes e = 3e5.

    Examples
    --------
    >>> e_from_p(np.array([-8.0, -2.0, 0.0])).round(2)
    array([ 5.47,  0.65, -0.3 ])
    """
    far = np.maximum(-np.asarray(log10_p, dtype=np.float64) * np.log(10), 0.0)
    large = np.maximum(far, 1e-3)
    exact = large - 2 * np.log(large) + np.log1p(-np.exp(-large) * (1 + large))
    series = np.log(0.5 + far / 6)  # the same near p = 1, where the exact form cancels
    return np.asarray(np.where(far < 1e-3, series, exact) / np.log(10))


def p_from_e(log10_e: float) -> float:
    """Log10 of the largest p whose e-value by `e_from_p` is at least this: its inverse; 0 below e = 1/2.

    Examples
    --------
    >>> round(p_from_e(math.log10(20 * 1000)), 3)
    -6.674
    """

    def short(log10_p: float) -> float:
        return float(e_from_p(np.array([log10_p]))[0]) - log10_e

    if short(0.0) >= 0:
        return 0.0
    from scipy.optimize import brentq  # e-values alone need it

    # e stays below 1 / p, and ln^2 p is the price: within twice the decades and some.
    low = -2 * max(log10_e, 0.0) - 10
    root = float(brentq(short, low, 0.0, xtol=1e-14, rtol=1e-14))
    while short(root) < 0:
        root -= 1e-14 * max(1.0, -root)
    return root


def adjust_e(log10_e: Floats) -> Floats:
    """Adjusted log10 p of e-BH: a document is rejected at a level iff it is at or below log10 of the level.

    e-BH rejects the k largest e-values, k the largest with k e_(k) / n >= 1 / level: the false discovery rate is
    controlled under any dependence. On p-values turned by `e_from_p` it finds less than BY (BY is e-BH with a
    calibrator made for the level); use it for products of e-values over audits, or e-values of sequential tests.

    Parameters
    ----------
    log10_e : shape (n_documents,)

    Examples
    --------
    >>> (10 ** adjust_e(np.log10([200.0, 1.0, 50.0]))).round(4)
    array([0.015, 1.   , 0.03 ])
    """
    count = len(log10_e)
    order = np.argsort(-log10_e, kind="stable")
    stepped = np.log10(count) - np.log10(np.arange(1, count + 1)) - log10_e[order]
    out = np.empty(count)
    out[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 0.0)
    return out
