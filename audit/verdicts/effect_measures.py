"""What fresh runs say of one detected leak."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Flagged:
    """A document whose effect is wanted, under the column that was strongest for it."""

    row: int
    """Of the corpus."""
    column: str


@dataclass(frozen=True)
class EffectMeasures:
    """What fresh runs say of a leak."""

    n_with: int
    """Fresh runs that held it."""
    n_without: int
    """Fresh runs without it."""
    advantage: float
    """TPR - FPR of the attack that the audit's own runs chose: unbiased."""
    advantage_low: float
    """Clopper-Pearson bounds of both rates together."""
    advantage_high: float
    distance: float
    """D of the fresh runs: at the threshold that is best there, so a little too large."""
    band_low: float
    """Of the true D."""
    band_high: float
    log10_p: float
    """Of the fresh runs alone, uncorrected."""
    log10_p_above: float
    """Of "this attack's advantage is at most the margin", exact, uncorrected."""
    epsilon_low: float
    """The document's arms are not (epsilon, 0)-indistinguishable for any smaller epsilon."""
    tpr_at_fpr_01: float | None
    """True positive rate of an attack whose true false positive rate is surely at most 1 %; None where so few runs
    cannot tell."""
    tpr_at_fpr_01_low: float | None
    """At least this, and that the rate is at most 1 %: both together with probability 1 - level."""
    tpr_at_fpr_001: float | None
    """At 0.1 %."""
    tpr_at_fpr_001_low: float | None
    """At least this."""


@dataclass(frozen=True)
class Effect(EffectMeasures, Flagged):
    """One flagged document under the statistic that was strongest for it, on fresh runs."""
