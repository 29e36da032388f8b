"""Spread calls over the Dask workers, and let them begin before Prefect does.

Workers and schedulers may go: what was not done is submitted again, to whoever is there then. Calls are
idempotent, and what they wrote is found again.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ksdp.audit.content_keys import content_key
from ksdp.audit.errors import KsdpError
from ksdp.tasks.audit_ref import AuditRef, open_plan, parts_of
from ksdp.tasks.away import at_worker, check_shared, computing_versions, published
from ksdp.tasks.blocks import compute_block
from ksdp.tasks.cluster import credentials, is_ours

_log = logging.getLogger("ksdp.tasks")
_PATIENCE = 600.0
"""Seconds that somebody's scheduler may be gone."""
_LOSSES = 3
"""Times that a call may take its workers with it, or a scheduler go, without any call being done in between."""
_GONE = ("scheduler-connection-lost", "scheduler-restart")


def _connected(address: str) -> Any:
    """A client of the scheduler; one that registers while another cancels may meet a stray message: try again."""
    from distributed import Client

    for _ in range(4):
        try:
            return Client(address, security=credentials(address), set_as_default=False)
        except AssertionError:
            time.sleep(0.2)
    return Client(address, security=credentials(address), set_as_default=False)


def _connected_again(address: str) -> Any:
    """A client of somebody's scheduler that may be about to come back."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return _connected(address)
        except OSError as error:  # Dask's CommClosedError and TimeoutError are such
            if is_ours(address) or time.monotonic() > until:
                raise KsdpError(f"the Dask scheduler at {address} is gone; the same command resumes.") from error
            time.sleep(1.0)


def _submit(
    client: Any, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], attempt: str
) -> list[Any]:
    """Submit under names that say what is computed, so that work under way is joined, not done twice."""
    names = [
        f"{function.__name__}-{content_key({'arguments': repr(args), 'attempt': attempt})}" for args in arguments
    ]
    if published(arguments):
        wanted = computing_versions()
        arguments = [(wanted, function, *args) for args in arguments]
        function = at_worker
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

    Raises
    ------
    KsdpError
        If calls kill whoever makes them, or somebody's scheduler goes and does not come back.
    """
    results: dict[int, Any] = {}
    losses, name = 0, str(attempt)
    while len(results) < len(arguments):
        before = len(results)
        lost = _gathered(address, function, arguments, done, name, results)
        if lost is None:
            break
        losses = losses + 1 if len(results) == before else 1
        if losses > _LOSSES:
            raise KsdpError(f"{lost} The same command resumes from what is stored.")
        _log.warning("%s What was not done is done again.", lost)
        name = f"{attempt}.{len(results)}.{losses}"
    return [results[at] for at in range(len(arguments))]


def _gathered(
    address: str,
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    done: Callable[[Any], None],
    name: str,
    results: dict[int, Any],
) -> str | None:
    """Submit what has no result yet and gather; what was lost, where workers or the scheduler went."""
    from concurrent.futures import CancelledError

    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    left = [at for at in range(len(arguments)) if at not in results]
    with _connected_again(address) as client:
        asked = _submit(client, function, [arguments[at] for at in left], name)
        futures, places = {future.key: future for future in asked}, defaultdict(list)
        for future, at in zip(asked, left, strict=True):
            places[future.key].append(at)
        try:
            for future in as_completed(list(futures.values()), loop=client.loop):
                for at in places[future.key]:
                    results[at] = future.result()
                    done(results[at])
        except KilledWorker:
            return f"workers died of {function.__name__} again and again: they may need more memory."
        except CancelledError as error:
            if getattr(error, "reason", None) not in _GONE:
                raise
            return f"the Dask scheduler at {address} went away."
        except BaseException:
            client.cancel(list(futures.values()), reason="the audit stops")
            raise
    return None


@contextmanager
def started_ahead(address: str, ref: AuditRef) -> Iterator[None]:
    """Let the workers begin on an audit's blocks while Prefect is still starting; the flow's tasks join them.

    Raises
    ------
    InputError
        If somebody's workers do not find the audit.
    """
    with _connected(address) as client:
        if not is_ours(address):
            check_shared(client, ref)
        first = parts_of(ref)[0]
        futures = _submit(client, compute_block, [(first, block) for block in open_plan(first).blocks], "0")
        try:
            yield
        except BaseException:
            client.cancel(futures, reason="the audit stops")
            raise
