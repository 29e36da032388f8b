"""The audit without Prefect: calls in this process, or on Dask's workers. What a notebook needs is no server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ksdp.audit.design import Block
from ksdp.audit.errors import KsdpError
from ksdp.audit.results.summary import Summary
from ksdp.flows.audits.audit import run_stages
from ksdp.flows.audits.block_counts import Tally
from ksdp.flows.audits.steps import FlaggedParts
from ksdp.storage.audits.pairs import PairsPart
from ksdp.storage.curves import Curve
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef
from ksdp.tasks.blocks import compute_block
from ksdp.tasks.pairs import compute_pairs
from ksdp.tasks.slices import Slice, SliceEffects, SliceTests, curve, effects, test_slice

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Calls:
    """The steps of an audit as plain calls, one after the other or spread over workers."""

    address: str | None

    def _each(
        self,
        function: Callable[..., Result],
        arguments: Sequence[tuple[Any, ...]],
        done: Callable[[Any], None],
        attempt: int = 0,
    ) -> list[Result]:
        if self.address is not None:
            from ksdp.tasks.spread import spread

            return spread(self.address, function, arguments, done, attempt)
        results = []
        for some in arguments:
            results.append(function(*some))
            done(results[-1])
        return results

    async def aside(self, function: Callable[..., Result], *arguments: Any) -> Result:
        return function(*arguments)

    async def sample(self, ref: AuditRef, blocks: Sequence[Block], tally: Tally, attempt: int = 0) -> None:
        self._each(compute_block, [(ref, block) for block in blocks], tally, attempt)

    async def test(
        self, ref: AuditRef, parts: Sequence[Slice], done: Callable[[SliceTests], None], attempt: int = 0
    ) -> list[SliceTests]:
        return self._each(test_slice, [(ref, part) for part in parts], done, attempt)

    async def confirm(
        self, ref: AuditRef, fresh: AuditRef, parts: FlaggedParts, done: Callable[[SliceEffects], None]
    ) -> list[SliceEffects]:
        return self._each(effects, [(ref, fresh, *part) for part in parts], done)

    async def certify(
        self, ref: AuditRef, parts: Sequence[PairsPart], done: Callable[[NDArray[np.float64]], None]
    ) -> list[NDArray[np.float64]]:
        return self._each(compute_pairs, [(ref, part) for part in parts], done)

    async def draw(
        self, wanted: Sequence[tuple[AuditRef, int, int, str]], done: Callable[[Curve], None]
    ) -> list[Curve]:
        return self._each(curve, wanted, done)

    @asynccontextmanager
    async def shown(self, tally: Tally, total: int, key: str, what: str) -> AsyncIterator[None]:
        yield

    async def publish(self, store: Store, summary: Summary) -> None:
        pass


def audit_here(refs: Sequence[AuditRef], workers: int | None = None) -> list[Summary]:
    """Run prepared audits one after the other, without a server; also where an event loop runs, as in a notebook.

    Products of matrices have one thread, as in workers and commands: their last bits depend on how many share one.

    Parameters
    ----------
    workers : int, optional
        Worker processes; none by default, and everything happens in this one.
    """
    with contextlib.ExitStack() as stack, threadpool_limits(1):
        address = None
        if workers is not None and workers > 1:
            from ksdp.tasks.cluster import open_workers

            address = stack.enter_context(open_workers(workers)).address
        return [_finished(run_stages(ref, _Calls(address))) for ref in refs]


def _finished(audit: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine none of whose steps waits: it runs through at once, and needs no event loop."""
    try:
        audit.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    audit.close()
    raise KsdpError("a step of the audit waited; without a server nothing does.")
