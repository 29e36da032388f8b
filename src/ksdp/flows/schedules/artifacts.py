"""Artifacts on Prefect's pages: what a schedule's runs found."""

from __future__ import annotations

from prefect.artifacts import acreate_link_artifact, acreate_table_artifact

from ksdp.audit.results.summary import Summary
from ksdp.flows.audits.prefect_audit import statistic_row
from ksdp.flows.schedules.events import links_of
from ksdp.storage.schedules.changes import Drift
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
    rows = []
    for name, statistic in summary.statistics.items():
        before = moved.get(name)
        pairs, change = (0, "") if before is None else (before.pairs, round(before.median, 3))
        rows.append(statistic_row(name, statistic) | {"measured before": pairs, "median change of D": change})
    await acreate_table_artifact(
        key=f"{key}-statistics",
        table=rows,
        description=f"Audit {run.audit}: D by statistic, and its drift against earlier audits",
    )
    for name, link in links_of(store, schedule, run).items():
        await acreate_link_artifact(
            key=f"{key}-{name}", link=link, link_text=f"{name} of audit {run.audit}", description="of this run"
        )
