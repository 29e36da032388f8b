"""The Prefect task of an audit's steps: some calls, spread over the Dask workers and waited for.

One task is worth seconds of work at least: Prefect keeps the status that people look at, the store keeps the
truth, and Dask does the scheduling.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE

from ksdp.tasks.cluster import spread

_Part = TypeVar("_Part")


async def run_calls(
    address: str,
    step: str,
    function: Callable[..., _Part],
    arguments: Sequence[tuple[Any, ...]],
    done: Callable[[_Part], None],
    attempt: int,
    first: int,
) -> list[_Part]:
    """Take a step, or a part of it from its call number `first` on, as a Prefect task; results as of `spread`."""
    named = _spread.with_options(name=step, task_run_name=f"{step} {first}-{first + len(arguments) - 1}")
    # Prefect looks into every argument of a task, but not into this one.
    return await named(partial(spread, address, function, arguments, done, attempt))


@task(cache_policy=NO_CACHE, persist_result=False)
async def _spread(calls: Callable[[threading.Event], list[Any]]) -> list[Any]:
    """Off the event loop: Prefect goes on talking to its server. Cancelled, the thread hears of it."""
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(calls, stopped)
    finally:
        stopped.set()
