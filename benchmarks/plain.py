"""SciPy's tests, a plain loop and joblib beside ours, in one run and on the same work.

::

    python -m benchmarks plain                  # some ten minutes
    python -m benchmarks plain-every            # every mail; some minutes
    python -m benchmarks plain-tests            # tests alone

Runs, documents and columns are the same: a PD-SVD of enron-mail6, and the five columns that both sides compute.
It ends where releases, columns, D or p differ. All is done in turns. CPU seconds, as the machine may be busy; a
ratio is the median of turns, in brackets the smallest and the largest. Parts are without start and store on both
sides, and our tests are those of an audit, with ties and tails; commands are with both, and so is the loop beside
them, which reads and weighs the counts in a process of its own, and keeps releases and columns.

Of every mail the loop with looks is reckoned from some runs at each look and some documents' tests. It has as many
documents left there as ours, which knows more of them (`audit/absence.py`, copies).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks import ROOT, data_folder, plain_loop, waiting
from benchmarks.fastest import best
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.runs import BlockValues, lane_documents, measure, sample
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.laws import ks_tables
from ksdp.audit.verdicts.power import sensitive_distance
from ksdp.flows.prepare import open_spec
from ksdp.storage.readers.spec_files import read_spec_file

COLUMNS = ("row-space-energy", "missing-weight", "w-max", "w-square-sum", "d-square-sum")
TURNS, WORKERS = 3, 2
ARMS = ((23, 745), (223, 2209), (200, 6500))
"""Runs with and without a document: at the first look of enron-mail6, at its end, and there of all runs."""
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
_ALL = 'looks = "end"\nwithout_runs = "all"\nfresh_runs = 0\nabsent = "measured"\n'
"""Every document in every run, which are tested once: what the loop does."""
_LOOKS = 'fresh_runs = 0\nabsent = "measured"\n'
"""The same with looks: what the loop with looks does."""

ROWS = (
    ("tests: SciPy vectorised, exact", "exact", "ours, tests", 6.0),
    ("tests: SciPy vectorised, asymptotic", "asymptotic", "ours, tests", 5.0),
    ("tests: a loop", "loop, tests", "ours, tests", 10.0),
    ("runs: a loop", "loop, runs", "ours, runs", 1.2),
    ("columns: a loop", "loop, columns", "ours, columns", 1.3),
    ("runs, columns, tests: a loop", "loop", "ours", 1.6),
    ("command, all of them: a loop", "loop, whole", "command, all", 1.0),
    ("command, all of them: joblib", "joblib, whole", "command, all", 1.2),
    ("command with looks: a loop with looks", "loop with looks, whole", "command, looks", None),
    ("command as it comes: a loop with looks", "loop with looks, whole", "command", None),
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
    for name, more in (("command, all", _ALL), ("command, looks", _LOOKS), ("command", "")):
        specs[name] = home / f"{documents}-{len(specs)}.toml"
        names = json.dumps(list(COLUMNS))
        specs[name].write_text(_SPEC.format(documents=documents, with_runs=with_runs, more=more, names=names))
    return _plan(specs["command, all"]), specs


def _plan(path: Path) -> Plan:
    spec, base = read_spec_file(path)
    return make_plan(open_spec(spec, base))


def _looks(spec: Path) -> list[tuple[int, float]]:
    """Runs of each look, and the D from which a document is surely sensitive there."""
    plan = _plan(spec)
    found, rule = [], plan.spec.decision_in_run
    for look in plan.looks:
        held = np.array([round(look.runs * plan.design.share)])
        arms = held, look.runs - held
        bar = sensitive_distance(*arms, len(plan.audited), len(COLUMNS), rule, look.level)
        found.append((look.runs, float(bar[0])))
    return found


def _work(plan: Plan) -> plain_loop.Work:
    documents = lane_documents(plan, 0)
    known = {name: np.asarray(value, float) for name, value in documents.background.items()}
    scale = (known["victim_rows"] + known["adversary_rows"]) / known["adversary_rows"]
    corpus, looked_at = (sp.csr_matrix(rows) for rows in (plan.corpus.matrix, documents.matrix))
    return plain_loop.Work(corpus, looked_at, len(known["adversary_sigma"]), scale * known["adversary_sigma"] ** 2)


def _ours(plan: Plan, times: _Times) -> tuple[list[dict[str, Any]], list[BlockValues]]:
    """Releases and columns of all runs."""
    drawn = times.of("ours, runs", lambda: [list(sample(plan, block)) for block in plan.blocks])

    def measured() -> list[BlockValues]:
        return [measure(plan, *part, plan.statistics) for part in zip(plan.blocks, drawn, strict=True)]

    return [one for part in drawn for one in part], times.of("ours, columns", measured)


def _start() -> None:
    """Begin as a loop of one's own does: a process, its imports, the corpus."""
    counts = str(data_folder() / "enron-mail6" / "counts.npz")
    begin = [sys.executable, "-c", f"from benchmarks import plain_loop; plain_loop.start({counts!r})"]
    subprocess.run(begin, check=True, cwd=ROOT)


