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

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.low_fpr import runs_for_low_fpr
from ksdp.audit.verdicts.margins import distance_band, log10_above, log10_below
from ksdp.audit.verdicts.multiplicity import CLEARING, adjust, bonferroni, strictest_log10_p
from ksdp.audit.verdicts.power import largest_distance, likely_distance, runs_to_decide
from ksdp.audit.verdicts.verdict import Proof as Proof
from ksdp.audit.verdicts.verdict import Verdict as Verdict


@dataclass(frozen=True, eq=False)
class Decisions:
    """One entry a document, and the bands of each statistic."""

    verdict: NDArray[np.str_]
    proof: NDArray[np.str_]
    """The kind of proof of "clear" (`Proof`); empty if the verdict is another."""
    log10_p: Floats
    """Over statistics (Bonferroni), shape (n_documents,)."""
    log10_adjusted: Floats
    """Over statistics, then over documents, shape (n_documents,)."""
    detected: NDArray[np.bool_]
    """Whether any leak is proved, shape (n_documents,)."""
    log10_above: Floats
    """log10 p of "at most the margin" of each statistic, shape (n_documents, n_statistics)."""
    log10_below: Floats
    """log10 p of "at least the margin" of each statistic."""
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
    """Decide every document."""
    level, among = level or rule.level, among or len(tested)
    clear_level = level * rule.for_clear / rule.level
    statistics = tested.distance.shape[1]
    over_statistics = bonferroni(tested.log10_p)
    above, below = log10_above(tested, rule), log10_below(tested, rule)
    adjusted = adjusted_among(over_statistics, rule, among)
    detected = adjusted <= math.log10(level)
    if rule.margin == 0:
        p_above, adjusted_above = over_statistics, adjusted
    else:
        p_above = bonferroni(above)
        share = math.log10(2) if fresh else 0.0
        adjusted_above = np.minimum(adjusted_among(p_above, rule, among) + share, 0.0)
    sensitive = adjusted_above <= math.log10(level)
    p_below = below.max(axis=1)
    adjusted_below = adjusted_among(np.where(sensitive, 0.0, p_below), rule, among, CLEARING)
    clear = (adjusted_below <= math.log10(clear_level)) & ~sensitive & (rule.margin > 0)
    verdict = np.where(sensitive, Verdict.SENSITIVE, np.where(clear, Verdict.CLEAR, Verdict.UNDECIDED))
    rank, next_ = 1 + int(sensitive.sum()), 1 + int(clear.sum())
    wanted = (
        strictest_log10_p(level, among, statistics, rule.error, rank=rank),
        strictest_log10_p(clear_level, among, 1, rule.error, rank=next_, uniform=CLEARING),
    )
    needed = runs_to_decide(*largest_distance(tested), wanted, rule, statistics)
    if rule.margin_at_low_fpr is not None:
        needed = runs_for_low_fpr(tested, needed, likely_distance(tested) <= rule.margin, wanted[1])
    each = clear_level / (among * statistics)
    low, high = distance_band(np.nan_to_num(tested.distance), tested.n_with, tested.n_without, each)
    return Decisions(
        verdict=verdict.astype(np.str_),
        proof=np.where(clear, Proof.STATISTICS, "").astype(np.str_),
        log10_p=over_statistics,
        log10_adjusted=adjusted,
        detected=detected,
        log10_above=above,
        log10_below=below,
        log10_p_above=p_above,
        log10_adjusted_above=adjusted_above,
        log10_p_below=p_below,
        log10_adjusted_below=adjusted_below,
        strongest=_strongest(tested),
        band_low=low,
        band_high=high,
        runs_to_decide=np.where(verdict == Verdict.UNDECIDED, needed, np.nan),
    )


def flagged_by(
    tested: ArmTests, rule: DecisionSpec, level: float, among: int, *, above: bool = False
) -> NDArray[np.bool_]:
    """Return the documents of which these columns alone would have detected a leak, or one above the margin."""
    p = log10_above(tested, rule) if above else tested.log10_p
    return np.asarray(adjusted_among(bonferroni(p), rule, among) <= math.log10(level))


def adjusted_among(log10_p: Floats, rule: DecisionSpec, among: int, uniform: float = 0.0) -> Floats:
    """Adjust over all documents of the audit; absent ones count with p = 1."""
    return adjust(np.concatenate([log10_p, np.zeros(among - len(log10_p))]), rule.error, uniform)[: len(log10_p)]


def _strongest(tested: ArmTests) -> Ints:
    """Column of the smallest p; the largest D among equals, the first column among those."""
    measured = np.nan_to_num(tested.distance, nan=0.0)
    columns = np.broadcast_to(np.arange(measured.shape[1]), measured.shape)
    return np.lexsort((columns, -measured, tested.log10_p), axis=1)[:, 0].astype(np.int64)
