"""The stages of an audit after its plan: looks, certificates, and what is concluded from them.

One look: its documents measured and tested, in parts where their values are not kept and would not fit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import DamagedBlock
from ksdp.audit.learning.gain import FEW_ENTRIES
from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.proofs import certify, knows_all
from ksdp.audit.results.parts import Provenance, StoredValues
from ksdp.audit.results.summarise import AuditLocation, Cost, Tested, detectable, summarise
from ksdp.audit.results.summary import Summary
from ksdp.audit.screening.advice import draw_remedy, search_seconds
from ksdp.audit.verdicts.effects import Effect
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.looks import DRAWN, after_certificate
from ksdp.audit.verdicts.verdict import ProvedBy
from ksdp.dashboards.audits.report import render_report
from ksdp.dashboards.audits.result import audit_result
from ksdp.flows.audits.steps import Steps, Tally
from ksdp.flows.interruption import advance, current
from ksdp.storage.audits.ledger import record_finished
from ksdp.storage.audits.stages import write_stage
from ksdp.storage.findings import write_curves, write_effects, write_findings, write_report, write_summary
from ksdp.storage.learning import write_outlook
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef, folders_of, open_plan, open_stage, parts_of
from ksdp.tasks.blocks import compute_block, drop_values, followed
from ksdp.tasks.provenance import packages, versions
from ksdp.tasks.repeats import repeat_runs
from ksdp.tasks.slices import SliceTests, compute_pairs, curve, pairs_parts, slices, test_slice


@dataclass(frozen=True, eq=False)
class LookTests:
    """Result of a look."""

    documents: ArmTests
    """In the order of the result."""
    controls: list[ArmTests]
    """One a lane."""
    shuffled: list[NDArray[np.float64]]
    canaries: ArmTests
    """In no order: every one of them must be found."""


async def tested_look(ref: AuditRef, steps: Steps, tally: Tally, seconds: dict[str, float]) -> LookTests:
    """Measure and test the documents of a look; what it takes is added to `seconds`."""
    documents: list[ArmTests] = []
    controls: list[ArmTests] = []
    shuffled: list[NDArray[np.float64]] = []
    canaries: list[ArmTests] = []
    parts = await steps.run_in_thread(parts_of, ref)
    for number, part in enumerate(parts):
        of = "" if part.part is None else f"part {number + 1} of {len(parts)}"
        began = time.monotonic()
        plan = await measured_stage(part, steps, tally, of)
        sampled = time.monotonic()
        tested = await _test(part, steps, plan, tally, of)
        seconds["sample"] += sampled - began
        seconds["test"] += time.monotonic() - sampled
        mine, own = _by_lane(plan, tested)
        documents += mine
        if not number:  # every part has the same ones: they depend on the runs alone
            controls = own
        shuffled += [some.shuffled for some in tested]
        canaries += [some.canaries for some in tested]
        if part.part is not None:
            drop_values(part)
    return LookTests(ArmTests.join(documents), controls, shuffled, ArmTests.join(canaries))


async def measured_stage(ref: AuditRef, steps: Steps, tally: Tally, of: str = "") -> Plan:
    """Measure all blocks of a stage, or of a part of its documents, which `of` describes."""
    plan = await steps.run_in_thread(open_plan, ref)
    runs = plan.runs
    current().stage(" ".join(word for word in ("sample", ref.stage, of) if word), runs)
    where = ", ".join(word for word in (ref.stage, of) if word)
    what = f"runs of the mechanism{f' ({where})' if where else ''}"
    async with steps.shown(tally, runs, f"audit-{ref.audit}-runs", what):
        with followed(ref, tally.tell):
            await steps.each("sample", compute_block, [(ref, block) for block in plan.blocks], tally)
    if ref.may_sample and (
        said := await steps.run_in_thread(repeat_runs, ref)
    ):  # also where it was killed before this
        current().say(said)
    return plan


async def _test(ref: AuditRef, steps: Steps, plan: Plan, tally: Tally, of: str) -> list[SliceTests]:
    calls = [(ref, part) for part in slices(plan)]
    current().stage(" ".join(word for word in ("test", ref.stage, of) if word), len(plan.audited))

    def done(part: SliceTests) -> None:
        advance(len(part.canaries))  # one a document

    try:
        return await steps.each("test", test_slice, calls, done)
    except DamagedBlock as error:
        current().say(f"{error} It is computed again.")
        tally.damaged.append(str(error))
        await steps.each("sample", compute_block, [(ref, block) for block in plan.blocks], Tally(), attempt=1)
        return await steps.each("test", test_slice, calls, done, attempt=1)


def _by_lane(plan: Plan, tested: Sequence[SliceTests]) -> tuple[list[ArmTests], list[ArmTests]]:
    documents, controls = [], []
    parts = list(zip(slices(plan), tested, strict=True))
    for lane in range(plan.design.lanes):
        lane_tests = ArmTests.join([t.tests for s, t in parts if s.lane == lane])
        documents.append(lane_tests[: len(lane_tests) - CONTROLS])
        controls.append(lane_tests[len(lane_tests) - CONTROLS :])
    return documents, controls


async def certified(first: AuditRef, steps: Steps, tested: Tested) -> Tested:
    """Bound every attack on every document by pairs of runs, if the spec asks and no proof does it."""
    spec, plan = tested.plan.spec, tested.plan
    if spec.certificate is None or plan.proved:
        return tested
    calls = [(first, part) for part in pairs_parts(plan, spec.certificate.pairs)]
    current().stage("certify", spec.certificate.pairs)

    def done(part: NDArray[np.float64]) -> None:
        advance(part.shape[1])

    advantages = np.concatenate(await steps.each("certify", compute_pairs, calls, done), axis=1)
    bound = certify(advantages, plan.counted, spec.certificate_level)
    decided = after_certificate(tested.interim, bound.advantage, spec.decision_in_run)
    return replace(tested, interim=decided, bounds=(*tested.bounds, bound))


Wanted = tuple[AuditRef, int, int, str]
"""Stage, lane, the document's place in it, and the statistic."""

