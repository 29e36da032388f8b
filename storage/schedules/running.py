"""Who runs now: one scheduled audit a store at a time, and a mark that says which one, should it die.

The lock is free as soon as its holder is dead, however it died. The mark stays, so that an interrupted run is
known and made again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from pydantic import AwareDatetime, BaseModel, ConfigDict

from ksdp.storage.checksums import write_checked_json
from ksdp.storage.locks import try_lock
from ksdp.storage.schedules.marks import read_mark
from ksdp.storage.schedules.schedule_files import schedule_folder
from ksdp.storage.store import Store


class Running(BaseModel):
    """A run under way, or one that died."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    planned: AwareDatetime | None
    """None where somebody asked for it."""
    started: AwareDatetime
    pid: int
    full: bool = False
    crashes: int = 0
    """Earlier attempts whose process died."""
    stopped: bool = False
    """`ksdp serve` was told to stop: its death is no crash."""
    flow_run: str | None = None
    """Prefect's id."""
    damaged: bool = False
    """It cannot be read any more: that there was a run is all that is known, so that all documents are audited."""


def hold(store: Store) -> AbstractContextManager[bool]:
    """Try to hold the store's schedules; whether it went well."""
    return try_lock(store.root / "schedules" / "lock")


def begin(store: Store, name: str, mark: Running) -> None:
    """Leave the mark; the caller holds the store."""
    write_checked_json(schedule_folder(store, name) / "running.json", mark.model_dump(mode="json"))


def finish(store: Store, name: str) -> None:
    """Remove the mark: the run is in the history."""
    (schedule_folder(store, name) / "running.json").unlink(missing_ok=True)


def running(store: Store, name: str) -> Running | None:
    """The mark, whether its process lives or not, and whether it can be read or not."""
    path = schedule_folder(store, name) / "running.json"
    return read_mark(path, Running, lambda at: Running(planned=None, started=at, pid=0, full=True, damaged=True))


def interrupted(store: Store, name: str) -> Running | None:
    """The mark of a run that is not under way any more: its process died."""
    mark = running(store, name)
    if mark is None:
        return None
    with hold(store) as free:
        return running(store, name) if free else None
