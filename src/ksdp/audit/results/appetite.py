"""A risk appetite, and the record of every criterion that audits of one run are held to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ksdp.audit.continuing import level_of_clear
from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.results.summary import Summary
from ksdp.audit.results.views_summary import ViewsSummary
from ksdp.audit.reviewing import plural, same_person, visible
from ksdp.audit.specs.models import LOW_FPR, Section, Spec
from ksdp.audit.verdicts.verdict import Verdict

_Share = Annotated[float, Field(ge=0, le=1)]
_Margin = Annotated[float, Field(gt=0, le=1)]
CLASSES = {"parties": "party", "groups": "group"}
"""Keys that name some, and the column of the corpus that does."""


class ClassAppetite(Section, frozen=True):
    """Of one party's documents, or one group's, whatever their verdicts."""

    margin: _Margin
    """The largest upper bound of their advantages; all bounds of an audit hold together."""
    most_above: _Share = 0.0
    """Share of them that may be above."""


class Appetite(Section, frozen=True):
    """What an organisation accepts."""

    margin: _Margin
    """The largest `decision.margin`."""
    level: Annotated[float, Field(gt=0, lt=1)]
    """The largest level of "clear", a certificate's included."""
    margin_at_low_fpr: Annotated[float, Field(gt=LOW_FPR, lt=1)] | None = None
    """The largest `decision.margin_at_low_fpr`."""
    proof: Literal["statistics", "every attack"] = "statistics"
    """What clear and bounds must hold against."""
    most_sensitive: _Share = 0.0
    """Share of documents that may enter a run and are sensitive."""
    most_undecided: _Share = 0.0
    """The same, undecided."""
    opens: tuple[Literal["every round", "final"], ...] = ()
    """What audits or views must have looked at; none: whatever one did."""
    may_override: tuple[str, ...] = ()
    """People who may accept a document's risk."""
    parties: dict[str, ClassAppetite] = Field(default_factory=dict)
    """By name."""
    groups: dict[str, ClassAppetite] = Field(default_factory=dict)
    """By name."""

    @property
    def hash(self) -> str:
        """`sha256:` over all keys, defaults included."""
        return _hash(self.model_dump(mode="json"))

    def allows(self, people: Sequence[str]) -> bool:
        """Whether one of those who accepted a document may."""
        return any(same_person(one, who) for one in people for who in self.may_override)


def _hash(told: Mapping[str, Any]) -> str:
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Criterion:
    """One thing that is asked of an audit."""

    name: str
    asked: str
    found: str
    met: bool
    remedy: str
    """Where it is not met."""
    audit: str = ""
    """Its id; empty: of all together."""

    def sentence(self) -> str:
        """For people."""
        said = f"{self.name}: asked {self.asked}, found {self.found}" + ("" if self.met else f" ({self.remedy})")
        return visible(said)


@dataclass(frozen=True, eq=False)
class AuditedDocuments:
    """The documents (or groups) of an audit, one entry each."""

    verdict: NDArray[np.str_]
    """A word of `Verdict`; `accepted` by who may; `out`: it may not enter a run."""
    certified: NDArray[np.bool_]
    """Whether it is clear against every attack."""
    bound: NDArray[np.float64]
    """Of its advantage, for the proof that is asked for."""
    labels: Mapping[str, NDArray[np.str_]]
    """Its party and its group, where they are known."""
    not_allowed: int
    """Documents that somebody accepted who may not."""


@dataclass(frozen=True)
class AppetiteRecord:
    """Every criterion, met or not, of audits of one run."""

    appetite: Appetite
    audits: tuple[Mapping[str, Any], ...]
    """Of each its id, hashes and versions."""
    criteria: tuple[Criterion, ...]

    @property
    def missed(self) -> tuple[Criterion, ...]:
        """Those that are not met."""
        return tuple(one for one in self.criteria if not one.met)

    @property
    def met(self) -> bool:
        """Whether every criterion is."""
        return not self.missed

    @cached_property
    def hash(self) -> str:
        """`sha256:` over all that `to_json` gives besides."""
        return _hash(self._told())

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return self._told() | {"hash": self.hash}

    def _told(self) -> dict[str, Any]:
        told = {"version": 1, "met": self.met, "appetite": self.appetite.model_dump(mode="json")}
        told |= {"appetite_hash": self.appetite.hash, "audits": [dict(one) for one in self.audits]}
        return told | {"criteria": [asdict(one) for one in self.criteria]}


def check_spec(appetite: Appetite, spec: Spec) -> None:
    """Refuse a spec of which no result would be enough, by a `SpecError` that names every key in the way."""
    if missed := [one.sentence() for one in _of_spec(appetite, spec) if not one.met]:
        raise SpecError("no audit by this spec meets the appetite.\n  " + "\n  ".join(missed))


def _of_spec(appetite: Appetite, spec: Spec) -> Iterator[Criterion]:
    """What is known of an audit before it is made."""
    rule, level, drawn = spec.decision, level_of_clear(spec), spec.design.documents is not None
    limits = {"margin": (appetite.margin, rule.margin), "level": (appetite.level, level)}
    if (low := appetite.margin_at_low_fpr) is not None:
        limits["margin_at_low_fpr"] = (low, rule.margin_at_low_fpr or 1.0)
    for name, (most, value) in limits.items():
        met, remedy = value <= most * (1 + 1e-9), f"set `decision.{name} = {most:g}`, or less"
        yield Criterion(name, f"at most {most:g}", f"{value:g}", met, remedy)
    audited = "some" if drawn else "all"
    yield Criterion("documents", "all", audited, not drawn, "leave `design.documents` out")
    for kind, column in CLASSES.items():
        if getattr(appetite, kind):
            known = getattr(spec.corpus, column) and (kind == "groups" or spec.design.unit == "document")
            found, remedy = "known" if known else "not known", f"set `corpus.{column}`, and audit documents"
            yield Criterion(kind, f"the {column} of each document", found, bool(known), remedy)