_WORST = 12


def _curves_wanted(tested: Tested, stages: Sequence[AuditRef]) -> list[Wanted]:
    """The worst documents under their strongest statistic, and under the paper's own beside it."""
    plan, tests, decisions = tested.plan, tested.interim.tests, tested.interim.decisions
    names = [column.name for column in plan.columns]
    paper = [n for n, column in enumerate(plan.columns) if column.family.startswith("paper")]
    ends = np.cumsum([len(plan.design.targets(lane)) for lane in range(plan.design.lanes)])
    audited = plan.audited
    wanted = []
    worst = np.lexsort((-np.nan_to_num(tests.distance.max(axis=1)), decisions.log10_p))[:_WORST]
    for at in worst:
        stage = stages[tested.interim.look[at]]
        lane, row = int(np.searchsorted(ends, at, side="right")), audited[at]
        place = int(np.searchsorted(open_plan(stage).design.targets(lane), row))
        best = int(decisions.strongest[at])
        wanted.append((stage, lane, place, names[best]))
        if paper:
            own = paper[int(np.argmin(tests.log10_p[at, paper]))]
            if own != best:
                wanted.append((stage, lane, place, names[own]))
    return wanted


async def _there(wanted: Sequence[Wanted], steps: Steps) -> list[Wanted]:
    moved: dict[AuditRef, tuple[AuditRef, NDArray[np.int64]]] = {}
    for stage in dict.fromkeys(stage for stage, *_ in wanted):
        if len(await steps.run_in_thread(parts_of, stage)) == 1:
            continue
        opened = open_stage(stage)
        rows = np.unique(opened.rows[[place for ref, _, place, _ in wanted if ref == stage]])
        drawn = replace(opened, name=f"{DRAWN}-{len(moved)}", rows=rows, before=None)
        write_stage(Store(Path(stage.store)).audit(stage.audit), drawn)
        moved[stage] = (stage.at(drawn.name), np.searchsorted(rows, opened.rows))
        await measured_stage(stage.at(drawn.name), steps, Tally())
    return [
        (moved[stage][0], lane, int(moved[stage][1][place]), name)
        if stage in moved
        else (stage, lane, place, name)
        for stage, lane, place, name in wanted
    ]


