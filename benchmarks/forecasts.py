"""The cost of an audit as `ksdp plan` forecasts it, beside the measured one: CPU seconds by stage, and bytes.

In one process, so that a stage's CPU is what the process used meanwhile; start-up is left out, as it depends on
the machine's disk and on what else it does, and is the same for every audit.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from benchmarks import ROOT
from ksdp.audit.planning import make_plan
from ksdp.flows.audits.bill import bill
from ksdp.flows.audits.calibration import calibrate
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import read_spec_file, spec_corpus

SPECS = ("kos-svd", "enron-mail6-svd", "kos-nmf")


def run(specs: tuple[str, ...] = (), with_runs: int = 60) -> None:
    """Print both for each spec, with so many runs in the smaller arm."""
    print(f"{'spec':18} {'stage':8} {'planned':>8} {'took':>8}  ratio")
    for name in specs or SPECS:
        read, base = read_spec_file(ROOT / f"examples/specs/{name}.toml")
        spec = read.model_copy(update={"design": read.design.model_copy(update={"with_runs": with_runs})})
        plan = make_plan(spec, spec_corpus(spec, base))
        costs = calibrate(plan)
        planned = costs.stages(plan, plan.runs)
        clock = SimpleNamespace(monotonic=time.process_time)
        with (
            patch("ksdp.flows.audits.audit.time", clock),
            patch("ksdp.flows.audits.tested_look.time", clock),
            tempfile.TemporaryDirectory() as folder,
        ):
            summary = run_audit(spec, base, Path(folder), HERE)
            kept = sum(file.stat().st_size for file in Path(folder).glob("runs/**/*.parquet"))
        took = summary.seconds_by_stage
        for stage in ("sample", "test"):
            ratio = planned[stage] / took[stage]
            print(f"{name:18} {stage:8} {planned[stage]:8.1f} {took[stage]:8.1f}  {ratio:.2f}")
        both = [sum(of[stage] for stage in ("sample", "test")) for of in (planned, took)]
        print(f"{name:18} {'both':8} {both[0]:8.1f} {both[1]:8.1f}  {both[0] / both[1]:.2f}")
        print(f"{name:18} {'confirm':8} {planned['confirm']:8.1f} {took['confirm']:8.1f}  (at most)")
        stored = bill(plan).kept
        print(f"{name:18} {'MB kept':8} {stored / 1e6:8.1f} {kept / 1e6:8.1f}  {stored / kept:.2f}", flush=True)
