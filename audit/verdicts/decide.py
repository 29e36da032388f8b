"""From distances and p-values to one verdict a document.

Three questions are asked of every document, each at the level by itself:

- **detected**: does it leave any trace? The corrected p (Bonferroni over statistics, then the stated procedure
  over documents) of "no leak at all" is at or below the level: the paper's question.
- **sensitive**: is its advantage above the margin? The corrected p of "at most the margin" is at or below the
  level; over statistics Bonferroni. Where fresh runs follow, half of the level is theirs (`after_fresh`).
- **clear**: is its advantage below the margin? The largest p of "at least the margin" over its statistics (an
  intersection-union test: no correction), corrected over documents, is at or below the level. Detected or not: a
  trace, and less than what is accepted.

**undecided** is what is left, with the number of runs that would decide, were the measured D the true one. With
margin 0, sensitive is detected, and nothing is clear.

Of what is called sensitive, the expected share of documents whose advantage is at most the margin is at most the
level (any such document at all, with Holm); of what is called clear, the same of those whose advantage is at least
the margin. Who may not be clear counts with p = 1, so that what is left out takes nothing from the others' proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ksdp.audit.spec import DecisionSpec
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.audit.verdicts.bands import band_width
from ksdp.audit.verdicts.binomial_gap import spread
from ksdp.audit.verdicts.margin import log10_above, log10_below, sum_of_suprema_log10_p
from ksdp.audit.verdicts.multiplicity import (
    adjust,
    bonferroni,
    strictest_distance_log10_p,
    strictest_log10_p,
)
from ksdp.audit.verdicts.sequential import anytime_band_width, anytime_log10_p

__all__ = [
    "Decisions",
    "Verdict",
    "adjusted_among",
    "clearing_gap",
    "decide",
    "detectable_distance",
    "flagged_by",
    "sensitive_distance",
]

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
    detected: NDArray[np.bool_]
    """Whether any leak is proved, shape (n_documents,)."""
    log10_above: Floats
    """Of "at most the margin", of each statistic, shape (n_documents, n_statistics)."""
    log10_below: Floats
    """Of "at least the margin", of each statistic."""
    log10_p_above: Floats
    """Over statistics (Bonferroni)."""
    log10_adjusted_above: Floats
    """Over statistics, documents, and own and fresh runs: sensitive iff at or below log10 of the level."""
    log10_p_below: Floats
    """Over statistics: the largest."""
    log10_adjusted_below: Floats
    """Over statistics and documents: clear iff at or below log10 of the level, and not sensitive."""
    strongest: Ints
    """Column of the statistic with the smallest p; the largest D where p ties."""
    band_low: Floats
    """Simultaneous over documents and statistics, shape (n_documents, n_statistics)."""
    band_high: Floats
    runs_to_decide: Floats
    """All runs of the audit, those done included; NaN where decided, infinity where no number would do."""


def decide(
    tested: ArmTests,
    rule: DecisionSpec,
    *,
    level: float | None = None,
    among: int | None = None,
    fresh: bool = False,
) -> Decisions:
    """Decide every document.

    Parameters
    ----------
    tested : ArmTests
        Of the documents whose verdict is open.
    rule : DecisionSpec
        Level, margin and correction.
    level : float, optional
        Of this look; the rule's own by default. "Clear" and the bands have the same part of `rule.clear_level`.
    among : int, optional
        Documents that the correction counts, those decided at earlier looks included; they count with p = 1.
    fresh : bool
        Whether fresh runs follow, which may prove "above the margin" as well: half of the level is theirs.
    """
    level, among = level or rule.level, among or len(tested)
    clear_level = level * rule.for_clear / rule.level
    statistics = tested.distance.shape[1]
    log10_p = _log10_p(tested, rule)
    over_statistics = bonferroni(log10_p) if tested.log10_joint is None else tested.log10_joint
    adjusted = adjusted_among(over_statistics, rule, among)
    detected = adjusted <= math.log10(level)
    above, below = log10_above(tested, rule), log10_below(tested, rule)
    if rule.margin == 0:
        p_above, adjusted_above = over_statistics, adjusted
    else:
        p_above = bonferroni(above)
        share = math.log10(2) if fresh else 0.0
        adjusted_above = np.minimum(adjusted_among(p_above, rule, among) + share, 0.0)
    sensitive = adjusted_above <= math.log10(level)
    p_below = below.max(axis=1)
    adjusted_below = adjusted_among(np.where(sensitive, 0.0, p_below), rule, among)
    clear = (adjusted_below <= math.log10(clear_level)) & ~sensitive & (rule.margin > 0)
    width = _width(tested.n_with, tested.n_without, clear_level / (among * statistics), rule)
    measured = np.nan_to_num(tested.distance, nan=0.0)
    known = np.isfinite(width)
    low = np.where(known, np.clip(measured - width, 0, 1), 0.0)
    high = np.where(known, np.clip(measured + width, 0, 1), 1.0)
    verdict = np.where(sensitive, Verdict.SENSITIVE, np.where(clear, Verdict.CLEAR, Verdict.UNDECIDED))
    # Smallest p first, largest D among equals, the first column among those.
    columns = np.broadcast_to(np.arange(statistics), log10_p.shape)
    strongest = np.lexsort((columns, -measured, log10_p), axis=1)[:, 0]
    top = measured.argmax(axis=1)[:, None]
    m, n = (np.take_along_axis(arm, top, axis=1)[:, 0] for arm in (tested.n_with, tested.n_without))
    # Under the false discovery rate, each that is decided makes room for the next.
    easier = rule.correction in ("by", "bh")
    room = [1 + easier * int(kind.sum()) for kind in (sensitive, clear)]
    at = (level * room[0], clear_level * room[1])
    needed = _runs_to_decide(measured.max(axis=1), m, n, at, rule, among, statistics)
    return Decisions(
        verdict=verdict.astype(np.str_),
        log10_p=over_statistics,
        log10_adjusted=adjusted,
        detected=detected,
        log10_above=above,
        log10_below=below,
        log10_p_above=p_above,
        log10_adjusted_above=adjusted_above,
        log10_p_below=p_below,
        log10_adjusted_below=adjusted_below,
        strongest=strongest.astype(np.int64),
        band_low=low,
        band_high=high,
        runs_to_decide=np.where(verdict == Verdict.UNDECIDED, needed, np.nan),
    )


def flagged_by(
    tested: ArmTests, rule: DecisionSpec, level: float, among: int, *, above: bool = False
) -> NDArray[np.bool_]:
    """Of which documents these columns alone would have detected a leak, or one above the margin.

    Bonferroni over the columns; shape (n_documents,). Above the margin: by the audit's own runs alone, at the
    whole level.
    """
    p = log10_above(tested, rule) if above else _log10_p(tested, rule)
    return np.asarray(adjusted_among(bonferroni(p), rule, among) <= math.log10(level))


def _log10_p(tested: ArmTests, rule: DecisionSpec) -> Floats:
    if rule.stopping == "anytime":
        return anytime_log10_p(tested.distance, tested.n_with, tested.n_without)
    return tested.log10_p


def adjusted_among(log10_p: Floats, rule: DecisionSpec, among: int) -> Floats:
    """Over documents, by the rule's procedure; those that are not here count with p = 1."""
    return adjust(np.concatenate([log10_p, np.zeros(among - len(log10_p))]), rule.correction)[: len(log10_p)]


