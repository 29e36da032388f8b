"""Pages of schedules and of runs among parties."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from ksdp.dashboards.addresses import PAGE_ROWS, Paged, page_number
from ksdp.dashboards.timeline import Mark, timeline_svg
from ksdp.storage.errors import InputError, StoreError
from ksdp.storage.runs.results import PartyRun, party_run_ids, read_party_run
from ksdp.storage.schedules.schedule_files import (
    RunRequest,
    Schedule,
    ScheduledRun,
    ask_now,
    asked,
    check_schedule,
    due,
    next_times,
    read_runs,
    read_schedule,
    read_schedules,
    set_paused,
    write_schedule,
)
from ksdp.storage.store import Store

_RUNS = 30
_MARKS = 200

SETTINGS = ("cron", "timezone", "retries", "backoff", "timeout", "full_every", "workers", "link")
"""Settings that a form may change. The level and the budget are promises about all runs together: not they."""


@dataclass(frozen=True, eq=False)
class SchedulePage:
    """One schedule."""

    schedule: Schedule
    runs: tuple[ScheduledRun, ...]
    """The newest first."""
    total: int
    upcoming: tuple[datetime, ...]
    overdue: int
    """Times on the calendar that have passed without a run."""
    asked: RunRequest | None
    timeline: Markup | None


def _kind(run: ScheduledRun) -> str:
    if not run.succeeded:
        return "void" if run.outcome == "void" else "failed"
    return "sensitive" if run.became_sensitive else "quiet"


def _missing(runs: Sequence[ScheduledRun]) -> list[tuple[datetime, datetime]]:
    """Where planned times passed without a run."""
    known = sorted(runs, key=lambda run: run.started)
    pairs = pairwise(known)
    return [(before.started, after.started) for before, after in pairs if after.missed]


def _view(store: Store, schedule: Schedule, now: datetime) -> SchedulePage:
    runs = read_runs(store, schedule.name)
    recent = runs[-_MARKS:]
    late = due(schedule, runs, now)
    marks = [Mark(run.started, _kind(run)) for run in recent]
    return SchedulePage(
        schedule=schedule,
        runs=tuple(runs[::-1][:_RUNS]),
        total=len(runs),
        upcoming=() if schedule.paused else tuple(next_times(schedule, now, 3)),
        overdue=0 if late is None or schedule.paused else late.missed + 1,
        asked=asked(store, schedule.name),
        timeline=timeline_svg([(schedule.name, marks, _missing(recent))]) if marks else None,
    )


def read_schedules_page(store: Store, now: datetime) -> tuple[SchedulePage, ...]:
    """All schedules, by name."""
    return tuple(_view(store, schedule, now) for schedule in read_schedules(store))


def read_schedule_page(store: Store, name: str, now: datetime) -> SchedulePage:
    """One schedule."""
    try:
        return _view(store, read_schedule(store, name), now)
    except StoreError as error:
        raise LookupError(str(error)) from error


def _settings(schedule: Schedule, values: Mapping[str, str]) -> dict[str, Any]:
    changed: dict[str, Any] = schedule.model_dump()
    for name in SETTINGS:
        text = values.get(name, "").strip()
        changed[name] = text or None if name in ("timeout", "workers", "link") else text
    return changed


def change_schedule(store: Store, name: str, action: str, values: Mapping[str, str], now: datetime) -> None:
    """Pause, resume, ask for a run, or change settings."""
    try:
        schedule = read_schedule(store, name)
    except StoreError as error:
        raise LookupError(str(error)) from error
    if action in ("pause", "resume"):
        set_paused(store, name, action == "pause", now)
    elif action in ("run", "run-all"):
        ask_now(store, name, RunRequest(at=now, full=action == "run-all"))
    elif action == "settings":
        write_schedule(store, check_schedule(_settings(schedule, values)))
    else:
        raise InputError("Choose what to do with the schedule.")


@dataclass(frozen=True)
class RunsPage(Paged):
    """Runs, the newest first."""

    runs: tuple[PartyRun, ...]
    damaged: tuple[str, ...]
    """Sessions of those on this page that cannot be read."""
    page: int

    @property
    def spent(self) -> str:
        """What all runs of the ledger gave away together, when the newest of them ended."""
        return self.runs[0].spent if self.runs else ""


def read_runs_page(store: Store, query: Mapping[str, str]) -> RunsPage:
    """Read the list."""
    ids, page = party_run_ids(store), page_number(query)
    shown = ids[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    found: dict[str, PartyRun] = {}
    for session in shown:
        with contextlib.suppress(StoreError):
            found[session] = read_party_run(store, session)
    damaged = tuple(session for session in shown if session not in found)
    return RunsPage(tuple(found.values()), damaged, page, total=len(ids))
