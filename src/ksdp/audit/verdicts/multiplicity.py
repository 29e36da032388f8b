"""Corrections for many tests, on log10 p so that nothing underflows.

Over the statistics of one document: Bonferroni. Over documents: a reshaped step-up for the false discovery rate,
Holm for the family-wise error. Both hold under any dependence, and documents share runs.

The step-up rejects the R smallest of n p-values, R the largest k with p_(k) <= level beta(k) / n, where
beta(k) = 1 nu(1) + ... + k nu(k) for a prior nu over 1..n that is fixed beforehand. With c = level / n the false
discovery rate is the sum over true hypotheses of E[1(p_i <= c beta(R)) / R]. 1 / R is the sum of 1 / (j (j + 1))
over j >= R, and beta grows, so that each is at most the sum over all j of P(p_i <= c beta(j)) / (j (j + 1)). That
is at most c times the sum of beta(j) / (j (j + 1)), which is 1: x gives x nu(x) times the sum over j >= x, 1 / x.
Nothing was asked of what the p-values share, nor of R. With nu(k) in proportion to 1 / k it is the procedure of
Benjamini and Yekutieli.

References: Blanchard & Roquain (2008), https://doi.org/10.1214/08-EJS180;
Benjamini & Yekutieli (2001), https://doi.org/10.1214/aos/1013699998;
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
from numpy.typing import NDArray

from ksdp.audit.numeric.array_types import Floats

TAIL_SHARE = 0.2
"""Part of each test's level that goes to the tails; the distance has the rest."""
ErrorRate = Literal["fdr", "fwer"]
CLEARING = 0.9
"""Part of the prior of "clear" that is uniform, as mostly many documents are clear; the rest is Benjamini's and
Yekutieli's. Where all documents are clear, p may be 3 to 6 times as large; where one is, it must be about 9 times
smaller. Both are alike where about a quarter is."""


def bonferroni(log10_p: Floats) -> Floats:
    """Log10 p of each document over all its statistics, min(1, S min_s p_s), of shape (n_documents, S)."""
    return np.asarray(np.minimum(log10_p.min(axis=1) + np.log10(log10_p.shape[1]), 0.0))


def step_shape(count: int, uniform: float = 0.0) -> Floats:
    """beta(k) / n for k of 1..n: the k-th smallest of n p-values is compared with the level times this."""
    rank = np.arange(1, count + 1)
    beta = uniform * rank * (rank + 1) / (2 * count) + (1 - uniform) * rank / (1 / rank).sum()
    return np.asarray(beta / count)


def adjust(log10_p: Floats, error: ErrorRate, uniform: float = 0.0) -> Floats:
    """Adjusted log10 p: a document is rejected at a level iff its adjusted p is at or below it."""
    count = len(log10_p)
    order = np.argsort(log10_p, kind="stable")
    if error == "fwer":
        stepped = np.maximum.accumulate(log10_p[order] + np.log10(np.arange(count, 0, -1)))
    elif error == "fdr":
        stepped = log10_p[order] - np.log10(step_shape(count, uniform))
        stepped = np.minimum.accumulate(stepped[::-1])[::-1]
    else:
        raise ValueError(f"`error` must be fdr or fwer; got {error!r}.")
    out = np.empty(count)
    out[order] = np.minimum(stepped, 0.0)
    return out


_ROUNDING = 1e-12
"""Tolerance of log10 p, so that what was rejected at its bar is so here."""


def wrong_share(log10_p: Floats, picked: NDArray[np.bool_], level: float, count: int) -> float:
    """Return a bound of the expected share of wrong verdicts in any part of the clear ones, whoever picks it.

    For each of the n hypotheses let e = n / (level k), k the smallest with p <= level beta(k) / n, and 0 if
    there is none. 1 / k is the sum of 1 / (j (j + 1)) over j >= k, so that E[e] <= 1 where the hypothesis is
    true, by the module's proof. So the mean of e over the true ones T has an expectation of at most 1, too. Let
    b(R) be the largest |S and R| / mean of e over S, among all sets S that meet R. With S = T, a set R holds at
    most b(R) times this mean of true ones, and so do all sets at once: however R was picked, the expectation of
    |T and R| / b(R) is at most 1. The result is b(R) / |R|, `level` at least, 1 at most. Of everything that the
    step-up rejects it is the level, as each e is at least n / (level R) there.

    Where b(R) / |R| is above the level, the mean of e over the worst S is below 1 / level. An e is 0 or at least
    1 / level, so that beside the weakest of R this S holds all whose e is 0, and nobody else.

    Over looks at parts of the level, the mean of a document's e, each with its part as weight, is one again, and
    at least that of the smallest p, scaled to the whole level.

    Reference: Xu, Solari, Fischer, de Heide, Ramdas & Goeman (2025), closed step-ups:
    https://arxiv.org/abs/2509.02517.
    """
    bars = np.log10(step_shape(count, CLEARING)) + math.log10(level) + _ROUNDING
    first = np.searchsorted(bars, log10_p) + 1
    evidence = np.where(first <= count, 1 / first, 0.0)
    inside, nothing = np.sort(evidence[picked]), count - int((evidence > 0).sum())
    size = np.arange(1, len(inside) + 1)
    with np.errstate(divide="ignore"):
        most = (size * (size + nothing) / inside.cumsum()).max() * level / count
    return float(min(max(most / len(inside), level), 1.0))


