"""`ksdp serve`: a Prefect server where none is named, a runner, and the schedules' files, until told to stop.

Nothing is lost if it is killed: schedules and history are files of the store, and what was missed or
interrupted is run once when it is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ksdp.audit.errors import KsdpError, StoreError
from ksdp.flows.interruption import Clock, current, interrupts_stay_here, run_until_stopped, utc_now
from ksdp.flows.metrics_port import serve_metrics
from ksdp.flows.prefect_server import Server, prefect_server, reached
from ksdp.storage.locks import is_locked, lock
from ksdp.storage.schedules.schedule_files import (
    Schedule,
    ScheduledRun,
    due,
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
        missed = CounterMetricFamily("ksdp_missed_runs", "Planned times that passed without a run", labels=label)
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
                ("overdue", "1 if a run is due"),
                ("paused", "1 if paused"),
            )
        }
        for schedule in read_schedules(self._store):
            try:
                past = read_runs(self._store, schedule.name)
            except StoreError:
                continue
            for outcome, count in sorted(Counter(run.outcome for run in past).items()):
                runs.add_metric([schedule.name, outcome], count)
            missed.add_metric([schedule.name], sum(run.missed for run in past))
            verdicts = next((run.verdicts for run in reversed(past) if run.verdicts), {})
            for verdict, count in verdicts.items():
                documents.add_metric([schedule.name, verdict], count)
            for name, value in self._figures(schedule, past).items():
                if value is not None:
                    gauges[name].add_metric([schedule.name], value)
        return [runs, missed, documents, *gauges.values()]

    def _figures(self, schedule: Schedule, past: list[ScheduledRun]) -> dict[str, float | None]:
        now = self._clock()
        newest = next((run for run in reversed(past) if run.outcome == "audited"), None)
        success = next((run.finished for run in reversed(past) if run.succeeded), None)
        left = next((run.level_left for run in reversed(past) if run.level_left is not None), schedule.level)
        return {
            "largest_d": newest.largest_d if newest else None,
            "became_sensitive": newest.became_sensitive if newest else None,
            "largest_drift": newest.largest_drift if newest else None,
            "audit_seconds": newest.seconds if newest else None,
            "level_left": left,
            "last_success_timestamp_seconds": success.timestamp() if success else None,
            "seconds_since_success": (now - (success or schedule.created)).total_seconds(),
            "overdue": float(not schedule.paused and due(schedule, past, now) is not None),
            "paused": float(schedule.paused),
        }


_TICK = 2.0


def being_served(store: Store) -> bool:
    """Whether `ksdp serve` is running for this store."""
    return is_locked(serving_lock(store))


def serve(
    store: Path,
    *,
    metrics_port: int | None = None,
    metrics_host: str = "127.0.0.1",
    ready: Path | None = None,
    json_log: bool = False,
) -> None:
    """Run the schedules of a store until SIGTERM or SIGINT.

    Parameters
    ----------
    store : Path
        Made where there is none.
    metrics_port : int, optional
        Where Prometheus finds metrics; nowhere by default.
    ready : Path, optional
        Written with the address of Prefect's pages once everything is up.
    json_log : bool
        The line of a run that has ended is a JSON object.
    """
    opened = Store.open(store)
    with contextlib.ExitStack() as stack:
        busy = f"`ksdp serve` is running already for {opened.root}."
        stack.enter_context(lock(serving_lock(opened), busy=busy))
        if not read_schedules(opened):  # a damaged one is refused before anything starts
            current().say("there is no schedule in this store yet: `ksdp schedule` adds one.")
        if metrics_port is not None:
            port = stack.enter_context(serve_metrics(ScheduleMetrics(opened), metrics_port, metrics_host))
            current().say(f"metrics http://{metrics_host}:{port}/metrics")
        server = stack.enter_context(prefect_server(opened.prefect, calendar=True))
        current().say(server.words(opened.prefect))
        server.wait()
        _follow_until_told(opened, server, ready, json_log)


def run_now(store: Path, name: str, *, full: bool = False) -> ScheduledRun:
    """Run a schedule here and now; what became of it, as the history has it."""
    opened = Store.open(store, create=False)
    read_schedule(opened, name)
    before, failed = len(read_runs(opened, name)), None
    current().stage("serve", 1)
    with prefect_server(opened.prefect) as server:
        server.wait()
        from ksdp.flows.schedules.scheduled_run import scheduled_audit

        with reached(server):
            try:
                run_until_stopped(scheduled_audit(str(opened.root), name, full), server.lost)
            except Exception as error:  # a run that fails is in the history, with its reason
                failed = error
    runs = read_runs(opened, name)
    if len(runs) == before:
        raise KsdpError(f"schedule {name!r} did not run ({type(failed).__name__}).") from failed
    return runs[-1]


def _follow_until_told(store: Store, server: Server, ready: Path | None, json_log: bool) -> None:
    from ksdp.flows.schedules.scheduled_run import SERVED

    os.environ[SERVED] = str(os.getpid())
    try:
        with reached(server), interrupts_stay_here():
            asyncio.run(_follow(store, server, ready, json_log))
    finally:
        os.environ.pop(SERVED, None)


async def _follow(store: Store, server: Server, ready: Path | None, json_log: bool) -> None:
    from prefect.client.orchestration import get_client
    from prefect.runner import Runner

    from ksdp.flows.schedules.deployments import Follower

    stopping = asyncio.Event()
    _hear(stopping)
    # One at a time: two audits of a store would take each other's cores, and its lock.
    runner = Runner(name="ksdp", limit=1, pause_on_shutdown=False, query_seconds=_TICK)
    async with get_client() as client:
        follower = Follower(store, runner, client, shared=not server.ours, json_log=json_log)
        await follower.clear()
        await follower.follow()
        running = asyncio.create_task(runner.start())
        while not runner.started and not running.done():
            await asyncio.sleep(0.05)
        _hear(stopping)  # the runner has taken the signals for itself
        if ready is not None:
            write_text(ready, server.url)
        try:
            while not stopping.is_set():
                await follower.tick()
                if running.done():
                    raise KsdpError("Prefect's runner has stopped by itself; see its log above.")
                if server.process is not None and server.process.poll() is not None:
                    raise KsdpError(f"the Prefect server has stopped; see {server.log}.")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), _TICK)
        finally:
            current().say("stopping; a run under way is taken up at the next `ksdp serve`")
            follower.leave()
            with contextlib.suppress(Exception):
                await runner.astop()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await running


def _hear(stopping: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
