"""Killed at any write or deletion, or at any moment: what is there is whole, and the same call makes the rest."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

import ksdp
from ksdp.dashboards.audits.dossier import read_audit, read_dossier, render_dossier
from ksdp.flows.upkeep import damage, prune
from ksdp.storage.audits.ledger import read_ledger
from ksdp.storage.clearances import content_hash, read_clearance
from ksdp.storage.keys import make_identity
from ksdp.storage.schedules.schedule_files import add_schedule, check_schedule, read_schedules
from ksdp.storage.store import Store, write_text

from ..deadly import Points, ended_well
from .test_upkeep import MONTH, NOW, clear, kept, store, verdicts

__all__ = ["kept", "store"]

Kept = tuple[Path, list[str]]
_FORK = multiprocessing.get_context("fork")  # what is imported is imported once
POINTS = (
    *((os, name) for name in ("fsync", "replace", "ftruncate", "unlink", "rmdir", "rename")),
    (tempfile, "mkstemp"),
)


def _work(do: Callable[[], object], kill_at: int, after: float, told: Connection, said: int) -> None:
    os.dup2(said, 2)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    points, began = Points(POINTS, kill_at), time.monotonic()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # it ends the process, and nothing of it is asked
    signal.setitimer(signal.ITIMER_REAL, after)
    do()
    told.send((points.passed, time.monotonic() - began))
    ended_well()


def done(do: Callable[[], object], kill_at: int = 0, after: float = 0.0) -> tuple[int, float] | None:
    """Do something in a process that may die at a point or a time; None if it did, else points and seconds.

    What came to its end has no traceback to tell of.
    """
    here, there = _FORK.Pipe(duplex=False)
    with tempfile.TemporaryFile() as said:
        process = _FORK.Process(target=_work, args=(do, kill_at, after, there, said.fileno()))
        process.start()
        there.close()
        process.join(120)
        if process.exitcode in (-signal.SIGKILL, -signal.SIGALRM):
            return None
        said.seek(0)
        told = said.read().decode()
    assert process.exitcode == 0, told
    assert "Traceback" not in told
    points, seconds = here.recv()
    return int(points), float(seconds)


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
    assert found is not None
    assert found[0] > least
    return range(1, found[0] + 1)


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.validity)])
def test_a_clearance_is_whole_or_absent_and_never_unrecorded(store: Store, kept: Kept, every: int) -> None:
    def sign() -> str:
        return clear(store, kept[1][1])

    for _ in killed_at(store, kept[0], sign, all_points(sign, 6)[::every], "clear"):
        signed = store.root.parent / "c.json"
        if not signed.exists():
            assert done(sign) is not None
        assert list(read_ledger(store).signed) == [content_hash(read_clearance(signed))]
        assert damage(store) == []


def test_a_dossier_is_whole_or_absent_and_harms_nothing(store: Store, kept: Kept) -> None:
    audit = kept[1][1]
    page = store.audit(audit) / "dossier.html"

    def hand_over() -> None:
        read = read_audit(store, audit)
        write_text(page, render_dossier(read, read_dossier(store, read, NOW)))

    for _ in killed_at(store, kept[0], hand_over, all_points(hand_over, 2), "dossier"):
        assert not page.exists() or page.read_text(encoding="utf-8").endswith("</html>")
        assert damage(store) == []
        hand_over()
        assert page.read_text(encoding="utf-8").endswith("</html>")


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


def mean(rows: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {"mean": ksdp.noise(rows.mean(axis=0), rng, scale=5.0)}


def screened(folder: Path) -> None:
    data = np.random.default_rng(0).normal(size=(24, 3))
    data[5] += 2000
    ksdp.clear(
        data, mean, version=1, clearance=folder / "c.json", key=folder / "ada.key", who="Ada",
        store=folder / "store", party_size=0.5, with_runs=150, margin=0.7, fresh_runs=0, seed=1,
    )  # fmt: skip


@pytest.mark.validity
def test_a_clearing_killed_at_a_write_or_in_the_midst_of_computing_comes_to_the_same(tmp_path: Path) -> None:
    def new(name: str) -> Path:
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        (tmp_path / name).mkdir()
        make_identity(tmp_path / name, "ada")
        return tmp_path / name

    whole = new("whole")
    found = done(lambda: screened(whole))
    assert found is not None
    points, seconds = found
    listed = read_clearance(whole / "c.json").documents
    rng = np.random.default_rng(3)
    dies = [(int(at), 0.0) for at in (*range(points - 5, points + 1), *rng.integers(1, points - 5, 4))]
    dies += [(0, float(after)) for after in rng.uniform(0.05, 0.9 * seconds, 10)]
    for at, after in dies:
        folder = new("killed")
        while done(lambda: screened(folder), at, after) is not None:  # noqa: B023 - called here
            folder, after = new("killed"), after / 2
        if not (folder / "c.json").exists():
            assert done(lambda: screened(folder)) is not None  # noqa: B023
        assert read_clearance(folder / "c.json").documents == listed
        assert list(folder.glob("store/screens/*.json"))  # the clearance is the last that is written
        opened = Store.open(folder / "store", create=False)
        assert content_hash(read_clearance(folder / "c.json")) in read_ledger(opened).signed
        assert damage(opened) == []
    print(f"{len(dies)} kills of `clear`, 0 lost")
