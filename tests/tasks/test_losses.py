"""Calls outlive the worker that made them and the scheduler that handed them out."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import dask
import distributed  # before its settings are changed: whoever takes a change back takes back all of them
import pytest
from distributed.comm import CommClosedError

from ksdp.tasks.cluster import open_workers, spread

from ..hosts import kill
from ..ports import free_ports

pytestmark = pytest.mark.e2e


def test_a_call_that_took_its_worker_with_it_is_asked_for_again(tmp_path: Path) -> None:

    def once_deadly(number: int) -> int:
        seen = tmp_path / str(number)
        if number == 1 and not seen.exists():
            seen.touch()
            os._exit(1)
        return number * number

    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), open_workers(1) as workers:
        arguments = [(number,) for number in range(4)]
        assert spread(workers.address, once_deadly, arguments, lambda _: None) == [0, 1, 4, 9]
    assert (tmp_path / "1").exists()


def test_a_scheduler_that_starts_anew_is_waited_for() -> None:
    """It goes when the first result is there, with all that it knew, and its worker with it."""
    (port,) = free_ports(1)
    python = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    with contextlib.ExitStack() as stack:

        def started() -> list[subprocess.Popen[bytes]]:
            asked = [*python, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
            own = [*python, "worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
            both = [subprocess.Popen(command, **quiet) for command in (asked, own)]  # type: ignore[call-overload]
            for process in both:
                stack.callback(kill, process)
            return both

        running = started()
        results: list[int] = []

        def done(result: int) -> None:
            results.append(result)
            if len(results) == 1:
                for process in running:
                    kill(process)
                started()

        numbers = list(range(40))
        found = spread(f"tcp://127.0.0.1:{port}", pow, [(number, 2) for number in numbers], done)
    assert found == [number**2 for number in numbers]
    assert sorted(results) == found  # each was told once


def test_a_scheduler_that_goes_while_a_result_is_on_its_way_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetched, whole = [], distributed.Future.result

    def result(future: distributed.Future) -> int:
        fetched.append(future.key)
        if len(fetched) == 2:
            raise CommClosedError("stream is closed")
        return whole(future)

    monkeypatch.setattr(distributed.Future, "result", result)
    told: list[int] = []
    with open_workers(1) as workers:
        assert spread(workers.address, pow, [(number, 2) for number in range(4)], told.append) == [0, 1, 4, 9]
    assert sorted(told) == [0, 1, 4, 9]
