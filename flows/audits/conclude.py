"""From tests to a finished audit: curves, findings, report, artifacts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ksdp.audit.verdicts.fresh_effects import Effect
from ksdp.dashboards.audits.report import render_report
from ksdp.flows.audits.artifacts import publish_audit
from ksdp.flows.audits.block_counts import Tally
from ksdp.flows.audits.summary import Tested, detectable, summarise
from ksdp.flows.progress import advance, current
from ksdp.flows.provenance import versions
from ksdp.storage.findings import write_curves, write_effects, write_findings, write_summary
from ksdp.storage.store import Store, write_whole
from ksdp.tasks.audit_ref import AuditRef, folders_of, open_plan
from ksdp.tasks.steps import draw_curves

__all__ = ["conclude"]

_WORST = 12


def _curves_wanted(tested: Tested) -> list[tuple[AuditRef, int, int, str]]:
    """The worst documents under their strongest statistic, and under the paper's own beside it."""
    plan, tests, decisions = tested.plan, tested.standing.tests, tested.standing.decisions
    plain = len(plan.tested)
    names = [column.name for column in plan.columns]
    paper = [n for n, column in enumerate(plan.columns) if column.family.startswith("paper")]
    lanes = [(lane, int(row)) for lane in range(plan.design.lanes) for row in plan.design.targets(lane)]
    wanted = []
    worst = np.lexsort((-np.nan_to_num(tests.distance.max(axis=1)), decisions.log10_p))[:_WORST]
    for at in worst:
        stage = tested.stages[tested.standing.look[at]]
        lane, row = lanes[at]
        place = int(np.searchsorted(open_plan(stage).design.targets(lane), row))
        # A learner's scores are not stored: its document is drawn under the strongest of the others.
        best = int(decisions.strongest[at])
        best = best if best < plain else int(np.argmin(tests.log10_p[at, :plain]))
        wanted.append((stage, lane, place, names[best]))
        if paper:
            own = paper[int(np.argmin(tests.log10_p[at, paper]))]
            if own != best:
                wanted.append((stage, lane, place, names[own]))
    return wanted


def _where(store: Store, stage: AuditRef) -> dict[str, Any]:
    """Where the values of a look are, for who reads them without a plan (`audits.statistic_values`)."""
    plan, folders = open_plan(stage), folders_of(stage)
    return {
        "stage": stage.stage,
        "documents": sum(len(plan.design.targets(lane)) for lane in range(plan.design.lanes)),
        "runs": plan.design.runs,
        "runs_a_block": plan.block_runs,
        "statistics": [statistic.name for statistic in plan.statistics],
        "values": folders.values.relative_to(store.root).as_posix(),
        "key": folders.values_key,
    }


async def conclude(
    first: AuditRef,
    address: str,
    tested: Tested,
    effects: Sequence[Effect],
    tallies: tuple[Tally, Tally],
    seconds: Mapping[str, float],
    started: float,
) -> dict[str, Any]:
    """Write everything, and return the summary that `ksdp audit --json` prints."""
    wanted = _curves_wanted(tested)
    current().stage("curves", len(wanted))
    curves = await draw_curves(address, wanted, lambda _: advance(1))

    store, plan = Store(Path(first.store)), tested.plan
    folder = store.audit(first.audit)
    standing = tested.standing
    columns = [(column.name, column.version) for column in plan.columns]
    write_findings(
        folder, plan.units.ids[plan.audited], columns, standing.tests, standing.decisions, detectable(tested)
    )
    write_effects(folder, plan.units.ids, effects)
    write_curves(folder, curves)
    total = time.monotonic() - started
    tally, fresh = tallies
    found = {"audit": first.audit, "corpus": first.corpus} | summarise(tested, effects)
    # Runs that a later look reads again are counted once.
    sampled = min(tally.sampled, found["runs"])
    summary = found | {
        "cached_runs": found["runs"] - sampled,
        "sampled_runs": sampled,
        "fresh_sampled_runs": fresh.sampled,
        "damaged_blocks": tally.damaged + fresh.damaged,
        "seconds": round(total, 3),
        "seconds_by_stage": {name: round(value, 3) for name, value in seconds.items()},
        "provenance": {
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "spec": plan.spec.hash,
            "runs_folder": store.runs(plan.runs_identity).name,
            "seed": plan.spec.seed,
            "blocks": len(plan.blocks),
            "runs_a_block": plan.block_runs,
            "stages": [_where(store, stage) for stage in tested.stages],
        },
        "store": str(store.root),
        "report": str(folder / "report.html"),
    }
    write_summary(folder, summary)
    page = render_report(store, first.audit)

    def write(part: Path) -> None:
        part.write_text(page, encoding="utf-8")

    write_whole(folder / "report.html", write)
    await publish_audit(store, summary)
    return summary
