"""How much a flagged document gives away, measured on fresh runs.

A document is flagged for the largest of many measured distances, so that distance is too large on average (the
winner's curse). What was chosen by looking (the statistic, the threshold, the direction) is
therefore fixed by the audit's own runs, and everything that is reported is measured on runs that nobody has
looked at. Intervals hold for each document by itself with probability 1 - level, whatever was flagged and why:
given the audit's runs, the fresh ones are a new sample. (That all documents' intervals hold together is not
said.)

How much a document gives away, in the words of differential privacy, from runs that selected nothing.

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

What two normal samples of one variance prove about Gaussian differential privacy.

Reference: Dong, Roth & Su (2019), https://arxiv.org/abs/1905.02383: normals mu deviations apart are mu-GDP,
exactly (epsilon, delta(epsilon)) for every epsilon.

**One run.** Where a fair coin says of each record whether it is in, guesses of an (epsilon, delta) mechanism's
coins are right no more often than independent ones with chance e^epsilon / (1 + e^epsilon), but for delta:
Steinke, Nasr & Jagielski (2023), https://arxiv.org/abs/2305.08846, Theorem 5.2. It holds of all records together,
and of no single one. (A sum of scores that is normal in the limit, https://arxiv.org/abs/2606.12733, proves more
where its law is known, as it is not for any mechanism.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from ksdp.audit.numeric.array_types import Bits, Floats
from ksdp.audit.verdicts.laws import KSTable, ks_table, shares_upto, widest_gap
from ksdp.audit.verdicts.margins import attack_above_log10_p, distance_band


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
    with_values: NDArray[np.floating], without_values: NDArray[np.floating], fpr: float, confidence: float = 0.95
) -> TprAtFpr | None:
    """How often an attack with at most this share of false alarms is right, with bounds.

    Both tails are tried; the error is split between them beforehand, and in each between the false positive rate
    (one bound) and the true positive rate (two), so that the stronger tail may be picked.
    """
    inside, free = _arm("with_values", with_values), _arm("without_values", without_values)
    _check(confidence)
    if not 0 < fpr < 1:
        raise ValueError(f"`fpr` must be in (0, 1); got {fpr}.")
    share = (1 - confidence) / 2
    rank, fpr_high = _allowed(len(free), fpr, share / 2)
    if rank == 0:
        return None
    inside, free = np.sort(inside), np.sort(free)
    attacks = []
    for above in (True, False):
        threshold = float(free[len(free) - rank] if above else free[rank - 1])
        hits, alarms = (_beyond(arm, threshold, above) for arm in (inside, free))
        attacks.append(
            TprAtFpr(
                threshold=threshold,
                above=above,
                fpr=alarms / len(free),
                fpr_high=fpr_high,
                tpr=hits / len(inside),
                tpr_low=float(_lower(np.array(hits), len(inside), share / 4)),
                tpr_high=float(_upper(np.array(hits), len(inside), share / 4)),
            )
        )
    return max(attacks, key=lambda attack: attack.tpr_low)


def _beyond(arm: Floats, threshold: float, above: bool) -> int:
    """How many of a sorted arm lie strictly above a threshold, or below it."""
    if above:
        return len(arm) - int(np.searchsorted(arm, threshold, side="right"))
    return int(np.searchsorted(arm, threshold, side="left"))


def share_interval(hits: int, trials: int, level: float) -> tuple[float, float]:
    """Clopper-Pearson: the true share lies outside with probability at most `level`."""
    return (float(_lower(np.array(hits), trials, level / 2)), float(_upper(np.array(hits), trials, level / 2)))


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
    bounds = [_share_bound(count, trials - count + 1, level) if count else 0.0 for count in hits.ravel().tolist()]
    return np.array(bounds, dtype=np.float64).reshape(hits.shape)


def _upper(hits: NDArray[np.int64], trials: int, level: float) -> Floats:
    """Clopper-Pearson: P(true share > bound) <= level; also that of the share beyond order statistic hits + 1."""
    counts = hits.ravel().tolist()
    bounds = [_share_bound(count + 1, trials - count, 1 - level) if count < trials else 1.0 for count in counts]
    return np.array(bounds, dtype=np.float64).reshape(hits.shape)


@lru_cache(maxsize=2**16)
def _share_bound(a: int, b: int, level: float) -> float:
    """The `level` quantile of Beta(a, b): documents of an audit ask for the same few hundred."""
    return float(betaincinv(a, b, level))


@lru_cache(maxsize=2**12)
def _allowed(free: int, fpr: float, level: float) -> tuple[int, float]:
    """Without runs beyond a threshold whose true share is surely at most `fpr`, and the bound of that share."""
    bounds = _upper(np.arange(math.floor(fpr * free) + 1), free, level)
    rank = int((bounds <= fpr).sum())
    return rank, float(bounds[rank - 1]) if rank else 1.0


def fewest_without(fpr: float, level: float) -> int:
    """Values of the without arm from which on `tpr_at_fpr` bounds this false positive rate."""
    return math.ceil(math.log(level / 4) / math.log1p(-fpr))


def _log_ratio(top: Floats, bottom: Floats, delta: float) -> float:
    return float(np.log(max(((top - delta) / bottom).max(), 1.0)))


def _by_bands(first: Floats, second: Floats, level: float, delta: float) -> float:
    """Both tails at all thresholds, both directions, because each band is two-sided; both arms sorted."""
    widths = (math.sqrt(math.log(4 / level) / (2 * len(arm))) for arm in (first, second))
    arms = list(zip(shares_upto(first, second)[1:], widths, strict=True))
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


@dataclass(frozen=True)
class Flagged:
    """A document whose effect is wanted, under the column that was strongest for it."""

    row: int
    """Row of the corpus."""
    column: str


@dataclass(frozen=True)
class EffectMeasures:
    """Measurements of a leak on fresh runs."""

    n_with: int
    """Fresh runs that held the document."""
    n_without: int
    """Fresh runs without it."""
    advantage: float
    """TPR - FPR of the attack that the audit's own runs chose: unbiased."""
    advantage_low: float
    """Lower end of its interval: Clopper-Pearson bounds of both rates together."""
    advantage_high: float
    """Upper end of the interval."""
    distance: float
    """D of the fresh runs. Its threshold is the best one there, so it is a little too large."""
    band_low: float
    """Lower end of the band of the true D."""
    band_high: float
    """Upper end of the band."""
    log10_p: float
    """Log10 p of no leak, from the fresh runs alone, uncorrected."""
    log10_p_above: float
    """Log10 p of "this attack's advantage is at most the margin", exact, uncorrected."""
    epsilon_low: float
    """The document's arms are not (epsilon, 0)-indistinguishable for any smaller epsilon."""
    tpr_at_fpr_01: float | None
    """True positive rate of an attack whose true false positive rate is surely at most 1 %; None where so few runs
    cannot tell."""
    tpr_at_fpr_01_low: float | None
    """Its lower bound, which holds together with "the rate is at most 1 %" with probability 1 - level."""
    tpr_at_fpr_001: float | None
    """True positive rate at a false positive rate of 0.1 %."""
    tpr_at_fpr_001_low: float | None
    """At least this."""


