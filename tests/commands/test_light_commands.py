"""What people type every minute imports no numerics: counted in modules, as seconds are those of a machine."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ksdp

HEAVY = {"numpy", "pyarrow", "pandas", "scipy", "numba", "dask", "prefect", "rich", "matplotlib"}
COUNTED = """
import contextlib, shlex, sys
typed = sys.argv[1:]
from ksdp.cli import main
for line in typed:
    sys.argv = ["ksdp", *shlex.split(line)]
    with contextlib.suppress(SystemExit):
        main()
print("imported:", *sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With an audit of some documents drawn, of which `show` has a sentence more."""
    rows = np.random.default_rng(0).poisson(1.0, (20, 5)) + 0.5
    folder = tmp_path_factory.mktemp("light") / "store"
    ksdp.audit(rows, "pd-svd", rank=2, party_size=0.3, with_runs=15, fresh_runs=0, documents=15, store=folder)
    return folder


def counted(*lines: str) -> tuple[str, set[str]]:
    """What commands said, one after the other in a process of their own, and what that imported."""
    typed = [sys.executable, "-c", COUNTED, *lines]
    done = subprocess.run(typed, capture_output=True, text=True, timeout=300, check=True)
    imported = set(done.stdout.partition("imported:")[2].split())
    assert {"ksdp", "pydantic"} <= imported, "counted what was imported"
    return done.stdout + done.stderr, imported


@pytest.mark.parametrize(("command", "besides"), [("list", {"duckdb"}), ("show latest", set[str]())])
def test_they_print_without_numpy_and_arrow(command: str, besides: set[str], store: Path) -> None:
    said, imported = counted(f"{command} --store {store}")
    assert "15 documents" in said
    assert not imported & (HEAVY | besides)


SIGN = "--clearance c --key k --who w"
SPECS = [
    "audit",
    "plan",
    "plan --columns c",
    "claim",
    f"clear {SIGN}",
    "gain",
    "advise",
    f"clear {SIGN} --hours 1",
    "schedule --cron c",
]


def test_a_spec_is_refused_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    said, imported = counted(*(f"{command} {tmp_path / 'nothere.toml'}" for command in SPECS))
    assert said.count("nothere.toml cannot be read") == len(SPECS)
    assert not imported & HEAVY
