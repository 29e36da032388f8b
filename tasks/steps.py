"""The Prefect tasks of an audit: each spreads blocks or slices over the Dask workers and waits for them.

One task is worth seconds of work at least: Prefect keeps the status that people look at, the store keeps the
truth, and Dask does the scheduling.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from prefect import task
from prefect.cache_policies import NO_CACHE

from ksdp.audit.spec.design import Block
from ksdp.audit.verdicts.effects import Flagged
from ksdp.storage.audits.stages import PairsPart
from ksdp.storage.findings import Curve
from ksdp.tasks.audit_ref import AuditRef
from ksdp.tasks.blocks import BlockDone, compute_block
from ksdp.tasks.cluster import spread
from ksdp.tasks.slices import Slice, SliceEffects, SliceTests, compute_pairs, curve, effects, test_slice

_Part = TypeVar("_Part")
_options: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False}


async def _spread(
    address: str,
    step: Callable[..., _Part],
    arguments: Sequence[tuple[Any, ...]],
    done: Callable[[_Part], None],
    attempt: int = 0,
) -> list[_Part]:
    """Off the event loop: Prefect goes on talking to its server. Cancelled, the thread hears of it."""
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(spread, address, step, arguments, done, attempt, stopped)
    finally:
        stopped.set()


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
    return await _spread(address, compute_block, arguments, done, attempt)


@task(name="test", **_options)
async def test_slices(
    ref: AuditRef, address: str, parts: Sequence[Slice], done: Callable[[SliceTests], None], attempt: int = 0
) -> list[SliceTests]:
    """Tests of every document under every statistic."""
    arguments = [(ref, part) for part in parts]
    return await _spread(address, test_slice, arguments, done, attempt)


@task(name="confirm", **_options)
async def measure_flagged(
    ref: AuditRef,
    fresh: AuditRef,
    address: str,
    parts: Sequence[tuple[Slice, Sequence[Flagged]]],
    done: Callable[[SliceEffects], None],
) -> list[SliceEffects]:
    """Effects of documents with a detected leak on fresh runs, and these runs' canaries."""
    arguments = [(ref, fresh, *part) for part in parts]
    return await _spread(address, effects, arguments, done)


@task(name="certify", **_options)
async def run_pairs(
    ref: AuditRef, address: str, parts: Sequence[PairsPart], done: Callable[[NDArray[np.float64]], None]
) -> list[NDArray[np.float64]]:
    """Advantages of the best attack on pairs of runs that differ in one document."""
    arguments = [(ref, part) for part in parts]
    return await _spread(address, compute_pairs, arguments, done)


@task(name="curves", **_options)
async def draw_curves(
    address: str, wanted: Sequence[tuple[AuditRef, int, int, str]], done: Callable[[Curve], None]
) -> list[Curve]:
    """The values behind the tests that the report draws: (stage, lane, row, statistic) each."""
    return await _spread(address, curve, wanted, done)
