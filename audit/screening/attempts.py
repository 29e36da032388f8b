"""Attempts: how often a question was asked of a corpus, whatever was changed from one time to the next.

Whoever may choose the seed, the margin or the statistics after looking can ask until a document passes. So every
audit and every screen is counted against its *question*: this corpus, this mechanism, these parties. A new margin,
statistic, seed, number of looks or of fresh runs makes a new attempt, and so does a screen of a spec that was
audited, or one under other rules; the same again does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ksdp.audit.content_keys import content_key, whole_numbers
from ksdp.audit.corpus import Corpus
from ksdp.audit.design import as_rows
from ksdp.audit.groups import unit_count
from ksdp.audit.level_part import level_of_clear
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.registry import mechanism_of
from ksdp.audit.spec import Spec


@dataclass(frozen=True, slots=True)
class Attempt:
    """One audit of an attempt; the audits of a screen or of several views are one attempt together."""

    question: str
    """Key of corpus, mechanism and parties."""
    attempt: str
    """Hash of the spec as it was given: an audit's, or the one that the views started from. A screen's id."""
    audit: str
    """Id of the audit."""
    at: str
    """When it was first started, ISO 8601 with a time zone."""
    seed: int
    margin: float
    level: float
    """Of "clear", that of its certificate included."""
    statistics: str
    """Key of families, names and what is seen."""
    runs: int
    """Runs that are planned."""
    looks: int
    fresh_runs: int
    whole: float = 0.0
    """The level of all audits that the attempt may take: a screen that ended early could have gone on."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """What a clearance states of them."""

    attempts: int
    audits: int
    seeds: int
    margins: tuple[float, ...]
    """Ascending, each once."""
    statistics: int
    """Different choices of statistics."""
    looks: int
    """Planned in all audits together."""
    level: float
    """Of "clear", certificates included, summed over the attempts, at most 1: what all together control, by the
    union bound."""

    def sentence(self) -> str:
        """For statements and pages."""
        if self.attempts <= 1:
            return "This question was asked once of this corpus, this mechanism and these parties."
        margins = ", ".join(f"{margin:g}" for margin in self.margins)
        return (
            f"This question was asked {self.attempts} times of this corpus, this mechanism and these parties: "
            f"{self.audits} audits, {self.seeds} seeds, {self.statistics} choices of statistics, margins "
            f"{margins}. "
            f"What they call clear holds the level {self.level:g}, all together."
        )


def question_of(spec: Spec, corpus: str, units: int) -> str:
    """Key of what is asked: spelling a default out, 1 as 1.0, or a part of the corpus in rows, asks nothing new.

    The version of the mechanism is left out on purpose: what was proved of an earlier one is not forgotten.

    Parameters
    ----------
    spec : Spec
        Its mechanism with all parameters, and its parties.
    corpus : str
        Hash of the whole corpus, before a screen left anything out.
    units : int
        Documents (or groups) of it.
    """
    mechanism = mechanism_of(spec.mechanism)
    asked = {"name": mechanism.name, "parameters": parameters_of(mechanism)}
    parties = spec.parties.model_dump(mode="json")
    for name in ("honest", "coalition"):
        parties[name] = None if parties[name] is None else as_rows(parties[name], units)
    return content_key({"corpus": corpus, "mechanism": whole_numbers(asked), "parties": parties})


def asked_of(spec: Spec, corpus: Corpus) -> str:
    """`question_of` what a spec asks of a whole corpus."""
    return question_of(spec, corpus.hash, unit_count(corpus, spec.design.unit))


def attempt_of(
    spec: Spec, audit: str, at: str, runs: int, looks: int, *, question: str, given: Spec, name: str | None = None
) -> Attempt:
    """An audit as the ledger keeps it.

    Parameters
    ----------
    spec : Spec
        Of the audit itself.
    audit : str
        Its id.
    at : str
        When it starts, ISO 8601.
    runs, looks : int
        Planned; runs of all lanes.
    question : str
        `question_of` it.
    given : Spec
        What a person gave: of an audit by itself, the same spec.
    name : str, optional
        Of the attempt; the hash of what was given by default.
    """
    design = spec.design
    return Attempt(
        question=question,
        attempt=name or given.hash,
        audit=audit,
        at=at,
        seed=spec.seed,
        margin=spec.rule.margin,
        level=level_of_clear(spec),
        statistics=content_key(spec.statistics.model_dump(mode="json")),
        runs=runs,
        looks=looks,
        fresh_runs=design.fresh_with_runs,
        whole=level_of_clear(given),
    )


def count_attempts(attempts: Sequence[Attempt]) -> Attempts:
    """Count what was tried for one question; an attempt has its whole level, or the sum of its audits'."""
    whole: dict[str, float] = {}
    parts: dict[str, dict[str, float]] = {}
    for one in attempts:
        whole[one.attempt] = max(whole.get(one.attempt, 0.0), one.whole)
        parts.setdefault(one.attempt, {})[one.audit] = one.level
    levels = {name: max(whole[name], sum(parts[name].values())) for name in whole}
    return Attempts(
        attempts=len(levels),
        audits=len({one.audit for one in attempts}),
        seeds=len({one.seed for one in attempts}),
        margins=tuple(sorted({one.margin for one in attempts})),
        statistics=len({one.statistics for one in attempts}),
        looks=sum(one.looks for one in attempts),
        level=min(sum(levels.values()), 1.0),
    )