def _width(n_with: Ints, n_without: Ints, level: float, rule: DecisionSpec) -> Floats:
    """Half-width of each band, of the shape of the arms; infinite where an arm is empty."""
    if rule.stopping == "anytime":
        return anytime_band_width(n_with, n_without, level)
    return band_width(n_with.ravel(), n_without.ravel(), level).reshape(n_with.shape)


def detectable_distance(
    n_with: Ints, n_without: Ints, documents: int, statistics: int, rule: DecisionSpec, level: float | None = None
) -> Floats:
    """The measured D at which a document is surely detected, whatever the others do.

    From the asymptotic law 2 exp(-2 N D^2) with N = n m / (n + m), or the band that holds at any moment; 1 where
    the arms cannot reach it.
    """
    strictest = strictest_distance_log10_p(level or rule.level, documents, statistics, rule.correction, rule.joint)
    if rule.stopping == "anytime":
        return np.minimum(anytime_band_width(n_with, n_without, 10**strictest), 1.0)
    log_p = math.log(10) * strictest
    effective = n_with * n_without / np.maximum(n_with + n_without, 1)
    return np.asarray(np.minimum(np.sqrt((math.log(2) - log_p) / (2 * np.maximum(effective, 1e-9))), 1.0))


def sensitive_distance(
    n_with: Ints, n_without: Ints, documents: int, statistics: int, rule: DecisionSpec, level: float | None = None
) -> Floats:
    """The measured D at which a document is surely called sensitive, whatever the others do; above 1: no D is."""
    levels = (level or rule.level,) * 2
    return np.asarray(rule.margin + _needed_gaps(n_with, n_without, levels, rule, documents, statistics)[0])


