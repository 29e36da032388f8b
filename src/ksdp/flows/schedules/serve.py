"""`ksdp serve`: a Prefect server where none is named, a worker for the store's pool, and metrics.

If it is killed, Prefect's database keeps the calendar and the runs that are late, and the store keeps the history.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ksdp.audit.errors import InputError, KsdpError, StoreError
from ksdp.audit.verdicts.online import open_budget
from ksdp.audit.verdicts.power import runs_for_margin
from ksdp.flows.audits.first_spec import COLUMNS
from ksdp.flows.interruption import Clock, current, interrupts_stay_here, run_until_stopped, utc_now
from ksdp.flows.metrics_port import serve_metrics
from ksdp.flows.prefect_server import Server, prefect_server, reached
from ksdp.storage.locks import lock
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.schedules.schedule_files import (
    Schedule,
    ScheduledRun,
    add_schedule,
    budget_of,
    read_runs,
    read_schedule,
    read_schedules,
    serving_lock,
)
from ksdp.storage.store import Store, write_text


class ScheduleMetrics(Collector):
    """One family a figure, labelled by schedule.

    Parameters
    ----------
    clock : callable
        The time now, with a time zone.
    """

    def __init__(self, store: Store, clock: Clock = utc_now) -> None:
        self._store, self._clock = store, clock

    def collect(self) -> Iterable[Metric]:
        """Read every schedule's history."""
        label = ["schedule"]
        runs = CounterMetricFamily(
            "ksdp_scheduled_runs", "Runs of a schedule by outcome", labels=["schedule", "outcome"]
        )
        documents = GaugeMetricFamily(
            "ksdp_documents", "Documents by verdict as they stand", labels=["schedule", "verdict"]
        )
        gauges = {
            name: GaugeMetricFamily(f"ksdp_{name}", text, labels=label)
            for name, text in (
                ("largest_d", "Largest D of the newest audit"),
                ("became_sensitive", "Documents that the newest audit made sensitive"),
                ("largest_drift", "Largest change of D against earlier audits, in the newest"),
                ("audit_seconds", "Seconds that the newest audit took"),
                ("level_left", "What the audits to come may spend of the level"),
                ("last_success_timestamp_seconds", "When a run last came to its end, since 1970"),
                ("seconds_since_success", "Seconds since a run last came to its end, or since it was scheduled"),
            )
        }
        for schedule in read_schedules(self._store):
            try:
                past = read_runs(self._store, schedule.name)
            except StoreError:
                continue
            for outcome, count in sorted(Counter(run.outcome for run in past).items()):
                runs.add_metric([schedule.name, outcome], count)
            verdicts = next((run.verdicts for run in reversed(past) if run.verdicts), {})
            for verdict, count in verdicts.items():
                documents.add_metric([schedule.name, verdict], count)
            for name, value in self._figures(schedule, past).items():
                if value is not None:
                    gauges[name].add_metric([schedule.name], value)
        return [runs, documents, *gauges.values()]

    def _figures(self, schedule: Schedule, past: list[ScheduledRun]) -> dict[str, float | None]:
        now = self._clock()
        newest = next((run for run in reversed(past) if run.outcome == "audited"), None)
        success = next((run.finished for run in reversed(past) if run.outcome != "void"), None)
        level_left = next((run.level_left for run in reversed(past) if run.level_left is not None), schedule.level)
        return {
            "largest_d": newest.largest_d if newest else None,
            "became_sensitive": newest.became_sensitive if newest else None,
            "largest_drift": newest.largest_drift if newest else None,
            "audit_seconds": newest.seconds if newest else None,
            "level_left": level_left,
            "last_success_timestamp_seconds": success.timestamp() if success else None,
            "seconds_since_success": (now - (success or schedule.created)).total_seconds(),
        }


def run_line(schedule: str, run: ScheduledRun) -> str:
    """One line about a run that has ended."""
    line = f"{run.finished.isoformat(timespec='seconds')} {schedule}: {run.outcome}"
    line += f": {run.reason}" if run.reason else f" {run.words}" if run.outcome == "audited" else ""
    audit = f"   audit {run.audit}" if run.audit else ""
    return f"{line} ({run.seconds:.1f} s){audit}"


