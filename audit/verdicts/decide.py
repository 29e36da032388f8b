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
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.audit.verdicts.bands import band_width
from ksdp.audit.verdicts.multiplicity import adjust, bonferroni, strictest_distance_log10_p
from ksdp.audit.verdicts.sequential import anytime_band_width, anytime_log10_p

__all__ = ["Decisions", "Verdict", "decide", "detectable_distance", "flagged_by"]

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


def decide(
    tested: ArmTests, rule: DecisionSpec, *, level: float | None = None, among: int | None = None
) -> Decisions:
    """Decide every document.

    Parameters
    ----------
    tested : ArmTests
        Of the documents whose verdict is open.
    rule : DecisionSpec
        Level, margin and correction.
    level : float, optional
        Of this look; the rule's own by default.
    among : int, optional
        Documents of the whole audit, those decided at earlier looks included; they count with p = 1.
    """
    level, among = level or rule.level, among or len(tested)
    statistics = tested.distance.shape[1]
    log10_p = _log10_p(tested, rule)
    over_statistics = bonferroni(log10_p) if tested.log10_joint is None else tested.log10_joint
    adjusted = _adjusted(over_statistics, rule, among)
    width = _width(tested.n_with, tested.n_without, level / (among * statistics), rule)
    measured = np.nan_to_num(tested.distance, nan=0.0)
    known = np.isfinite(width)
    low = np.where(known, np.clip(measured - width, 0, 1), 0.0)
    high = np.where(known, np.clip(measured + width, 0, 1), 1.0)
    sensitive = adjusted <= math.log10(level)
    clear = (high < rule.margin).all(axis=1) & ~sensitive
    verdict = np.where(sensitive, Verdict.SENSITIVE, np.where(clear, Verdict.CLEAR, Verdict.UNDECIDED))
    # Smallest p first, largest D among equals, the first column among those.
    columns = np.broadcast_to(np.arange(statistics), log10_p.shape)
    strongest = np.lexsort((columns, -measured, log10_p), axis=1)[:, 0]
    top = measured.argmax(axis=1)[:, None]
    m, n = (np.take_along_axis(arm, top, axis=1)[:, 0] for arm in (tested.n_with, tested.n_without))
    needed = _runs_to_decide(measured.max(axis=1), m, n, level, rule, among, statistics)
    return Decisions(
        verdict=verdict.astype(np.str_),
        log10_p=over_statistics,
        log10_adjusted=adjusted,
        strongest=strongest.astype(np.int64),
        band_low=low,
        band_high=high,
        runs_to_decide=np.where(verdict == Verdict.UNDECIDED, needed, np.nan),
    )


def flagged_by(tested: ArmTests, rule: DecisionSpec, level: float, among: int) -> NDArray[np.bool_]:
    """Which documents these columns alone would call sensitive (Bonferroni over them), shape (n_documents,)."""
    return np.asarray(_adjusted(bonferroni(_log10_p(tested, rule)), rule, among) <= math.log10(level))


def _log10_p(tested: ArmTests, rule: DecisionSpec) -> Floats:
    if rule.stopping == "anytime":
        return anytime_log10_p(tested.distance, tested.n_with, tested.n_without)
    return tested.log10_p


def _adjusted(log10_p: Floats, rule: DecisionSpec, among: int) -> Floats:
    """Over documents; those that are not here count with p = 1."""
    return adjust(np.concatenate([log10_p, np.zeros(among - len(log10_p))]), rule.correction)[: len(log10_p)]


def _width(n_with: Ints, n_without: Ints, level: float, rule: DecisionSpec) -> Floats:
    """Half-width of each band, of the shape of the arms; infinite where an arm is empty."""
    if rule.stopping == "anytime":
        return anytime_band_width(n_with, n_without, level)
    return band_width(n_with.ravel(), n_without.ravel(), level).reshape(n_with.shape)


def detectable_distance(
    n_with: Ints, n_without: Ints, documents: int, statistics: int, rule: DecisionSpec, level: float | None = None
) -> Floats:
    """The measured D at which a document is surely called sensitive, whatever the others do.

    From the asymptotic law 2 exp(-2 N D^2) with N = n m / (n + m), or the band that holds at any moment; 1 where
    the arms cannot reach it.
    """
    strictest = strictest_distance_log10_p(level or rule.level, documents, statistics, rule.correction, rule.joint)
    if rule.stopping == "anytime":
        return np.minimum(anytime_band_width(n_with, n_without, 10**strictest), 1.0)
    log_p = math.log(10) * strictest
    effective = n_with * n_without / np.maximum(n_with + n_without, 1)
    return np.asarray(np.minimum(np.sqrt((math.log(2) - log_p) / (2 * np.maximum(effective, 1e-9))), 1.0))


def _runs_to_decide(
    distance: Floats,
    n_with: Ints,
    n_without: Ints,
    level: float,
    rule: DecisionSpec,
    documents: int,
    statistics: int,
) -> Floats:
    """All widths shrink like 1 / sqrt(runs), so the runs needed follow from the present ones.

    The measured D holds noise: E[D^2] = (pi^2 / 12) / N where there is no leak, N = n m / (n + m). It is taken
    off for the true D. The measurement to come is granted the noise that the largest of all statistics stays
    below with probability one half, ln(4 S) = 2 N x^2.
    """
    runs = (n_with + n_without).astype(np.float64)
    effective = n_with * n_without / np.maximum(runs, 1)
    effective = np.maximum(effective, 1e-9)
    true = np.sqrt(np.maximum(distance**2 - math.pi**2 / 12 / effective, 0))
    noise = np.sqrt(math.log(4 * statistics) / (2 * effective))
    width = _width(n_with, n_without, level / (documents * statistics), rule)
    room = rule.margin - true
    with np.errstate(divide="ignore", invalid="ignore"):
        clear = np.where(room > 0, runs * ((width + noise) / room) ** 2, np.inf)
        found = runs * (detectable_distance(n_with, n_without, documents, statistics, rule, level) / true) ** 2
    needed = np.fmin(clear, np.where(true > 0, found, np.inf))
    return np.where(np.isfinite(needed), np.ceil(np.maximum(needed, runs + 1)), np.inf)
