"""Killed at any write, sync or rename, an audit is finished by the same command, with the same findings."""

import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import open_spec
from ksdp.storage.audits.history import read_summary
from ksdp.storage.findings import findings_whole, read_effects, read_statistics, read_verdicts, report_whole
from ksdp.storage.mapped_corpus import check_corpus
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.store import Store, sweep_parts

from ...deadly import Points, ended_well

_FORK = multiprocessing.get_context("fork")  # what is imported is imported once
POINTS = ((os, "fsync"), (os, "replace"), (os, "ftruncate"), (tempfile, "mkstemp"))


def _work(spec: Path, store: Path, kill_at: int, told: Connection) -> None:
    """Audit, and die at point `kill_at`; report how many points there are."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    points = Points(POINTS, kill_at)
    run_audit(open_spec(*read_spec_file(spec)), store, HERE)
    told.send(points.passed)
    ended_well()


def audited(spec: Path, store: Path, kill_at: int = 0) -> int:
    """Points that were passed; 0 where it was killed."""
    here, there = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_work, args=(spec, store, kill_at, there))
    process.start()
    there.close()
    process.join(300)
    if process.exitcode == -signal.SIGKILL:
        return 0
    assert process.exitcode == 0
    return int(here.recv())


def found(store: Path) -> tuple[Any, ...]:
    opened = Store.open(store, create=False)
    (audit,) = opened.audits()
    folder = opened.audit(audit)
    assert findings_whole(folder)
    assert report_whole(folder)
    check_corpus(opened.corpus(read_summary(folder).corpus))
    sweep_parts(store, time.time() + 1e6)
    assert not list(store.rglob("*.part"))
    return tuple(read(folder).to_pandas() for read in (read_verdicts, read_statistics, read_effects))


def is_lost(store: Path, reference: tuple[Any, ...]) -> bool:
    """Whether the tables of a store that was audited again are others; the store is gone then."""
    same = all(one.equals(other) for one, other in zip(reference, found(store), strict=True))
    shutil.rmtree(store)
    return not same


def kills(spec: Path, folder: Path, count: int, seed: int) -> int:
    """Kill at random points, some of them twice; how many stores were lost."""
    audited(spec, folder / "whole")
    reference = found(folder / "whole")
    points = audited(spec, folder / "counted")  # the first may have written compiled kernels besides
    rng = np.random.default_rng(seed)
    chosen = np.concatenate([[1, 2, 3, points - 1, points], rng.integers(1, points + 1, count)])[:count]
    lost = 0
    for at in chosen.tolist():
        store = folder / "killed"
        assert audited(spec, store, at) == 0
        if rng.random() < 0.3:
            audited(spec, store, int(rng.integers(1, points + 1)))
        audited(spec, store)
        lost += is_lost(store, reference)
    print(f"{len(chosen)} kills, {lost} lost")
    return lost


@pytest.fixture
def small(spec: Callable[..., Path]) -> Path:
    return spec("kills", seed=21, with_runs=4, families=["paper"])


def test_some_kills_lose_nothing(small: Path, tmp_path: Path) -> None:
    assert kills(small, tmp_path, 2, 1) == 0


@pytest.mark.validity
@pytest.mark.parametrize("seed", range(2, 12))
def test_two_hundred_kills_lose_nothing(seed: int, small: Path, tmp_path: Path) -> None:
    assert kills(small, tmp_path, 20, seed) == 0
