"""Corrections for many tests, on log10 p so that nothing underflows.

Over the statistics of one document: Bonferroni. Over documents: Benjamini-Yekutieli for the false discovery rate,
Holm for the family-wise error. Both hold under any dependence, and documents share runs.

References: Benjamini & Yekutieli (2001), https://doi.org/10.1214/aos/1013699998;
Holm (1979), https://www.jstor.org/stable/4615733;
Benjamini & Bogomolov (2014), https://doi.org/10.1111/rssb.12028 (families that were selected).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ksdp.audit.array_types import Floats

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


def weighted_minimum(main: Floats, other: Floats, share: float = TAIL_SHARE) -> Floats:
    """Log10 p of two tests of one hypothesis: min(p_main / (1 - share), p_other / share), at most 1.

    Bonferroni with unequal parts of the level, valid under any dependence. With the default, the main test pays a
    factor of 1.25 and the other one of 5: what a second look at the tails should cost where most leaks are shifts.

    Examples
    --------
    >>> (10 ** weighted_minimum(np.log10([0.04, 0.5]), np.log10([0.5, 0.001]))).round(4)
    array([0.05 , 0.005])
    """
    if not 0 < share < 1:
        raise ValueError(f"`share` must be in (0, 1); got {share}.")
    return np.asarray(np.minimum(np.minimum(main - np.log10(1 - share), other - np.log10(share)), 0.0))
