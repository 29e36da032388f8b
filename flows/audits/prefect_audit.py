"""The audit as a Prefect flow: its steps are Prefect tasks, each of which spreads blocks over Dask's workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from prefect import flow

from ksdp.audit.design import Block
from ksdp.audit.interim_looks import FIRST
from ksdp.audit.results.summary import Summary
from ksdp.flows.audits.artifacts import publish_audit, shown
from ksdp.flows.audits.audit import run_stages
from ksdp.flows.audits.block_counts import Tally
from ksdp.flows.audits.steps import FlaggedParts
from ksdp.storage.audits.pairs import PairsPart
from ksdp.storage.curves import Curve
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef
from ksdp.tasks.slices import Slice, SliceEffects, SliceTests
from ksdp.tasks.steps import draw_curves, measure_flagged, run_pairs, sample_blocks, test_slices

# A Prefect task is worth a twentieth of the audit; two in flight keep every worker busy across their ends.
_TASKS = 20
_IN_FLIGHT = 2

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Tasks:
    """The steps of an audit as Prefect tasks on the workers of a Dask scheduler."""

    address: str

    async def aside(self, function: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.to_thread(function, *arguments)

    async def sample(self, ref: AuditRef, blocks: Sequence[Block], tally: Tally, attempt: int = 0) -> None:
        size = max(1, -(-len(blocks) // _TASKS))
        gate = asyncio.Semaphore(_IN_FLIGHT)

        async def chunk(first: int) -> None:
            some = blocks[first : first + size]
            async with gate:
                await sample_blocks(ref, self.address, some, tally, first, first + len(some) - 1, attempt)

        try:
            async with asyncio.TaskGroup() as group:
                for first in range(0, len(blocks), size):
                    group.create_task(chunk(first))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None  # the others are its echoes; a person wants the fault itself

    async def test(
        self, ref: AuditRef, parts: Sequence[Slice], done: Callable[[SliceTests], None], attempt: int = 0
    ) -> list[SliceTests]:
        return await test_slices(ref, self.address, parts, done, attempt=attempt)

    async def confirm(
        self, ref: AuditRef, fresh: AuditRef, parts: FlaggedParts, done: Callable[[SliceEffects], None]
    ) -> list[SliceEffects]:
        return await measure_flagged(ref, fresh, self.address, parts, done)

    async def certify(
        self, ref: AuditRef, parts: Sequence[PairsPart], done: Callable[[NDArray[np.float64]], None]
    ) -> list[NDArray[np.float64]]:
        return await run_pairs(ref, self.address, parts, done)

    async def draw(
        self, wanted: Sequence[tuple[AuditRef, int, int, str]], done: Callable[[Curve], None]
    ) -> list[Curve]:
        return await draw_curves(self.address, wanted, done)

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
    """Run a prepared audit on Dask workers and return its summary.

    Parameters
    ----------
    store, audit, corpus : str
        Folder of the store, id of the audit, hash of the corpus: what `prepare` stored.
    address : str
        Of the Dask scheduler.
    may_sample : bool
        False: fail rather than run the mechanism (`ksdp test`).
    blocks : str, optional
        URL of the blocks, where they are not in the store's folder.
    code : str, optional
        Digest of a user's own code, which workers must have, too.
    """
    ref = AuditRef(store, audit, corpus, may_sample, FIRST, blocks, code=code)
    return await run_stages(ref, _Tasks(address))
