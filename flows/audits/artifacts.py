"""What Prefect's pages show of an audit: its result, its statistics and its report."""

from __future__ import annotations

from prefect.artifacts import acreate_link_artifact, acreate_markdown_artifact, acreate_table_artifact
from prefect.logging import get_run_logger

from ksdp.audit.results.summary import Summary
from ksdp.storage.audits.continuations import Origin, read_origin
from ksdp.storage.store import Store

__all__ = ["publish_audit"]


async def publish_audit(store: Store, summary: Summary) -> None:
    """Create the artifacts of an audit. The store has it all: a page less is no failed audit."""
    audit, origin = summary.audit, read_origin(store, summary.audit)
    key = f"audit-{audit}"
    try:
        await acreate_markdown_artifact(key=key, markdown=_markdown(summary, origin), description=f"audit {audit}")
        await acreate_table_artifact(
            key=f"{key}-statistics",
            table=[
                {
                    "statistic": name,
                    "median D": round(about.median_D, 3),
                    "largest D": round(about.max_D, 3),
                    "sensitive by it alone": about.sensitive,
                }
                for name, about in summary.statistics.items()
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


def _markdown(summary: Summary, origin: Origin | None) -> str:
    counts, controls = summary.verdicts, summary.controls
    said = [f"# Audit {summary.audit}: {summary.mechanism}"]
    if not summary.valid:
        said.append(f"**This audit is void**: {controls.reason}. None of its verdicts may be used.")
    if origin is not None and len(origin.audits) > 1:
        said.append(f"It continues audit {origin.audits[-2]} with more runs.")
    said.append(
        f"{summary.documents} {summary.design.unit}s, {summary.runs} runs "
        f"({summary.cached_runs} from the store), {summary.seconds:.0f} s."
    )
    said.append(
        "| sensitive | clear | certified clear | undecided |\n|---|---|---|---|\n"
        f"| {counts.sensitive} | {counts.clear} | {counts.certified_clear} | {counts.undecided} |"
    )
    said += [f"- {damaged}" for damaged in summary.damaged_blocks]
    said.append(f"Report: `{summary.report}`")
    return "\n\n".join(said) + "\n"
