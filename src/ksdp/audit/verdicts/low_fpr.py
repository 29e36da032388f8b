"""Is an attack with few false alarms often right? Two p-values of the true positive rate at 1 % false positives.

A leak that is certain in 13 % of the runs and absent in the others has an advantage of 0.13, and whoever sees it
knows. With `decision.margin_at_low_fpr` = c, a document is clear only if no threshold on any statistic, from above
or from below, has a true positive rate (TPR) of c at a false positive rate (FPR) of at most 1 %.

The threshold t is the k-th most extreme of the n runs without the document; k depends on n alone. Given t, how
many of the m runs with the document lie beyond it is binomial.

- **below**: equal values are put in a random order, the same for every document. The FPR up to t and with it is
  then Beta(k, n + 1 - k). Where it is above 1 %, every threshold with an FPR of at most 1 % lies in it, as all of
  them are thresholds of that order, too. Were the TPR of one c or more, so were the one up to t, and
  p = P(Beta < 0.01) + P(Bin(m, c) <= count). A document needs every statistic from both sides: the largest p
  counts (Berger 1982).
- **above**: strictly beyond t the FPR is stochastically at most Beta(k, n + 1 - k). Where it is at most 1 % and no
  threshold has more than c there, p = P(Beta > 0.01) + P(Bin(m, c) >= count), times two for the sides.

The chances that t is on the wrong side are small parts of the smallest level that a document may have to reach.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, betainc, betaincc, betaincinv

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.specs.models import LOW_FPR, DecisionSpec
from ksdp.audit.verdicts.laws import ArmTests, checked_order
from ksdp.audit.verdicts.multiplicity import strictest_log10_p
from ksdp.audit.verdicts.tails import beyond

_PART_BELOW, _PART_ABOVE = 0.1, 0.001
"""Parts of the smallest level for a threshold on the wrong side; "above" has one for every statistic."""
_SEED = 0x7_1E5
"""Seed of the order of equal values, which depends on nothing."""
_SOME = -0.3
"""Log10 p above which nothing points to this side."""


@dataclass(frozen=True)
class LowFpr:
    """How the true positive rate at 1 % false positives is compared with a limit; fixed before any run."""

    limit: float
    wrong_below: float
    """Largest chance that the threshold of "below" has too few false positives."""
    wrong_above: float
    """Largest chance that the threshold of "above" has too many."""

    @staticmethod
    def of(rule: DecisionSpec, level: float, documents: int) -> LowFpr | None:
        """The comparison by a rule; None where it sets no limit."""
        if rule.margin_at_low_fpr is None:
            return None
        smallest = 10 ** strictest_log10_p(level, documents, 1, rule.error)
        return LowFpr(rule.margin_at_low_fpr, _PART_BELOW * smallest, _PART_ABOVE * smallest)

    def log10_p(
        self,
        values: NDArray[np.floating],
        inclusion: NDArray[np.bool_],
        ordered: NDArray[np.floating] | None = None,
    ) -> tuple[Floats, Floats]:
        """Log10 p of each document of a rate of at least the limit ("below"), and of at most it ("above").

        Called as `ks_distances`; 0 where an arm is empty, or has too few runs for so rare an event.
        """
        ordered = checked_order(values, inclusion, ordered)
        n_with = inclusion.sum(axis=1, dtype=np.int64)
        free = inclusion.shape[1] - n_with
        included = [_rank_below(int(n), self.wrong_below) for n in free]
        outside = [_rank_above(int(n), self.wrong_above) for n in free]
        ranks = np.array([[rank for rank, _ in pair] for pair in (included, outside)], dtype=np.int64)
        counts = np.zeros_like(ranks)
        order = np.random.default_rng(_SEED).random(inclusion.shape[1])
        _count(np.ascontiguousarray(values), ordered, np.ascontiguousarray(inclusion), ranks, order, counts)
        below = np.array([p for _, p in included]) + bdtr(counts[0], n_with, self.limit)
        above = np.array([p for _, p in outside]) + np.where(
            counts[1] > 0, bdtrc(counts[1] - 1, n_with, self.limit), 1.0
        )
        tested = n_with > 0
        return (
            np.where(tested & (ranks[0] > 0), np.log10(np.minimum(below, 1.0)), 0.0),
            np.where(tested & (ranks[1] > 0), np.log10(np.minimum(2 * above, 1.0)), 0.0),
        )

    def least_limit(self, n_with: int, n_without: int, level: float, tests: int = 1, power: float = 1.0) -> float:
        """The smallest limit that is proved at this level with chance `power` where nothing leaks; 1: none."""
        rank, wrong = _rank_below(n_without, self.wrong_below)
        if not rank or not n_with or wrong >= level:
            return 1.0
        from scipy.stats import betabinom  # half a second of imports, which only plans need

        missed = (1 - power) / (2 * tests)
        count = int(betabinom.isf(missed, n_with, rank, n_without + 1 - rank)) if missed else 0
        return float(betaincinv(count + 1, n_with - count, 1 - (level - wrong))) if count < n_with else 1.0


@lru_cache(maxsize=2**14)
def _rank_below(n: int, most: float) -> tuple[int, float]:
    """The least k with P(Beta(k, n + 1 - k) < 1 %) at most this, and the chance; 0 where there is none."""
    rank = 1 + bisect_left(range(1, n + 1), True, key=lambda k: betainc(k, n + 1 - k, LOW_FPR) <= most)
    return (rank, float(betainc(rank, n + 1 - rank, LOW_FPR))) if rank <= n else (0, 1.0)


@lru_cache(maxsize=2**14)
def _rank_above(n: int, most: float) -> tuple[int, float]:
    """The largest k with P(Beta(k, n + 1 - k) > 1 %) at most this, and the chance; 0 where there is none."""
    rank = bisect_left(range(1, n + 1), True, key=lambda k: betaincc(k, n + 1 - k, LOW_FPR) > most)
    return (rank, float(betaincc(rank, n + 1 - rank, LOW_FPR))) if rank else (0, 1.0)


@njit(cache=True, nogil=True)
def _extreme(ordered: NDArray[np.floating], arm: NDArray[np.floating], rank: int, high: bool) -> float:
    """The `rank`-th most extreme of the ordered values that are not those of the ordered arm."""
    step = -1 if high else 1
    at, inner = (len(ordered) - 1, len(arm) - 1) if high else (0, 0)
    while True:
        if 0 <= inner < len(arm) and arm[inner] == ordered[at]:
            inner += step
        else:
            rank -= 1
            if rank == 0:
                return float(ordered[at])
        at += step


@njit(cache=True, nogil=True)
def _tied_before(row: NDArray[np.floating], bits: NDArray[np.bool_], edge: float, rank: int, order: Floats) -> int:
    """Runs with the document whose value is the edge, up to the `rank`-th of those without it, in this order."""
    place = np.sort(order[(row == edge) & ~bits])[rank - 1]
    return int(((row == edge) & bits & (order < place)).sum())


@njit(cache=True, nogil=True)
def _count(
    values: NDArray[np.floating],
    ordered: NDArray[np.floating],
    inclusion: NDArray[np.bool_],
    ranks: Ints,
    order: Floats,
    counts: Ints,
) -> None:
    """Runs with each document up to the first rank, ties in order, and strictly beyond the second; larger side."""
    for row in range(len(values)):
        arm = np.sort(values[row][inclusion[row]])
        for which in range(2):
            rank = ranks[which, row]
            if rank == 0:
                continue
            for high in range(2):
                edge = _extreme(ordered[row], arm, rank, high == 1)
                count = beyond(arm, edge, high == 1)
                if which == 0:
                    without = beyond(ordered[row], edge, high == 1) - count
                    count += _tied_before(values[row], inclusion[row], edge, rank - without, order)
                counts[which, row] = max(counts[which, row], count)


def runs_for_low_fpr(tested: ArmTests, needed: Floats, within: NDArray[np.bool_], wanted: float) -> Floats:
    """All runs after which documents are decided with the limit, too: log p falls about as runs are added."""
    runs = (tested.n_with + tested.n_without).max(axis=1).astype(np.float64)
    above, below = tested.log10_low_above.min(axis=1), tested.log10_low_below.max(axis=1)

    def more(log10_p: Floats) -> Floats:
        times = np.maximum(wanted / np.minimum(log10_p, _SOME), 1 + 1 / runs)
        return np.where(log10_p < _SOME, np.ceil(runs * times), np.inf)

    clear = np.where(within & (below > wanted), np.maximum(needed, more(below)), needed)
    return np.asarray(np.fmin(clear, more(above)))