@dataclass(frozen=True)
class Effect(EffectMeasures, Flagged):
    """One flagged document under the statistic that was strongest for it, on fresh runs."""


# Of the test whether both arms spread alike, and of the power that `refutable_factor` promises.
_SPREAD_LEVEL, _POWER = 1e-4, 0.9


def spread_differs(arms: NDArray[np.float64]) -> bool:
    """F test of equal variances, two-sided: exact for normal arms."""
    first, second = arms.var(axis=1, ddof=1)
    if not np.isfinite([first, second]).all() or not min(first, second) > 0:
        return bool(first != second)
    from scipy.stats import f as f_law  # half a second of imports, which who reads findings need not wait for

    law = f_law(arms.shape[1] - 1, arms.shape[1] - 1)
    return bool(2 * min(law.sf(first / second), law.cdf(first / second)) < _SPREAD_LEVEL)


def refutable_factor(epsilon: float, delta: float, runs: int, confidence: float) -> float | None:
    """The largest share of the noise that is refuted nine times in ten; None where there is none.

    For a claim that is exact: the epsilon at this delta of the Gaussian noise that is claimed.
    """
    import dp_accounting
    from scipy.optimize import brentq
    from scipy.stats import norm

    claimed = 1 / float(dp_accounting.get_sigma_gaussian(epsilon, delta))

    def spare(factor: float) -> float:
        mu = claimed / factor
        deviation = np.sqrt(2 / runs + mu**2 / (4 * (runs - 1)))
        return float(mu - (norm.ppf(confidence) + norm.ppf(_POWER)) * deviation - claimed)

    return float(brentq(spare, 1e-6, 1.0)) if spare(1e-6) > 0 else None


