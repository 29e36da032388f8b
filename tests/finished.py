"""Finished audits, made once a test run by whichever worker asks first: for tests that read or copy them."""

import fcntl
import os
import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

import ksdp
from ksdp.storage.findings import write_summary
from ksdp.storage.store import Store
from ksdp.tasks.rerun import Answer, rerun

from .typed import typed

__all__ = ["TRAINING_RUNS", "made_again", "made_once", "small", "void"]

TRAINING_RUNS = 100
"""Runs that the learned statistic trains on where a test is not of what is learnt."""


def made_again(unused: bytes, jobs: list[tuple[Any, np.random.Generator]]) -> Answer:
    """What a new process answers that makes runs again, without the half second of its start."""
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        given = pickle.loads(unused)
        return rerun(given() if isinstance(given, partial) else given, pickle.loads(pickle.dumps(jobs)))


def made_once(folders: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder of this name, which `make` has filled; nobody may change it."""
    base = folders.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder, done = base / f"once-{name}", base / f"once-{name}.done"
    with (base / f"once-{name}.lock").open("w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            folder.mkdir()
            patch.setattr("ksdp.audit.statistics.simulated.TRAINING_RUNS", TRAINING_RUNS)
            make(folder)
            done.touch()
    return folder


def small(folder: Path) -> None:
    """`spec.toml` and `store`: 30 rows of two houses, of which a few stand far out."""
    rows = np.random.default_rng(0).poisson(1.0, (30, 5)) + 0.5
    rows[:3] *= 40
    named = pd.DataFrame(rows, columns=list("abcde"))
    named.insert(0, "who", [f"row-{n}<&\u202e" for n in range(30)])
    named.insert(1, "house", ["Graz"] * 10 + ["Linz"] * 20)
    named.to_csv(folder / "rows.csv", index=False)
    (folder / "spec.toml").write_text(
        '[corpus]\npath = "rows.csv"\nformat = "table"\nid = "who"\nparty = "house"\n'
        '[mechanism]\nname = "pd-svd"\nrank = 2\n[statistics]\nfamilies = ["geometry"]\n'
        '[design]\nparty_size = 0.3\nwith_runs = 30\nfresh_runs = 8\nlooks = "end"\n'
    )
    typed("audit", folder / "spec.toml", "--store", folder / "store", "--here", 1)


def void(folder: Path) -> None:
    """`store`: an audit of 20 rows that did not notice its controls."""
    rows = np.random.default_rng(0).poisson(1.0, (20, 5)) + 0.5
    found = ksdp.audit(rows, "pd-svd", rank=2, party_size=0.3, with_runs=5, fresh_runs=0, store=folder / "store")
    controls = replace(found.summary.controls, reason="a control failed")
    write_summary(Store(found.store).audit(found.id), replace(found.summary, valid=False, controls=controls))
