"""From tests to a finished audit: controls, verdicts, curves, findings, report, artifact."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from prefect.artifacts import acreate_markdown_artifact

from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.spec import DecisionSpec
from ksdp.audit.testing import ArmTests, judge_controls
from ksdp.audit.verdicts.decide import Decisions, Verdict, decide, detectable_distance
from ksdp.audit.verdicts.power import minimal_detectable, smallest_margin
from ksdp.dashboards.report import render_report
from ksdp.flows.progress import current
from ksdp.flows.provenance import versions
from ksdp.storage.findings import write_curves, write_findings, write_summary
from ksdp.storage.store import Store, write_whole
from ksdp.tasks.blocks import AuditRef, slices
from ksdp.tasks.steps import draw_curves

__all__ = ["conclude"]

_WORST = 12


def _by_lane(plan: Plan, tested: Sequence[ArmTests]) -> tuple[ArmTests, list[ArmTests]]:
    """Documents of all lanes in order, and the controls of each lane."""
    documents, controls = [], []
    parts = list(zip(slices(plan), tested, strict=True))
    for lane in range(plan.design.lanes):
        whole = ArmTests.join([t for s, t in parts if s.lane == lane])
        documents.append(whole[: len(whole) - CONTROLS])
        controls.append(whole[len(whole) - CONTROLS :])
    return ArmTests.join(documents), controls


def _curves_wanted(plan: Plan, decisions: Decisions, tested: ArmTests) -> list[tuple[int, int, str]]:
    """The worst documents under their strongest statistic, and under the paper's own beside it."""
    names = [s.name for s in plan.statistics]
    paper = [n for n, s in enumerate(plan.statistics) if s.family.startswith("paper")]
    lanes = [(lane, row) for lane in range(plan.design.lanes) for row in range(len(plan.design.targets(lane)))]
    wanted = []
    worst = np.lexsort((-np.nan_to_num(tested.distance.max(axis=1)), decisions.log10_p))[:_WORST]
    for at in worst:
        lane, row = lanes[at]
        wanted.append((lane, row, names[int(decisions.strongest[at])]))
        if paper:
            own = paper[int(np.argmin(tested.log10_p[at, paper]))]
            if names[own] != wanted[-1][2]:
                wanted.append((lane, row, names[own]))
    return wanted


def _statistics(plan: Plan, tested: ArmTests, decisions: Decisions) -> dict[str, Any]:
    """One entry a statistic: how strong it is, and what it alone would have said."""
    rule = plan.spec.decision
    alone = {}
    for column, statistic in enumerate(plan.statistics):
        distance = np.nan_to_num(tested.distance[:, column])
        one = slice(column, column + 1)
        own = decide(tested.distance[:, one], tested.log10_p[:, one], tested.n_with, tested.n_without, rule)
        alone[statistic.name] = {
            "version": statistic.version,
            "family": statistic.family,
            "median_D": float(np.median(distance)),
            "max_D": float(distance.max()),
            "sensitive": int((own.verdict == Verdict.SENSITIVE).sum()),
            "strongest_for": int((decisions.strongest == column).sum()),
        }
    return alone


def _summary(
    ref: AuditRef, plan: Plan, tested: ArmTests, controls: list[ArmTests], decisions: Decisions
) -> dict[str, Any]:
    judged = judge_controls(controls)
    verdicts = {v.value: int((decisions.verdict == v).sum()) for v in Verdict}
    paper = [n for n, s in enumerate(plan.statistics) if s.family.startswith("paper")]
    paper_alone = None
    if paper:
        own = decide(
            tested.distance[:, paper],
            tested.log10_p[:, paper],
            tested.n_with,
            tested.n_without,
            plan.spec.decision,
        )
        smallest = tested.log10_p[:, paper].min(axis=1)
        paper_alone = {
            "statistics": [plan.statistics[n].name for n in paper],
            "sensitive": int((own.verdict == Verdict.SENSITIVE).sum()),
            "median_D": float(np.median(np.nan_to_num(tested.distance[:, paper]).max(axis=1))),
            "mean_smallest_p": float((10**smallest).mean()),
            "uncorrected_below_level": int((smallest <= np.log10(plan.spec.decision.level)).sum()),
        }
    arms = (int(np.median(tested.n_with)), int(np.median(tested.n_without)))
    reach = partial(
        _reach, arms=arms, documents=len(tested), statistics=len(plan.statistics), rule=plan.spec.decision
    )
    return {
        "audit": ref.audit,
        "corpus": ref.corpus,
        "mechanism": plan.mechanism.name,
        "documents": len(tested),
        "runs": plan.runs,
        "valid": judged.valid,
        "verdicts": verdicts,
        "statistics": _statistics(plan, tested, decisions),
        "skipped_statistics": plan.skipped,
        "announced": [{"name": a.name, "shape": list(a.shape)} for a in plan.announced],
        "paper_alone": paper_alone,
        "controls": {
            "null": judged.null,
            "null_smallest_p": judged.null_smallest_p,
            "planted": judged.planted,
            "planted_largest_p": judged.planted_largest_p,
            "reason": judged.reason,
        },
        "power": {
            "detectable_D": reach(minimal_detectable),
            "certifiable_margin": reach(smallest_margin),
            "runs_to_decide_median": _finite_median(decisions.runs_to_decide),
        },
        "corpus_about": {
            "documents": len(plan.corpus),
            "features": plan.corpus.features,
            "entries": int(plan.corpus.matrix.nnz),
            "without_features": len(plan.corpus.left_out),
            "parties": _parties(plan),
        },
        "design": {
            "kind": plan.spec.design.kind,
            "sampling": plan.spec.design.sampling,
            "party_rows": plan.party_rows,
            "honest_rows": len(plan.honest),
            "coalition_rows": len(plan.coalition),
            "share": plan.design.share,
            "n_with": [int(tested.n_with.min()), int(np.median(tested.n_with)), int(tested.n_with.max())],
        },
        "spec": plan.spec.model_dump(mode="json"),
    }


