"""The Prefect tasks of an audit: each spreads blocks or slices over the Dask workers and waits for them.

One task is worth seconds of work at least: Prefect keeps the status that people look at, the store keeps the
truth, and Dask does the scheduling.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from ksdp.audit.design import Block
from ksdp.audit.testing import ArmTests
from ksdp.storage.findings import Curve
from ksdp.tasks.blocks import AuditRef, BlockDone, Slice, compute_block, curve, spread, test_slice

__all__ = ["draw_curves", "sample_blocks", "test_slices"]

_options: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False}


@task(name="sample", task_run_name="sample blocks {first}-{last}", **_options)
async def sample_blocks(
    ref: AuditRef,
    address: str,
    blocks: Sequence[Block],
    done: Callable[[BlockDone], None],
    first: int,
    last: int,
    attempt: int = 0,
) -> list[BlockDone]:
    """Make sure that the values of these blocks are stored."""
    arguments = [(ref, block) for block in blocks]
    results: list[BlockDone] = await asyncio.to_thread(spread, address, compute_block, arguments, done, attempt)
    return results


@task(name="test", **_options)
async def test_slices(
    ref: AuditRef, address: str, parts: Sequence[Slice], done: Callable[[ArmTests], None], attempt: int = 0
) -> list[ArmTests]:
    """Kolmogorov-Smirnov tests of every document under every statistic."""
    arguments = [(ref, part) for part in parts]
    results: list[ArmTests] = await asyncio.to_thread(spread, address, test_slice, arguments, done, attempt)
    return results


@task(name="curves", **_options)
async def draw_curves(
    ref: AuditRef, address: str, wanted: Sequence[tuple[int, int, str]], done: Callable[[Curve], None]
) -> list[Curve]:
    """The values behind the tests that the report draws: (lane, row, statistic) each."""
    results: list[Curve] = await asyncio.to_thread(spread, address, curve, [(ref, *w) for w in wanted], done)
    return results
