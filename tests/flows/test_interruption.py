"""Ctrl-C ends a run that swallows it, and one that loses it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import pytest

from ksdp.flows import interruption
from ksdp.flows.interruption import check_stopped, interrupts_wait, run_until_stopped


def interrupt_soon() -> None:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()


async def deaf() -> None:
    """Go on after the first cancellation, as some libraries do."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await asyncio.sleep(60)


def test_a_flow_that_swallows_the_cancellation_ends_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "_GRACE_SECONDS", 0.3)
    ended: list[bool] = []

    async def remembered() -> None:
        await deaf()
        ended.append(True)

    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        run_until_stopped(remembered())
    assert not ended, "it was left behind, and not waited for"


def test_threads_that_wait_for_workers_hear_of_it() -> None:
    heard = threading.Event()

    def waiting() -> None:
        try:
            for _ in range(2000):
                check_stopped()
                time.sleep(0.01)
        except KeyboardInterrupt:
            heard.set()
            raise

    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        run_until_stopped(asyncio.to_thread(waiting))
    assert heard.is_set()
    check_stopped()  # the next run begins anew


def test_an_interrupt_during_imports_comes_after_them() -> None:
    done = []

    def imports() -> None:
        with interrupts_wait():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        imports()
    assert done
