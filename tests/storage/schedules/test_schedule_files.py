"""Schedules as files: what is refused, what is kept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from ksdp.audit.errors import InputError, StoreError
from ksdp.storage.schedules.schedule_files import (
    RunRequest,
    Schedule,
    add_schedule,
    ask_now,
    asked,
    check_schedule,
    forget_asked,
    read_schedule,
    read_schedules,
    remove_schedule,
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
        ({"notices": [{"kind": "webhook"}]}, "`url` must be given for 'webhook'."),
        ({"notices": [{"kind": "webhook", "url": "ftp://x"}]}, "`url` must start with http"),
        ({"notices": [{"kind": "command"}]}, "`command` must be given"),
        ({"notices": [{"kind": "email", "to": ["a@b"], "host": "h"}]}, "`sender` must be given"),
        (
            {"notices": [{"kind": "email", "to": ["a@b"], "host": "h", "sender": "c@d", "user": "u"}]},
            "`user` and `password_env` go together.",
        ),
        ({"notices": [{"kind": "command", "command": ["x"], "on": []}]}, "`on` must name at least one event."),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=r"the schedule is refused") as refused:
        check_schedule(VALUES | changes)
    assert said in str(refused.value)


def test_a_schedule_is_read_as_it_was_written(store: Store, scheduled: Callable[..., Schedule]) -> None:
    notice = {"kind": "command", "command": ["mail", "me"], "on": ["void"]}
    made = scheduled(timezone="Europe/Vienna", timeout=3.5, notices=[notice])
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
