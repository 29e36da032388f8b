"""The whole audit through Prefect, Dask and Parquet against a plain loop of the same numerics on one core."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.run_subsampling import levelled
from ksdp.audit.sampling import STRONGEST, BlockValues, measure, sample
from ksdp.audit.spec.design import Block
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.effects import best_threshold, measure_effect
from ksdp.audit.verdicts.laws import ks_table
from ksdp.audit.verdicts.looks import FIRST, FRESH, Stage
from ksdp.flows.prepare import spec_corpus
from ksdp.storage.audits.stages import read_stage, stage_names
from ksdp.storage.readers.spec_files import read_spec_file

_TOGETHER = 1024
"""Documents that are tested at once."""
_LOOKS = ("mechanism", "statistics", "tests")


@dataclass(frozen=True)
class Costs:
    """Seconds of an audit and of the loop that does the same work."""

    plan: Plan
    workers: int
    whole: float
    """From command to report."""
    flow: float
    stages: Mapping[str, float]
    """Of the flow, by stage."""
    again: float
    """Of the same command, once its audit is finished."""
    loop: Mapping[str, float]
    megabytes: float
    peak: float
    """GB of the largest process."""
    summary: Mapping[str, Any]

    def ratio(self, seconds: float, *, fresh: bool) -> float:
        """Of seconds of the command, or of its flow, to those of the loop by as many workers."""
        loop = sum(self.loop.values()) if fresh else sum(self.loop[part] for part in _LOOKS)
        return (seconds if fresh else seconds - self.stages["confirm"]) / (loop / self.workers)


def stages_of(plan: Plan, folder: Path) -> list[Stage]:
    """The looks that a finished audit made, and its fresh runs if it made any, in this order."""
    names = tuple(statistic.name for statistic in plan.statistics)
    first = Stage(FIRST, plan.design.seed, plan.looks[0].runs, plan.audited, names)
    later = [read_stage(folder, name) for name in stage_names(folder) if name == FRESH or name.startswith("look-")]
    return [first, *sorted(later, key=lambda stage: (stage.name == FRESH, stage.runs))]


def plain_loop(plan: Plan, stages: Sequence[Stage]) -> dict[str, float]:
    """Seconds of what a researcher would write: run, measure, keep in memory, test; no store, no workers.

    The work is the audit's own: the same documents in the same runs under the same columns, look by look, and what
    was measured at one look is there at the next; then fresh runs of what was detected, and its effects on them.
    Who is still open and what was detected is taken from the audit. Not in the loop are verdicts, the tests of
    controls and canaries and those in shuffled runs, what is known of copies, curves, tables and the report; of
    groups and learners the effects on fresh runs are not either.
    """
    seconds = dict.fromkeys((*_LOOKS, "fresh runs"), 0.0)
    first = plan.narrowed(stages[0])
    _measured(first, Block(0, 0, 1), dict(seconds))  # compiled kernels are read from their cache here
    parts: list[BlockValues] = []
    kept = parts
    before = stages[0]
    for stage in stages:
        if stage.name == FRESH:
            continue
        look = plan.narrowed(stage)
        places = np.searchsorted(before.rows, stage.rows)
        parts = [_of(part, places) for part in parts]
        done = parts[-1].block.stop if parts else 0
        parts += [_measured(look, block, seconds) for block in look.blocks if block.start >= done]
        begin = time.perf_counter()
        for start in range(0, len(stage.rows), _TOGETHER):
            bits, values = _read(look, parts, stage.statistics, slice(start, start + _TOGETHER))
            compare_arms(dict(zip(stage.statistics, values, strict=True)), bits)
        seconds["tests"] += time.perf_counter() - begin
        kept, before = (parts if stage is stages[0] else kept), stage
    if stages[-1].name == FRESH:
        begin = time.perf_counter()
        later = plan.narrowed(stages[-1])
        fresh = [_measured(later, block, dict(seconds)) for block in later.blocks]
        _effects((first, stages[0], kept), (later, stages[-1], fresh))
        seconds["fresh runs"] = time.perf_counter() - begin
    return seconds


def _measured(plan: Plan, block: Block, seconds: dict[str, float]) -> BlockValues:
    """A block's values of documents; what they take is added to `seconds`."""
    begin = time.perf_counter()
    drawn = list(sample(plan, block))
    middle = time.perf_counter()
    found = _of(measure(plan, block, drawn, plan.statistics), slice(len(plan.documents(0))))
    seconds["mechanism"] += middle - begin
    seconds["statistics"] += time.perf_counter() - middle
    return found


