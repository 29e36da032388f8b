"""Keep Prefect's deployments as the schedules' files say, and start what is due.

The store alone knows what is due (`ksdp.storage.schedules.schedule_files.due`): deployments have no calendar.
Where times have gone by (the machine or the server was down, a run's process died), one run is started for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from datetime import timedelta
from math import inf
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.runner import Runner
from prefect.states import Cancelled, Crashed, Scheduled
from prefect.types.entrypoint import EntrypointType

from ksdp.audit.specs.content_keys import content_key
from ksdp.flows.interruption import Clock, current, utc_now
from ksdp.flows.schedules.events import emit_expired
from ksdp.flows.schedules.scheduled_run import scheduled_audit
from ksdp.storage.schedules.schedule_files import (
    Schedule,
    ScheduledRun,
    append_run,
    asked,
    begin,
    due,
    finish,
    forget_asked,
    hold,
    interrupted,
    read_runs,
    read_schedules,
    running,
    set_paused,
)
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
        line += f" {run.words}"
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


_AGAIN = 30.0
"""Seconds: a run that is due and left no line in the history is not started anew sooner."""

_AHEAD = timedelta(minutes=1)
"""A run that is to begin at once waits no longer, whatever became of the clock."""

_SELDOM = 5
"""Ticks between looks at Prefect's pages' switches and at clearances that expire."""

_DAMAGED = "{file} of schedule {name} is damaged: a run of every document is made in its place"


class Follower:
    """Follows the schedules of one store.

    Parameters
    ----------
    shared : bool
        Other stores may use the same Prefect server: names of deployments tell them apart.
    json_log : bool
        A run's line is a JSON object.
    now, clock : callable
        The time, which somebody may set, and seconds that nobody can.
    """

    def __init__(
        self,
        store: Store,
        runner: Runner,
        client: PrefectClient,
        *,
        shared: bool,
        json_log: bool = False,
        now: Clock = utc_now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._runner, self._client = store, runner, client
        self._ended, self._json_log = NewRuns(store), json_log
        self._tag = f"ksdp-{content_key({'store': str(store.root)})[:6]}"
        self._shared = shared
        self._applied: dict[str, tuple[Schedule, UUID]] = {}
        self._started: dict[str, UUID] = {}
        self._now, self._clock = now, clock
        self._begun = now()
        self._tried: dict[str, float] = {}
        self._ticks = 0

    async def clear(self) -> None:
        """Put away what an earlier server left: deployments that no schedule asks for, planned runs, zombies.

        A deployment with a calendar is of a version that let Prefect plan runs; it is made anew.
        """
        names = {schedule.name for schedule in read_schedules(self._store)}
        tagged = DeploymentFilter(tags=DeploymentFilterTags(all_=[self._tag]))
        for deployment in await self._client.read_deployments(deployment_filter=tagged, limit=200):
            if deployment.parameters.get("schedule") not in names or deployment.schedules:
                await self._client.delete_deployment(deployment.id)
        with hold(self._store) as free:
            for run in await self._runs(StateType.SCHEDULED):
                if run.expected_start_time is None or run.expected_start_time < self._begun:
                    missed: State[Any] = Cancelled(message="missed; one run makes up for all that was.")
                    await self._client.set_flow_run_state(run.id, missed, force=True)
            if not free:
                return
            for kind in (StateType.RUNNING, StateType.PENDING, StateType.CANCELLING):
                for run in await self._runs(kind):
                    dead: State[Any] = Crashed(message="`ksdp serve` was killed; the run is taken up again.")
                    await self._client.set_flow_run_state(run.id, dead, force=True)

    async def _runs(self, kind: StateType) -> list[Any]:
        return await self._client.read_flow_runs(
            flow_run_filter=FlowRunFilter(
                state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[kind])),
                tags=FlowRunFilterTags(all_=[self._tag]),
            ),
            limit=200,
        )

    async def follow(self) -> None:
        """Make the deployments what the files say."""
        wanted = {schedule.name: schedule for schedule in read_schedules(self._store)}
        for name in [name for name in self._applied if name not in wanted]:
            _, deployment = self._applied.pop(name)
            with contextlib.suppress(ObjectNotFound):
                await self._client.delete_deployment(deployment)
            current().say(f"schedule {name} is removed")
        for name, schedule in wanted.items():
            if name not in self._applied or self._applied[name][0] != schedule:
                self._applied[name] = (schedule, await self._apply(schedule))
                state = "paused" if schedule.paused else f"{schedule.cron} ({schedule.timezone})"
                current().say(f"schedule {name}: {state}")

    async def _apply(self, schedule: Schedule) -> UUID:
        name = f"{schedule.name}-{self._tag}" if self._shared else schedule.name
        deployment = await scheduled_audit.ato_deployment(
            name=name,
            paused=schedule.paused,
            parameters={"store": str(self._store.root), "schedule": schedule.name},
            tags=["ksdp", self._tag],
            description=f"Audits what changed, at `{schedule.cron}` ({schedule.timezone}).",
            entrypoint_type=EntrypointType.MODULE_PATH,
            enforce_parameter_schema=False,
        )
        return await self._runner.aadd_deployment(deployment)

    async def tick(self) -> None:
        """Follow the files; start what is asked for, was interrupted, or is due and not started."""
        await self.follow()
        for name in self._applied:
            for run in await asyncio.to_thread(self._ended.of, name):
                current().say(run_line(name, run, as_json=self._json_log))
        if self._ticks % _SELDOM == 0:
            await self._switches()
            await asyncio.to_thread(emit_expired, self._store, self._now())
        self._ticks += 1
        for schedule, deployment in list(self._applied.values()):
            await self._start_what_waits(schedule, deployment)

    async def _switches(self) -> None:
        """A schedule paused or resumed on Prefect's pages is so in the store."""
        for name, (schedule, deployment) in list(self._applied.items()):
            try:
                shown = await self._client.read_deployment(deployment)
            except ObjectNotFound:
                self._applied.pop(name)  # deleted there: the file still says that it should be
                continue
            if shown.paused != schedule.paused:
                self._applied[name] = (set_paused(self._store, name, shown.paused, self._now()), deployment)
                current().say(f"schedule {name} is {'paused' if shown.paused else 'resumed'} on Prefect's pages")

    async def _start_what_waits(self, schedule: Schedule, deployment: UUID) -> None:
        if not await self._over(schedule.name):
            return
        wanted = asked(self._store, schedule.name)
        if wanted is not None:
            if wanted.damaged:
                current().say(_DAMAGED.format(name=schedule.name, file="asked.json"))
            await self._start(schedule, deployment, full=wanted.full, only_due=False)
            return
        mark = interrupted(self._store, schedule.name)
        if mark is not None:
            if mark.damaged:
                current().say(_DAMAGED.format(name=schedule.name, file="running.json"))
            if not mark.stopped and await self._cancelled(mark.flow_run):
                self._write_cancelled(schedule)
            else:
                await self._start(schedule, deployment, full=mark.full, only_due=False)
            return
        if schedule.paused or due(schedule, read_runs(self._store, schedule.name), self._now()) is None:
            self._tried.pop(schedule.name, None)
            return
        with hold(self._store) as free:
            pass  # a run under way may be the one that is due; when it has ended, the history says so
        if free and self._clock() - self._tried.get(schedule.name, -inf) > _AGAIN:
            self._tried[schedule.name] = self._clock()
            await self._start(schedule, deployment, full=False, only_due=True)

    async def _start(self, schedule: Schedule, deployment: UUID, *, full: bool, only_due: bool) -> None:
        run = await self._client.create_flow_run_from_deployment(
            deployment,
            parameters={
                "store": str(self._store.root),
                "schedule": schedule.name,
                "full": full,
                "only_due": only_due,
            },
            state=Scheduled(),
        )
        self._started[schedule.name] = run.id

    async def _over(self, name: str) -> bool:
        """Whether the run that was started here has come to its end, if there was one."""
        if name in self._started:
            try:
                run = await self._client.read_flow_run(self._started[name])
            except ObjectNotFound:
                run = None
            if run is not None and run.state is not None and not run.state.is_final():
                if run.state.is_scheduled() and (run.expected_start_time or self._now()) > self._now() + _AHEAD:
                    await self._client.set_flow_run_state(
                        run.id, Scheduled(), force=True
                    )  # the clock was set back
                return False
            if run is not None and run.state is not None and run.state.is_cancelled():
                forget_asked(self._store, name)  # on Prefect's pages, before it began
            del self._started[name]
        return True

    async def _cancelled(self, flow_run: str | None) -> bool:
        """Whether somebody cancelled a run on Prefect's pages."""
        if flow_run is None:
            return False
        try:
            run = await self._client.read_flow_run(UUID(flow_run))
        except ObjectNotFound:
            return False
        return run.state is not None and run.state.is_cancelled()

    def _write_cancelled(self, schedule: Schedule) -> None:
        with hold(self._store) as free:
            mark = running(self._store, schedule.name) if free else None
            if mark is None:
                return
            run = ScheduledRun(
                planned=mark.planned,
                started=mark.started,
                finished=self._now(),
                outcome="cancelled",
                reason="cancelled on Prefect's pages.",
                flow_run=mark.flow_run,
            )
            append_run(self._store, schedule.name, run)
            finish(self._store, schedule.name)

    def leave(self) -> None:
        """Mark what is under way as stopped on purpose: taken up again, and no crash."""
        for name in self._applied:
            mark = running(self._store, name)
            if mark is not None:
                begin(self._store, name, mark.model_copy(update={"stopped": True}))