def _stored_values(store: Store, stage: AuditRef) -> StoredValues:
    plan, folders = open_plan(stage), folders_of(stage)
    return StoredValues(
        stage=stage.stage,
        documents=sum(len(plan.design.targets(lane)) for lane in range(plan.design.lanes)),
        runs=plan.design.runs,
        runs_a_block=plan.block_runs,
        statistics=tuple(statistic.name for statistic in plan.statistics),
        values=store.relative(folders.values),
        key=folders.values_key,
        kept=not folders.dropped,
    )


def _known(tested: Tested) -> dict[str, NDArray[np.float64]]:
    everybody = knows_all(tested.plan.mechanism)
    bounds = [bound.advantage for bound in tested.bounds if bound.by not in (ProvedBy.DRAW, ProvedBy.COPIES)]
    bounds += [np.where(b.copies > 1, b.advantage, np.nan) for b in tested.bounds if b.copies is not None]
    advantages = {"certified_bound": np.fmin.reduce(bounds)} if bounds else {}
    if everybody is not None:
        advantages["knows_all"] = np.full(len(tested.interim.tests), everybody)
    for bound in tested.bounds:
        if bound.pairs is not None:
            advantages["knows_all"] = bound.pairs.mean(axis=1)
    return advantages


async def conclude(
    stages: Sequence[AuditRef],
    steps: Steps,
    tested: Tested,
    effects: Sequence[Effect],
    tallies: tuple[Tally, Tally],
    seconds: Mapping[str, float],
    started: float,
) -> Summary:
    """Write everything, and return the summary."""
    wanted = await _there(_curves_wanted(tested, stages), steps)
    current().stage("curves", len(wanted))
    curves = await steps.each("curves", curve, wanted, lambda _: advance(1))

    first, plan = stages[0], tested.plan
    store = Store(Path(first.store))
    folder = store.audit(first.audit)
    interim, absent = tested.interim, plan.absent
    columns = [(column.name, column.version) for column in plan.columns]
    write_findings(
        folder,
        plan.units.ids[plan.audited],
        columns,
        interim.tests,
        interim.decisions,
        detectable(tested),
        _known(tested),
        None if absent is None else (plan.units.ids[absent.units], absent.bound),
    )
    write_effects(folder, plan.units.ids, effects)
    write_curves(folder, curves)
    tally, fresh = tallies
    damaged = (*tally.damaged, *fresh.damaged)
    cost = Cost(tally.sampled, fresh.sampled, damaged, time.monotonic() - started, seconds)
    provenance = Provenance(
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
        packages=packages(),
        spec=plan.spec.hash,
        runs_folder=store.runs(plan.runs_identity).name,
        seed=plan.spec.seed,
        blocks=len(plan.blocks),
        runs_a_block=plan.block_runs,
        stages=tuple(_stored_values(store, stage) for stage in stages),
    )
    filed = AuditLocation(first.audit, first.corpus, str(store.root), str(folder / "report.html"), provenance)
    summary = summarise(tested, effects, cost, filed)
    write_summary(folder, summary)
    if summary.verdicts.sensitive and plan.spec.decides:
        entries = plan.corpus.matrix.nnz
        remedy = draw_remedy(plan) if entries <= FEW_ENTRIES else None
        outlook = {"remedy": remedy, "seconds": search_seconds(entries)}
        write_outlook(store, plan.spec, first.corpus, outlook)
    record_finished(store, first.audit)
    write_report(folder, render_report(audit_result(summary)))
    await steps.publish(store, summary)
    current().say(f"audit {first.audit} is finished: {folder / 'report.html'}")
    return summary
