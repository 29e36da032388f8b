"""A risk appetite: what an organisation accepts, and every criterion of it that an audit is held to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ksdp.audit.errors import SpecError
from ksdp.audit.results.summary import Summary
from ksdp.audit.reviewing import plural, visible
from ksdp.audit.specs.models import Section, Spec
from ksdp.audit.verdicts.verdict import Verdict

_Share = Annotated[float, Field(ge=0, le=1)]


class Appetite(Section, frozen=True):
    """Limits that an organisation accepts."""

    margin: Annotated[float, Field(gt=0, le=1)]
    """The largest `decision.margin`."""
    level: Annotated[float, Field(gt=0, lt=1)]
    """The largest level of "clear", a certificate's included."""
    proof: Literal["statistics", "every attack"] = "statistics"
    """Whether clear must hold against the statistics tried or against every attack."""
    most_sensitive: _Share = 0.0
    """Share of documents that may enter a run and are sensitive."""
    most_undecided: _Share = 0.0
    """Share of documents that may enter a run and are undecided."""


@dataclass(frozen=True)
class Criterion:
    """One thing that is asked of an audit."""

    name: str
    asked: str
    found: str
    met: bool
    remedy: str
    """Where it is not met."""

    def sentence(self) -> str:
        """For people."""
        words = f"{self.name}: asked {self.asked}, found {self.found}" + ("" if self.met else f" ({self.remedy})")
        return visible(words)


@dataclass(frozen=True, eq=False)
class AuditedDocuments:
    """The documents (or groups) of an audit, one entry each."""

    verdict: NDArray[np.str_]
    """A word of `Verdict`; `accepted`; `out`: it may not enter a run."""
    certified: NDArray[np.bool_]
    """Whether it is clear against every attack."""


@dataclass(frozen=True)
class AppetiteRecord:
    """Every criterion of an audit, met or not."""

    appetite: Appetite
    audit: str
    """Its id."""
    criteria: tuple[Criterion, ...]

    @property
    def missed(self) -> tuple[Criterion, ...]:
        """Criteria that are not met."""
        return tuple(criterion for criterion in self.criteria if not criterion.met)

    @property
    def met(self) -> bool:
        """Whether every criterion is."""
        return not self.missed

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "met": self.met,
            "audit": self.audit,
            "appetite": self.appetite.model_dump(mode="json"),
            "criteria": [asdict(criterion) for criterion in self.criteria],
        }


def check_spec(appetite: Appetite, spec: Spec) -> None:
    """Refuse a spec of which no result would be enough, by a `SpecError` that names every key in the way."""
    if missed := [criterion.sentence() for criterion in _of_spec(appetite, spec) if not criterion.met]:
        raise SpecError("no audit by this spec meets the appetite.\n  " + "\n  ".join(missed))


def _of_spec(appetite: Appetite, spec: Spec) -> Iterator[Criterion]:
    limits = {"margin": (appetite.margin, spec.decision.margin), "level": (appetite.level, spec.level_of_clear)}
    for name, (most, value) in limits.items():
        met, remedy = value <= most * (1 + 1e-9), f"set `decision.{name} = {most:g}`, or less"
        yield Criterion(name, f"at most {most:g}", f"{value:g}", met, remedy)
    remedy = "leave `design.documents`, `design.pool`, `parties.honest` and `parties.coalition` out"
    yield Criterion("documents", "all", "all" if spec.audits_all else "some", spec.audits_all, remedy)


def appetite_record(appetite: Appetite, summary: Summary, documents: AuditedDocuments) -> AppetiteRecord:
    """Hold an audit to an appetite."""
    criteria = (*_of_audit(summary), *_of_spec(appetite, summary.spec), *_of_result(appetite, summary, documents))
    return AppetiteRecord(appetite, summary.audit, criteria)


def _of_audit(summary: Summary) -> Iterator[Criterion]:
    state = "valid" if summary.valid else f"void: {summary.controls.reason}"
    if summary.valid and not summary.spec.decides:
        state = "leaks were planted in it" if summary.spec.planted else "its statistics were explored"
    yield Criterion("controls", "valid", state, state == "valid", "no verdict of it may be used")
    read, unread = "all that is announced", ", ".join(summary.unread)
    yield Criterion("coverage", read, f"unread: {unread}" if unread else read, not unread, "have it read, too")


def _of_result(appetite: Appetite, summary: Summary, documents: AuditedDocuments) -> Iterator[Criterion]:
    for criterion in _of_documents(appetite, documents, summary.design.unit):
        yield (
            criterion
            if summary.valid
            else replace(criterion, found="not known", met=False, remedy="see `controls`")
        )


def _of_documents(appetite: Appetite, documents: AuditedDocuments, unit: str) -> Iterator[Criterion]:
    entering = documents.verdict != "out"
    total = int(entering.sum())
    accepted = appetite.model_dump()
    for verdict in (word for word in Verdict if not word.may_enter):
        most, count = accepted.get(f"most_{verdict}", 0.0), int((documents.verdict == verdict).sum())
        met = count <= most * total + 1e-9
        found_words = f"{count} of {plural(total, unit)}"
        yield Criterion(verdict.value, f"a share of at most {most:g}", found_words, met, verdict.remedy)
    if appetite.proof == "every attack":
        clear = documents.certified[documents.verdict == Verdict.CLEAR]
        remedy = "noise, a certificate or a secret draw proves it"
        yield Criterion("proof", "every attack", f"{clear.sum()} of {clear.size} clear", bool(clear.all()), remedy)
