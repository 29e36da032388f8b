"""`ksdp serve` by a clock that somebody sets: no time of the calendar is lost, none is run twice."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import State
from prefect.runner import Runner
from prefect.states import Cancelled, Completed

from ksdp.flows.schedules.deployments import Follower
from ksdp.storage.schedules.schedule_files import (
    RunRequest,
    ScheduledRun,
    append_run,
    ask_now,
    asked,
    check_schedule,
    due,
    read_runs,
    read_schedule,
    write_schedule,
)
from ksdp.storage.store import Store

START = datetime(2026, 3, 5, 1, tzinfo=UTC)
NIGHT = START.replace(hour=2, minute=30)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@dataclass
class Machine:
    """A store that is served, by a clock that runs and is set, and a Prefect server that runs all at once."""

    store: Store
    passed: timedelta = timedelta()
    off: timedelta = timedelta()
    """How far the clock is ahead."""
    runs: dict[UUID, Any] = field(default_factory=dict)
    stuck: bool = False
    """Runs are not begun, nor do they leave a line in the history."""

    def now(self) -> datetime:
        return START + self.passed + self.off

    def clock(self) -> float:
        return self.passed.total_seconds()

    def follower(self) -> Follower:
        runner, client = cast(Runner, self), cast(PrefectClient, self)
        return Follower(self.store, runner, client, shared=False, now=self.now, clock=self.clock)

    async def aadd_deployment(self, deployment: Any) -> UUID:
        return uuid4()

    async def read_deployment(self, deployment: UUID) -> Any:
        return SimpleNamespace(paused=False)

    async def read_flow_run(self, run: UUID) -> Any:
        return self.runs[run]

    async def set_flow_run_state(self, run: UUID, state: State[Any], force: bool) -> None:
        self.runs[run] = SimpleNamespace(id=run, state=state, expected_start_time=self.now())

    async def create_flow_run_from_deployment(self, deployment: UUID, parameters: Any, state: State[Any]) -> Any:
        run = SimpleNamespace(id=uuid4(), state=state, expected_start_time=self.now(), parameters=parameters)
        self.runs[run.id] = run
        if not self.stuck:
            found = due(read_schedule(self.store, "nightly"), read_runs(self.store, "nightly"), self.now())
            line = ScheduledRun(
                planned=None if found is None else found.planned,
                started=self.now(),
                finished=self.now(),
                outcome="unchanged",
                missed=0 if found is None else found.missed,
            )
            append_run(self.store, "nightly", line)
            run.state = Completed()
        return run

    def serve(self, hours: int, follower: Follower) -> None:
        for _ in range(2 * hours):
            asyncio.run(follower.tick())
            self.passed += HOUR / 2


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    store = Store.open(tmp_path / "store")
    values = {"name": "nightly", "spec": "/s.toml", "cron": "30 2 * * *", "created": START}
    write_schedule(store, check_schedule(values))
    return Machine(store)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("jump", [DAY, -DAY, 3 * DAY, -2 * DAY, -HOUR])
def test_each_night_is_run_once_over_a_jump_there_and_back(
    machine: Machine, jump: timedelta, restarted: bool
) -> None:
    follower = machine.follower()
    machine.serve(3 * 24, follower)
    for off in (jump, timedelta()):
        machine.off = off
        follower = machine.follower() if restarted else follower
        machine.serve(6, follower)
    machine.serve(4 * 24, follower)
    runs = read_runs(machine.store, "nightly")
    planned = [run.planned for run in runs]
    assert len(planned) == len(set(planned))
    nights = {NIGHT + day * DAY for day in range(8)}
    assert set(planned) == nights


def test_a_run_that_waits_for_a_time_that_was_set_back_begins(machine: Machine) -> None:
    follower = machine.follower()
    machine.serve(3, follower)
    machine.off, machine.stuck = 3 * DAY, True
    ask_now(machine.store, "nightly", RunRequest(at=machine.now()))
    asyncio.run(follower.tick())
    (waits,) = [run for run in machine.runs.values() if not run.state.is_final()]
    machine.off = timedelta()
    asyncio.run(follower.tick())
    assert machine.runs[waits.id].expected_start_time == machine.now()


def test_a_run_that_was_asked_for_is_not_lost_before_it_begins(machine: Machine) -> None:
    machine.stuck = True
    ask_now(machine.store, "nightly", RunRequest(at=machine.now(), full=True))
    asyncio.run(machine.follower().tick())
    asyncio.run(machine.follower().tick())  # killed, and started again
    assert [run.parameters["full"] for run in machine.runs.values()] == [True, True]
    follower = machine.follower()
    asyncio.run(follower.tick())
    for run in machine.runs.values():
        run.state = Cancelled()  # by a person
    machine.stuck = False
    asyncio.run(follower.tick())
    assert asked(machine.store, "nightly") is None


def test_one_that_left_no_line_is_started_again_after_the_clock_was_set_back(machine: Machine) -> None:
    follower = machine.follower()
    machine.passed, machine.off, machine.stuck = 2 * HOUR, DAY, True
    asyncio.run(follower.tick())
    for run in machine.runs.values():
        run.state = Completed()
    machine.off, machine.stuck = timedelta(), False
    machine.passed += timedelta(minutes=1)
    asyncio.run(follower.tick())
    assert [run.planned for run in read_runs(machine.store, "nightly")] == [NIGHT]
