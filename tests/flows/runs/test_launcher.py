"""Processes that one run starts: their messages, their ends, and what is left of them."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.connection import Connection

import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.flows.runs.local import Launcher, run_in_process


def count(pipe: Connection, upto: int) -> None:
    pipe.send(("ready", os.getpid()))
    pipe.send(("step", 1))
    run_in_process(pipe, lambda: {"sum": sum(range(upto + 1))})


def fail(pipe: Connection) -> None:
    pipe.send(("ready", os.getpid()))
    run_in_process(pipe, lambda: {"quotient": 1 // 0})


def sleep(pipe: Connection) -> None:
    pipe.send(("ready", os.getpid()))
    time.sleep(600)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.e2e
def test_every_party_is_heard_in_any_order_and_none_is_left() -> None:
    with Launcher(timeout=300) as launcher:
        pipes = [launcher.start(count, upto) for upto in (3, 4)]
        processes = [launcher.hear(pipe) for pipe in reversed(pipes)]
        assert [launcher.end(pipe)["sum"] for pipe in pipes] == [6, 10]
    assert not any(is_running(process) for process in processes)


@pytest.mark.e2e
def test_the_failure_of_one_ends_the_wait_for_all() -> None:
    with Launcher(timeout=300) as launcher:
        sleeping = launcher.start(sleep)
        process = launcher.hear(sleeping)
        launcher.start(fail)
        with pytest.raises(ProtocolError, match="ZeroDivisionError"):
            launcher.end(sleeping)
        # Left without an error, the block would wait some seconds for the sleeper before it ends it.
        launcher.__exit__(ProtocolError)
    assert not is_running(process)


@pytest.mark.e2e
def test_a_killed_party_is_gone_and_the_others_are_heard_still() -> None:
    with Launcher(timeout=300) as launcher:
        killed, other = launcher.start(sleep), launcher.start(count, 3)
        os.kill(launcher.hear(killed), signal.SIGKILL)
        with pytest.raises(ProtocolError, match="before its time"):
            launcher.end(killed)
        launcher.hear(other)
        assert launcher.end(other) == {"sum": 6}