def gaussian_epsilon_low(arms: NDArray[np.float64], confidence: float, delta: float) -> float:
    """Epsilon at delta of two normals of one variance, apart by the smallest mu that the runs allow."""
    import dp_accounting
    from scipy.optimize import brentq
    from scipy.stats import nct

    runs = arms.shape[1]
    apart, spread = float(arms[0].mean() - arms[1].mean()), float(np.sqrt(arms.var(axis=1, ddof=1).mean()))
    if not (np.isfinite(apart) and spread > 0 and apart > 0):
        return 0.0
    root = np.sqrt(runs / 2)
    seen, free = apart / spread * root, 2 * runs - 2

    def beyond(noncentrality: float) -> float:
        return float(nct.sf(seen, free, noncentrality)) - (1 - confidence)

    if beyond(0.0) >= 0:
        return 0.0
    # The upper end: there about half of all samples lie beyond what was seen.
    mu = float(brentq(beyond, 0.0, seen + 1.0)) / root
    return float(dp_accounting.get_epsilon_gaussian(1 / mu, delta)) if mu > 1e-6 else 0.0


@dataclass(frozen=True)
class OneRun:
    """Bound by guessing who was in one run, for all records together and for none by itself."""

    records: int
    """Each was in by a fair coin."""
    score: int
    """Number of the score whose guesses prove most."""
    guesses: int
    """Half of them: largest scores, guessed to be in; the others: smallest ones, guessed out. Or the reverse."""
    right: int
    epsilon_low: float
    """No smaller epsilon holds at `delta`, with the confidence that was asked for."""


def guessed_epsilon_low(records: int, guesses: int, right: int, delta: float, level: float) -> float:
    """Return the epsilon that so many right guesses disprove; too high with probability at most `level`."""
    from scipy.optimize import brentq
    from scipy.special import betainc

    if not right:
        return 0.0
    fewer = np.arange(1, right + 1)

    def spare(epsilon: float) -> float:
        wrong = 1 / (1 + math.exp(epsilon))
        # At least `right` of independent guesses are right, or at least so many fewer: those of 0 always.
        beyond = float(betainc(right, guesses - right + 1, 1 - wrong))
        those = np.append(betainc(right - fewer[:-1], guesses - right + fewer[:-1] + 1, 1 - wrong), 1.0)
        return beyond + 2 * records * delta * float(((those - beyond) / fewer).max()) - level

    most = math.log(guesses / level)  # where even guesses that are all right are likely
    return float(brentq(spare, 0.0, most)) if spare(0.0) < 0 else 0.0