def _of(part: BlockValues, places: slice | NDArray[np.int64]) -> BlockValues:
    """Of some documents."""
    values = {name: column[places] for name, column in part.values.items()}
    kept = None if part.kept is None else part.kept[places]
    return replace(part, inclusion=part.inclusion[places], values=values, canary=None, kept=kept)


def _read(
    plan: Plan, parts: Sequence[BlockValues], names: Sequence[str], rows: slice | NDArray[np.int64]
) -> tuple[NDArray[np.bool_], list[NDArray[Any]]]:
    """Bits and values of the runs that tests of some documents read."""
    bits = np.concatenate([part.inclusion[rows] for part in parts], axis=1)
    some = [part.kept[rows] for part in parts if part.kept is not None]
    kept = np.concatenate(some, axis=1) if some else None
    values = [np.concatenate([part.values[name][rows] for part in parts], axis=1) for name in names]
    return levelled(bits, kept, values, plan.read_runs)


_Stage = tuple[Plan, Stage, Sequence[BlockValues]]


def _effects(look: _Stage, fresh: _Stage) -> None:
    """What the best threshold of a document's strongest column in the first look's runs does in fresh ones."""
    (plan, before, old_parts), (later, after, new_parts) = look, fresh
    if after.strongest is None:
        return
    rule = plan.spec.rule
    for number, name in enumerate(after.statistics):
        mine = np.flatnonzero(after.strongest == number)
        for start in range(0, len(mine), _TOGETHER):
            rows = mine[start : start + _TOGETHER]
            bits, (old,) = _read(plan, old_parts, [name], np.searchsorted(before.rows, after.rows[rows]))
            held, (new,) = _read(later, new_parts, [STRONGEST], rows)
            table = ks_table(new, held)
            for at, row in enumerate(after.rows[rows]):
                if not 0 < bits[at].sum() < bits.shape[1] or not 0 < held[at].sum() < held.shape[1]:
                    continue
                attack = best_threshold(old[at][bits[at]], old[at][~bits[at]])
                with_, without = (new[at][arm].astype(np.float64) for arm in (held[at], ~held[at]))
                measure_effect(int(row), name, attack, with_, without, rule.level, rule.margin, table.at(at))


def measured(spec_path: Path, workers: int) -> Costs:
    """Audit, audit again, and do the same work in a loop."""
    spec, base = read_spec_file(spec_path)
    plan = make_plan(spec, spec_corpus(spec, base))
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        command = [sys.executable, "-m", "ksdp", "audit", str(spec_path), "--store", str(store), "--json"]
        begin = time.perf_counter()
        done = subprocess.run([*command, "--workers", str(workers)], capture_output=True, text=True, check=False)
        whole = time.perf_counter() - begin
        if done.returncode not in (0, 3, 4):
            raise SystemExit(done.stderr)
        summary = json.loads(done.stdout.splitlines()[-1])
        audit = store / "audits" / summary["audit"]
        by_stage = json.loads((audit / "audit.json").read_text())["seconds_by_stage"]
        megabytes = sum(f.stat().st_size for f in store.rglob("*.parquet")) / 1e6
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        begin = time.perf_counter()
        subprocess.run([*command, "--workers", str(workers)], capture_output=True, check=False)
        again = time.perf_counter() - begin
        stages = stages_of(plan, audit)
    loop = plain_loop(plan, stages)
    return Costs(plan, workers, whole, summary["seconds"], by_stage, again, loop, megabytes, peak, summary)


def run(spec_path: Path, workers: int) -> None:
    """Print both times and their ratio."""
    costs = measured(spec_path, workers)
    plan, summary, flow = costs.plan, costs.summary, costs.flow
    print(
        f"{spec_path.stem}: {len(plan.audited)} documents, {summary['runs']} of {plan.runs} runs, "
        f"{len(plan.statistics)} statistics"
    )
    parts, stages = (
        ", ".join(f"{name} {value:.1f}" for name, value in some.items()) for some in (costs.loop, costs.stages)
    )
    print(f"  plain loop on one core: {sum(costs.loop.values()):.1f} s ({parts})")
    print(
        f"  ksdp audit, {workers} workers: {costs.whole:.1f} s from command to report (flow {flow:.1f}, {stages})"
    )
    for words, fresh in (("without fresh runs", False), ("with them", True)):
        whole, alone = (costs.ratio(seconds, fresh=fresh) for seconds in (costs.whole, flow))
        print(f"  ratio to loop / {workers}, {words}: {whole:.2f} whole, {alone:.2f} flow")
    print(
        f"  second time, cached: {costs.again:.1f} s; store {costs.megabytes:.0f} MB; "
        f"largest process {costs.peak:.2f} GB"
    )
    print(f"  verdicts {summary['verdicts']}")
