"""When a schedule is due, and what became of every run of it: `schedules/<name>/history.jsonl`, one line a run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim
from pydantic import AwareDatetime, BaseModel, ConfigDict

from ksdp.audit.errors import StoreError
from ksdp.storage.lines import add_line, is_whole, sealed_line, whole_lines
from ksdp.storage.schedules.schedule_files import Schedule, schedule_folder
from ksdp.storage.store import Store

Outcome = Literal["audited", "unchanged", "void", "failed", "timed-out", "crashed", "cancelled"]
"""`unchanged`: no document to audit, nothing spent. The last four did not run to their end."""

_MOST_MISSED = 10_000
"""More are not counted."""


class ScheduledRun(BaseModel):
    """What became of one run."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    planned: AwareDatetime | None
    """The time on the calendar that it stands for; None where somebody asked for it."""
    started: AwareDatetime
    finished: AwareDatetime
    outcome: Outcome
    reason: str | None = None
    """Why it did not run to its end, or is void."""
    attempts: int = 1
    missed: int = 0
    """Earlier times on the calendar that passed without a run, and that this one makes up for."""
    audit: str | None = None
    number: int | None = None
    """Of the audits of this schedule that spent level, from 1."""
    corpus: str | None = None
    basis: str | None = None
    """Hash of what verdicts depend on besides the documents; another one asks for an audit of everything."""
    standing: str | None = None
    """File that holds the verdicts as they stand after this run (`changes.read_standing`)."""
    full: bool = False
    """All documents were audited, changed or not."""
    documents: Mapping[str, int] = {}
    """`new`, `changed`, `removed`, `unchanged`, `audited`."""
    verdicts: Mapping[str, int] = {}
    """Of all documents as they stand after this run: `sensitive`, `clear`, `undecided`."""
    became_sensitive: int = 0
    verdict_changes: int = 0
    largest_drift: float | None = None
    """Largest |change of D| of a (document, statistic) that was audited before."""
    largest_d: float | None = None
    level: float | None = None
    """At which this audit decided."""
    level_left: float | None = None
    """What the audits to come may spend, should nothing more be found."""
    budget: Mapping[str, Any] | None = None
    """State of the online budget after this audit."""
    sampled_runs: int = 0
    cached_runs: int = 0
    seconds: float = 0.0
    flow_run: str | None = None
    """Prefect's id."""

    @property
    def succeeded(self) -> bool:
        """Whether the question was answered: audited, or nothing to audit."""
        return self.outcome in ("audited", "unchanged")


@dataclass(frozen=True)
class Due:
    """A run that should be made."""

    planned: datetime
    """The latest time on the calendar that has come."""
    missed: int
    """Earlier ones that passed without a run."""


def _times(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    return CronSim(schedule.cron, after.astimezone(ZoneInfo(schedule.timezone)))


def next_times(schedule: Schedule, after: datetime, count: int = 1) -> list[datetime]:
    """The next times on the calendar after `after`, in the schedule's zone; pausing is not looked at.

    Examples
    --------
    >>> from datetime import UTC
    >>> night = Schedule(name="n", spec="/s", cron="30 2 * * *", timezone="Europe/Vienna",
    ...                  created=datetime(2026, 1, 1, tzinfo=UTC))
    >>> [time.isoformat() for time in next_times(night, datetime(2026, 7, 1, tzinfo=UTC), 2)]
    ['2026-07-01T02:30:00+02:00', '2026-07-02T02:30:00+02:00']
    """
    return list(itertools.islice(_times(schedule, after), count))


def due(schedule: Schedule, runs: Sequence[ScheduledRun], now: datetime) -> Due | None:
    """What should be run at `now`: one run for all the times that have come since the last planned one.

    Counted from the latest of: created, resumed, last planned run. None where no time has come. A run that failed
    has had its attempts and is not due again before the next time.
    """
    since = max([schedule.created, *([schedule.since] if schedule.since else [])])
    since = max([since, *(run.planned for run in runs if run.planned is not None)])
    times = itertools.takewhile(lambda time: time <= now, _times(schedule, since))
    count = sum(1 for _ in itertools.islice(times, _MOST_MISSED))
    if not count:
        return None
    minute = now.astimezone(ZoneInfo(schedule.timezone)).replace(second=0, microsecond=0)
    return Due(next(CronSim(schedule.cron, minute + timedelta(minutes=1), reverse=True)), count - 1)


def append_run(store: Store, name: str, run: ScheduledRun) -> None:
    """Add a line to the history; a line is whole or is not read."""
    path = schedule_folder(store, name) / "history.jsonl"
    try:
        add_line(path, sealed_line(run.model_dump(mode="json")))
    except OSError as error:
        why = error.strerror or error
        raise StoreError(f"the history of schedule {name!r} cannot be written: {why}.") from error


def read_runs(store: Store, name: str) -> list[ScheduledRun]:
    """The history, oldest first.

    Raises
    ------
    StoreError
        If a line was changed: what an audit has spent would be forgotten.
    """
    path = schedule_folder(store, name) / "history.jsonl"
    try:
        lines = whole_lines(path.read_bytes()) if path.is_file() else []
    except OSError as error:
        raise StoreError(f"the history of schedule {name!r} cannot be read: {error.strerror}.") from error
    runs: list[ScheduledRun] = []
    sealed = False
    for number, line in enumerate(lines, start=1):
        try:
            fields = json.loads(line)
            run = ScheduledRun.model_validate(fields)
            whole, sealed = is_whole(fields) or not (sealed or "hash" in fields), "hash" in fields
        except (ValueError, TypeError):
            if not sealed and b'"hash"' not in line and not line.endswith(b"}"):
                continue  # half a line from a crash, as versions before left it
            whole = False
        if not whole:
            raise StoreError(
                f"the history of schedule {name!r}: line {number} was changed. What its audits have spent is not "
                "known: restore the file, or remove the schedule and add it."
            )
        runs.append(run)
    return runs
