"""Constants of `flows.audits.costs`, measured anew; CPU seconds that `ksdp plan` forecasts, and those spent.

Both are commands of their own, timed by the system. Audits run in one process: the system does not count workers
that are forked from a server of their own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

from ksdp.audit.contract import traits_of
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.errors import InputError
from ksdp.audit.opened import Opened
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.runs import Stored, measure, sample
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.statistic import Statistic
from ksdp.audit.statistics.simulated import SIMULATED
from ksdp.flows.audits.costs import MECHANISMS, SYSTEM

_V = 'name = "pd-svd"\nrank = 7\nopens = "final"'
_ROUNDS = 'name = "pd-svd"\nrank = 7'
_NMF = 'name = "pd-nmf"\nrank = 7'
_LEARNED = '[statistics]\nfamilies = ["paper", "geometry", "rounds", "learned"]'

KINDS = {
    "V, few runs": ("kos", "", _V, "party_size = 0.03\nwith_runs = 12\ndocuments = 300"),
    "V, early looks": ("kos", "", _V, "party_size = 0.03\nwith_runs = 200\ndocuments = 300"),
    "V, everybody": ("kos", "", _V, "party_size = 0.1\nwith_runs = 40"),
    "V, 500 terms, hardly a leak": (
        "enron-mail6",
        "[corpus.levers]\nmost_frequent = 500",
        _V,
        "party_size = 0.3\nwith_runs = 100\ndocuments = 300",
    ),
    "V, looks of its own": ("kos", "", _V, "party_size = 0.1\nwith_runs = 100\nlooks = 3\ndocuments = 1000"),
    "V, no fresh runs": ("kos", "", _V, "party_size = 0.1\nwith_runs = 100\nfresh_runs = 0\ndocuments = 300"),
    "V, learners": ("kos", "", _V, "party_size = 0.2\nwith_runs = 60\ndocuments = 100", _LEARNED),
    "PD-SVD, every round": ("kos", "", _ROUNDS, "party_size = 0.1\nwith_runs = 12\ndocuments = 300"),
    "PD-NMF, every sweep": ("kos", "", _NMF, "party_size = 0.1\nwith_runs = 8\ndocuments = 300"),
}
"""Corpus, its levers, mechanism, design and more of a spec."""


def _spec(corpus: str, levers: str, mechanism: str, design: str, more: str = "") -> str:
    return (
        f'seed = 7\n[corpus]\npath = "$KSDP_DATA/{corpus}/counts.npz"\nweighting = "tf-idf"\n{levers}\n'
        f"[mechanism]\n{mechanism}\n[design]\n{design}\n{more}\n"
    )


def _timed(*command: str) -> tuple[float, dict[str, Any]]:
    """CPU seconds of a command and of all that it started, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "ksdp", *command], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3, 4):
        raise SystemExit(done.stderr)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, dict(json.loads(done.stdout.splitlines()[-1]))


_SIZES = ((300, 200, 0.1), (300, 200, 0.5), (1500, 1000, 0.1), (1500, 1000, 0.5), (2000, 4000, 0.3))
"""Documents, features, and the party's size, of the corpora that constants are measured on."""
_RUNS = 6


def _drawn(documents: int, features: int) -> Corpus:
    rng = np.random.default_rng(1)
    counts = rng.poisson(rng.gamma(0.05, 0.6, size=(documents, features)))
    counts[:, 0] += 1
    rows = canonical(sp.csr_array(counts / np.linalg.norm(counts, axis=1)[:, None]))
    return Corpus(rows, np.arange(documents).astype(str))


def _seconds(plan: Plan, runs: Sequence[Stored], statistics: Sequence[Statistic]) -> float:
    """CPU seconds a run; the first run compiles, and works out what is expected of all."""
    measure(plan, Block(0, 0, 1), runs[:1], statistics)
    began = time.process_time()
    measure(plan, Block(0, 1, len(runs)), runs[1:], statistics)
    return (time.process_time() - began) / (len(runs) - 1)


def constants(names: Sequence[str] = ()) -> None:
    """Print each mechanism's row of the table, and the mean of the other statistics."""
    print(f"{'mechanism':18} {'ms a run':>8} {'ns entry':>8} {'ns number':>9} {'us linear':>9}   (others, ms)")
    for name in names or [name for name in MECHANISMS if name != "recorded" and "," not in name]:
        work, took, linear, others = [], [], [], []
        for documents, features, share in _SIZES:
            tables = {"corpus": {"path": "x"}, "mechanism": {"name": name}, "decision": {"margin": 0.2}}
            design = {"party_size": share, "with_runs": 100}
            try:
                plan = make_plan(
                    Opened.of(parse_spec(tables | {"seed": 1, "design": design}), _drawn(documents, features))
                )
            except InputError as error:  # more features than it takes
                print(f"{name}: {error}")
                continue
            list(sample(plan, Block(0, 0, 1)))
            began = time.process_time()
            runs = list(sample(plan, Block(0, 0, _RUNS)))
            took.append((time.process_time() - began) / _RUNS)
            entries = plan.corpus.matrix.nnz * share * (traits_of(plan.mechanism).rank or 1)
            work.append([1.0, entries, sum(int(np.prod(array.shape)) for array in plan.releases.recorded)])
            empty = _seconds(plan, runs, [])
            for one in plan.statistics:
                if one.name.startswith("linear-"):
                    linear.append((_seconds(plan, runs, [one]) - empty - SYSTEM) / plan.holdings.unknown)
                elif one.name != SIMULATED:
                    others.append(_seconds(plan, runs, [one]) - empty)
        fitted = nnls(np.array(work) / np.array(took)[:, None], np.ones(len(took)))[0] * [1e3, 1e9, 1e9]
        print(
            f"{name:18} {fitted[0]:8.2f} {fitted[1]:8.1f} {fitted[2]:9.1f} {1e6 * np.mean(linear or [0]):9.1f}"
            f"   {1e3 * np.mean(others or [0]):.2f}",
            flush=True,
        )


def run(kinds: Sequence[str] = ()) -> None:
    """Print the constants; and for each kind of audit what was forecast, what it took, and the ratio."""
    if not kinds:
        with threadpool_limits(1):
            constants()
    print(f"{'audit':28} {'documents':>9} {'runs':>6} {'of':>6} {'plan':>6} {'forecast':>8} {'took':>6}  ratio")
    for kind in kinds or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            spec = Path(folder) / "spec.toml"
            spec.write_text(_spec(*KINDS[kind]))
            planning, said = _timed("plan", str(spec), "--json")
            took, done = _timed("audit", str(spec), "--store", f"{folder}/store", "--here", "1", "--json")
        planned = sum(said["cpu_seconds"].values())
        stages = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in said["cpu_seconds"].items())
        print(
            f"{kind:28} {said['documents']:9} {done['runs']:6} {said['runs']:6} {planning:6.1f} {planned:8.1f} "
            f"{took:6.1f}  {planned / took:.2f}  ({stages}; processes here: {said['processes_here']})",
            flush=True,
        )
