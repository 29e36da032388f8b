"""Artifacts on Prefect's pages: what a schedule's runs found."""

from __future__ import annotations

from typing import Any

from prefect.artifacts import acreate_link_artifact, acreate_table_artifact

from ksdp.audit.results.parts import StatisticSummary
from ksdp.audit.results.summary import Summary
from ksdp.flows.audits.prefect_audit import statistic_row
from ksdp.flows.schedules.events import links_of
from ksdp.storage.schedules.changes import Drift, StatisticDrift
from ksdp.storage.schedules.schedule_files import Schedule, ScheduledRun
from ksdp.storage.store import Store


async def publish_run(
    store: Store, schedule: Schedule, run: ScheduledRun, summary: Summary | None, drift: Drift | None
) -> None:
    """Create the artifacts of a run."""
    key = f"schedule-{schedule.name}"
    if run.verdicts:
        await acreate_table_artifact(
            key=f"{key}-verdicts",
            table=[{"verdict": name, "documents": count} for name, count in run.verdicts.items()],
            description="All documents as they stand after this run",
        )
    if summary is None:
        return
    moved = {} if drift is None else drift.summary().statistics
    await acreate_table_artifact(
        key=f"{key}-statistics",
        table=[_statistic(name, statistic, moved.get(name)) for name, statistic in summary.statistics.items()],
        description=f"Audit {run.audit}: D by statistic, and its drift against earlier audits",
    )
    for name, link in links_of(store, schedule, run).items():
        await acreate_link_artifact(
            key=f"{key}-{name}", link=link, link_text=f"{name} of audit {run.audit}", description="of this run"
        )


def _statistic(name: str, statistic: StatisticSummary, moved: StatisticDrift | None) -> dict[str, Any]:
    return statistic_row(name, statistic) | {
        "measured before": 0 if moved is None else moved.pairs,
        "median change of D": "" if moved is None else round(moved.median, 3),
    }
