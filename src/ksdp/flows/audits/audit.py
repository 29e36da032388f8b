"""The audit: sample, measure, test, decide; again until nothing is open; confirm; report.

1. `sample`: every block of runs that the store does not hold is drawn, run and measured.
2. `test`: tests of every open document under every statistic; decisions at the level of this look.
3. `confirm`: what was flagged is measured once more, on fresh runs.
4. `certify`: where the spec asks for it, pairs of runs that differ in one document bound every attack.
5. `conclude`: controls, verdicts, curves, findings; Parquet, HTML and a Prefect artifact.

Who does the work, Prefect's tasks on Dask's workers or this process, is said by `Steps`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ksdp.audit.coverage import coverage_of
from ksdp.audit.plan import Plan, strongest_alone
from ksdp.audit.proofs import known_bounds, least_bound
from ksdp.audit.results.summarise import Tested
from ksdp.audit.results.summary import Summary
from ksdp.audit.verdicts.effects import Effect, Flagged
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.looks import (
    AGAIN,
    FRESH,
    InterimVerdicts,
    LookScope,
    Stage,
    after_certificate,
    after_fresh,
    after_look,
    detected_documents,
    for_fresh_runs,
    fresh_seed,
    open_documents,
    without_verdicts,
)
from ksdp.flows.audits.stages import certified, conclude, measured_stage, tested_look
from ksdp.flows.audits.steps import Steps, Tally
from ksdp.flows.interruption import advance, current
from ksdp.storage.audits.stages import drop_stages, write_stage
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef, open_audit, parts_of
from ksdp.tasks.blocks import all_stored, drop_passing, drop_values
from ksdp.tasks.slices import Slice, SliceEffects, measure_effects, slices


async def _looks(
    first: AuditRef, steps: Steps, tally: Tally, seconds: dict[str, float]
) -> tuple[Tested, tuple[AuditRef, ...]]:
    """Look after look, until so few verdicts are open; what they gave, and the stages they were made in."""
    plan = await steps.run_in_thread(open_audit, first)
    paper = [n for n, column in enumerate(plan.columns) if column.family.startswith("paper")]
    names = tuple(s.name for s in plan.statistics)
    bounds = await steps.run_in_thread(known_bounds, plan)
    proved = least_bound(bounds, len(plan.audited))
    interim: InterimVerdicts | None = None
    covered = await steps.run_in_thread(coverage_of, plan)
    scope = LookScope(plan.counted, plan.fresh_runs > 0, plan.reading, covered.may_clear)
    refs, controls, shuffled, canaries = [first], [], [], []
    for number, look in enumerate(plan.looks):
        if interim is not None:
            rows = np.sort(plan.audited[open_documents(interim)])
            name, seed, before = f"look-{number + 1}", plan.design.seed, refs[-1].stage
            stage = Stage(name, seed, look.runs, rows, names, before)
            write_stage(Store(Path(first.store)).audit(first.audit), stage)
            if not (first.may_sample or await steps.run_in_thread(all_stored, first.at(stage.name))):
                break  # what was not announced cannot be explored
            refs.append(first.at(stage.name))
        look_tests = await tested_look(refs[-1], steps, tally, seconds)
        documents = look_tests.documents
        controls += look_tests.controls
        shuffled += look_tests.shuffled
        canaries.append(look_tests.canaries)
        if interim is not None and len(documents) > len(open_documents(interim)):
            documents = documents[open_documents(interim)]  # a design whose targets cannot leave
        interim = after_look(interim, documents, number, look, plan.spec.decision_in_run, paper, scope)
        interim = after_certificate(interim, proved, plan.spec.decision_in_run)
        if not len(open_documents(interim)):
            break
    assert interim is not None
    drop_stages(Store(Path(first.store)).audit(first.audit), "look-", [ref.stage for ref in refs])
    tested = Tested(plan, covered, len(refs), interim, controls, shuffled, canaries, bounds)
    return tested, tuple(refs)


async def _confirm(first: AuditRef, tested: Tested, steps: Steps, tally: Tally) -> list[SliceEffects]:
    """Measure what was detected on fresh runs, whose canaries are judged like those of every look."""
    plan, decisions = tested.plan, tested.interim.decisions
    at = detected_documents(tested.interim)
    if not len(at) or not plan.fresh_runs:
        drop_stages(Store(Path(first.store)).audit(first.audit), FRESH, [])
        return []
    columns = [plan.statistics[c].name for c in decisions.strongest[at]]
    names = tuple(s.name for s in plan.statistics if s.name in columns)
    order = np.argsort(plan.audited[at])
    rows, strongest = plan.audited[at][order], strongest_alone(plan, names, [columns[n] for n in order])
    seed = fresh_seed(plan.design.seed)
    stage = Stage(FRESH, seed, plan.fresh_runs, rows, names, strongest=strongest)
    write_stage(Store(Path(first.store)).audit(first.audit), stage)
    fresh = first.at(FRESH)
    gone = len(await steps.run_in_thread(parts_of, first)) > 1
    if gone:
        again = Stage(AGAIN, plan.design.seed, plan.looks[0].runs, rows, names, strongest=strongest)
        write_stage(Store(Path(first.store)).audit(first.audit), again)
    flagged = {int(row): Flagged(int(row), column) for row, column in zip(plan.audited[at], columns, strict=True)}
    effects: list[SliceEffects] = []
    for some in await steps.run_in_thread(parts_of, fresh):
        before = replace(some, stage=AGAIN) if gone else first
        if gone:
            await measured_stage(before, steps, Tally())
        later = await measured_stage(some, steps, tally)
        parts = [
            (before, some, part, those) for part in slices(later) if (those := _flagged_in(later, part, flagged))
        ]
        current().stage("confirm", len(parts))
        effects += await steps.each("confirm", measure_effects, parts, lambda _: advance(1))
        if some.part is not None:
            drop_values(some)
            drop_values(before)
    return effects


def _with_fresh(tested: Tested, confirmed: Sequence[SliceEffects]) -> tuple[Tested, list[Effect]]:
    effects = [effect for part in confirmed for effect in part.effects]
    if not confirmed:
        return tested, effects
    canaries = (*tested.canaries, ArmTests.join([part.canaries for part in confirmed]))
    rule, interim = tested.plan.spec.decision_in_run, tested.interim
    log10_p_of = {effect.row: effect.log10_p_above for effect in effects}
    rows = tested.plan.audited[for_fresh_runs(interim, rule)]
    log10_p = [log10_p_of.get(int(row), 0.0) for row in rows]
    return replace(tested, interim=after_fresh(interim, log10_p, rule), canaries=canaries), effects


def _flagged_in(plan: Plan, part: Slice, flagged: dict[int, Flagged]) -> list[Flagged]:
    rows = plan.design.targets(part.lane)[part.rows]
    return [flagged[int(row)] for row in rows if int(row) in flagged]


async def run_stages(first: AuditRef, steps: Steps) -> Summary:
    """Run a prepared audit, whose corpus and spec the store holds, and return its summary."""
    started = time.monotonic()
    tally, fresh = Tally(), Tally()
    seconds = {"sample": 0.0, "test": 0.0, "confirm": 0.0, "certify": 0.0}
    tested, stages = await _looks(first, steps, tally, seconds)
    began = time.monotonic()
    effects: list[Effect] = []
    if explored := tested.plan.spec.statistics.explored:
        tested = replace(tested, interim=without_verdicts(tested.interim))
    else:
        tested, effects = _with_fresh(tested, await _confirm(first, tested, steps, fresh))
    certifies = time.monotonic()
    seconds["confirm"] = certifies - began
    if not explored:
        tested = await certified(first, steps, tested)
    seconds["certify"] = time.monotonic() - certifies
    summary = await conclude(stages, steps, tested, effects, (tally, fresh), seconds, started)
    drop_passing(first)
    return summary
