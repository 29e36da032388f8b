"""Schedules as files: what is refused, what is kept."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import InputError, StoreError
from ksdp.storage.schedules.schedule_files import (
    Due,
    Running,
    RunRequest,
    Schedule,
    ScheduledRun,
    add_schedule,
    append_run,
    ask_now,
    asked,
    begin,
    check_schedule,
    due,
    finish,
    forget_asked,
    hold,
    interrupted,
    next_times,
    read_runs,
    read_schedule,
    read_schedules,
    remove_schedule,
    running,
    schedule_folder,
    set_paused,
)
from ksdp.storage.store import Store

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
VALUES = {"name": "nightly", "spec": "/s.toml", "cron": "30 2 * * *", "created": NOW}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "Nightly run"}, "`name`: must be lower case"),
        ({"name": "../up"}, "`name`: must be lower case"),
        ({"cron": "* * * *"}, "`cron`: must have five fields; got 4."),
        ({"cron": "61 * * * *"}, "`cron`: is no cron expression"),
        ({"timezone": "Europe/Wien"}, "`timezone`: must be an IANA time zone"),
        ({"timezone": "/etc/localtime"}, "`timezone`: must be an IANA time zone"),
        ({"created": datetime(2026, 3, 5)}, "`created`:"),
        ({"retries": -1}, "`retries`:"),
        ({"level": 1.0}, "`level`:"),
        ({"every": 3}, "`every`:"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=r"the schedule is refused") as refused:
        check_schedule(VALUES | changes)
    assert said in str(refused.value)


def test_a_schedule_is_read_as_it_was_written(store: Store, scheduled: Callable[..., Schedule]) -> None:
    made = scheduled(timezone="Europe/Vienna", timeout=3.5, link="https://review.example")
    assert read_schedule(store, "nightly") == made
    scheduled(name="another")
    assert [found.name for found in read_schedules(store)] == ["another", "nightly"]


def test_what_is_not_there_or_damaged_is_said(store: Store, scheduled: Callable[..., Schedule]) -> None:
    with pytest.raises(StoreError, match="there is no schedule 'nightly'"):
        read_schedule(store, "nightly")
    scheduled()
    for name in ("..", "../schedules/nightly", ""):
        with pytest.raises(StoreError, match="there is no schedule"):
            remove_schedule(store, name)
    (schedule_folder(store, "nightly") / "schedule.json").write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        read_schedule(store, "nightly")


def test_pausing_and_resuming(store: Store, scheduled: Callable[..., Schedule]) -> None:
    made = scheduled()
    assert set_paused(store, "nightly", False, NOW) == made  # nothing to resume: nothing is forgiven
    assert set_paused(store, "nightly", True, NOW).paused
    resumed = set_paused(store, "nightly", False, NOW)
    assert (resumed.paused, resumed.since) == (False, NOW)
    assert read_schedule(store, "nightly") == resumed


def test_a_changed_schedule_keeps_its_budget_and_forgives_the_past(store: Store) -> None:
    add_schedule(store, check_schedule(VALUES))
    later = check_schedule(VALUES | {"created": datetime(2026, 4, 1, tzinfo=UTC), "cron": "0 * * * *"})
    changed = add_schedule(store, later)
    assert (changed.created, changed.since, changed.cron) == (NOW, later.created, "0 * * * *")
    assert read_schedule(store, "nightly") == changed
    with pytest.raises(InputError, match="cannot be changed"):
        add_schedule(store, check_schedule(VALUES | {"level": 0.1}))
    with pytest.raises(InputError, match="cannot be changed"):
        add_schedule(store, check_schedule(VALUES | {"budget": "spending"}))


def test_a_damaged_schedule_is_not_written_over(store: Store) -> None:
    add_schedule(store, check_schedule(VALUES))
    path = store.root / "schedules" / "nightly" / "schedule.json"
    path.write_bytes(damage := path.read_bytes()[:-9])
    with pytest.raises(StoreError, match="remove the schedule and add it"):
        add_schedule(store, check_schedule(VALUES | {"level": 0.1}))
    assert path.read_bytes() == damage


def test_word_that_a_run_is_wanted(store: Store, scheduled: Callable[..., Schedule]) -> None:
    with pytest.raises(StoreError, match="there is no schedule"):
        ask_now(store, "nightly", RunRequest(at=NOW))
    scheduled()
    assert asked(store, "nightly") is None
    ask_now(store, "nightly", RunRequest(at=NOW, full=True))
    assert asked(store, "nightly") == RunRequest(at=NOW, full=True)
    path = store.root / "schedules" / "nightly" / "asked.json"
    path.write_bytes(path.read_bytes().replace(b"2026", b"2025"))
    damaged = asked(store, "nightly")
    assert damaged is not None
    assert (damaged.full, damaged.damaged) == (True, True)
    forget_asked(store, "nightly")
    assert asked(store, "nightly") is None


def test_a_removed_schedule_is_gone_with_its_history(store: Store, scheduled: Callable[..., Schedule]) -> None:
    scheduled()
    remove_schedule(store, "nightly")
    assert read_schedules(store) == []
    assert not schedule_folder(store, "nightly").exists()


MARK = Running(planned=None, started=datetime(2026, 3, 5, tzinfo=UTC), pid=1)

HOLDER = """
import sys, time
from pathlib import Path
from ksdp.storage.schedules.schedule_files import hold
from ksdp.storage.store import Store
with hold(Store.open(Path(sys.argv[1]))) as mine:
    print(mine, flush=True)
    time.sleep(60)
