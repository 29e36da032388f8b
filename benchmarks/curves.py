"""How the cost of a whole `ksdp audit` grows with documents, features, runs and workers, one at a time.

::

    python -m benchmarks curves                # ten minutes on two idle cores

Corpora and spec are those of `benchmarks.scale`. Every line is the command itself on a new store, from its start
to its report: CPU seconds of all its processes, seconds on the clock, the largest process, the store.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks import ROOT
from benchmarks.scale import drawn_corpus, spec_tables
from ksdp.storage.files import toml_value


@dataclass(frozen=True)
class Point:
    """One audit."""

    documents: int = 20_000
    features: int = 20_000
    runs: int = 160
    workers: int = 2


BASE = Point()
CURVES: dict[str, tuple[int, ...]] = {
    "documents": (20_000, 80_000, 160_000),
    "features": (2_000, 20_000, 200_000),
    "runs": (160, 320, 640),
    "workers": (1, 2),
}


def run() -> None:
    """Print one line a point; the base stands in every curve."""
    print(f"{'':10} {'':>9} {'CPU s':>8} {'clock s':>8} {'GB':>6} {'store GB':>9}")
    for name, values in CURVES.items():
        for value in values:
            seen = _measured(replace(BASE, **{name: value}))
            cells = f"{seen['cpu']:8.1f} {seen['clock']:8.1f} {seen['memory']:6.2f} {seen['store']:9.3f}"
            print(f"{name:10} {value:>9} {cells}", flush=True)
    print(f"all else as in {asdict(BASE)}; other work of this machine counts on the clock")


def _measured(point: Point) -> dict[str, float]:
    """In a process of its own, whose children are this audit's alone."""
    command = [sys.executable, "-c", "from benchmarks import curves; curves.one()", json.dumps(asdict(point))]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return measured


def one() -> None:
    """Write a corpus and its spec, run the command, say what it took."""
    point = Point(**json.loads(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.npz"
        sp.save_npz(
            path, drawn_corpus(point.documents, np.random.default_rng(7), point.features), compressed=False
        )
        spec, store = Path(folder) / "audit.toml", Path(folder) / "store"
        tables = spec_tables(path, point.runs)
        tables["design"] |= {"looks": "end"}  # an audit that ends early lies on no line
        spec.write_text("".join(f"{name} = {toml_value(value)}\n" for name, value in tables.items()))
        command = [str(Path(sys.executable).parent / "ksdp"), "audit", str(spec), "--store", str(store)]
        began = time.monotonic()
        done = subprocess.run([*command, "--dask", str(point.workers), "--json"], stdout=subprocess.PIPE)
        clock = time.monotonic() - began
        json.loads(done.stdout)  # the exit code says what was found; a command that failed prints no summary
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        kept = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e9
    print(json.dumps({"cpu": cpu, "clock": clock, "memory": memory, "store": kept / 1e9}))
