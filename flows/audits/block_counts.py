"""What an audit has done so far, counted and shown in the Prefect UI."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
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


async def _follow(artifact: Any, share: Callable[[], float]) -> None:
    while True:
        await asyncio.sleep(2.0)
        await aupdate_progress_artifact(artifact, progress=share())


@asynccontextmanager
async def shown(tally: Tally, total: int, key: str, what: str) -> AsyncIterator[None]:
    """Keep a progress artifact of the flow run up to date inside; at its end it says how far it came."""
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
