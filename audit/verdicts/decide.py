"""From distances and p-values to one verdict a document.

- **sensitive**: proved; the corrected p (Bonferroni over statistics, then the stated procedure over
  documents) is at or below the level.
- **clear**: proved; the upper band of D lies below the margin for every statistic. All bands of the audit
  hold together with probability 1 - level.
- **undecided**: neither; with the number of runs that would decide, were the measured D the true one.

A document that is both (a leak proved, and proved small) is called sensitive: a wrong "clear" hurts more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.spec import DecisionSpec
from ksdp.audit.verdicts.bands import band_width, distance_band
from ksdp.audit.verdicts.multiplicity import adjust, bonferroni, strictest_distance_log10_p

__all__ = ["Decisions", "Verdict", "decide", "detectable_distance"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Verdict(StrEnum):
    """What an audit says of a document."""

    SENSITIVE = "sensitive"
    CLEAR = "clear"
    UNDECIDED = "undecided"


@dataclass(frozen=True, eq=False)
class Decisions:
    """One entry a document, and the bands of each statistic."""

    verdict: NDArray[np.str_]
    log10_p: Floats
    """Over statistics (Bonferroni), shape (n_documents,)."""
    log10_adjusted: Floats
    """Over statistics, then over documents, shape (n_documents,)."""
    strongest: Ints
    """Column of the statistic with the smallest p; the largest D where p ties."""
    band_low: Floats
    """Simultaneous over documents and statistics, shape (n_documents, n_statistics)."""
    band_high: Floats
    runs_to_decide: Floats
    """All runs of the audit, those done included; NaN where decided, infinity where no number would do."""


def decide(distance: Floats, log10_p: Floats, n_with: Ints, n_without: Ints, rule: DecisionSpec) -> Decisions:
    """Decide every document.

    Parameters
    ----------
    distance, log10_p : shape (n_documents, n_statistics)
        NaN distance and log10 p of 0 where an arm is empty.
    n_with, n_without : shape (n_documents,)
    rule : DecisionSpec
        Level, margin and correction.
    """
    documents, statistics = distance.shape
    over_statistics = bonferroni(log10_p)
    adjusted = adjust(over_statistics, rule.correction)
    width_level = rule.level / (documents * statistics)
    measured = np.nan_to_num(distance, nan=0.0)
    low, high = (
        np.stack(columns, axis=1)
        for columns in zip(
            *(distance_band(measured[:, s], n_with, n_without, width_level) for s in range(statistics)),
            strict=True,
        )
    )
    sensitive = adjusted <= math.log10(rule.level)
    clear = (high < rule.margin).all(axis=1) & ~sensitive
    verdict = np.where(sensitive, Verdict.SENSITIVE, np.where(clear, Verdict.CLEAR, Verdict.UNDECIDED))
    # Smallest p first, largest D among equals: one key, because log10 p <= 0 and D <= 1 is only a tie-break.
    strongest = np.lexsort((np.broadcast_to(np.arange(statistics), log10_p.shape), -measured, log10_p), axis=1)[
        :, 0
    ]
    needed = _runs_to_decide(measured.max(axis=1), n_with, n_without, rule, statistics)
    return Decisions(
        verdict=verdict.astype(np.str_),
        log10_p=over_statistics,
        log10_adjusted=adjusted,
        strongest=strongest.astype(np.int64),
        band_low=low,
        band_high=high,
        runs_to_decide=np.where(verdict == Verdict.UNDECIDED, needed, np.nan),
    )


def detectable_distance(
    n_with: Ints, n_without: Ints, documents: int, statistics: int, rule: DecisionSpec
) -> Floats:
    """The measured D at which a document is surely called sensitive, whatever the others do.

    From the asymptotic law 2 exp(-2 N D^2) with N = n m / (n + m); 1 where the arms cannot reach it.
    """
    log_p = math.log(10) * strictest_distance_log10_p(rule.level, documents, statistics, rule.correction)
    effective = n_with * n_without / np.maximum(n_with + n_without, 1)
    return np.asarray(np.minimum(np.sqrt((math.log(2) - log_p) / (2 * np.maximum(effective, 1e-9))), 1.0))


def _runs_to_decide(
    distance: Floats, n_with: Ints, n_without: Ints, rule: DecisionSpec, statistics: int
) -> Floats:
    """All widths shrink like 1 / sqrt(runs), so the runs needed follow from the present ones.

    The measured D holds noise: E[D^2] = (pi^2 / 12) / N where there is no leak, N = n m / (n + m). It is taken
    off for the true D. The measurement to come is granted the noise that the largest of all statistics stays
    below with probability one half, ln(4 S) = 2 N x^2.
    """
    documents = len(distance)
    runs = (n_with + n_without).astype(np.float64)
    effective = n_with * n_without / np.maximum(runs, 1)
    effective = np.maximum(effective, 1e-9)
    true = np.sqrt(np.maximum(distance**2 - math.pi**2 / 12 / effective, 0))
    noise = np.sqrt(math.log(4 * statistics) / (2 * effective))
    width = band_width(n_with, n_without, rule.level / (documents * statistics))
    room = rule.margin - true
    with np.errstate(divide="ignore", invalid="ignore"):
        clear = np.where(room > 0, runs * ((width + noise) / room) ** 2, np.inf)
        found = runs * (detectable_distance(n_with, n_without, documents, statistics, rule) / true) ** 2
    needed = np.fmin(clear, np.where(true > 0, found, np.inf))
    return np.where(np.isfinite(needed), np.ceil(np.maximum(needed, runs + 1)), np.inf)