_RUN = ("corpus", "mechanism", "parameters")
"""What two audits of one run share."""
Audited = tuple[Summary | ViewsSummary, Sequence[Summary], AuditedDocuments]
"""An audit, its views (itself where it has one), and its documents."""


def appetite_record(appetite: Appetite, audits: Sequence[Audited]) -> AppetiteRecord:
    """Hold audits of one run to an appetite; `InputError` if one is of another corpus, mechanism or parameter."""
    audits = sorted(audits, key=lambda one: one[0].audit)  # whichever was named first, it is one record
    about = [_about(whole, views) for whole, views, _ in audits]
    for one in about[1:]:
        if other := [key for key in _RUN if one[key] != about[0][key]]:
            two = f"{about[0]['audit']} and {one['audit']}"
            raise InputError(f"audits {two} are of two runs (another {other[0]}): name audits of one.")
    criteria = [
        replace(one, audit=whole.audit)
        for whole, _, documents in audits
        for one in (*_of_audit(whole), *_of_spec(appetite, whole.spec), *_of_result(appetite, whole, documents))
    ]
    if appetite.opens:
        seen = sorted({opened for one in about for opened in one["opens"]})
        met, remedy = set(seen) >= set(appetite.opens), "audit the other, too (`statistics.sees`)"
        criteria.append(Criterion("opens", ", ".join(appetite.opens), ", ".join(seen), met, remedy))
    return AppetiteRecord(appetite, tuple(about), tuple(criteria))


def _about(whole: Summary | ViewsSummary, views: Sequence[Summary]) -> dict[str, Any]:
    return {
        "audit": whole.audit,
        "opens": sorted({view.opens for view in views}),
        "spec": whole.provenance.spec,
        "corpus": whole.corpus,
        "mechanism": f"{whole.mechanism} {views[0].mechanism_version}",
        "parameters": dict(views[0].parameters),
        "finished": whole.provenance.finished,
        "versions": dict(whole.provenance.versions),
    }


def _of_audit(whole: Summary | ViewsSummary) -> Iterator[Criterion]:
    found = "valid" if whole.valid else f"void: {whole.controls.reason}"
    if whole.valid and not whole.spec.decides:
        found = "leaks were planted in it" if whole.spec.planted else "its statistics were explored"
    yield Criterion("controls", "valid", found, found == "valid", "no verdict of it may be used")
    read, unread = "all that is announced", ", ".join(whole.unread)
    yield Criterion("coverage", read, f"unread: {unread}" if unread else read, not unread, "have it read, too")


def _of_result(appetite: Appetite, whole: Summary | ViewsSummary, found: AuditedDocuments) -> Iterator[Criterion]:
    """What verdicts and bounds say; nothing is met where the audit is void."""
    for one in _of_documents(appetite, found, whole.design.unit):
        yield one if whole.valid else replace(one, found="not known", met=False, remedy="see `controls`")


_NOBODY = "nobody without limits of their own"


def _of_documents(appetite: Appetite, found: AuditedDocuments, unit: str) -> Iterator[Criterion]:
    entering = found.verdict != "out"
    others = entering.copy()
    for kind, labels in found.labels.items():
        others &= ~np.isin(labels, list(getattr(appetite, kind)))
    total = int(others.sum())
    accepted = appetite.model_dump()
    for verdict in (word for word in Verdict if not word.may_enter):
        most, count = accepted.get(f"most_{verdict}", 0.0), int((found.verdict[others] == verdict).sum())
        met = count <= most * total + 1e-9
        found_words = f"{count} of {plural(total, unit)}" if total else _NOBODY
        yield Criterion(verdict.value, f"a share of at most {most:g}", found_words, met, verdict.remedy)
    if appetite.proof == "every attack":
        clear = found.certified[others & (found.verdict == Verdict.CLEAR)]
        said, remedy = (
            f"{clear.sum()} of {clear.size} clear" if total else _NOBODY,
            "noise, a certificate or a secret draw proves it",
        )
        yield Criterion("proof", "every attack", said, bool(clear.all()), remedy)
    for kind, column in CLASSES.items():
        for name, own in sorted(getattr(appetite, kind).items()):
            mine = found.labels[kind] == name if kind in found.labels else np.zeros(len(entering), np.bool_)
            above = entering & mine & (found.verdict != "accepted") & (found.bound > own.margin)
            met = bool(mine.any()) and int(above.sum()) <= own.most_above * int((entering & mine).sum()) + 1e-9
            yield Criterion(
                f"{column} {name}",
                f"bounds of at most {own.margin:g}, but for a share of {own.most_above:g}",
                f"{above.sum()} of {plural(int((entering & mine).sum()), unit)} above",
                met,
                "more runs narrow bounds: `design.with_runs`" if mine.any() else "name one that the corpus has",
            )
    who, others_did = ", ".join(appetite.may_override) or "nobody", plural(found.not_allowed, unit)
    remedy = "withdraw it, or let who may decide: `ksdp decide`"
    yield Criterion("accepted", f"by {who} alone", f"{others_did} by others", not found.not_allowed, remedy)
