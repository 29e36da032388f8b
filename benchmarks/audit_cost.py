"""The whole audit through Prefect, Dask and Parquet against a plain loop of the same numerics on one core."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ksdp.audit.design import Block
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import run_observables
from ksdp.audit.testing import compare_arms
from ksdp.flows.prepare import read_spec_file, spec_corpus

__all__ = ["run"]


def plain_loop(plan: Plan) -> dict[str, float]:
    """What a researcher would write: run, measure, keep in memory, test; no store, no workers."""
    documents = plan.documents(0)
    names = [s.name for s in plan.statistics]
    values = {name: np.empty((plan.runs, len(documents)), np.float32) for name in names}
    seconds = dict.fromkeys(("mechanism", "statistics", "tests"), 0.0)
    for statistic in plan.statistics:  # compiled kernels are read from their cache here
        statistic.evaluate(Observables({k: v * 1.0 for k, v in run_observables(plan, 0, 0).items()}), documents)
    for run_number in range(plan.runs):
        begin = time.perf_counter()
        seen = Observables({k: v.astype(np.float64) for k, v in run_observables(plan, 0, run_number).items()})
        middle = time.perf_counter()
        for statistic in plan.statistics:
            values[statistic.name][run_number] = statistic.evaluate(seen, documents)
        seconds["mechanism"] += middle - begin
        seconds["statistics"] += time.perf_counter() - middle
    begin = time.perf_counter()
    inclusion = plan.design.inclusion(Block(0, 0, plan.runs))
    for start in range(0, len(documents), 1024):
        rows = slice(start, start + 1024)
        compare_arms({n: np.ascontiguousarray(values[n][:, rows].T) for n in names}, inclusion[rows])
    seconds["tests"] = time.perf_counter() - begin
    return seconds


def run(spec_path: Path, workers: int) -> None:
    """Print both times and their ratio."""
    spec, base = read_spec_file(spec_path)
    plan = make_plan(spec, spec_corpus(spec, base))
    print(f"{spec_path.stem}: {len(plan.audited)} documents, {plan.runs} runs, {len(plan.statistics)} statistics")
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        command = [sys.executable, "-m", "ksdp", "audit", str(spec_path), "--store", str(store), "--json"]
        begin = time.perf_counter()
        done = subprocess.run([*command, "--workers", str(workers)], capture_output=True, text=True, check=False)
        whole = time.perf_counter() - begin
        if done.returncode not in (0, 3, 4):
            raise SystemExit(done.stderr)
        summary = json.loads(done.stdout.splitlines()[-1])
        stages = json.loads((store / "audits" / summary["audit"] / "audit.json").read_text())["seconds_by_stage"]
        megabytes = sum(f.stat().st_size for f in store.rglob("*.parquet")) / 1e6
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        begin = time.perf_counter()
        subprocess.run([*command, "--workers", str(workers)], capture_output=True, check=False)
        cached = time.perf_counter() - begin
    loop = plain_loop(plan)
    total = sum(loop.values())
    parts = ", ".join(f"{name} {value:.1f}" for name, value in loop.items())
    print(f"  plain loop on one core: {total:.1f} s ({parts})")
    print(
        f"  ksdp audit, {workers} workers: {whole:.1f} s from command to report "
        f"(flow {summary['seconds']:.1f}, {', '.join(f'{n} {v:.1f}' for n, v in stages.items())})"
    )
    same = whole - stages["confirm"]  # the loop measures nothing on fresh runs
    print(
        f"  ratio to loop / {workers}, without confirming: {same / (total / workers):.2f} whole, "
        f"{(summary['seconds'] - stages['confirm']) / (total / workers):.2f} flow"
    )
    print(f"  second time, cached: {cached:.1f} s; store {megabytes:.0f} MB; largest process {peak:.2f} GB")
    print(f"  verdicts {summary['verdicts']}")
