"""Artifacts on Prefect's pages: what a schedule's runs found."""

from __future__ import annotations

from typing import Any

from prefect.artifacts import acreate_link_artifact, acreate_table_artifact

from ksdp.audit.results.parts import StatisticSummary
from ksdp.audit.results.summary import Summary
from ksdp.flows.audits.prefect_audit import statistic_row
from ksdp.flows.schedules.events import links_of
from ksdp.storage.schedules.changes import Drift, StatisticDrift
from ksdp.storage.schedules.schedule_files import Schedule, ScheduledRun, read_runs
from ksdp.storage.store import Store

_LINES = 30


async def publish_run(
    store: Store, schedule: Schedule, run: ScheduledRun, summary: Summary | None, drift: Drift | None
) -> None:
    """Create the artifacts of a run.

    Parameters
    ----------
    summary : Summary, optional
        Of the audit; None where there was none.
    """
    key = f"schedule-{schedule.name}"
    await acreate_table_artifact(
        key=f"{key}-history",
        table=[_line(past) for past in reversed(read_runs(store, schedule.name)[-_LINES:])],
        description=f"Runs of schedule {schedule.name}, newest first",
    )
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


def _line(run: ScheduledRun) -> dict[str, Any]:
    return {
        "planned": "asked for" if run.planned is None else run.planned.isoformat(timespec="minutes"),
        "started": run.started.isoformat(timespec="seconds"),
        "outcome": run.outcome,
        "audit": run.audit or "",
        "documents audited": run.documents.get("audited", 0),
        "excluded by decision": run.documents.get("excluded", 0),
        "became sensitive": run.became_sensitive,
        "missed before": run.missed,
        "level": "" if run.level is None else f"{run.level:.2g}",
        "level left": "" if run.level_left is None else f"{run.level_left:.2g}",
        "seconds": round(run.seconds, 1),
    }


def _statistic(name: str, statistic: StatisticSummary, moved: StatisticDrift | None) -> dict[str, Any]:
    return statistic_row(name, statistic) | {
        "measured before": 0 if moved is None else moved.pairs,
        "median change of D": "" if moved is None else round(moved.median, 3),
    }