def strictest_log10_p(
    level: float, documents: int, statistics: int, error: ErrorRate, *, rank: int = 1, uniform: float = 0.0
) -> float:
    """Log10 of the raw p that is always enough: what a single leaking document among many must reach."""
    share = step_shape(documents, uniform)[min(rank, documents) - 1] if error == "fdr" else 1 / documents
    return float(np.log10(level) + np.log10(share) - np.log10(statistics))


def strictest_distance_log10_p(level: float, documents: int, statistics: int, error: ErrorRate) -> float:
    """The same for the p of the distance alone, which has its part of the level only."""
    return strictest_log10_p(level, documents, statistics, error) + float(np.log10(1 - TAIL_SHARE))


def weighted_minimum(main: Floats, other: Floats) -> Floats:
    """Log10 p of two tests of one hypothesis: min(p_main / 0.8, p_other / 0.2), at most 1.

    Bonferroni with unequal parts of the level, valid under any dependence. The main test pays a factor of 1.25 and
    the other one of 5: what a second look at the tails should cost where most leaks are shifts.
    """
    return np.asarray(np.minimum(np.minimum(main - np.log10(1 - TAIL_SHARE), other - np.log10(TAIL_SHARE)), 0.0))


_SLACK = 0.01
"""Part of the documents that may be wrongly counted, so that not each of them must be proved beyond n / error."""


def surely(log10_p: Floats, error: float) -> int:
    """How many null hypotheses are false at least, with probability 1 - `error`, whatever their p-values share."""
    count = len(log10_p)
    part = max(1 / count, _SLACK)
    small = int((log10_p <= math.log10(error * part)).sum())
    return max(small - (math.ceil(round(count * part, 9)) - 1), 0)


def share_upper_limit(hits: int, drawn: int, level: float, population: int) -> float:
    """Upper confidence limit of a share of a finite population, given `hits` of `drawn` at random.

    The construction of Clopper and Pearson (1934), https://doi.org/10.1093/biomet/26.4.404, one-sided, with the
    exact law of drawing without replacement: K / population for the largest K such that
    P(Hypergeometric(population, K, drawn) <= hits) > level. As the population grows it becomes their limit, and
    where everything is drawn it is the share itself.
    """
    if not 0 <= hits <= drawn <= population or drawn < 1 or not 0 < level < 1:
        raise ValueError(
            f"must have 0 <= hits <= drawn <= population and a level in (0, 1); got {hits}, {drawn}, "
            f"{population}, {level}."
        )
    from scipy.stats import hypergeom  # slow to load, and read by few commands

    level *= 1 - 1e-9  # rounding may not make the limit smaller
    low, high = hits, population - (drawn - hits)  # what was seen bounds K on both sides
    while low < high:
        middle = (low + high + 1) // 2
        if hypergeom.cdf(hits, population, middle, drawn) > level:
            low = middle
        else:
            high = middle - 1
    return low / population


def share_lower_limit(hits: int, drawn: int, level: float, population: int) -> float:
    """Lower confidence limit, as `share_upper_limit` is the upper one."""
    return 1.0 - share_upper_limit(drawn - hits, drawn, level, population)


def share_bounds(log10_above: Floats, log10_below: Floats, population: int, level: float) -> tuple[float, float]:
    """Bounds of the share of a population above the margin; both hold with probability 1 - `level`."""
    drawn, error = len(log10_above), level / 4
    leaking, safe = surely(log10_above, error), surely(log10_below, error)
    return (
        share_lower_limit(leaking, drawn, error, population),
        share_upper_limit(drawn - safe, drawn, error, population),
    )
