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
    largest_proved: float | None
    """Advantage that fresh runs prove of one document by itself; this and the next two are None without them."""
    median: float | None
    """Median over documents with a detected leak, on fresh runs."""
    median_tpr_at_fpr_01: float | None
    """Median true positive rate at 1 % false alarms; None also if the runs cannot measure it."""


@dataclass(frozen=True, config=FORMAT)
class CombinedRisk:
    """How often "this one took part" is right, for an attacker with the declared prior; each None as above."""

    at_margin: float
    """At least this, where the advantage is just the margin."""
    largest: float | None
    """At least this, of one document."""
    median: float | None
    """At least this, of half of the documents with a detected leak."""
    median_at_fpr_01: float | None
    """Median over these documents, if the attacker allows 1 % false alarms."""
    exposed: float | None
    """People whose documents are sensitive, if all have equally many; None where `people` is not declared."""


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


def gaussian_mu(advantage: float) -> float | None:
    """The mu of a Gaussian mechanism with this advantage; None where it is infinite."""
    from statistics import NormalDist  # `ksdp list` does without

    return None if advantage >= 1 else 2 * NormalDist().inv_cdf((1 + max(advantage, 0.0)) / 2)


def least_precision(prior: float, advantage: float) -> float:
    """How often a claim is right at least, by a threshold whose rates differ by `advantage`."""
    return precision(prior, 1.0, 1.0 - advantage)


def precision(prior: float, tpr: float, fpr: float) -> float:
    """How often a claim is right, by Bayes' rule; the prior where no claim is made."""
    claimed = prior * tpr + (1 - prior) * fpr
    return prior * tpr / claimed if claimed else prior
