"""Mechanisms whose runs are not what they will be again: each is void, and what is wrong with it is named."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ksdp
from ksdp.audit.errors import InvalidAudit

Matrix = NDArray[np.float64]
FEW = {"party_size": 0.5, "with_runs": 20, "fresh_runs": 0, "seed": 1}


@pytest.fixture(scope="module")
def data() -> Matrix:
    return np.random.default_rng(0).poisson(1.0, (24, 4)).astype(float)


def remembering(answer: Any, keep: Any = None) -> Any:
    """A mechanism that announces what `answer` makes of all that it computed so far."""
    kept: list[Matrix] = [] if keep is None else [keep]

    def mechanism(rows: Matrix, rng: np.random.Generator) -> Matrix:
        kept.append(rows.mean(axis=0))
        return np.asarray(answer(kept))

    return mechanism


def behind_a_lock(inner: Any) -> Any:
    """The same, which cannot be pickled."""
    lock = threading.Lock()

    def mechanism(rows: Matrix, rng: np.random.Generator) -> Matrix:
        with lock:
            return np.asarray(inner(rows, rng))

    return mechanism


def one_of_two() -> Any:
    """The first database of each parity is announced for all that have it."""
    known: dict[int, Matrix] = {}
    return lambda rows, rng: known.setdefault(int(rows.sum()) % 2, rows.mean(axis=0))


def previous() -> Any:
    return remembering(lambda kept: kept[-2], np.zeros(4))


def first() -> Any:
    return remembering(lambda kept: kept[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(previous, "carries something from run to run", marks=pytest.mark.repeats),
        (one_of_two, "carries something from run to run"),
        (lambda: lambda rows, rng: rows.mean(axis=0) + np.random.normal(size=4), "generator of NumPy"),  # noqa: NPY002
        (lambda: lambda rows, rng: rows.mean(axis=0) + (time.time_ns() % 10**9) * 1e-9, "reads a clock"),
        (lambda: behind_a_lock(previous()), "in this process"),
        pytest.param(lambda: behind_a_lock(first()), "cannot be run in a new process", marks=pytest.mark.repeats),
    ],
    ids=["previous", "parity", "global", "clock", "lock", "constant"],
)
def test_a_mechanism_whose_runs_cannot_be_repeated_is_void(data: Matrix, make: Any, message: str) -> None:
    with pytest.raises(InvalidAudit, match=message):
        ksdp.audit(data, make(), **FEW)


def directions(rows: Matrix, rng: np.random.Generator) -> Matrix:
    return np.linalg.svd(rows + rng.normal(size=rows.shape), full_matrices=False)[2][:2]


@pytest.mark.parametrize(
    "mechanism",
    [pytest.param(directions, marks=pytest.mark.repeats), behind_a_lock(directions)],
    ids=["plain", "lock"],
)
def test_runs_that_depend_on_data_and_generator_alone_are_equal_to_the_bit(data: Matrix, mechanism: Any) -> None:
    assert ksdp.audit(data, mechanism, **FEW).summary.valid


def test_runs_of_earlier_looks_are_repeated_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a later look takes over from an earlier one says what its runs announced."""
    monkeypatch.setattr("ksdp.audit.verdicts.looks._LEAST_VALUES", 0)  # else it takes 700 documents
    rows = np.random.default_rng(0).normal(size=(60, 4))
    rows[0] *= 9.0
    settings = {"party_size": 0.5, "with_runs": 700, "fresh_runs": 0, "margin": 0.15, "seed": 1}
    found = ksdp.audit(rows, lambda X, rng: X.mean(axis=0) + 0.1 * rng.normal(size=4), **settings)
    assert found.summary.valid
    assert [look.tested for look in found.summary.looks] == [60, 60, 59], "one is decided early"


def test_a_constant_output_is_named(data: Matrix, capsys: pytest.CaptureFixture[str]) -> None:
    found = ksdp.audit(data, lambda rows, rng: np.ones(3), verbose=1, **FEW)
    assert found.summary.valid
    assert "announced the same numbers" in capsys.readouterr().err


@pytest.mark.e2e
def test_a_module_s_mechanism_is_imported_anew(tmp_path: Path) -> None:
    """By the command: what the module remembers stays in the process that audits."""
    (tmp_path / "mine.py").write_text(
        """
from dataclasses import dataclass
import numpy as np
from ksdp.audit.contract import Observables, Release
from ksdp.audit.statistics.plain import statistics_of_arrays

kept = [np.zeros(4)]

@dataclass(frozen=True)
class Mine:
    name = "mine"
    version = 1
    statistics = statistics_of_arrays((Release("mean", (4,)),), 4)

    def releases(self, features):
        return (Release("mean", (features,)),)

    def run(self, database, rng):
        kept.append(np.asarray(database.parties[0].mean(axis=0)).ravel())
        return Observables({"mean": kept[-2]})
"""
    )
    rows = np.random.default_rng(0).poisson(1.0, (24, 4))
    np.savetxt(tmp_path / "data.csv", rows, fmt="%d", delimiter=",", header="a,b,c,d", comments="")
    (tmp_path / "spec.toml").write_text(
        'seed = 1\n[corpus]\npath = "data.csv"\ncolumns = ["a", "b", "c", "d"]\n[mechanism]\nname = "mine:Mine"\n'
        "[design]\nparty_size = 0.5\nwith_runs = 20\nfresh_runs = 0\n"
    )
    command = [sys.executable, "-m", "ksdp", "audit", "spec.toml", "--store", "store", "--here", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr
    assert "carries something from run to run" in done.stderr
