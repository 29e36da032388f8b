"""Schedules as files: what is refused, what is kept."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from ksdp.audit.errors import InputError, StoreError
from ksdp.storage.schedules.schedule_files import (
    Schedule,
    ScheduledRun,
    add_schedule,
    append_run,
    check_schedule,
    read_runs,
    read_schedule,
    read_schedules,
    schedule_folder,
)
from ksdp.storage.store import Store

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
VALUES = {"name": "nightly", "spec": "/s.toml", "created": NOW}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "Nightly run"}, "`name`: must be lower case"),
        ({"name": "../up"}, "`name`: must be lower case"),
        ({"created": datetime(2026, 3, 5)}, "`created`:"),
        ({"full_every": -1}, "`full_every`:"),
        ({"level": 1.0}, "`level`:"),
        ({"every": 3}, "`every`:"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=r"the schedule is refused") as refused:
        check_schedule(VALUES | changes)
    assert said in str(refused.value)


def test_a_schedule_is_read_as_it_was_written(store: Store, scheduled: Callable[..., Schedule]) -> None:
    made = scheduled(full_every=3, link="https://review.example")
    assert read_schedule(store, "nightly") == made
    scheduled(name="another")
    assert [found.name for found in read_schedules(store)] == ["another", "nightly"]


def test_what_is_not_there_or_damaged_is_said(store: Store, scheduled: Callable[..., Schedule]) -> None:
    with pytest.raises(StoreError, match="there is no schedule 'nightly'"):
        read_schedule(store, "nightly")
    scheduled()
    for name in ("..", "../schedules/nightly", ""):
        with pytest.raises(StoreError, match="there is no schedule"):
            read_schedule(store, name)
    (schedule_folder(store, "nightly") / "schedule.json").write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        read_schedule(store, "nightly")


def test_a_changed_schedule_keeps_its_budget(store: Store) -> None:
    add_schedule(store, check_schedule(VALUES))
    later = check_schedule(VALUES | {"created": datetime(2026, 4, 1, tzinfo=UTC), "full_every": 7})
    changed = add_schedule(store, later)
    assert (changed.created, changed.full_every) == (NOW, 7)
    assert read_schedule(store, "nightly") == changed
    for promise in ({"level": 0.1}, {"budget": "spending"}):
        with pytest.raises(InputError, match="cannot be changed"):
            add_schedule(store, check_schedule(VALUES | promise))


def test_a_damaged_schedule_is_not_written_over(store: Store) -> None:
    add_schedule(store, check_schedule(VALUES))
    path = store.root / "schedules" / "nightly" / "schedule.json"
    path.write_bytes(damage := path.read_bytes()[:-9])
    with pytest.raises(StoreError, match="restore the file"):
        add_schedule(store, check_schedule(VALUES | {"level": 0.1}))
    assert path.read_bytes() == damage


def test_the_history_is_kept_and_half_a_line_is_not_read(store: Store, scheduled: Callable[..., Schedule]) -> None:
    scheduled()
    assert read_runs(store, "nightly") == []
    first = ScheduledRun(started=NOW, finished=NOW, outcome="audited")
    second = first.model_copy(update={"outcome": "void", "reason": "no"})
    append_run(store, "nightly", first)
    with (schedule_folder(store, "nightly") / "history.jsonl").open("ab") as file:
        file.write(b'{"started": "2026-0')  # the machine went down here
    append_run(store, "nightly", second)
    assert read_runs(store, "nightly") == [first, second]
