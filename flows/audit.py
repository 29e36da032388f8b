"""The audit: sample, measure, test, decide, report.

1. `sample_blocks`: every block of runs that the store does not hold is drawn, run and measured on the workers.
2. `test_slices`: Kolmogorov-Smirnov tests of every document under every statistic.
3. `decide`: controls, corrections, bands, verdicts.
4. `write_findings`, `write_report`: Parquet, HTML and a Prefect artifact.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prefect import flow
from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

from ksdp.audit.design import Block
from ksdp.audit.errors import DamagedBlock
from ksdp.audit.plan import Plan
from ksdp.audit.testing import ArmTests
from ksdp.flows.conclude import conclude
from ksdp.flows.progress import current
from ksdp.tasks.blocks import AuditRef, BlockDone, open_plan, slices
from ksdp.tasks.steps import sample_blocks, test_slices

__all__ = ["audit"]

# A Prefect task is worth a twentieth of the audit; two in flight keep every worker busy across their ends.
_TASKS = 20
_IN_FLIGHT = 2


@dataclass
class _Tally:
    """What has been done so far; one writer a thread, read by the progress artifact."""

    sampled: int = 0
    measured: int = 0
    cached: int = 0
    damaged: list[str] = field(default_factory=list)

    def __call__(self, done: BlockDone) -> None:
        setattr(self, done.how, getattr(self, done.how) + done.runs)
        self.damaged += done.damaged
        current().advance(done.runs)

    @property
    def runs(self) -> int:
        return self.sampled + self.measured + self.cached


async def _show(tally: _Tally, total: int) -> None:
    """Keep the progress artifact of the flow run up to date until cancelled."""
    artifact: Any = await acreate_progress_artifact(progress=0.0, description="runs of the mechanism")
    while True:
        await asyncio.sleep(2.0)
        await aupdate_progress_artifact(artifact, progress=100.0 * tally.runs / total)


async def _sample(ref: AuditRef, address: str, blocks: Sequence[Block], tally: _Tally, attempt: int = 0) -> None:
    size = max(1, -(-len(blocks) // _TASKS))
    gate = asyncio.Semaphore(_IN_FLIGHT)

    async def chunk(first: int) -> None:
        some = blocks[first : first + size]
        async with gate:
            await sample_blocks(ref, address, some, tally, first, first + len(some) - 1, attempt)

    try:
        async with asyncio.TaskGroup() as group:
            for first in range(0, len(blocks), size):
                group.create_task(chunk(first))
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None  # the others are its echoes; a person wants the fault itself


async def _test(ref: AuditRef, address: str, plan: Plan, tally: _Tally) -> list[ArmTests]:
    """Test; a block found damaged is computed again, once."""
    parts = slices(plan)
    current().stage("test", len(parts))

    def done(_: ArmTests) -> None:
        current().advance(1)

    try:
        return await test_slices(ref, address, parts, done)
    except DamagedBlock as error:
        current().say(f"{error} It is computed again.")
        tally.damaged.append(str(error))
        await _sample(ref, address, plan.blocks, _Tally(), attempt=1)
        return await test_slices(ref, address, parts, done, attempt=1)


@flow(name="audit", flow_run_name="audit {audit}", validate_parameters=False)
async def audit(store: str, audit: str, corpus: str, address: str, may_sample: bool = True) -> dict[str, Any]:
    """Run a prepared audit on Dask workers and return its summary.

    Parameters
    ----------
    store, audit, corpus : str
        Folder of the store, id of the audit, hash of the corpus: what `prepare` stored.
    address : str
        Of the Dask scheduler.
    may_sample : bool
        False: fail rather than run the mechanism (`ksdp test`).
    """
    started = time.monotonic()
    ref = AuditRef(store, audit, corpus, may_sample)
    plan = await asyncio.to_thread(open_plan, ref)
    tally = _Tally()
    current().stage("sample", plan.runs)
    showing = asyncio.create_task(_show(tally, plan.runs))
    try:
        await _sample(ref, address, plan.blocks, tally)
    finally:
        showing.cancel()
    sampled = time.monotonic()
    tested = await _test(ref, address, plan, tally)
    seconds = {"sample": sampled - started, "test": time.monotonic() - sampled}
    counts = {"sampled": tally.sampled, "measured": tally.measured, "cached": tally.cached}
    return await conclude(ref, address, plan, tested, counts, tally.damaged, seconds, started)
