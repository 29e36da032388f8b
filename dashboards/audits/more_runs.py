"""How far the continuation of an audit is: more runs for documents that a decision asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ksdp.dashboards.stage_words import counted, words
from ksdp.storage.audits.continuation import UNDER_WAY, read_progress
from ksdp.storage.reviews.decisions import states
from ksdp.storage.store import Store


@dataclass(frozen=True)
class MoreRuns:
    """What is shown of it."""

    audit: str
    """That is continued."""
    state: str
    """As `ksdp.storage.audits.continuation.read_progress` gives it."""
    to: str | None
    """The audit that continues it, once it is finished."""
    documents: int | None
    """That it was started for."""
    doing: str
    """The stage in words."""
    unit: str
    units: int
    total: int
    runs: int
    """Done in all stages together; those that the store held already are among them."""
    started: datetime
    seconds: float
    """From its start to its last sign of life."""
    reason: str | None

    @property
    def under_way(self) -> bool:
        """Whether it goes on by itself."""
        return self.state in UNDER_WAY


def read_more_runs(store: Store, audit: str) -> MoreRuns | None:
    """The progress of more runs; None if none were started."""
    progress = read_progress(store, audit)
    if progress is None:
        return None
    stage = str(progress.get("stage", "prepare"))
    started = datetime.fromisoformat(progress["started"])
    to = progress.get("audit")
    return MoreRuns(
        audit=audit,
        state=progress["state"],
        to=to if to and progress["state"] == "done" and (store.audit(to) / "audit.json").is_file() else None,
        documents=progress.get("documents"),
        doing=words(stage),
        unit=counted(stage),
        units=int(progress.get("units", 0)),
        total=max(1, int(progress.get("total", 1))),
        runs=int(progress.get("runs", 0)),
        started=started,
        seconds=(datetime.fromisoformat(progress["changed"]) - started).total_seconds(),
        reason=progress.get("reason"),
    )


def wanted(store: Store, audit: str) -> bool:
    """Whether a decision in force asks for more runs, of a document that no newer audit has."""
    return any(state.asks_for_runs for state in states(store, audit).values())
