"""What people type every minute imports no numerics: counted in modules, as seconds are those of a machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ksdp

HEAVY = {"numpy", "pyarrow", "pandas", "scipy", "numba", "dask", "prefect", "rich", "matplotlib"}
COUNTED = """
import sys
sys.argv = ["ksdp", *sys.argv[1:]]
from ksdp.cli import main
try:
    main()
finally:
    print("imported:", *sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With an audit of some documents drawn, of which `show` has a sentence more."""
    rows = np.random.default_rng(0).poisson(1.0, (20, 5)) + 0.5
    folder = tmp_path_factory.mktemp("light") / "store"
    ksdp.audit(rows, "pd-svd", rank=2, party_size=0.3, with_runs=15, fresh_runs=0, documents=15, store=folder)
    return folder


def counted(*arguments: object) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """A command in a process of its own, and what it imported."""
    typed = [sys.executable, "-c", COUNTED, *map(str, arguments)]
    done = subprocess.run(typed, capture_output=True, text=True, timeout=300, check=False)
    imported = set(done.stdout.partition("imported:")[2].split())
    assert {"ksdp", "pydantic"} <= imported, "counted what was imported"
    return done, imported


@pytest.mark.parametrize(("command", "besides"), [(("list",), {"duckdb"}), (("show", "latest"), set[str]())])
def test_they_print_without_numpy_and_arrow(command: tuple[str, ...], besides: set[str], store: Path) -> None:
    done, imported = counted(*command, "--store", store)
    assert done.returncode == 0, done.stderr
    assert "15 documents" in done.stdout + done.stderr
    assert not imported & (HEAVY | besides)


SIGN = "--clearance c --key k --who w"
SPECS = [
    "audit",
    "plan",
    "columns",
    "claim",
    f"clear {SIGN}",
    "gain",
    "advise",
    f"approve {SIGN}",
    "schedule --cron c",
]


@pytest.mark.parametrize("command", SPECS)
def test_a_spec_is_refused_before_anything_heavy_is_imported(command: str, tmp_path: Path) -> None:
    done, imported = counted(*command.split(), tmp_path / "nothere.toml")
    assert "nothere.toml cannot be read" in done.stderr
    assert not imported & HEAVY
