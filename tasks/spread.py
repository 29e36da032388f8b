"""Spread calls over the Dask workers, and let them begin before Prefect does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ksdp.storage.store import content_key
from ksdp.tasks.audit_ref import AuditRef, open_plan, parts_of
from ksdp.tasks.blocks import compute_block
from ksdp.tasks.cluster import credentials

__all__ = ["spread", "started_ahead"]


def _connected(address: str) -> Any:
    """A client of the scheduler; one that registers while another cancels may meet a stray message: try again."""
    from distributed import Client

    for _ in range(4):
        try:
            return Client(address, security=credentials(address), set_as_default=False)
        except AssertionError:
            time.sleep(0.2)
    return Client(address, security=credentials(address), set_as_default=False)


def _submit(
    client: Any, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], attempt: int
) -> list[Any]:
    """Submit under names that say what is computed, so that work under way is joined, not done twice."""
    names = (
        f"{function.__name__}-{content_key({'arguments': repr(args), 'attempt': attempt})}" for args in arguments
    )
    return [client.submit(function, *args, key=name) for name, args in zip(names, arguments, strict=True)]


def spread(
    address: str,
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    done: Callable[[Any], None],
    attempt: int = 0,
) -> list[Any]:
    """Call `function` once for each tuple on the workers; results in order, `done` as each arrives.

    A later `attempt` computes again what an earlier one has.
    """
    from distributed import as_completed

    with _connected(address) as client:
        futures = _submit(client, function, arguments, attempt)
        results = {}
        try:
            for future in as_completed(futures, loop=client.loop):
                results[future.key] = future.result()
                done(results[future.key])
            return [results[future.key] for future in futures]
        except BaseException:
            client.cancel(futures, reason="the audit stops")
            raise


@contextmanager
def started_ahead(address: str, ref: AuditRef) -> Iterator[None]:
    """Let the workers begin on an audit's blocks while Prefect is still starting; the flow's tasks join them."""
    with _connected(address) as client:
        first = parts_of(ref)[0]
        futures = _submit(client, compute_block, [(first, block) for block in open_plan(first).blocks], 0)
        try:
            yield
        except BaseException:
            client.cancel(futures, reason="the audit stops")
            raise