def _reach(
    forecast: Callable[..., float], *, arms: tuple[int, int], documents: int, statistics: int, rule: DecisionSpec
) -> float:
    """What an audit of these arms can find or certify 8 times in 10; 1, which nothing is above, if nothing."""
    return min(forecast(*arms, documents, statistics, rule), 1.0) if min(arms) else 1.0


def _finite_median(values: Any) -> float | None:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else None


def _parties(plan: Plan) -> dict[str, int] | None:
    if plan.corpus.party is None:
        return None
    names, counts = np.unique(plan.corpus.party, return_counts=True)
    return {str(n): int(c) for n, c in zip(names, counts, strict=True)}


def _markdown(summary: Mapping[str, Any]) -> str:
    counts = summary["verdicts"]
    void = "" if summary["valid"] else f"\n\n**This audit is void**: {summary['controls']['reason']}."
    rows = "\n".join(
        f"| {name} | {about['median_D']:.3f} | {about['max_D']:.3f} | {about['sensitive']} |"
        for name, about in summary["statistics"].items()
    )
    return (
        f"# Audit {summary['audit']}: {summary['mechanism']}{void}\n\n"
        f"{summary['documents']} documents, {summary['runs']} runs, {summary['seconds']:.0f} s.\n\n"
        f"| sensitive | clear | undecided |\n|---|---|---|\n"
        f"| {counts['sensitive']} | {counts['clear']} | {counts['undecided']} |\n\n"
        f"| statistic | median D | largest D | sensitive by it alone |\n|---|---|---|---|\n{rows}\n\n"
        f"Report: `{summary['report']}`\n"
    )


async def conclude(
    ref: AuditRef,
    address: str,
    plan: Plan,
    tested: Sequence[ArmTests],
    counts: Mapping[str, int],
    damaged: Sequence[str],
    seconds: Mapping[str, float],
    started: float,
) -> dict[str, Any]:
    """Decide, write everything, and return the summary that `ksdp audit --json` prints."""
    documents, controls = _by_lane(plan, tested)
    rule = plan.spec.decision
    decisions = decide(documents.distance, documents.log10_p, documents.n_with, documents.n_without, rule)
    detectable = detectable_distance(
        documents.n_with, documents.n_without, len(documents), len(plan.statistics), rule
    )
    wanted = _curves_wanted(plan, decisions, documents)
    current().stage("curves", len(wanted))
    curves = await draw_curves(ref, address, wanted, lambda _: current().advance(1))

    store = Store(Path(ref.store))
    folder = store.audit(ref.audit)
    columns = [(s.name, s.version) for s in plan.statistics]
    write_findings(folder, plan.corpus.ids[plan.audited], columns, documents, decisions, detectable)
    write_curves(folder, curves)
    total = time.monotonic() - started
    summary = _summary(ref, plan, documents, controls, decisions) | {
        "cached_runs": counts["cached"] + counts["measured"],
        "sampled_runs": counts["sampled"],
        "damaged_blocks": list(damaged),
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
        },
        "store": str(store.root),
        "report": str(folder / "report.html"),
    }
    write_summary(folder, summary)
    page = render_report(store, ref.audit)

    def write(part: Path) -> None:
        part.write_text(page, encoding="utf-8")

    write_whole(folder / "report.html", write)
    await acreate_markdown_artifact(
        key=f"audit-{ref.audit}", markdown=_markdown(summary), description=f"audit {ref.audit}"
    )
    return summary
