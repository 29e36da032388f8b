"""Notices outlive failures: tried again at longer and longer intervals, and in the end given up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ksdp.storage.schedules.outbox import (
    MOST_ATTEMPTS,
    Waiting,
    attempted,
    put_notice,
    set_damaged_aside,
    waiting_notices,
)
from ksdp.storage.schedules.schedule_files import Notice, Schedule, schedule_folder
from ksdp.storage.store import Store

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
NOTICE = Notice(kind="command", command=("true",))


def notice_log(store: Store) -> list[Waiting]:
    lines = (schedule_folder(store, "nightly") / "notices.jsonl").read_bytes().splitlines()
    return [Waiting.model_validate_json(line) for line in lines]


def test_a_delivered_notice_is_in_the_log_and_no_longer_waits(
    store: Store, scheduled: Callable[..., Schedule]
) -> None:
    scheduled()
    first = put_notice(store, "nightly", "void", NOTICE, {"audit": "x"}, NOW)
    second = put_notice(store, "nightly", "not-run", NOTICE, {}, NOW + timedelta(seconds=1))
    assert waiting_notices(store, "nightly") == [first, second]
    assert waiting_notices(store, "nightly", NOW) == [first]
    attempted(store, "nightly", first, None, NOW)
    assert waiting_notices(store, "nightly") == [second]
    (sent,) = notice_log(store)
    assert (sent.id, sent.delivered, sent.attempts, sent.error) == (first.id, True, 1, None)


def test_one_that_fails_waits_longer_each_time_and_is_given_up(
    store: Store, scheduled: Callable[..., Schedule]
) -> None:
    scheduled()
    item, now, waits = put_notice(store, "nightly", "void", NOTICE, {}, NOW), NOW, []
    for attempt in range(1, MOST_ATTEMPTS):
        item = attempted(store, "nightly", item, "no", now)
        assert waiting_notices(store, "nightly") == [item]
        assert item.attempts == attempt
        assert waiting_notices(store, "nightly", now) == []
        waits.append((item.next_try - now).total_seconds())
        now = item.next_try
        assert waiting_notices(store, "nightly", now) == [item]
    assert waits == [60.0 * 2**n for n in range(MOST_ATTEMPTS - 1)]
    attempted(store, "nightly", item, "still no", now)
    assert waiting_notices(store, "nightly") == []
    (given_up,) = notice_log(store)
    assert (given_up.delivered, given_up.error, given_up.attempts) == (False, "still no", MOST_ATTEMPTS)


def test_a_clock_that_was_ahead_keeps_no_notice_waiting(store: Store, scheduled: Callable[..., Schedule]) -> None:
    scheduled()
    ahead = NOW + timedelta(days=20)
    new = put_notice(store, "nightly", "void", NOTICE, {}, ahead)
    assert waiting_notices(store, "nightly", NOW) == [new]
    tried = attempted(store, "nightly", new, "no", ahead)
    assert waiting_notices(store, "nightly", NOW) == [tried]
    tried = attempted(store, "nightly", tried, "no", NOW)
    assert waiting_notices(store, "nightly", NOW + timedelta(seconds=1)) == []
    assert waiting_notices(store, "nightly", NOW + timedelta(days=20)) == [tried]


def test_a_damaged_notice_is_named_once_and_the_others_are_sent(
    store: Store, scheduled: Callable[..., Schedule]
) -> None:
    scheduled()
    whole, hurt = (put_notice(store, "nightly", "void", NOTICE, {"sensitive": 3}, NOW) for _ in range(2))
    path = schedule_folder(store, "nightly") / "outbox" / f"{hurt.id}.json"
    path.write_text(path.read_text().replace('"sensitive": 3', '"sensitive": 2'))
    assert set_damaged_aside(store, "nightly") == [hurt.id]
    assert set_damaged_aside(store, "nightly") == []
    assert waiting_notices(store, "nightly") == [whole]