"""


def test_a_dead_process_holds_nothing_and_its_mark_remains(
    store: Store, scheduled: Callable[..., Schedule]
) -> None:
    scheduled()
    begin(store, "nightly", MARK)
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(store.root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    with hold(store) as mine:
        assert not mine
    assert interrupted(store, "nightly") is None  # under way, as far as anybody can tell
    process.kill()
    process.wait()
    process.stdout.close()
    with hold(store) as mine:
        assert mine
    assert interrupted(store, "nightly") == MARK
    path = store.root / "schedules" / "nightly" / "running.json"
    for damage in (b"", b"{", path.read_bytes().replace(b'"pid": 1', b'"pid": 2')):
        path.write_bytes(damage)  # that a run was interrupted is known all the same
        damaged = interrupted(store, "nightly")
        assert damaged is not None
        assert (damaged.full, damaged.damaged, damaged.crashes) == (True, True, 0)
    finish(store, "nightly")
    assert interrupted(store, "nightly") is None
    assert running(store, "nightly") is None


CREATED = datetime(2026, 3, 1, tzinfo=UTC)


def made(cron: str, timezone: str = "UTC", **more: Any) -> Schedule:
    values = {"name": "n", "spec": "/s", "cron": cron, "timezone": timezone, "created": CREATED}
    return check_schedule(values | more)


def ran(planned: datetime | None, **more: Any) -> ScheduledRun:
    at = planned or CREATED
    return ScheduledRun.model_validate(
        {"planned": planned, "started": at, "finished": at, "outcome": "audited"} | more
    )


CRONS = st.builds(
    "{} {} {} * {}".format,
    st.sampled_from(["*", "*/7", "30", "5,50"]),
    st.sampled_from(["*", "2", "*/5", "0,13"]),
    st.sampled_from(["*", "1,15", "28"]),
    st.sampled_from(["*", "1-5", "0"]),
)


@settings(max_examples=40)
@given(CRONS, st.integers(0, 3 * 24 * 60), st.integers(0, 59))
def test_one_run_stands_for_all_that_was_missed(cron: str, minutes: int, seconds: int) -> None:
    schedule, now = made(cron), CREATED + timedelta(minutes=minutes, seconds=seconds)
    minute, day, week = cron.split()[0], cron.split()[2], cron.split()[4]
    passed = [
        time
        for step in range(1, minutes + 1)
        if _fits(minute, (time := CREATED + timedelta(minutes=step)).minute)
        and _fits(cron.split()[1], time.hour)
        and _fits_day(day, week, time)
    ]
    expected = Due(passed[-1], len(passed) - 1) if passed else None
    assert due(schedule, [], now) == expected
    if expected is not None:
        assert due(schedule, [ran(expected.planned)], now) is None


def _fits(field: str, value: int) -> bool:
    if field.startswith("*"):
        return value % int(field[2:] or 1) == 0
    if "-" in field:
        low, high = map(int, field.split("-"))
        return low <= value <= high
    return value in map(int, field.split(","))


def _fits_day(day: str, week: str, time: datetime) -> bool:
    """Both restricted: either is enough, as cron has it."""
    by_day, by_week = _fits(day, time.day) or day == "*", _fits(week, time.isoweekday() % 7)
    return (by_day or by_week) if day != "*" and week != "*" else (by_day and by_week)


@pytest.mark.parametrize("cron", ["30 2 * * *", "0 * * * *", "*/20 1-3 * * *", "15 4 1,15 * 1", "0 9 * * 1-5"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_times_are_those_of_another_library(cron: str, zone: str) -> None:
    """Of the calendar that comes with Prefect and that nothing here uses: an oracle."""
    from prefect.server.schemas.schedules import CronSchedule

    start = datetime(2026, 3, 9, tzinfo=UTC)
    theirs = asyncio.run(CronSchedule(cron=cron, timezone=zone).get_dates(n=60, start=start))
    assert next_times(made(cron, zone), start - timedelta(seconds=1), 60) == [
        time.astimezone(ZoneInfo(zone)) for time in theirs
    ]


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 1-3 * * *", "15 4 1,15 * 1"])
@pytest.mark.parametrize("start", [datetime(2026, 3, 7, tzinfo=UTC), datetime(2026, 10, 31, tzinfo=UTC)])
def test_what_is_announced_is_what_comes_due(cron: str, start: datetime) -> None:
    """Over a night in which the clock skips an hour, and one in which it repeats one."""
    schedule = made(cron, "America/New_York", created=start)
    for time in next_times(schedule, start, 12):
        before = time.astimezone(UTC) - timedelta(seconds=1)
        earlier = due(schedule, [], before)
        assert earlier is None or earlier.planned < time
        now = due(schedule, [], time.astimezone(UTC))
        assert now is not None
        assert now.planned == time


@pytest.mark.parametrize(("day", "cron"), [("2026-03-08", "30 2 * * *"), ("2026-11-01", "30 1 * * *")])
def test_a_time_that_the_clock_skips_or_repeats_comes_once(day: str, cron: str) -> None:
    start = datetime.fromisoformat(f"{day}T00:00-04:30") - timedelta(days=2)
    times = next_times(made(cron, "America/New_York"), start, 6)
    assert len({time.date() for time in times}) == 6
    assert all(a < b for a, b in itertools.pairwise(times))


def test_what_was_planned_before_it_was_resumed_is_forgiven() -> None:
    now = datetime(2026, 3, 5, 12, tzinfo=UTC)
    assert due(made("30 2 * * *"), [], now) == Due(datetime(2026, 3, 5, 2, 30, tzinfo=UTC), 4)
    assert due(made("30 2 * * *", since=datetime(2026, 3, 5, 3, tzinfo=UTC)), [], now) is None


def test_a_clock_that_was_set_back_makes_nothing_run_twice() -> None:
    hourly, planned = made("0 * * * *"), CREATED + timedelta(hours=5)
    done = [ran(CREATED + timedelta(hours=hour)) for hour in range(1, 6)]
    for back in (timedelta(minutes=1), timedelta(hours=3)):
        assert due(hourly, done, planned - back) is None
    assert due(hourly, done, planned + timedelta(minutes=59)) is None
    assert due(hourly, done, planned + timedelta(hours=1)) == Due(planned + timedelta(hours=1), 0)


def test_a_clock_that_was_ahead_makes_one_run_of_all_that_it_passed_and_loses_none() -> None:
    hourly, planned = made("0 * * * *"), CREATED + timedelta(hours=5)
    ahead = planned + timedelta(days=30)
    assert due(hourly, [ran(planned)], ahead) == Due(ahead, 30 * 24 - 1)
    runs = [ran(planned), ran(ahead)]
    assert due(hourly, runs, planned + timedelta(minutes=59)) is None
    for hour in range(1, 30 * 24):
        now = planned + timedelta(hours=hour)
        assert due(hourly, runs, now) == Due(now, 0)
        runs.append(ran(now))
    assert due(hourly, runs, ahead) is None


def test_a_schedule_that_was_made_by_a_clock_ahead_does_not_wait_for_it() -> None:
    nightly, now = made("30 2 * * *", created=CREATED + timedelta(days=400)), CREATED + timedelta(hours=20)
    tonight = CREATED + timedelta(hours=2, minutes=30)
    assert due(nightly, [], now) == Due(tonight, 0)
    assert due(nightly, [ran(tonight)], now) is None
    assert due(nightly, [ran(tonight)], now + timedelta(days=1)) == Due(tonight + timedelta(days=1), 0)


def test_a_run_that_was_asked_for_does_not_stand_for_a_planned_one() -> None:
    now = CREATED + timedelta(hours=3)
    assert due(made("30 2 * * *"), [ran(None)], now) == Due(CREATED + timedelta(hours=2, minutes=30), 0)


def test_years_of_minutes_are_answered_quickly_and_with_the_latest() -> None:
    now = CREATED + timedelta(days=900, seconds=20)
    assert due(made("* * * * *"), [], now) == Due(CREATED + timedelta(days=900), 9_999)


def test_the_history_is_kept_and_half_a_line_is_not_read(store: Store, scheduled: Callable[..., Schedule]) -> None:
    scheduled()
    assert read_runs(store, "nightly") == []
    first, second = ran(CREATED), ran(None, outcome="failed", reason="no")
    append_run(store, "nightly", first)
    with (schedule_folder(store, "nightly") / "history.jsonl").open("ab") as file:
        file.write(b'{"planned": "2026-0')  # the machine went down here
    append_run(store, "nightly", second)
    assert read_runs(store, "nightly") == [first, second]
    assert [run.succeeded for run in read_runs(store, "nightly")] == [True, False]
