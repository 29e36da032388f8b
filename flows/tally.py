"""What an audit has done so far, counted and shown in the Prefect UI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

from ksdp.flows.progress import advance
from ksdp.tasks.blocks import BlockDone

__all__ = ["Tally", "shown"]


@dataclass
class Tally:
    """Runs by how they came about; one writer a thread, read by the progress artifact."""

    sampled: int = 0
    measured: int = 0
    cached: int = 0
    damaged: list[str] = field(default_factory=list)

    def __call__(self, done: BlockDone) -> None:
        """Count a block."""
        setattr(self, done.how, getattr(self, done.how) + done.runs)
        self.damaged += done.damaged
        advance(done.runs)

    @property
    def runs(self) -> int:
        """All runs so far."""
        return self.sampled + self.measured + self.cached


async def _show(tally: Tally, before: int, total: int) -> None:
    artifact: Any = await acreate_progress_artifact(progress=0.0, description="runs of the mechanism")
    while True:
        await asyncio.sleep(2.0)
        await aupdate_progress_artifact(artifact, progress=100.0 * (tally.runs - before) / total)


@asynccontextmanager
async def shown(tally: Tally, total: int) -> AsyncIterator[None]:
    """Keep a progress artifact of the flow run up to date inside."""
    showing = asyncio.create_task(_show(tally, tally.runs, total))
    try:
        yield
    finally:
        showing.cancel()
