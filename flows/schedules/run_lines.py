"""A line of `ksdp serve` for every run of a schedule: for people, or one JSON object for a log collector."""

from __future__ import annotations

import json

from ksdp.storage.schedules.schedule_files import ScheduledRun, read_runs
from ksdp.storage.store import Store

_FACTS = (
    *("planned", "started", "finished", "outcome", "reason", "attempts", "missed", "audit", "full", "documents"),
    *("verdicts", "became_sensitive", "verdict_changes", "level_left", "sampled_runs", "cached_runs", "seconds"),
)
"""Of a run's history; counts and ids of audits, never a document."""


def run_line(schedule: str, run: ScheduledRun, *, as_json: bool = False) -> str:
    """One line about a run that has ended."""
    if as_json:
        return json.dumps({"schedule": schedule} | run.model_dump(mode="json", include=set(_FACTS)))
    when = run.finished.isoformat(timespec="seconds")
    made_up = f"; makes up for {run.missed} missed" if run.missed else ""
    line = f"{when} {schedule}: {run.outcome}{made_up}"
    if run.reason:
        line += f": {run.reason}"
    elif run.outcome == "audited":
        counts = ", ".join(f"{count} {verdict}" for verdict, count in run.verdicts.items())
        line += (
            f" {run.documents.get('audited', 0)} documents, {run.became_sensitive} became sensitive; all: {counts}"
        )
    audit = f"   audit {run.audit}" if run.audit else ""
    return f"{line} ({run.seconds:.1f} s){audit}"


class NewRuns:
    """The runs that have ended since the last look."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, int] = {}

    def of(self, schedule: str) -> list[ScheduledRun]:
        """New ones of a schedule; at the first look, none: they were told when they ended."""
        runs = read_runs(self._store, schedule)
        known = self._known.get(schedule, len(runs))
        self._known[schedule] = len(runs)
        return runs[known:]
