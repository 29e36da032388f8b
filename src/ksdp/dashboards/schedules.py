"""Pages of schedules and of runs among parties."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from ksdp.dashboards.addresses import PAGE_ROWS, Paged, page_number
from ksdp.storage.prefect_home import server_address
from ksdp.storage.runs.results import PartyRun, party_run_ids, read_party_run
from ksdp.storage.schedules.schedule_files import Schedule, ScheduledRun, read_runs, read_schedules
from ksdp.storage.store import Store, StoreError

_RUNS = 10


@dataclass(frozen=True, eq=False)
class ScheduleView:
    """The runs and settings of a schedule."""

    schedule: Schedule
    runs: tuple[ScheduledRun, ...]
    """The newest first."""
    total: int
    level_left: float


@dataclass(frozen=True, eq=False)
class SchedulesPage:
    """All schedules, by name, and the address of Prefect's pages, where the calendar is."""

    schedules: tuple[ScheduleView, ...]
    prefect: str | None


def read_schedules_page(store: Store, query: Mapping[str, str]) -> SchedulesPage:
    """Read the page."""
    named = os.environ.get("PREFECT_API_URL", "").removesuffix("/api")
    views = tuple(_view(store, schedule) for schedule in read_schedules(store))
    return SchedulesPage(views, named or server_address(store.prefect))


def _view(store: Store, schedule: Schedule) -> ScheduleView:
    runs = read_runs(store, schedule.name)
    level_left = next((run.level_left for run in reversed(runs) if run.level_left is not None), schedule.level)
    return ScheduleView(schedule, tuple(runs[::-1][:_RUNS]), len(runs), level_left)


@dataclass(frozen=True)
class RunsPage(Paged):
    """Runs, the newest first."""

    runs: tuple[PartyRun, ...]
    damaged: tuple[str, ...]
    """Sessions of those on this page that cannot be read."""
    page: int

    @property
    def spent(self) -> str:
        """Privacy loss of all runs of the ledger together, when the newest of them ended."""
        return self.runs[0].spent if self.runs else ""


def read_runs_page(store: Store, query: Mapping[str, str]) -> RunsPage:
    """Read the list."""
    ids, page = party_run_ids(store), page_number(query)
    shown = ids[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    by_name: dict[str, PartyRun] = {}
    for session in shown:
        with contextlib.suppress(StoreError):
            by_name[session] = read_party_run(store, session)
    damaged = tuple(session for session in shown if session not in by_name)
    return RunsPage(tuple(by_name.values()), damaged, page, total=len(ids))
