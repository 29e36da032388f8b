"""`ksdp audit` beside that of commit 9962f76, in CPU seconds: ratios hold on any machine, also on a busy one.

::

    python -m benchmarks speed --whole          # four corpora and mechanisms, every document; an hour
    python -m benchmarks speed --whole 20       # with a tenth of the runs

The reference is taken out of this repository's history and runs as it was. It looked at every document in every
run, of a PD-NMF at the last sweep alone and of a PD-SVD at its final output, which is all that today's PD-SVD
opens here; PD-NMF opens every sweep.
"""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import ROOT, waiting

REFERENCE = "9962f76"
SPECS = tuple(f"{corpus}-{kind}" for corpus in ("enron-mail6", "20newsgroups") for kind in ("svd", "nmf"))
_FINAL = '[mechanism]\nopens = "final"\n'


def reference() -> Path:
    """The tree of the reference, taken out of the history once: its kernels need not be compiled each time."""
    folder = ROOT / ".reference" / REFERENCE
    if folder.is_dir():
        return folder
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", REFERENCE], capture_output=True, check=False)
    if packed.returncode:
        raise SystemExit(f"commit {REFERENCE} is not in this clone: fetch its whole history to compare with it.")
    folder.parent.mkdir(exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=folder.parent))
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tree:
        tree.extractall(part, filter="tar")
    _install(part)
    return part.rename(folder)


def _install(tree: Path) -> None:
    """Its own entry points beside its code: those of the installed package name modules that it does not have."""
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = tree / "src" / f"ksdp-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ksdp\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def _environment(tree: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1"}


def whole(specs: Sequence[str] = (), workers: int = 2, with_runs: int = 200) -> None:
    """Run `ksdp audit` under both, and print CPU seconds, seconds and bytes of the store.

    Fewer runs with each document than the 200 of the specs give a ratio sooner; starting up then weighs more.
    """
    for spec in specs or SPECS:
        spent = {}
        for name, took in both(spec, workers, with_runs):
            spent[name] = took
            words = f"{took.cpu:.0f} CPU s, {took.clock:.0f} s, store {took.store:.2f} GB"
            print(f"{spec:20}{name:>6}  {words}", flush=True)
        print(f"{spec:20} {spent['then'].cpu / spent['now'].cpu:.2f} times fewer", flush=True)


@dataclass(frozen=True)
class Spent:
    """What a command took with all its processes, from its start to its report."""

    cpu: float
    clock: float
    """Seconds."""
    store: float
    """GB."""


def both(spec: str, workers: int, with_runs: int) -> Iterator[tuple[str, Spent]]:
    """What the whole audit of a spec takes `then`, and what it takes `now`, each with kernels compiled before."""
    with tempfile.TemporaryDirectory() as folder:
        for name, tree in (("then", reference()), ("now", ROOT)):
            path = Path(folder) / f"{name}-{spec}.toml"
            path.write_text(spec_text(tree, spec, "12\ndocuments = 50"))
            audit(tree, path, Path(folder) / "warm", workers)
            path.write_text(spec_text(tree, spec, str(with_runs)))
            yield name, audit(tree, path, Path(folder) / f"{name}-{spec}", workers)


def spec_text(tree: Path, spec: str, with_runs: str) -> str:
    """A spec of a tree with other runs; of today's a PD-SVD opens its final output alone."""
    text = (tree / "examples/specs" / f"{spec}.toml").read_text()
    if tree == ROOT and spec.endswith("svd"):
        text = text.replace("[mechanism]\n", _FINAL, 1)
    return text.replace("with_runs = 200", f"with_runs = {with_runs}")


def audit(tree: Path, spec: Path, store: Path, workers: int | None = None, **environment: str) -> Spent:
    """`ksdp audit` of a tree on its own; without `workers` as who types no more than that has it."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    options = [str(spec), "--store", str(store), *(() if workers is None else ("--dask", str(workers)))]
    command = [sys.executable, "-P", "-m", "ksdp", "audit", *options]
    around = _environment(tree) | environment
    done = subprocess.run(waiting(command), env=around, capture_output=True, text=True, check=False)
    clock = time.monotonic() - began
    if done.returncode not in (0, 3, 4):
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    size = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    return Spent(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock, size / 1e9)