def _runs_to_decide(
    distance: Floats,
    n_with: Ints,
    n_without: Ints,
    levels: tuple[float, float],
    rule: DecisionSpec,
    documents: int,
    statistics: int,
) -> Floats:
    """What must be added to D, or taken off it, shrinks like 1 / sqrt(runs), so the present ones say how many.

    The measured D holds noise: E[D^2] = (pi^2 / 12) / N where there is no leak, N = n m / (n + m). It is taken
    off for the true D. The measurement to come is granted the noise that the largest of all statistics stays
    below with probability one half, ln(4 S) = 2 N x^2, where it must stay below the margin, and none where it must
    be above. The document is taken to be the next that is decided, at the levels given.
    """
    runs = (n_with + n_without).astype(np.float64)
    effective = n_with * n_without / np.maximum(runs, 1)
    effective = np.maximum(effective, 1e-9)
    true = np.sqrt(np.maximum(distance**2 - math.pi**2 / 12 / effective, 0))
    noise = np.sqrt(math.log(4 * statistics) / (2 * effective))
    over, under = _needed_gaps(n_with, n_without, levels, rule, documents, statistics)
    room = rule.margin - true
    with np.errstate(divide="ignore", invalid="ignore"):
        clear = np.where(room > 0, runs * ((under + noise) / room) ** 2, np.inf)
        found = np.where(room < 0, runs * (over / room) ** 2, np.inf)
    needed = np.fmin(clear, found)
    return np.where(np.isfinite(needed), np.ceil(np.maximum(needed, runs + 1)), np.inf)


def _needed_gaps(
    n_with: Ints, n_without: Ints, levels: tuple[float, float], rule: DecisionSpec, documents: int, statistics: int
) -> tuple[Floats, Floats]:
    """How far above the margin, and how far below it, a lone document must be measured with these arms."""
    if rule.margin == 0:
        found = detectable_distance(n_with, n_without, documents, statistics, rule, levels[0])
        return found, np.full(np.shape(n_with), np.inf)
    high = min(strictest_log10_p(levels[0], documents, statistics, rule.correction), -0.31)
    low = min(strictest_log10_p(levels[1], documents, 1, rule.correction), -0.31)
    if rule.stopping == "anytime":
        return anytime_band_width(n_with, n_without, 10**high), anytime_band_width(n_with, n_without, 10**low)
    return _least_over(n_with, n_without, high), clearing_gap(n_with, n_without, 10**low)


def clearing_gap(n_with: Ints, n_without: Ints, level: float) -> Floats:
    """How far below the margin the measured D must be for a p of `level`; infinite where an arm is empty.

    The normal quantile of the largest spread, and an eighth of that spread for what the exact bound rounds.
    """
    return np.asarray((0.125 - float(ndtri(level))) * spread(n_with, n_without))


def _least_over(n_with: Ints, n_without: Ints, wanted: float) -> Floats:
    """The t with `sum_of_suprema_log10_p` at the wanted log10 p, for a forecast, by four steps.

    Its logarithm is -2 N t^2 and a part that hardly moves with t.
    """
    effective = 1 / (8 * spread(n_with, n_without) ** 2)  # N / 2, 0 where an arm is empty
    depth, scale = -wanted * math.log(10), 4 * np.maximum(effective, 1e-12)
    t = np.sqrt((depth + 2) / scale)
    for _ in range(4):
        slow = sum_of_suprema_log10_p(t, n_with, n_without) * math.log(10) + scale * t**2
        t = np.sqrt((depth + slow) / scale)
    return np.where(effective > 0, t, np.inf)
