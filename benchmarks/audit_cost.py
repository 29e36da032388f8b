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
from ksdp.audit.kept_runs import levelled
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import measure, sample
from ksdp.audit.testing import compare_arms
from ksdp.flows.prepare import read_spec_file, spec_corpus

__all__ = ["run"]


def plain_loop(plan: Plan) -> dict[str, float]:
    """What a researcher would write: run, measure, keep in memory, test; no store, no workers."""
    documents = len(plan.documents(0))
    names = [s.name for s in plan.statistics]
    parts = []
    seconds = dict.fromkeys(("mechanism", "statistics", "tests"), 0.0)
    first = Block(0, 0, 1)  # compiled kernels are read from their cache here
    measure(plan, first, sample(plan, first), plan.statistics)
    for block in plan.blocks:
        begin = time.perf_counter()
        drawn = list(sample(plan, block))
        middle = time.perf_counter()
        parts.append(measure(plan, block, drawn, plan.statistics))
        seconds["mechanism"] += middle - begin
        seconds["statistics"] += time.perf_counter() - middle
    begin = time.perf_counter()
    for start in range(0, documents, 1024):
        rows = slice(start, min(start + 1024, documents))
        bits = np.concatenate([part.inclusion[rows] for part in parts], axis=1)
        some = [part.kept[rows] for part in parts if part.kept is not None]
        kept = np.concatenate(some, axis=1) if some else None
        values = [np.concatenate([part.values[n][rows] for part in parts], axis=1) for n in names]
        bits, read = levelled(bits, kept, values, plan.read_runs)
        compare_arms(dict(zip(names, read, strict=True)), bits)
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
