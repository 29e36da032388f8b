"""The result of a screen as one value: what `screens/<id>.json` holds, and what pages and commands read."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic.dataclasses import dataclass

from ksdp.audit.learning.measures import LearningCost, NotLearnt
from ksdp.audit.results.parts import FORMAT, VerdictCounts
from ksdp.audit.results.summary import StoredSummary


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
    rows: int
    """Documents in a database."""
    documents: int
    """Documents that were audited."""
    verdicts: VerdictCounts
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
    exclusions: tuple[Mapping[str, str], ...]
    """Documents that people excluded: `document`, `audit`, `who`, `at`, `reason`."""
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
