"""Stop at Ctrl-C, for certain and soon: what is done is in the store, and the same command resumes."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

__all__ = ["check_stopped", "die_with_parent", "interrupts_wait", "run_until_stopped"]

_Result = TypeVar("_Result")
_halt: ContextVar[threading.Event | None] = ContextVar("ksdp-halt", default=None)

_GRACE_SECONDS = 10.0
"""What a flow has to tell its server that it is cancelled."""


def check_stopped() -> None:
    """Raise KeyboardInterrupt where this context's run was told to stop; for threads that wait for workers."""
    halt = _halt.get()
    if halt is not None and halt.is_set():
        raise KeyboardInterrupt


def run_until_stopped(flow: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a flow to its end or to Ctrl-C.

    `asyncio.run` cancels the flow at Ctrl-C and waits for it, and a library that catches the cancellation, or
    loses it while it talks to a server, keeps the command alive. Here the wait ends after some seconds, and
    threads that wait for workers hear of it.
    """
    halt = _halt.get() or threading.Event()  # a run within a run stops with it
    token = _halt.set(halt)
    try:
        return asyncio.run(_guarded(flow, halt))
    finally:
        _halt.reset(token)


async def _guarded(flow: Coroutine[Any, Any, _Result], halt: threading.Event) -> _Result:
    task = asyncio.ensure_future(flow)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        halt.set()
        task.cancel()
        await asyncio.wait({task}, timeout=_GRACE_SECONDS)
        raise


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Hold Ctrl-C back while modules are imported: some catch everything, and the audit would go on unstopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def die_with_parent() -> None:
    """In a child, before it runs anything: have it told to end when its parent dies, however that comes about.

    Linux only; a signal that nobody can catch leaves the parent no time to end its children itself.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGTERM)
