"""The pages of Prefect about an audit: its progress, result, statistics and report."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from prefect import flow
from prefect.artifacts import (
    acreate_link_artifact,
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)
from prefect.logging import get_run_logger

from ksdp.audit.results.parts import StatisticSummary
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.own_names import mechanism_words
from ksdp.audit.verdicts.looks import FIRST
from ksdp.flows.audits.audit import run_stages
from ksdp.flows.audits.steps import Tally
from ksdp.storage.audits.continuation import Origin, read_origin
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef
from ksdp.tasks.steps import run_calls


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
    lines.append(f"**{counts.words}**")
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
    before = tally.reported

    def share() -> float:
        return min(100.0, 100.0 * (tally.reported - before) / total)

    artifact: Any = await acreate_progress_artifact(key=key, progress=0.0, description=what)
    following = asyncio.create_task(_follow(artifact, share))
    try:
        yield
    finally:
        following.cancel()
        with contextlib.suppress(Exception):  # a bar that stands still is no failed audit
            await asyncio.wait_for(aupdate_progress_artifact(artifact, progress=share()), 5.0)


def statistic_row(name: str, statistic: StatisticSummary) -> dict[str, Any]:
    """Return the row of a statistic in a table of Prefect."""
    return {
        "statistic": name,
        "median D": round(statistic.median_D, 3),
        "largest D": round(statistic.max_D, 3),
        "sensitive by it alone": statistic.sensitive,
    }


# A Prefect task is worth a twentieth of the audit; two in flight keep every worker busy across their ends.
_TASKS = {"sample": 20}
_IN_FLIGHT = 2

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Tasks:
    """The steps of an audit as Prefect tasks on the workers of a Dask scheduler."""

    address: str

    async def run_in_thread(self, function: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.to_thread(function, *arguments)

    async def each(
        self,
        step: str,
        function: Callable[..., Result],
        arguments: Sequence[tuple[Any, ...]],
        done: Callable[[Result], None],
        attempt: int = 0,
    ) -> list[Result]:
        size = max(1, -(-len(arguments) // _TASKS.get(step, 1)))
        gate = asyncio.Semaphore(_IN_FLIGHT)

        async def chunk(first: int) -> list[Result]:
            some = arguments[first : first + size]
            async with gate:
                return await run_calls(self.address, step, function, some, done, attempt, first)

        try:
            async with asyncio.TaskGroup() as group:
                chunks = [group.create_task(chunk(first)) for first in range(0, len(arguments), size)]
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None  # the others are its echoes; a person wants the fault itself
        return [result for part in chunks for result in part.result()]

    def shown(self, tally: Tally, total: int, key: str, what: str) -> AbstractAsyncContextManager[None]:
        return shown(tally, total, key, what)

    async def publish(self, store: Store, summary: Summary) -> None:
        await publish_audit(store, summary)


@flow(name="audit", flow_run_name="audit {audit}", validate_parameters=False)
async def audit(
    store: str,
    audit: str,
    corpus: str,
    address: str,
    may_sample: bool = True,
    blocks: str | None = None,
    code: str | None = None,
) -> Summary:
    """Run a prepared audit on Dask workers and return its summary."""
    ref = AuditRef(store, audit, corpus, may_sample, FIRST, blocks, code=code)
    return await run_stages(ref, _Tasks(address))
