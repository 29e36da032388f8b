"""The result of a screening as one value: what `screens/<id>.json` holds, and what pages and commands read."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic.dataclasses import dataclass

from ksdp.audit.results.parts import FORMAT, VerdictCounts
from ksdp.audit.results.summary import StoredSummary


@dataclass(frozen=True, config=FORMAT)
class RoundSummary:
    """One round: an audit of the list by itself. Where groups are audited, documents here are groups."""

    round: int
    """From 1; 0 is the audit that proposed the list."""
    audit: str
    corpus: str
    among: int
    """Documents that the databases were drawn from."""
    rows: int
    documents: int
    verdicts: VerdictCounts
    median_D: float
    """Over documents, of D under their strongest statistic."""
    largest_D: float
    level: float
    seed: int
    runs: int
    cached_runs: int
    """Runs that the store had already."""
    valid: bool


@dataclass(frozen=True, config=FORMAT)
class ScreenSummary(StoredSummary):
    """A list that was audited by itself, round after round, until all of it held or nothing was left.

    Rounds count groups where `unit` says so; everything else counts documents.
    """

    version: int
    screen: str
    corpus: str
    mechanism: str
    spec: str
    """Hashes of the corpus and of the spec that people wrote."""
    outcome: str
    """`signed`, `too-few`, `out-of-rounds` or `void`."""
    reason: str
    documents: int
    unit: str
    proposed: int
    """Documents that the first audit and people's decisions put onto the list."""
    allowed: int
    """Documents that were signed; 0 where nothing was."""
    accepted: int
    """Documents of the list whose risk people accepted."""
    left_out: int
    """Proposed documents that did not hold in an audit of the list, or held by the weakest evidence."""
    exclusions: tuple[Mapping[str, str], ...]
    """Documents that people excluded: `document`, `audit`, `who`, `at`, `reason`."""
    statement: str | None
    """Statement of the clearance; None, as `clearance`, if none was written."""
    rounds: tuple[RoundSummary, ...]
    """The audit that proposed the list, then the audits of the list by itself."""
    level: float
    margin: float
    gain: tuple[str, ...]
    """Gain of a party by a run of the signed documents alone; empty if no basis is released."""
    clearance: str | None
    fingerprint: str
    reviewer: str
    finished: str
    seconds: float
    store: str
    report: str
