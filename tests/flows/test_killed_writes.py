"""Killed at any write or deletion: what is there is whole, and the same call makes the rest."""

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from ksdp.flows.upkeep import damage, prune
from ksdp.storage.audits.ledger import read_ledger
from ksdp.storage.clearances import content_hash, read_clearance
from ksdp.storage.schedules.schedule_files import add_schedule, check_schedule, read_schedules
from ksdp.storage.store import Store

from ..deadly import Points, ended_well
from .test_upkeep import MONTH, NOW, clear, kept, store, verdicts

__all__ = ["kept", "store"]

Kept = tuple[Path, list[str]]
_FORK = multiprocessing.get_context("fork")  # what is imported is imported once
POINTS = (
    *((os, name) for name in ("fsync", "replace", "ftruncate", "unlink", "rmdir", "rename")),
    (tempfile, "mkstemp"),
)


def _work(do: Callable[[], object], kill_at: int, told: Connection, said: int) -> None:
    os.dup2(said, 2)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    points = Points(POINTS, kill_at)
    do()
    told.send(points.passed)
    ended_well()


def done(do: Callable[[], object], kill_at: int = 0) -> int | None:
    """Do something in a process that may die at a point; None if it did, else points.

    What came to its end has no traceback to tell of.
    """
    here, there = _FORK.Pipe(duplex=False)
    with tempfile.TemporaryFile() as said:
        process = _FORK.Process(target=_work, args=(do, kill_at, there, said.fileno()))
        process.start()
        there.close()
        process.join(120)
        if process.exitcode == -signal.SIGKILL:
            return None
        said.seek(0)
        told = said.read().decode()
    assert process.exitcode == 0, told
    assert "Traceback" not in told
    return int(here.recv())


def killed_at(
    store: Store, whole: Path, do: Callable[[], object], points: Iterable[int], name: str
) -> Iterable[int]:
    """Each point, after a process has died there in a store as it was before."""
    tried = 0
    for at in points:
        shutil.rmtree(store.root.parent)
        shutil.copytree(whole, store.root)
        assert done(do, at) is None
        tried += 1
        yield at
    print(f"{tried} kills of `{name}`, 0 lost")


def all_points(do: Callable[[], object], least: int) -> range:
    found = done(do)
    assert found > least
    return range(1, found + 1)


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.validity)])
def test_a_clearance_is_whole_or_absent_and_never_unrecorded(store: Store, kept: Kept, every: int) -> None:
    def sign() -> str:
        return clear(store, kept[1][1])

    for _ in killed_at(store, kept[0], sign, all_points(sign, 6)[::every], "clear"):
        signed = store.root.parent / "c.json"
        if not signed.exists():
            assert done(sign) is not None
        assert list(read_ledger(store).signed) == [content_hash(read_clearance(signed))]
        assert damage(store) == []


def test_a_schedule_is_there_whole_or_not_at_all(store: Store, kept: Kept) -> None:
    asked = {"name": "daily", "spec": "/spec.toml", "created": NOW, "level": 0.05}
    schedule = check_schedule(asked)

    def add() -> None:
        add_schedule(store, schedule)

    for _ in killed_at(store, kept[0], add, all_points(add, 1), "schedule"):
        assert read_schedules(store) in ([], [schedule])
        assert done(add) is not None
        assert read_schedules(store) == [schedule]
        assert damage(store) == []


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.validity)])
def test_what_is_half_pruned_is_pruned_by_the_same_call(store: Store, kept: Kept, every: int) -> None:
    clear(store, kept[1][1])
    whole = Path(shutil.copytree(store.root, store.root.parent.parent / "cleared"))
    before = [verdicts(store, audit) for audit in kept[1]]

    def tidy() -> None:
        prune(store, NOW, MONTH)

    points = all_points(tidy, 10)
    pruned = {path.name for path in store.root.glob("runs/*")}
    for _ in killed_at(store, whole, tidy, points[::every], "prune"):
        assert damage(store) == []
        assert done(tidy) is not None
        assert {path.name for path in store.root.glob("runs/*")} == pruned
        assert [verdicts(store, audit) for audit in kept[1]] == before
        assert damage(store) == []
