"""Risk in three layers, never one number: what was measured, what people declared, what follows from both."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from ksdp.audit.results.parts import FORMAT
from ksdp.audit.specs.models import DeclaredSpec


@dataclass(frozen=True, config=FORMAT)
class MeasuredRisk:
    """Measurements of the audit. A mu is that of Gaussian noise with the same advantage; None if infinite."""

    largest: float
    """D of the most exposed document; too large on average, as it is the largest of many."""
    largest_mu: float | None
    margin: float
    margin_mu: float | None
    proved: float | None
    """Advantage that fresh runs prove of the document that the first runs showed most; None without fresh runs."""
    median: float | None
    """Median over documents with a detected leak, on fresh runs; None without them."""
    median_tpr_at_fpr_01: float | None
    """Median true positive rate at 1 % false alarms; None also if the runs cannot measure it."""


@dataclass(frozen=True, config=FORMAT)
class CombinedRisk:
    """How often an attacker with the declared prior is right; each None as above."""

    at_margin: float
    """At most this of the guesses whether a document took part, where the advantage is within the margin."""
    at_margin_fpr_01: float
    """At most this of the accusations there, if false alarms are 1 % or more; with fewer, nothing bounds it."""
    proved: float | None
    """At least this of the accusations of the document that `proved` is about; no limit, like the next."""
    median: float | None
    """At least this, of half of the documents with a detected leak."""
    median_at_fpr_01: float | None
    """Median over these documents, if the attacker allows 1 % false alarms."""
    exposed: float | None
    """People whose documents are sensitive, if all have equally many; None where `people` is not declared."""
    undecided: float | None
    """People whose documents are undecided, likewise."""


@dataclass(frozen=True, config=FORMAT)
class Risk:
    """The three layers."""

    measured: MeasuredRisk
    declared: DeclaredSpec
    combined: CombinedRisk | None
    """None where no prior is declared, or the audit is void."""

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        table: dict[str, Any] = TypeAdapter(Risk).dump_python(self, mode="json")
        return table


def combined_risk(
    measured: MeasuredRisk, declared: DeclaredSpec, sensitive: float, undecided: float
) -> CombinedRisk | None:
    """What follows for these shares of all documents; None where no prior is declared."""
    if (prior := declared.prior) is None:
        return None
    proved, median, rate = measured.proved, measured.median, measured.median_tpr_at_fpr_01
    return CombinedRisk(
        at_margin=most_right(prior, measured.margin),
        at_margin_fpr_01=precision(prior, min(measured.margin + 0.01, 1.0), 0.01),
        proved=None if proved is None else least_precision(prior, max(proved, 0.0)),
        median=None if median is None else least_precision(prior, max(median, 0.0)),
        median_at_fpr_01=None if rate is None else precision(prior, rate, 0.01),
        exposed=None if declared.people is None else declared.people * sensitive,
        undecided=None if declared.people is None else declared.people * undecided,
    )


def gaussian_mu(advantage: float) -> float | None:
    """The mu of a Gaussian mechanism with this advantage; None where it is infinite."""
    from statistics import NormalDist  # `ksdp list` does without

    return None if advantage >= 1 else 2 * NormalDist().inv_cdf((1 + max(advantage, 0.0)) / 2)


def most_right(prior: float, advantage: float) -> float:
    """How often a guess, yes or no, is right at most, by an attack with this advantage."""
    return max(prior, 1 - prior) + advantage * min(prior, 1 - prior)


def least_precision(prior: float, advantage: float) -> float:
    """How often a claim is right at least, by a threshold whose rates differ by `advantage`."""
    return precision(prior, 1.0, 1.0 - advantage)


def precision(prior: float, tpr: float, fpr: float) -> float:
    """How often a claim is right, by Bayes' rule; the prior where no claim is made."""
    claimed = prior * tpr + (1 - prior) * fpr
    return prior * tpr / claimed if claimed else prior
