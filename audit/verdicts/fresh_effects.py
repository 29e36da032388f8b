"""How much a flagged document gives away, measured on fresh runs.

A document is flagged for the largest of many measured distances, so that distance is too large on average (the
winner's curse). What was chosen by looking (the statistic, the threshold, the direction, a learner's weights) is
therefore fixed by the audit's own runs, and everything that is reported is measured on runs that nobody has
looked at. Intervals hold for each document by itself with probability 1 - level, whatever was flagged and why:
given the audit's runs, the fresh ones are a new sample. (That all documents' intervals hold together is not
said.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.array_types import Bits, Floats
from ksdp.audit.verdicts.bands import distance_band
from ksdp.audit.verdicts.effect import epsilon_lower_bound, share_interval, tpr_at_fpr
from ksdp.audit.verdicts.effect_measures import Effect
from ksdp.audit.verdicts.ks import KSTable, ks_table
from ksdp.audit.verdicts.learned import attack_scores
from ksdp.audit.verdicts.margin import attack_above_log10_p


@dataclass(frozen=True)
class Attack:
    """Say that the document was there where the statistic lies beyond the threshold."""

    threshold: float
    above: bool

    def hits(self, values: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Where it says so."""
        return np.asarray(values > self.threshold if self.above else values <= self.threshold)


def best_threshold(held: NDArray[np.floating], free: NDArray[np.floating]) -> Attack:
    """The threshold and direction with the largest TPR - FPR in these runs.

    Parameters
    ----------
    held, free : shape (n_with,), (n_without,)
        A statistic's values with and without the document; neither empty.

    Examples
    --------
    >>> best_threshold(np.array([3.0, 4.0]), np.array([1.0, 2.0, 3.5]))
    Attack(threshold=2.0, above=True)
    """
    at = np.unique(np.concatenate([held, free]))
    upto_held = np.searchsorted(np.sort(held), at, side="right") / len(held)
    upto_free = np.searchsorted(np.sort(free), at, side="right") / len(free)
    best = int(np.argmax(np.abs(upto_held - upto_free)))
    return Attack(float(at[best]), bool(upto_free[best] > upto_held[best]))


def learned_scores(
    learner: str,
    before: tuple[Bits, Sequence[NDArray[Any]]],
    after: tuple[Bits, Sequence[NDArray[Any]]],
) -> Floats:
    """Scores of the fresh runs of one document under a learner trained on all of the audit's runs.

    Parameters
    ----------
    before, after : inclusion of shape (1, n_runs) and one array of that shape a column
        Of the audit's runs and the fresh ones.
    """
    features = np.concatenate([np.stack(values, axis=2) for _, values in (before, after)], axis=1)
    inclusion = np.concatenate([before[0], after[0]], axis=1)
    runs = np.arange(inclusion.shape[1])
    first = before[0].shape[1]
    return np.asarray(attack_scores(features, inclusion, learner, runs[:first], runs[first:])[0], dtype=np.float64)


def measure_effect(
    row: int,
    column: str,
    attack: Attack,
    held: NDArray[np.floating],
    free: NDArray[np.floating],
    level: float,
    margin: float = 0.0,
    table: KSTable | None = None,
) -> Effect:
    """Measure an attack on fresh runs.

    Parameters
    ----------
    row, column : of the document and the statistic
    attack : Attack
        Chosen without these runs.
    held, free : shape (n_with,), (n_without,)
        The statistic's values in fresh runs, neither empty.
    level : float in (0, 1)
        Each interval fails with at most this probability.
    margin : float in [0, 1]
        Is the advantage above it?
    table : KSTable, optional
        What `ks_table` says of these two arms, for who has it already: of many documents it is quicker together.
    """
    if table is None:
        values = np.concatenate([held, free])
        bits = np.arange(len(values)) < len(held)
        table = ks_table(values[None, :], bits[None, :])
    low, high = distance_band(table.distance, table.n_with, table.n_without, level)
    hits, alarms = (int(np.count_nonzero(attack.hits(arm))) for arm in (held, free))
    tpr, tpr_low, tpr_high = hits / len(held), *share_interval(hits, len(held), level / 2)
    fpr, fpr_low, fpr_high = alarms / len(free), *share_interval(alarms, len(free), level / 2)
    rare, rarer = (tpr_at_fpr(held, free, rate, 1 - level) for rate in (0.01, 0.001))
    return Effect(
        row=row,
        column=column,
        n_with=len(held),
        n_without=len(free),
        advantage=tpr - fpr,
        advantage_low=tpr_low - fpr_high,
        advantage_high=tpr_high - fpr_low,
        distance=float(table.distance[0]),
        band_low=float(low[0]),
        band_high=float(high[0]),
        log10_p=float(table.log10_p[0]),
        log10_p_above=attack_above_log10_p(hits, len(held), alarms, len(free), margin),
        epsilon_low=epsilon_lower_bound(held, free, 1 - level),
        tpr_at_fpr_01=rare.tpr if rare else None,
        tpr_at_fpr_01_low=rare.tpr_low if rare else None,
        tpr_at_fpr_001=rarer.tpr if rarer else None,
        tpr_at_fpr_001_low=rarer.tpr_low if rarer else None,
    )
