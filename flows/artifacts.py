"""What Prefect's pages show: an audit's result, statistics and report; a schedule's history and drift as well.

Artifacts of one key are versions of one another, so each page tells the schedule's story over time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect.artifacts import acreate_link_artifact, acreate_markdown_artifact, acreate_table_artifact
from prefect.logging import get_run_logger

from ksdp.flows.notices import body
from ksdp.storage.changes import Drift
from ksdp.storage.occasions import ScheduledRun, read_runs
from ksdp.storage.schedules import Schedule
from ksdp.storage.store import Store
from ksdp.storage.topups import Origin, read_origin

__all__ = ["publish", "publish_audit"]

_LINES = 30


async def publish_audit(store: Store, summary: Mapping[str, Any]) -> None:
    """Create the artifacts of an audit. The store has it all: a page less is no failed audit."""
    audit, origin = summary["audit"], read_origin(store, summary["audit"])
    key = f"audit-{audit}"
    try:
        await acreate_markdown_artifact(key=key, markdown=_markdown(summary, origin), description=f"audit {audit}")
        await acreate_table_artifact(
            key=f"{key}-statistics",
            table=[
                {
                    "statistic": name,
                    "median D": round(about["median_D"], 3),
                    "largest D": round(about["max_D"], 3),
                    "sensitive by it alone": about["sensitive"],
                }
                for name, about in summary["statistics"].items()
            ],
            description=f"Audit {audit}: D by statistic",
        )
        await acreate_link_artifact(
            key=f"{key}-report",
            link=(store.audit(audit) / "report.html").as_uri(),
            link_text=f"report of audit {audit}",
            description="on the machine that ran it; the dashboard shows it too",
        )
    except Exception as error:
        get_run_logger().warning("the artifacts could not be written: %s", type(error).__name__)


def _markdown(summary: Mapping[str, Any], origin: Origin | None) -> str:
    counts, controls = summary["verdicts"], summary["controls"]
    said = [f"# Audit {summary['audit']}: {summary['mechanism']}"]
    if not summary["valid"]:
        said.append(f"**This audit is void**: {controls['reason']}. None of its verdicts may be used.")
    if origin is not None and len(origin.audits) > 1:
        said.append(f"It continues audit {origin.audits[-2]} with more runs.")
    said.append(
        f"{summary['documents']} {summary['design']['unit']}s, {summary['runs']} runs "
        f"({summary['cached_runs']} from the store), {summary['seconds']:.0f} s."
    )
    said.append(
        "| sensitive | clear | undecided |\n|---|---|---|\n"
        f"| {counts['sensitive']} | {counts['clear']} | {counts['undecided']} |"
    )
    said += [f"- {damaged}" for damaged in summary["damaged_blocks"]]
    said.append(f"Report: `{summary['report']}`")
    return "\n\n".join(said) + "\n"


async def publish(
    store: Store, schedule: Schedule, run: ScheduledRun, summary: Mapping[str, Any] | None, drift: Drift | None
) -> None:
    """Create the artifacts of a run.

    Parameters
    ----------
    summary : mapping, optional
        Of the audit; None where there was none.
    drift : Drift, optional
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
    moved = {} if drift is None else drift.summary()["statistics"]
    await acreate_table_artifact(
        key=f"{key}-statistics",
        table=[_statistic(name, about, moved.get(name)) for name, about in summary["statistics"].items()],
        description=f"Audit {run.audit}: D by statistic, and its drift against earlier audits",
    )
    links = body(store, schedule, "sensitive", run)["links"]
    for name, link in links.items():
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
        "became sensitive": run.became_sensitive,
        "missed before": run.missed,
        "level": "" if run.level is None else f"{run.level:.2g}",
        "level left": "" if run.level_left is None else f"{run.level_left:.2g}",
        "seconds": round(run.seconds, 1),
    }


def _statistic(name: str, about: Mapping[str, Any], moved: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "statistic": name,
        "median D": round(about["median_D"], 3),
        "largest D": round(about["max_D"], 3),
        "sensitive by it alone": about["sensitive"],
        "measured before": 0 if moved is None else moved["pairs"],
        "median change of D": "" if moved is None else round(moved["median"], 3),
    }
