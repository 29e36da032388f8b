"""How much a document gives away, in the words of differential privacy, from runs that selected nothing.

Values must come from *fresh* runs, not those that flagged the document: what was flagged was flagged for being
large. Runs are independent; the arms may have any distributions, with or without ties.

**Lower bound on epsilon.** (epsilon, delta)-indistinguishability of the two arms means P(E) <= exp(epsilon) Q(E)
+ delta for every event E and both orders of the arms, so every event proves epsilon >= ln((P(E) - delta) / Q(E)).
Events are the two tails of the statistic at every threshold. Half of the error is spent on each of two sets of
bounds, which hold together, so that the best threshold may be picked after looking:

- Dvoretzky-Kiefer-Wolfowitz-Massart bands of both arms: every threshold, good in the middle;
- Clopper-Pearson bounds at thresholds that are order statistics of the arm in the denominator, at ranks
  0, 1, 2, 4, ... from each end, a choice that looks at the size of the arm only. The event is *strictly* beyond
  the r-th order statistic: its probability is then at most Beta(r, n - r + 1), with equality without ties; and
  given the threshold, the count in the other arm is binomial. Good in the tails, where epsilon usually is.

**TPR at a small FPR.** The threshold is an order statistic of the without arm: the lowest whose true FPR is at
most f with the stated confidence (not in the sample only, where the true rate is above f half of the time). The
TPR of the with arm given that threshold has its Clopper-Pearson interval, whose lower end is then a bound for the
best attack with at most f false alarms. Where even the largest value does not bound the FPR by f, nothing is said.

References: Massart (1990), https://doi.org/10.1214/aop/1176990746; Clopper & Pearson (1934),
https://doi.org/10.1093/biomet/26.4.404; Jagielski, Ullman & Oprea (2020), https://arxiv.org/abs/2006.07709
(epsilon from events); Carlini et al. (2022), https://arxiv.org/abs/2112.03570 (TPR at low FPR); Kairouz, Oh &
Viswanath (2015), https://arxiv.org/abs/1311.0776 (advantage and epsilon).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from ksdp.audit.array_types import Floats


@dataclass(frozen=True)
class TprAtFpr:
    """An attack with few false alarms: it says "the document was there" beyond the threshold.

    With the stated confidence, `fpr_high`, `tpr_low` and `tpr_high` hold together.
    """

    threshold: float
    above: bool
    """Whether the attack says so above the threshold, or below it."""
    fpr: float
    """Share of the without arm beyond the threshold: below what was asked for."""
    fpr_high: float
    """Upper bound of the true false positive rate: at most what was asked for."""
    tpr: float
    tpr_low: float
    tpr_high: float


def epsilon_lower_bound(
    with_values: NDArray[np.floating],
    without_values: NDArray[np.floating],
    confidence: float = 0.95,
    delta: float = 0.0,
) -> float:
    """The epsilon that the two arms disprove: P(true epsilon >= the bound) >= confidence.

    Valid after the choice of threshold, tail and direction; where the arms do not differ, it is above 0 with
    probability at most 1 - confidence. Divide 1 - confidence by the number of documents and statistics for bounds
    that hold together.

    Parameters
    ----------
    with_values, without_values : shape (n_with,), (n_without,)
        The statistic in fresh runs with and without the document, without NaN.
    confidence : float in (0, 1)
    delta : float in [0, 1)

    Returns
    -------
    float
        At least 0.

    Examples
    --------
    Laplace noise on a count is exactly 1-indistinguishable:

    >>> rng = np.random.default_rng(7)
    >>> noise = rng.laplace(size=(2, 20_000))
    >>> round(epsilon_lower_bound(noise[0] + 1, noise[1]), 2)
    0.93
    """
    first, second = _arm("with_values", with_values), _arm("without_values", without_values)
    _check(confidence)
    if not 0 <= delta < 1:
        raise ValueError(f"`delta` must be in [0, 1); got {delta}.")
    half = (1 - confidence) / 2
    first, second = np.sort(first), np.sort(second)
    best = _by_bands(first, second, half, delta)
    for top, bottom in ((first, second), (second, first)):
        # Four pairs of direction and tail share the other half; signs turn an order around.
        best = max(best, _by_ranks(top, bottom, half / 4, delta))
        best = max(best, _by_ranks(-top[::-1], -bottom[::-1], half / 4, delta))
    return best


def tpr_at_fpr(
    with_values: NDArray[np.floating],
    without_values: NDArray[np.floating],
    fpr: float,
    confidence: float = 0.95,
) -> TprAtFpr | None:
    """How often an attack with at most this share of false alarms is right, with bounds.

    Both tails are tried; the error is split between them beforehand, and in each between the false positive rate
    (one bound) and the true positive rate (two), so that the stronger tail may be picked.

    Parameters
    ----------
    with_values, without_values : shape (n_with,), (n_without,)
        The statistic in fresh runs with and without the document, without NaN.
    fpr : float in (0, 1)
        Largest *true* rate of false alarms: with `confidence`, the attack's is at most this.
    confidence : float in (0, 1)

    Returns
    -------
    TprAtFpr or None
        None where the without arm is too small to bound so small a rate: at confidence 0.95 it needs 437 runs for
        1 %, 4,380 for 0.1 %.

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> attack = tpr_at_fpr(rng.normal(3, 1, 2000), rng.normal(size=2000), 0.01)
    >>> attack.above, round(attack.fpr_high, 3), round(attack.tpr_low, 2), round(attack.tpr_high, 2)
    (True, 0.01, 0.63, 0.68)
    >>> tpr_at_fpr(np.ones(500), np.zeros(500), 0.001) is None
    True
    """
    held, free = _arm("with_values", with_values), _arm("without_values", without_values)
    _check(confidence)
    if not 0 < fpr < 1:
        raise ValueError(f"`fpr` must be in (0, 1); got {fpr}.")
    share = (1 - confidence) / 2
    rank, fpr_high = _allowed(len(free), fpr, share / 2)
    if rank == 0:
        return None
    held, free = np.sort(held), np.sort(free)
    attacks = []
    for above in (True, False):
        threshold = float(free[len(free) - rank] if above else free[rank - 1])
        hits, alarms = (_beyond(arm, threshold, above) for arm in (held, free))
        attacks.append(
            TprAtFpr(
                threshold=threshold,
                above=above,
                fpr=alarms / len(free),
                fpr_high=fpr_high,
                tpr=hits / len(held),
                tpr_low=float(_lower(np.array(hits), len(held), share / 4)),
                tpr_high=float(_upper(np.array(hits), len(held), share / 4)),
            )
        )
    return max(attacks, key=lambda attack: attack.tpr_low)


def _beyond(arm: Floats, threshold: float, above: bool) -> int:
    """How many of a sorted arm lie strictly above a threshold, or below it."""
    if above:
        return len(arm) - int(np.searchsorted(arm, threshold, side="right"))
    return int(np.searchsorted(arm, threshold, side="left"))


def share_interval(hits: int, trials: int, level: float) -> tuple[float, float]:
    """Clopper-Pearson: the true share lies outside with probability at most `level`.

    Examples
    --------
    >>> [round(end, 3) for end in share_interval(0, 50, 0.05)]
    [0.0, 0.071]
    """
    return (
        float(_lower(np.array(hits), trials, level / 2)),
        float(_upper(np.array(hits), trials, level / 2)),
    )


def _arm(name: str, values: NDArray[np.floating]) -> Floats:
    arm = np.asarray(values, dtype=np.float64)
    if arm.ndim != 1 or len(arm) == 0:
        raise ValueError(f"`{name}` must be one-dimensional and not empty; got shape {arm.shape}.")
    if np.isnan(arm).any():
        raise ValueError(f"`{name}` must not hold NaN.")
    return arm


def _check(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"`confidence` must be in (0, 1); got {confidence}.")


def _lower(hits: NDArray[np.int64], trials: int, level: float) -> Floats:
    """Clopper-Pearson: P(true share < bound) <= level."""
    found = [_share_bound(count, trials - count + 1, level) if count else 0.0 for count in hits.ravel().tolist()]
    return np.array(found, dtype=np.float64).reshape(hits.shape)


def _upper(hits: NDArray[np.int64], trials: int, level: float) -> Floats:
    """Clopper-Pearson: P(true share > bound) <= level; also that of the share beyond order statistic hits + 1."""
    counts = hits.ravel().tolist()
    found = [_share_bound(count + 1, trials - count, 1 - level) if count < trials else 1.0 for count in counts]
    return np.array(found, dtype=np.float64).reshape(hits.shape)


@lru_cache(maxsize=2**16)
def _share_bound(a: int, b: int, level: float) -> float:
    """The `level` quantile of Beta(a, b): documents of an audit ask for the same few hundred."""
    return float(betaincinv(a, b, level))


@lru_cache(maxsize=2**12)
def _allowed(free: int, fpr: float, level: float) -> tuple[int, float]:
    """Without runs beyond a threshold whose true share is surely at most `fpr`, and the bound of that share.

    Beyond the (hits + 1)-th largest value lies at most `bounds[hits]`, by the size of the arm alone.
    """
    bounds = _upper(np.arange(math.floor(fpr * free) + 1), free, level)
    rank = int((bounds <= fpr).sum())
    return rank, float(bounds[rank - 1]) if rank else 1.0


def _log_ratio(top: Floats, bottom: Floats, delta: float) -> float:
    """The largest ln((top - delta) / bottom), at least 0."""
    return float(np.log(np.maximum((top - delta) / bottom, 1.0)).max())


def _by_bands(first: Floats, second: Floats, level: float, delta: float) -> float:
    """Both tails at all thresholds, both directions, because each band is two-sided; both arms sorted."""
    at = np.concatenate([first, second])
    arms = []
    for arm in (first, second):
        upto = np.searchsorted(arm, at, side="right") / len(arm)
        arms.append((upto, math.sqrt(math.log(4 / level) / (2 * len(arm)))))
    best = 0.0
    for (top, wide), (bottom, width) in (arms, arms[::-1]):
        best = max(best, _log_ratio(top - wide, bottom + width, delta))
        best = max(best, _log_ratio(1 - top - wide, 1 - bottom + width, delta))
    return best


@lru_cache(maxsize=4096)
def _ranks(n: int, level: float) -> tuple[NDArray[np.int64], float, Floats]:
    """0, 1, 2, 4, ... and the last; the level of each, and what lies beyond it at most."""
    ranks = np.unique(np.minimum(np.append(0, 2 ** np.arange(n.bit_length())), n - 1))
    each = level / (2 * len(ranks))
    return ranks, each, _upper(ranks, n, each)


def _by_ranks(top: Floats, bottom: Floats, level: float, delta: float) -> float:
    """The lower tail, strictly below order statistics of `bottom`; both arms sorted."""
    beyond, each, share = _ranks(len(bottom), level)
    hits = np.searchsorted(top, bottom[beyond], side="left")
    return _log_ratio(_lower(hits, len(top), each), share, delta)
