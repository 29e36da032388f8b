"""Ctrl-C ends a run that swallows it, and one that loses it."""

import asyncio
import logging
import os
import signal
import sys
import threading
import time

import pytest

from ksdp.flows import interruption
from ksdp.flows.interruption import check_stopped, interrupts_stay_here, interrupts_wait, run_until_stopped


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


def test_what_a_library_says_of_its_end_is_not_heard(caplog: pytest.LogCaptureFixture) -> None:
    async def loud() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            logging.getLogger("prefect.task_runs").error("Crash detected!")
            raise

    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        run_until_stopped(loud())
    assert caplog.messages == []
    logging.getLogger("prefect.task_runs").error("heard again")
    assert caplog.messages == ["heard again"]


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


def test_a_child_does_not_hear_what_a_terminal_sends_to_all() -> None:
    """And this process does, though the thread that starts children lets it wait."""
    code = "import os, signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"

    async def held() -> str:
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, told.set)
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
        said, _ = await child.communicate()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(told.wait(), 30)
        return said.decode().strip()

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with interrupts_stay_here():
        assert asyncio.run(held()) == "True"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


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