def _start_and_store(times: _Times, seen: list[Any], values: NDArray[np.float32]) -> None:
    """What a loop needs around it."""
    times.of("loop, start", _start)
    with tempfile.TemporaryDirectory() as folder:
        times.of("loop, store", lambda: plain_loop.store(Path(folder), seen, values))


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
    times.of("ours, tests", lambda: compare_arms(dict(zip(COLUMNS, ours, strict=True)), inclusion))
    tables = ks_tables(list(ours), inclusion)
    exact = times.of("exact", lambda: plain_loop.vectorised(ours, inclusion, "exact"))
    times.of("asymptotic", lambda: plain_loop.vectorised(ours, inclusion, "asymp"))
    times.of("joblib", lambda: plain_loop.on_processes(work, drawn, inclusion, WORKERS))
    looks = _looks(specs["command, looks"])
    times.of("loop with looks", lambda: plain_loop.with_looks(work, drawn, inclusion, looks))
    _start_and_store(times, seen, theirs)
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


def table_of_tests(documents: int = 150, arms: Sequence[tuple[int, int]] = ARMS) -> None:
    """Print what a test of values that tell nothing takes, which cost ours most and SciPy least."""
    rng = np.random.default_rng(0)
    print("| runs with, without | ours | SciPy, exact | times | asymptotic | times |\n|---|---|---|---|---|---|")
    for held, free in arms:
        values = rng.normal(size=(1, documents, held + free)).astype(np.float32)
        bits = rng.permuted(np.arange(held + free) < held + np.zeros((documents, 1), np.int64), axis=1)
        compare_arms({"drawn": values[0, :3]}, bits[:3])
        works: dict[str, Callable[[], Any]] = {
            "ours": partial(compare_arms, {"drawn": values[0]}, bits),
            "exact": partial(plain_loop.vectorised, values, bits, "exact"),
            "asymptotic": partial(plain_loop.vectorised, values, bits, "asymp"),
        }
        spent = {name: 1e3 * best(work) / documents for name, work in works.items()}
        ours, exact, asymptotic = spent.values()
        cells = f"{ours:.3f} ms | {exact:.3f} | {exact / ours:.1f} | {asymptotic:.3f} | {asymptotic / ours:.1f}"
        print(f"| {held:,}, {free:,} | {cells} |", flush=True)


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
    for of in (times.cpu, times.clock):
        for name in ("loop", "ours"):
            parts = [of[f"{name}, {part}"] for part in ("runs", "columns", "tests")]
            of[name] = [sum(turn) for turn in zip(*parts, strict=True)]
        for name in ("loop", "joblib", "loop with looks"):
            parts = [of[part] for part in (name, "loop, start", "loop, store")]
            of[f"{name}, whole"] = [sum(turn) for turn in zip(*parts, strict=True)]
    print("| | theirs, CPU s | ours, CPU s | times fewer | asked | by the clock |\n|---|---|---|---|---|---|")
    for row in ROWS:
        print(times.row(*row))
    low = [what for what, theirs, ours, least in ROWS if least and median(times.times(theirs, ours)) < least]
    if low:
        raise SystemExit(f"below what is asked: {'; '.join(low)}.")


def _columns_of(work: plain_loop.Work, seen: Sequence[Any]) -> list[Any]:
    return [plain_loop.columns(work, one) for one in seen]


def every(with_runs: int = 200, some: int = 16) -> None:
    """Print what the audit of every mail takes without fresh runs, and what the loop with looks would take."""
    times, named = _Times(), json.dumps(list(COLUMNS))
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "every.toml"
        text = _SPEC.replace("documents = {documents}\n", "").format(with_runs=with_runs, more=_LOOKS, names=named)
        spec.write_text(text.replace('absent = "measured"\n', ""))
        times.of("ours", lambda: _command(spec, Path(folder) / "store"))
        (summary,) = (Path(folder) / "store" / "audits").glob("*/audit.json")
        looks = [(one["runs"], one["tested"]) for one in json.loads(summary.read_text())["looks"]]
        spec.write_text(text)
        plan = _plan(spec)
    work, share = _work(plan), plan.design.share
    drawn = [plan.design.rows(0, run) for run in range(some)]
    plain_loop.columns(work, plain_loop.released(work, drawn[0]))
    seen = times.of("run", lambda: [plain_loop.released(work, rows) for rows in drawn])
    spent, before, rng = times.cpu["run"][0] / some * looks[-1][0], 0, np.random.default_rng(0)
    for number, (end, tested) in enumerate(looks):
        rows = np.sort(rng.choice(len(plan.audited), tested if number else len(plan.audited), replace=False))
        fewer = replace(work, documents=work.documents[rows])
        values = times.of("columns", partial(_columns_of, fewer, seen))
        spent += times.cpu["columns"][-1] / some * (end - before)
        values, held = rng.normal(size=(1, 200, end)).astype(np.float32), np.arange(end) < round(share * end)
        bits = np.broadcast_to(held, (200, end))
        times.of("tests", partial(plain_loop.vectorised, values, bits, "exact"))
        spent += times.cpu["tests"][-1] / 200 * len(rows) * len(COLUMNS)
        before = end
        print(f"look {number + 1}: {end} runs, {len(rows)} documents, {spent:.0f} CPU s so far", flush=True)
    times.of("start", _start)
    spent += times.cpu["start"][0]
    ours = times.cpu["ours"][0]
    print(f"a loop with looks {spent:.0f} CPU s, `ksdp audit` {ours:.0f}, {spent / ours:.1f} times")
