"""The result of a screen as one value: what `screens/<id>.json` holds, and what pages and commands read."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic.dataclasses import dataclass

from ksdp.audit.learning.quality import LearningCost, NotLearnt
from ksdp.audit.results.parts import FORMAT, VerdictCounts
from ksdp.audit.results.stored_summary import StoredSummary
from ksdp.audit.screening.search_sample import LearningQuality

__all__ = ["RefusedValue", "RoundSummary", "ScreenSummary", "SearchAnswer", "SearchSummary", "TriedValue"]


@dataclass(frozen=True, config=FORMAT)
class RoundSummary:
    """One round: an audit of what the rounds before it left. Where groups are audited, documents are groups."""

    round: int
    """From 1."""
    proof: bool
    """Whether it audited the documents to be listed by themselves."""
    audit: str
    corpus: str
    """Hash of what was left."""
    among: int
    """Documents that the databases were drawn from."""
    documents: int
    """Documents that were audited."""
    sensitive: int
    clear: int
    undecided: int
    median_D: float
    """Over documents, of D under their strongest statistic."""
    largest_D: float
    level: float
    """This round's share of the screen's level."""
    seed: int
    runs: int
    cached_runs: int
    """Of `runs`, those that the store held already."""
    valid: bool
    certified_clear: int = 0

    @property
    def verdicts(self) -> VerdictCounts:
        """Documents by verdict."""
        return VerdictCounts(self.sensitive, self.clear, self.undecided, self.certified_clear)


@dataclass(frozen=True, config=FORMAT)
class TriedValue:
    """What the audit of one value of a search measured."""

    value: int | float | None
    """None: the spec as it stands."""
    good: bool
    """Whether the upper limit of the share is at most the quota."""
    audit: str
    runs: int
    documents: int
    above_margin: int
    """Of `documents`, those whose measured D is above the margin under any statistic."""
    share: float
    upper_limit: float
    """Of the share among all documents."""
    median_D: float
    largest_D: float
    valid: bool = True
    quality: LearningQuality | NotLearnt | None = None
    """Measured for the spec as it stands."""


@dataclass(frozen=True, config=FORMAT)
class RefusedValue:
    """A value of a search whose audit was refused, or is void: it satisfies nothing."""

    value: int | float | None
    refused: str
    """Why."""
    audit: str | None = None
    runs: int | None = None
    valid: bool | None = None
    """False: void. None: there was no audit."""
    good: bool = False
    quality: LearningQuality | NotLearnt | None = None


@dataclass(frozen=True, config=FORMAT)
class SearchAnswer:
    """What a search along one parameter found."""

    search: str
    """One of `levers.DIALS`."""
    found: int | float | None
    """The first good value; None where none was good, or there is nothing to search."""
    tried: tuple[TriedValue | RefusedValue, ...]
    reason: str
    """For people."""
    parameter: str | None = None
    """What was changed in the spec; None, as `present`, where there is nothing to search."""
    present: int | float | None = None
    scale: Mapping[str, float] | None = None
    """Of noise: the public size of each announced array that its values are in units of."""
    values: tuple[int | float, ...] = ()
    """Those that might have been tried."""
    quality: LearningQuality | NotLearnt | None = None
    """At the value found."""


@dataclass(frozen=True, config=FORMAT)
class SearchSummary:
    """What would help where leaving documents out does not."""

    quota: float
    """The largest share of the documents that may exceed the margin."""
    margin: float
    confidence: float
    """With which all upper limits hold together."""
    level_each: float
    sampled: int
    """Documents that were drawn, of `population`."""
    population: int
    design: str
    measure: str
    """What a learning quality is, in words."""
    present: TriedValue | RefusedValue
    answers: tuple[SearchAnswer, ...]
    reason: str
    """For people."""
    seconds: float


@dataclass(frozen=True, config=FORMAT)
class ScreenSummary(StoredSummary):
    """What a screen found. Rounds count groups where `unit` says so; everything else counts documents."""

    version: int
    """Of the format."""
    screen: str
    corpus: str
    mechanism: str
    spec: str
    """Hashes of the corpus and of the spec that people wrote."""
    outcome: str
    """`cleared`, `nothing-proved`, `hopeless`, `limit`, `too-few` or `void`."""
    helps: bool | None
    """Whether leaving documents out makes the rest safe to use; None where nothing had to be, or one is void."""
    reason: str
    """The outcome in a sentence."""
    documents: int
    unit: str
    excluded: int
    allowed: int
    allowed_verdicts: tuple[str, ...]
    exact: bool
    """What is cleared is what was audited together."""
    beside: int | None
    """Documents of the last databases that are not listed; None where nothing is cleared."""
    why_beside: str | None
    statement: str | None
    """Of the clearance; None, as `clearance`, where none was written."""
    rounds: tuple[RoundSummary, ...]
    most: float
    level: float
    margin: float
    party_rows: int
    quality: LearningCost | NotLearnt | None
    """What leaving out costs; None where nothing is cleared or no basis is announced."""
    search: SearchSummary | None
    clearance: str | None
    """Where it is."""
    fingerprint: str
    """Of the key that signs."""
    reviewer: str
    finished: str
    """ISO 8601."""
    seconds: float
    store: str
    report: str
    """The page for people."""