class NewRuns:
    """The runs that have ended since the last look."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen = {schedule.name: len(read_runs(store, schedule.name)) for schedule in read_schedules(store)}

    def lines(self) -> list[str]:
        """A line for each."""
        lines = []
        for schedule in read_schedules(self._store):
            runs = read_runs(self._store, schedule.name)
            new = runs[self._seen.get(schedule.name, 0) :]
            self._seen[schedule.name] = len(runs)
            lines += [run_line(schedule.name, run) for run in new]
        return lines


_TICK = 2.0


def serve(store: Path, *, metrics: str | None = None, to: str | None = None, ready: Path | None = None) -> None:
    """Run the schedules of a store, and remind of what is due, until SIGTERM or SIGINT."""
    if to is not None and not re.fullmatch("[a-z0-9-]+/[a-z0-9-]+", to):
        raise InputError(f"`--to` must be the type and the name of a Prefect block, webhook/NAME; got {to!r}.")
    opened = Store.open(store)
    with contextlib.ExitStack() as stack:
        busy = f"`ksdp serve` is running already for {opened.root}."
        stack.enter_context(lock(serving_lock(opened), busy=busy))
        if not read_schedules(opened):  # a damaged one is refused before anything starts
            current().say("there is no schedule in this store yet: `ksdp schedule` adds one.")
        if metrics is not None:
            current().say(f"metrics {stack.enter_context(serve_metrics(ScheduleMetrics(opened), metrics))}")
        os.environ.setdefault("PREFECT_WORKER_QUERY_SECONDS", str(_TICK))
        server = stack.enter_context(prefect_server(opened.prefect, calendar=True))
        current().say(server.words(opened.prefect))
        server.wait()
        _serve_until_stopped(opened, server, to, ready)


def add(store: Store, schedule: Schedule, cron: str, timezone: str, attempts: Mapping[str, object]) -> str:
    """Write a schedule and its deployment, or change those of its name; the deployment's full name."""
    with prefect_server(store.prefect) as server:
        from ksdp.flows.schedules.deployments import calendar_of, write_deployment

        calendar = calendar_of(cron, timezone)
        made = add_schedule(store, schedule)
        server.wait()
        with reached(server):
            return asyncio.run(write_deployment(store, made, calendar, attempts))


_SMALL, _MANY = 1 / 4, 1000
"""A share of the first audit's level, below which it is said what that takes; documents, which hardly count."""


def next_level_words(store: Path, name: str) -> str:
    """Say at which level the next audit of a schedule calls documents clear, and what a small one takes."""
    opened = Store.open(store, create=False)
    schedule = read_schedule(opened, name)
    budget, first = budget_of(schedule, read_runs(opened, name)), open_budget(schedule.budget, schedule.level)
    small, most = budget.next_clear_level, first.next_clear_level
    words = f"level   audit {budget.number} will call documents clear at {small:.2g}"
    if budget.number > 1:
        words += f" (the first: {most:.2g})"
    rule = read_spec_file(Path(schedule.spec))[0].decision_in_run
    if small >= _SMALL * most or not rule.margin:
        return words
    rules = (rule.model_copy(update={"clear_level": level}) for level in (small, most))
    now, then = (runs_for_margin(0.5, rule.margin, _MANY, COLUMNS, at_level) for at_level in rules)
    return f"{words}, which takes {now / then:.2g} times as many runs as the first (`design.with_runs`)"


def run_now(store: Path, name: str, *, full: bool = False) -> ScheduledRun:
    """Run a schedule here and now, once; its line of the history."""
    opened = Store.open(store, create=False)
    read_schedule(opened, name)
    current().stage("serve", 1)
    with prefect_server(opened.prefect) as server:
        server.wait()
        from ksdp.flows.schedules.scheduled_run import VoidNight, scheduled_audit

        with reached(server), contextlib.suppress(VoidNight):  # the history says that it is void
            run_until_stopped(scheduled_audit(str(opened.root), name, full), server.lost)
    return read_runs(opened, name)[-1]


def _serve_until_stopped(store: Store, server: Server, to: str | None, ready: Path | None) -> None:
    from ksdp.flows.schedules.scheduled_run import SERVED

    os.environ[SERVED] = str(os.getpid())
    try:
        with reached(server), interrupts_stay_here():
            asyncio.run(_work(store, server, to, ready))
    finally:
        os.environ.pop(SERVED, None)


async def _work(store: Store, server: Server, to: str | None, ready: Path | None) -> None:
    from ksdp.flows.schedules.deployments import run_worker
    from ksdp.flows.schedules.events import emit_expired, keep_automation, remind

    stopping, new, reminded = asyncio.Event(), NewRuns(store), -1
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopping.set)
    worker = asyncio.create_task(run_worker(store))
    if ready is not None:
        write_text(ready, server.url)
    if absent := to is not None and not await keep_automation(store, to):
        current().say(f"{to} is not there yet: make this block on Prefect's pages. Reminders wait for it.")
    try:
        while not stopping.is_set():
            for line in await asyncio.to_thread(new.lines):
                current().say(line)
            absent = to is not None and absent and not await keep_automation(store, to)
            if not absent:
                await asyncio.to_thread(emit_expired, store, utc_now())
            if not absent and reminded != utc_now().hour:
                reminded = utc_now().hour
                try:
                    await asyncio.to_thread(remind, store, utc_now())
                except KsdpError as error:
                    current().say(f"what is due cannot be read: {error}")
            if worker.done():
                raise KsdpError(
                    "Prefect's worker has stopped by itself; see its log above."
                ) from worker.exception()
            if gone := server.lost():
                raise KsdpError(gone)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), _TICK)
    finally:
        current().say("stopping; a run under way is taken up at the next `ksdp serve`")
        worker.cancel()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await worker
