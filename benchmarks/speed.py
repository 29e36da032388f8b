"""Today's code beside that of commit 9962f76, in CPU seconds: ratios hold on any machine, also on a busy one.

::

    python -m benchmarks speed                  # four corpora and mechanisms, part by part; some minutes
    python -m benchmarks speed --quick          # KOS, few runs; a minute once all kernels are compiled
    python -m benchmarks speed --every-round    # of PD-SVD as well
    python -m benchmarks speed --whole          # `ksdp audit` itself under both, every document; an hour
    python -m benchmarks speed --whole 20       # with a tenth of the runs

The reference is taken out of this repository's history and runs as it was, in a process of its own, in turns with
today's. It looked at every document in every run, of a PD-NMF at the last sweep alone and of a PD-SVD at its final
output, which is all that today's PD-SVD opens unless `--every-round` is said; PD-NMF opens every sweep.
"""

from __future__ import annotations

import io
import json
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
from typing import Any

from benchmarks import ROOT

REFERENCE = "9962f76"
SPECS = tuple(f"{corpus}-{kind}" for corpus in ("enron-mail6", "20newsgroups") for kind in ("svd", "nmf"))
_QUICK = ("kos-svd", "kos-nmf")
_PARTS = ("mechanism", "statistics", "tests")
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


class _Loop:
    """The plain loop of one tree, in a process that waits to be told what to do."""

    def __init__(self, tree: Path, spec: str, runs: int, opens: str) -> None:
        script, path = ROOT / "benchmarks" / "loop_parts.py", tree / "examples/specs" / f"{spec}.toml"
        command = [sys.executable, "-P", str(script), str(path), str(runs), opens]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, env=_environment(tree), **pipes)
        self.about: dict[str, Any] = json.loads(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line: str = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a loop ended with {self._process.wait()}; its error is above.")
        return line

    def seconds(self, part: str) -> float:
        """CPU seconds of a part, for the whole audit without its fresh runs."""
        assert self._process.stdin is not None
        print(part, file=self._process.stdin, flush=True)
        return float(self._answer()) * float(self.about["scale"][part])

    def columns(self) -> dict[str, float]:
        """CPU milliseconds a run of each statistic."""
        assert self._process.stdin is not None
        print("columns", file=self._process.stdin, flush=True)
        found: dict[str, float] = json.loads(self._answer())
        runs = float(self.about["runs"]) / float(self.about["scale"]["statistics"])
        return {name: 1e3 * spent / runs for name, spent in found.items()}

    def end(self) -> None:
        """Let it go."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def run(
    specs: Sequence[str] = (), runs: int = 32, *, quick: bool = False, repeats: int = 3, every_round: bool = False
) -> None:
    """Print a table of CPU seconds by part, and how many times fewer they are today; then today's columns.

    Parameters
    ----------
    every_round : whether today's PD-SVD opens more than its final output
    """
    chosen = specs or (_QUICK if quick else SPECS)
    runs, repeats = (8, 1) if quick else (runs, repeats)
    print("CPU seconds of a plain loop over a whole audit, without fresh runs (medians of turns), then / now:")
    heads = "".join(f"{part:>18}" for part in (*_PARTS, "together"))
    print(f"{'':30}{'runs':>14}{'values GB':>14}{heads}  times fewer")
    tree = reference()
    for spec in chosen:
        opened = "final" if spec.endswith("svd") and not every_round else "every round"
        loops = [_Loop(tree, spec, runs, ""), _Loop(ROOT, spec, runs, opened)]
        try:
            turns = [[{part: loop.seconds(part) for part in _PARTS} for loop in loops] for _ in range(repeats)]
            spent = [
                {part: sorted(turn[which][part] for turn in turns)[repeats // 2] for part in _PARTS}
                for which in range(2)
            ]
            columns = loops[1].columns()
        finally:
            for loop in loops:
                loop.end()
        _line(f"{spec}, {opened}", [loop.about for loop in loops], spent)
        each = sorted(columns.items(), key=lambda column: -column[1])
        print("   now, ms a run: " + ", ".join(f"{name} {spent:.1f}" for name, spent in each), flush=True)


def _line(name: str, about: Sequence[dict[str, Any]], spent: Sequence[dict[str, float]]) -> None:
    then, now = spent
    cells = [f"{then[part]:.0f} / {now[part]:.0f}" for part in _PARTS]
    old, new = sum(then.values()), sum(now.values())
    sizes = "{:.1f} / {:.1f}".format(*(a["values"] / 1e9 for a in about))
    numbers = "{} / {}".format(*(a["runs"] for a in about))
    together = f"{old:.0f} / {new:.0f}"
    row = "".join(f"{cell:>18}" for cell in (*cells, together))
    print(f"{name:30}{numbers:>14}{sizes:>14}{row}  {old / new:.2f}", flush=True)


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
    options = [str(spec), "--store", str(store), *(() if workers is None else ("--workers", str(workers)))]
    command = [sys.executable, "-P", "-m", "ksdp", "audit", *options]
    around = _environment(tree) | environment
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=False)
    clock = time.monotonic() - began
    if done.returncode not in (0, 3, 4):
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    size = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    return Spent(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock, size / 1e9)
