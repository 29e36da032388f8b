"""SciPy's tests, a plain loop and joblib beside ours, in one run and on the same work.

::

    python -m benchmarks plain                  # some ten minutes

Runs, documents and columns are the same: a PD-SVD of enron-mail6, and the five columns that both sides compute.
It ends where releases, columns, D or p differ. All is done three times in turn. CPU seconds, as the machine may be
busy; a ratio is the median of turns, in brackets the smallest and the largest.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from benchmarks import plain_loop, waiting
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.runs import BlockValues, lane_documents, measure, sample
from ksdp.audit.verdicts.laws import ks_tables
from ksdp.flows.prepare import open_spec
from ksdp.storage.readers.spec_files import read_spec_file

COLUMNS = ("row-space-energy", "missing-weight", "w-max", "w-square-sum", "d-square-sum")
TURNS, WORKERS = 3, 2
APART = {
    "directions": 1e-6,
    "columns": 1e-5,
    "D of the same values": 1e-12,
    "log10 p": 1e-9,
    "D of own columns": 0.02,
}
"""How far numbers of both sides may be apart."""
_SPEC = """seed = 7
[corpus]
path = "$KSDP_DATA/enron-mail6/counts.npz"
weighting = "tf-idf"
[mechanism]
name = "pd-svd"
rank = 7
opens = "final"
[design]
party_size = 0.03
documents = {documents}
with_runs = {with_runs}
{more}[statistics]
families = []
names = {names}
"""
_ALL = 'looks = "end"\nwithout_runs = "all"\nfresh_runs = 0\n'
"""Every document in every run, which are tested once: what the loop does."""

ROWS = (
    ("tests: SciPy vectorised, exact", "exact", "ours, tests", 10.0),
    ("tests: SciPy vectorised, asymptotic", "asymptotic", "ours, tests", 8.0),
    ("tests: a loop", "loop, tests", "ours, tests", 15.0),
    ("200 runs with, 6,500 without: SciPy vectorised, exact", "drawn, exact", "drawn, ours", 6.0),
    ("200 runs with, 6,500 without: SciPy vectorised, asymptotic", "drawn, asymptotic", "drawn, ours", 3.0),
    ("runs: a loop", "loop, runs", "ours, runs", 1.2),
    ("columns: a loop", "loop, columns", "ours, columns", 1.3),
    ("runs, columns, tests: a loop", "loop", "ours", 1.6),
    ("command, all of them: a loop", "loop", "command, all", 1.0),
    ("command, all of them: joblib", "joblib", "command, all", 1.2),
    ("command as it comes: a loop", "loop", "command", None),
    ("command as it comes: joblib", "joblib", "command", None),
)
"""What is compared, and how many times fewer CPU seconds are asked of ours."""


def _clock() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class _Times:
    """CPU and clock seconds of named parts, one of each a turn."""

    def __init__(self) -> None:
        self.cpu: dict[str, list[float]] = defaultdict(list)
        self.clock: dict[str, list[float]] = defaultdict(list)

    def of(self, name: str, work: Callable[[], Any]) -> Any:
        """What came of it."""
        cpu, clock = _clock(), time.monotonic()
        found = work()
        self.cpu[name].append(_clock() - cpu)
        self.clock[name].append(time.monotonic() - clock)
        return found

    def times(self, theirs: str, ours: str, *, clock: bool = False) -> list[float]:
        """How many times more theirs took, in the order of size."""
        of = self.clock if clock else self.cpu
        return sorted(a / b for a, b in zip(of[theirs], of[ours], strict=True))

    def row(self, what: str, theirs: str, ours: str, least: float | None) -> str:
        """A row of the table."""
        seconds = " | ".join(f"{median(self.cpu[name]):.3g}" for name in (theirs, ours))
        cpu, clock = (self.times(theirs, ours, clock=clock) for clock in (False, True))
        asked = "" if least is None else f"{least:g}"
        return (
            f"| {what} | {seconds} | {median(cpu):.1f} ({cpu[0]:.1f} to {cpu[-1]:.1f}) | {asked} | "
            f"{median(clock):.1f} |"
        )


def _prepared(home: Path, documents: int, with_runs: int) -> tuple[Plan, dict[str, Path]]:
    """The plan in which every document is tested once in all runs, and specs of commands."""
    specs: dict[str, Path] = {}
    for name, more in (("command, all", _ALL), ("command", "")):
        specs[name] = home / f"{documents}-{len(specs)}.toml"
        names = json.dumps(list(COLUMNS))
        specs[name].write_text(_SPEC.format(documents=documents, with_runs=with_runs, more=more, names=names))
    spec, base = read_spec_file(specs["command, all"])
    return make_plan(open_spec(spec, base)), specs


def _work(plan: Plan) -> plain_loop.Work:
    documents = lane_documents(plan, 0)
    known = {name: np.asarray(value, float) for name, value in documents.background.items()}
    scale = (known["victim_rows"] + known["adversary_rows"]) / known["adversary_rows"]
    corpus, looked_at = (sp.csr_matrix(rows) for rows in (plan.corpus.matrix, documents.matrix))
    return plain_loop.Work(corpus, looked_at, len(known["adversary_sigma"]), scale * known["adversary_sigma"] ** 2)


def vectorised(values: NDArray[Any], inclusion: NDArray[np.bool_], method: str) -> NDArray[Any]:
    """D and p by SciPy, all documents with as many runs at once."""
    found, held = np.empty((2, *values.shape[:2])), inclusion.sum(axis=1)
    for m in np.unique(held):
        rows = np.flatnonzero(held == m)
        bits = np.broadcast_to(inclusion[rows], (len(values), len(rows), inclusion.shape[1]))
        with_, without = (values[:, rows][arm].reshape(len(values), len(rows), -1) for arm in (bits, ~bits))
        found[:, :, rows] = ks_2samp(with_, without, axis=2, method=method)
    return found


def _ours(plan: Plan, times: _Times) -> tuple[list[dict[str, Any]], list[BlockValues]]:
    """Releases and columns of all runs."""
    drawn = times.of("ours, runs", lambda: [list(sample(plan, block)) for block in plan.blocks])

    def measured() -> list[BlockValues]:
        return [measure(plan, *part, plan.statistics) for part in zip(plan.blocks, drawn, strict=True)]

    return [one for part in drawn for one in part], times.of("ours, columns", measured)


def _command(spec: Path, store: Path) -> None:
    """A whole audit, to its report."""
    command = [sys.executable, "-m", "ksdp", "audit", str(spec), "--store", str(store), "--here", str(WORKERS)]
    done = subprocess.run(waiting(command), capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3, 4):
        raise SystemExit(done.stderr)


def _turn(plan: Plan, specs: dict[str, Path], times: _Times, home: Path) -> str:
    """All of it once; how far numbers differ."""
    work, n = _work(plan), len(plan.audited)
    drawn = [plan.design.rows(0, run) for run in range(plan.runs)]
    inclusion = np.concatenate([plan.design.inclusion(block) for block in plan.blocks], axis=1)
    seen = times.of("loop, runs", lambda: [plain_loop.released(work, rows) for rows in drawn])
    theirs = times.of(
        "loop, columns",
        lambda: np.stack([plain_loop.columns(work, one) for one in seen], axis=2, dtype=np.float32),
    )
    d, _ = times.of("loop, tests", lambda: plain_loop.tests(theirs, inclusion))
    released, parts = _ours(plan, times)
    ours = np.stack([np.concatenate([part.values[name][:n] for part in parts], axis=1) for name in COLUMNS])
    tables = times.of("ours, tests", lambda: ks_tables(list(ours), inclusion))
    exact = times.of("exact", lambda: vectorised(ours, inclusion, "exact"))
    times.of("asymptotic", lambda: vectorised(ours, inclusion, "asymp"))
    times.of("joblib", lambda: plain_loop.on_processes(work, drawn, inclusion, WORKERS))
    for name, spec in specs.items():
        with tempfile.TemporaryDirectory(dir=home) as store:
            times.of(name, lambda spec=spec, store=store: _command(spec, Path(store)))  # type: ignore[misc]  # a lambda with defaults
    distance, log_p = (np.array([getattr(table, part) for table in tables]) for part in ("distance", "log10_p"))
    turned = max(
        float(np.abs(np.abs((one["V"] * V).sum(axis=1)) - 1).max()) for one, V in zip(released, seen, strict=True)
    )
    scale = np.abs(ours).max(axis=(1, 2), keepdims=True)
    known = exact[1] > 1e-300
    apart = {
        "directions": turned,
        "columns": (np.abs(ours - theirs) / scale).max(),
        "D of the same values": np.abs(exact[0] - distance).max(),
        "log10 p": np.abs(np.log10(exact[1][known]) - log_p[known]).max(),
        "D of own columns": np.abs(d - distance).max(),
    }
    if other := [name for name, most in apart.items() if most > APART[name]]:
        raise SystemExit(f"this is not the same work: too far apart are {', '.join(other)}.")
    return "; ".join(f"{name} {most:.1e}" for name, most in apart.items())


def _drawn(times: _Times, documents: int = 500, runs: int = 6700, held: int = 200) -> None:
    """Tests of values that tell nothing: what costs ours most and SciPy least."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1, documents, runs)).astype(np.float32)
    inclusion = rng.permuted(np.arange(runs) < held + np.zeros((documents, 1), np.int64), axis=1)
    times.of("drawn, ours", lambda: ks_tables(list(values), inclusion))
    times.of("drawn, exact", lambda: vectorised(values, inclusion, "exact"))
    times.of("drawn, asymptotic", lambda: vectorised(values, inclusion, "asymp"))


def run(documents: int = 2000, with_runs: int = 60) -> None:
    """Print how far numbers differ, then the table; end in failure where a ratio is below what is asked."""
    times = _Times()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        few, whole = (_prepared(home, *size) for size in ((100, 20), (documents, with_runs)))
        _turn(*few, _Times(), home)  # compiles what is not compiled yet
        plan, _ = whole
        print(f"{len(plan.audited)} documents, {plan.runs} runs, {len(COLUMNS)} columns", flush=True)
        for _ in range(TURNS):
            print("largest differences:", _turn(*whole, times, home), flush=True)
            _drawn(times)
    for of in (times.cpu, times.clock):
        for name in ("loop", "ours"):
            parts = [of[f"{name}, {part}"] for part in ("runs", "columns", "tests")]
            of[name] = [sum(turn) for turn in zip(*parts, strict=True)]
    print("| | theirs, CPU s | ours, CPU s | times fewer | asked | by the clock |\n|---|---|---|---|---|---|")
    for row in ROWS:
        print(times.row(*row))
    low = [what for what, theirs, ours, least in ROWS if least and median(times.times(theirs, ours)) < least]
    if low:
        raise SystemExit(f"below what is asked: {'; '.join(low)}.")