def one_run(scores: NDArray[np.floating], inclusion: Bits, delta: float, confidence: float) -> OneRun:
    """Return the best of all scores, in both directions, at all records, half of them, a quarter, and so on."""
    records = len(inclusion)
    halves = [records // 2**step // 2 for step in range(max(records.bit_length() - 3, 1))]
    level = (1 - confidence) / (2 * len(scores) * len(halves))
    best = OneRun(records, 0, 0, 0, 0.0)
    for number, row in enumerate(scores):
        ordered = inclusion[np.argsort(row, kind="stable")]
        for half in halves:
            right = int((~ordered[:half]).sum() + ordered[records - half :].sum())
            hits = max(right, 2 * half - right)
            low = guessed_epsilon_low(records, 2 * half, hits, delta, level)
            if low > best.epsilon_low:
                best = OneRun(records, number, 2 * half, hits, low)
    return best


@dataclass(frozen=True)
class Attack:
    """Say that the document was there where the statistic lies beyond the threshold."""

    threshold: float
    above: bool

    def hits(self, values: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Where it says so."""
        return np.asarray(values > self.threshold if self.above else values <= self.threshold)


def best_threshold(included: NDArray[np.floating], excluded: NDArray[np.floating]) -> Attack:
    """The threshold and direction with the largest TPR - FPR in these runs."""
    gap = widest_gap(included, excluded)
    assert gap is not None
    return Attack(gap.place, gap.share_without > gap.share_with)


def measure_effect(
    row: int,
    column: str,
    attack: Attack,
    included: NDArray[np.floating],
    excluded: NDArray[np.floating],
    level: float,
    margin: float = 0.0,
    table: KSTable | None = None,
) -> Effect:
    """Measure an attack on fresh runs."""
    if table is None:
        values = np.concatenate([included, excluded])
        bits = np.arange(len(values)) < len(included)
        table = ks_table(values[None, :], bits[None, :])
    low, high = distance_band(table.distance, table.n_with, table.n_without, level)
    hits, alarms = (int(np.count_nonzero(attack.hits(arm))) for arm in (included, excluded))
    tpr, tpr_low, tpr_high = hits / len(included), *share_interval(hits, len(included), level / 2)
    fpr, fpr_low, fpr_high = alarms / len(excluded), *share_interval(alarms, len(excluded), level / 2)
    rare, rarer = (tpr_at_fpr(included, excluded, rate, 1 - level) for rate in (0.01, 0.001))
    return Effect(
        row=row,
        column=column,
        n_with=len(included),
        n_without=len(excluded),
        advantage=tpr - fpr,
        advantage_low=tpr_low - fpr_high,
        advantage_high=tpr_high - fpr_low,
        distance=float(table.distance[0]),
        band_low=float(low[0]),
        band_high=float(high[0]),
        log10_p=float(table.log10_p[0]),
        log10_p_above=attack_above_log10_p(hits, len(included), alarms, len(excluded), margin),
        epsilon_low=epsilon_lower_bound(included, excluded, 1 - level),
        tpr_at_fpr_01=rare.tpr if rare else None,
        tpr_at_fpr_01_low=rare.tpr_low if rare else None,
        tpr_at_fpr_001=rarer.tpr if rarer else None,
        tpr_at_fpr_001_low=rarer.tpr_low if rarer else None,
    )


def _chosen(values: Floats, inclusion: Bits) -> tuple[int, float, float]:
    """(statistic, threshold, sign) of the largest gap between the two arms' shares at or below a threshold."""
    best, choice = -1.0, (0, 0.0, 1.0)
    steps = np.where(inclusion, 1 / inclusion.sum(), -1 / (~inclusion).sum())
    for number, row in enumerate(values):
        order = np.argsort(row, kind="stable")
        ascending, gaps = row[order], np.cumsum(steps[order])
        gaps[:-1][ascending[:-1] == ascending[1:]] = 0.0  # between equal values there is no threshold
        at = int(np.argmax(np.abs(gaps)))
        if abs(gaps[at]) > best:
            best, choice = abs(gaps[at]), (number, float(ascending[at]), float(np.sign(gaps[at]) or 1.0))
    return choice


def held_out_advantage(values: Floats, inclusion: Bits) -> float:
    """The advantage of an adversary who chose on one half of the runs, measured on the other; both ways, averaged.

    Of values (statistics, runs) and the runs that held the document, bool. Runs are independent, so that every
    second one of each arm is a fair half. In [-1, 1], below 0 by chance alone; NaN where an arm has fewer than two
    runs.
    """
    if min(inclusion.sum(), (~inclusion).sum()) < 2:
        return float("nan")
    first = np.zeros(len(inclusion), dtype=bool)
    for arm in (inclusion, ~inclusion):
        first[np.flatnonzero(arm)[::2]] = True
    advantages = []
    for chooses, measures in ((first, ~first), (~first, first)):
        statistic, threshold, sign = _chosen(values[:, chooses], inclusion[chooses])
        below, arm = values[statistic, measures] <= threshold, inclusion[measures]
        advantages.append(sign * (below[arm].mean() - below[~arm].mean()))
    return float(np.mean(advantages))
