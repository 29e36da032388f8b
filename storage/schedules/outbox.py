"""Notices that are to be sent: `schedules/<name>/outbox/<id>.json`, a file each until delivered or given up.

The file is written before the first attempt, so a notice outlives the process that wanted to send it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict

from ksdp.audit.errors import StoreError
from ksdp.storage.codec import read_object, write_checked_json
from ksdp.storage.schedules.schedule_files import Event, Notice, schedule_folder
from ksdp.storage.store import Store

MOST_ATTEMPTS = 10
"""Then a notice is given up; with doubling delays that is after half a day and more."""

_FIRST_DELAY = 60.0


class Waiting(BaseModel):
    """A notice on its way."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    event: Event
    notice: Notice
    body: Mapping[str, Any]
    """Counts and links."""
    created: AwareDatetime
    attempts: int = 0
    next_try: AwareDatetime
    error: str | None = None
    """Why the latest attempt failed."""
    done: AwareDatetime | None = None
    delivered: bool = False


def put_notice(
    store: Store, name: str, event: Event, notice: Notice, body: Mapping[str, Any], now: datetime
) -> Waiting:
    """Queue a notice."""
    made = f"{now.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(4)}"
    item = Waiting(id=made, event=event, notice=notice, body=body, created=now, next_try=now)
    _write(store, name, item)
    return item


def _write(store: Store, name: str, item: Waiting) -> None:
    write_checked_json(schedule_folder(store, name) / "outbox" / f"{item.id}.json", item.model_dump(mode="json"))


def waiting_notices(store: Store, name: str, now: datetime | None = None) -> list[Waiting]:
    """Notices that are not delivered yet, oldest first; with `now` those whose turn it is."""
    items = []
    for file in _files(store, name):
        with contextlib.suppress(StoreError):
            items.append(_read(file))
    return [
        item for item in items if now is None or not timedelta() < item.next_try - now <= _delay(item.attempts)
    ]


def _delay(attempts: int) -> timedelta:
    """How long a notice waits after so many; one that would wait longer was tried by a clock that was ahead."""
    return timedelta(seconds=_FIRST_DELAY * 2 ** (attempts - 1))


def set_damaged_aside(store: Store, name: str) -> list[str]:
    """Rename notices that cannot be read, so that each is reported once, and return their names."""
    aside = []
    for file in _files(store, name):
        try:
            _read(file)
        except StoreError:
            if not file.exists():  # delivered meanwhile
                continue
            file.rename(file.with_suffix(".damaged"))
            aside.append(file.stem)
    return aside


def _files(store: Store, name: str) -> list[Path]:
    return sorted((schedule_folder(store, name) / "outbox").glob("*.json"))


def _read(file: Path) -> Waiting:
    return read_object(file, Waiting.model_validate, "a notice")


def attempted(store: Store, name: str, item: Waiting, error: str | None, now: datetime) -> Waiting:
    """Record an attempt: done with if it went well or was the last, else tried again after a doubled delay."""
    attempts = item.attempts + 1
    over = error is None or attempts >= MOST_ATTEMPTS
    after = item.model_copy(
        update={
            "attempts": attempts,
            "error": error,
            "next_try": now + _delay(attempts),
            "done": now if over else None,
            "delivered": error is None,
        }
    )
    folder = schedule_folder(store, name)
    if not over:
        _write(store, name, after)
        return after
    with (folder / "notices.jsonl").open("ab") as file:
        file.write(after.model_dump_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    (folder / "outbox" / f"{item.id}.json").unlink(missing_ok=True)
    return after
