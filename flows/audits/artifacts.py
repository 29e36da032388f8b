"""What Prefect's pages show of an audit: how far it is; its result, its statistics and its report."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from prefect.artifacts import (
    acreate_link_artifact,
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)
from prefect.logging import get_run_logger

from ksdp.audit.mechanisms.mechanism_words import mechanism_words
from ksdp.audit.results.parts import StatisticSummary
from ksdp.audit.results.summary import Summary
from ksdp.flows.audits.block_counts import Tally
from ksdp.storage.audits.continuations import Origin, read_origin
from ksdp.storage.store import Store


async def publish_audit(store: Store, summary: Summary) -> None:
    """Create the artifacts of an audit. The store has it all: a page less is no failed audit."""
    audit, origin = summary.audit, read_origin(store, summary.audit)
    key = f"audit-{audit}"
    try:
        await acreate_markdown_artifact(key=key, markdown=_markdown(summary, origin), description=f"audit {audit}")
        await acreate_table_artifact(
            key=f"{key}-statistics",
            table=[statistic_row(name, statistic) for name, statistic in summary.statistics.items()],
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
    lines = [f"# Audit {summary.audit}: {mechanism_words(summary.mechanism, summary.parameters)}"]
    if not summary.valid:
        lines.append(f"**This audit is void**: {controls.reason}. None of its verdicts may be used.")
    if origin is not None and len(origin.audits) > 1:
        lines.append(f"It continues audit {origin.audits[-2]} with more runs.")
    lines.append(
        f"{summary.documents} {summary.design.unit}s, {summary.runs} runs "
        f"({summary.cached_runs} from the store), {summary.seconds:.0f} s."
    )
    lines.append(
        "| sensitive | clear | certified clear | undecided |\n|---|---|---|---|\n"
        f"| {counts.sensitive} | {counts.clear} | {counts.certified_clear} | {counts.undecided} |"
    )
    lines += [f"- {damaged}" for damaged in summary.damaged_blocks]
    lines.append(f"Report: `{summary.report}`")
    return "\n\n".join(lines) + "\n"


async def _follow(artifact: Any, share: Callable[[], float]) -> None:
    while True:
        await asyncio.sleep(2.0)
        await aupdate_progress_artifact(artifact, progress=share())


@asynccontextmanager
async def shown(tally: Tally, total: int, key: str, what: str) -> AsyncIterator[None]:
    """Keep a progress artifact of the flow run up to date while the context lasts."""
    before = tally.runs

    def share() -> float:
        return min(100.0, 100.0 * (tally.runs - before) / total)

    artifact: Any = await acreate_progress_artifact(key=key, progress=0.0, description=what)
    following = asyncio.create_task(_follow(artifact, share))
    try:
        yield
    finally:
        following.cancel()
        with contextlib.suppress(Exception):  # a bar that stands still is no failed audit
            await asyncio.wait_for(aupdate_progress_artifact(artifact, progress=share()), 5.0)


def statistic_row(name: str, statistic: StatisticSummary) -> dict[str, Any]:
    """What a table of Prefect's says of a statistic."""
    return {
        "statistic": name,
        "median D": round(statistic.median_D, 3),
        "largest D": round(statistic.max_D, 3),
        "sensitive by it alone": statistic.sensitive,
    }
