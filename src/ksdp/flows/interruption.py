"""Stop at Ctrl-C, always and soon; who is told how far an audit is; and the clock that flows are given."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from ksdp.audit.errors import KsdpError

Clock = Callable[[], datetime]
"""The time, with a time zone."""


def utc_now() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


_Result = TypeVar("_Result")
_halt: ContextVar[threading.Event | None] = ContextVar("ksdp-halt", default=None)

_leave: ContextVar[Callable[[int, object], None] | None] = ContextVar("ksdp-leave", default=None)
_LOOK_SECONDS = 0.1
_GRACE_SECONDS = 10.0
"""Seconds for a flow to tell its server that it is cancelled."""
_LOST_SECONDS = 1.0
"""The same if the server is gone."""


def check_stopped() -> None:
    """Raise KeyboardInterrupt if this context's run was asked to stop; for threads that wait for workers."""
    halt = _halt.get()
    if halt is not None and halt.is_set():
        raise KeyboardInterrupt


def run_until_stopped(flow: Coroutine[Any, Any, _Result], lost: Callable[[], str] = lambda: "") -> _Result:
    """Run a flow to its end or to Ctrl-C, or until `lost` says why it cannot go on."""
    halt = _halt.get() or threading.Event()  # a run within a run stops with it
    token, runner, before = _halt.set(halt), asyncio.Runner(), logging.root.manager.disable
    try:
        return runner.run(_guarded(flow, halt, lost))
    finally:
        _halt.reset(token)
        logging.disable(before)
        if lost():
            runner.get_loop().set_exception_handler(lambda *_: None)
        else:
            runner.close()


@contextlib.contextmanager
def at_sigterm(leave: Callable[[int, object], None]) -> Iterator[None]:
    """Let SIGTERM call that, in flows too, which put a handler of Prefect's own in its place; main thread only."""
    token, before = _leave.set(leave), signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        _leave.reset(token)


async def _stay(leave: Callable[[int, object], None]) -> None:
    """Prefect's handler raises where a flow happens to be: eighty lines, and workers that go on."""
    while True:
        if signal.getsignal(signal.SIGTERM) is not leave:
            signal.signal(signal.SIGTERM, leave)
        await asyncio.sleep(_LOOK_SECONDS)


async def _guarded(flow: Coroutine[Any, Any, _Result], halt: threading.Event, lost: Callable[[], str]) -> _Result:
    leave = _leave.get()
    stays = None if leave is None else asyncio.ensure_future(_stay(leave))
    try:
        return await _waited(flow, halt, lost)
    finally:
        if stays is not None:
            stays.cancel()


async def _waited(flow: Coroutine[Any, Any, _Result], halt: threading.Event, lost: Callable[[], str]) -> _Result:
    task, why = asyncio.ensure_future(flow), ""
    try:
        while not task.done() and not (why := lost()):
            await asyncio.wait({task}, timeout=_LOOK_SECONDS)
    except asyncio.CancelledError:
        await _ended(task, halt, _GRACE_SECONDS)
        raise
    if not task.done():  # nobody is there to be told that it is cancelled
        await _ended(task, halt, _LOST_SECONDS)
    if (why := why or lost()) and (not task.done() or task.cancelled() or task.exception()):
        raise KsdpError(why)
    return task.result()


async def _ended(task: asyncio.Future[Any], halt: threading.Event, seconds: float) -> None:
    halt.set()
    logging.disable(logging.ERROR)  # Prefect calls it a crash, line by line
    task.cancel()
    await asyncio.wait({task}, timeout=seconds)


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Hold Ctrl-C back until `check_stopped` or the end: imports and finalisers may swallow the exception."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    halt = _halt.get() or threading.Event()
    token = _halt.set(halt)
    before = signal.signal(signal.SIGINT, lambda number, _: halt.set())
    try:
        yield
        check_stopped()
    finally:
        signal.signal(signal.SIGINT, before)
        _halt.reset(token)


@contextlib.contextmanager
def interrupts_stay_here() -> Iterator[None]:
    """Keep Ctrl-C from children that are started here, which would print it."""
    ready, over = threading.Event(), threading.Event()

    def hear() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        ready.set()
        over.wait()

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    threading.Thread(target=hear, name="ksdp-interrupts", daemon=True).start()
    ready.wait()
    try:
        yield
    finally:
        over.set()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def die_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """In a child, before it runs anything: have it signalled when its parent dies, however that comes about."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, number)


class Listener(Protocol):
    """Hears of stages and of units done."""

    def stage(self, name: str, total: int) -> None:
        """A stage begins; `total` units are to be done."""

    def advance(self, units: int) -> None:
        """Units of the present stage are done."""

    def say(self, text: str) -> None:
        """Something a person wants to know."""


Heard = TypeVar("Heard", bound=Listener)


class _Nobody:
    def stage(self, name: str, total: int) -> None:
        pass

    def advance(self, units: int) -> None:
        pass

    def say(self, text: str) -> None:
        pass


_listener: ContextVar[Listener] = ContextVar("ksdp-listener", default=_Nobody())  # noqa: B039 - it holds no state


def current() -> Listener:
    """The listener of this context."""
    return _listener.get()


def advance(units: int) -> None:
    """Count units of the current stage as done; a run that was asked to stop stops here."""
    check_stopped()
    current().advance(units)


@contextmanager
def listening(listener: Heard) -> Iterator[Heard]:
    """Let `listener` hear what happens inside."""
    token = _listener.set(listener)
    try:
        yield listener
    finally:
        _listener.reset(token)
