"""The result of an audit as one value: what `audit.json` holds, and what pages, commands and artifacts read.

How a result becomes the JSON that the store holds, and comes back: with a version, and no unknown key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import JsonValue, TypeAdapter
from pydantic.dataclasses import dataclass

from ksdp.audit.results.parts import (
    FORMAT,
    AbsenceSummary,
    AnnouncedArray,
    BoundSummary,
    ChanceSummary,
    CorpusSummary,
    DesignSummary,
    FreshSummary,
    GuaranteeSummary,
    LookSummary,
    PaperAlone,
    PowerSummary,
    Provenance,
    ShareSummary,
    StatisticSummary,
    VerdictCounts,
)
from ksdp.audit.results.risk import MeasuredRisk, Risk, combined_risk, gaussian_mu
from ksdp.audit.specs.models import Spec
from ksdp.audit.verdicts.control_outcome import Controls
from ksdp.audit.verdicts.verdict import ProvedBy

VERSION = 1
"""Version of the format; one more whenever a key comes, goes or changes its meaning."""

_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


class StoredSummary:
    """A result with a `version`, as a pydantic dataclass."""

    def to_json(self) -> dict[str, Any]:
        """As its file holds it."""
        table: dict[str, Any] = _adapter(type(self)).dump_python(self, mode="json", by_alias=True)
        return table

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Return the value that `to_json` wrote."""
        if record.get("version") != VERSION:
            wrote = f"version {record['version']!r}" if "version" in record else "no version"
            raise ValueError(f"its summary has {wrote}, and this ksdp reads version {VERSION}")
        read: Self = _adapter(cls).validate_python(record)
        return read


@dataclass(frozen=True, config=FORMAT)
class Summary(StoredSummary):
    """Results of an audit. Counts of documents are of groups if `design.unit` says so."""

    version: int
    audit: str
    corpus: str
    mechanism: str
    mechanism_version: int
    parameters: Mapping[str, JsonValue]
    """All of the mechanism's, defaults included."""
    guarantee: GuaranteeSummary
    documents: int
    runs: int
    valid: bool
    """False if the audit is void: no verdict may be used, and `controls.reason` says why."""
    verdicts: VerdictCounts
    """Numbers of documents that are `sensitive`, `clear` and `undecided`."""
    detected: int
    """Documents of which a leak is proved, however small."""
    statistics: Mapping[str, StatisticSummary]
    """By name, in the order of the tables' columns."""
    skipped_statistics: Mapping[str, str]
    """Statistics that the releases do not allow, and what these lack."""
    opens: str
    """What parties see: `every round`, or the `final` output."""
    announced: tuple[AnnouncedArray, ...]
    coverage: Mapping[str, tuple[str, ...]]
    """Every announced array that is looked at, to the statistics that read it."""
    unread: tuple[str, ...]
    """Reasons why no document can be clear, such as arrays that no tested statistic reads."""
    paper_alone: PaperAlone | None
    """Findings under the statistics of the paper alone; None where none of these was tried."""
    controls: Controls
    power: PowerSummary
    chance: ChanceSummary
    """D that chance alone gives: half of the documents stay below `median_D`, 19 in 20 below `most_D`."""
    looks: tuple[LookSummary, ...]
    fresh: FreshSummary | None
    """Findings of the fresh runs together; None where nothing was measured on them."""
    knows_all: float | None
    """Advantage of whoever knows all other documents: 1 without noise; None if documents differ in it."""
    corpus_about: CorpusSummary
    design: DesignSummary
    spec: Spec
    cached_runs: int
    """Number of `runs` that the store held already."""
    sampled_runs: int
    fresh_sampled_runs: int
    damaged_blocks: tuple[str, ...]
    """Blocks that were found damaged and computed again, in words."""
    seconds: float
    seconds_by_stage: Mapping[str, float]
    provenance: Provenance
    store: str
    report: str
    share: ShareSummary | None = None
    """Share of all documents, if `design.documents` draws some; None if it does not, or the audit is void."""
    bounds: tuple[BoundSummary, ...] = ()
    """Bounds on every attack, by what proves them."""
    absence: AbsenceSummary | None = None
    """Documents that are sensitive before any run, and were not measured; None if there are none."""

    def bound(self, by: ProvedBy) -> BoundSummary | None:
        """The bound that a draw, noise, copies or pairs prove; None where they prove none."""
        return next((bound for bound in self.bounds if bound.by == by), None)

    @property
    def all_proved(self) -> bool:
        """Whether every document is clear against every attack."""
        return self.verdicts.every_attack == self.documents

    @property
    def row(self) -> dict[str, Any]:
        """Its line in a table of audits."""
        counts = {"detected": self.detected, "documents": self.documents, "largest_D": self.largest_distance}
        return self.verdicts.as_dict() | counts | {"runs": self.runs, "seconds": self.seconds, "valid": self.valid}

    @property
    def largest_distance(self) -> float:
        """The largest D of any document under any statistic."""
        proved = 0.0 if self.absence is None else self.absence.largest_bound
        return max(proved, *(statistic.max_D for statistic in self.statistics.values()))

    @property
    def risk(self) -> Risk:
        """The measured risk, the declarations of people, and the conclusions from both."""
        return _risk_of(self)


def _risk_of(summary: Summary) -> Risk:
    declared, fresh, margin = summary.spec.declared, summary.fresh, summary.spec.decision_in_run.margin
    measured = MeasuredRisk(
        largest=summary.largest_distance,
        largest_mu=gaussian_mu(summary.largest_distance),
        margin=margin,
        margin_mu=gaussian_mu(margin),
        proved=None if fresh is None else fresh.advantage_low,
        median=None if fresh is None else fresh.median_advantage,
        median_tpr_at_fpr_01=None if fresh is None else fresh.median_tpr_at_fpr_01,
    )
    shares = (summary.verdicts.sensitive / summary.documents, summary.verdicts.undecided / summary.documents)
    return Risk(measured, declared, combined_risk(measured, declared, *shares) if summary.valid else None)
