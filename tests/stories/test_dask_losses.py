"""Dask workers: calls outlive who made them and who handed them out; clusters by name; none without TLS."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
import distributed  # before its settings are changed: whoever takes a change back takes back all of them
import psutil
import pytest
from distributed.comm import CommClosedError
from distributed.utils import LoopRunner

from ksdp.audit.errors import InputError
from ksdp.audit.specs.models import ClusterSpec
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


def asked(name: str, **given: object) -> ClusterSpec:
    return ClusterSpec.model_validate({"class": name, **given})


def test_a_named_cluster_speaks_tls_and_calls_are_made_there() -> None:
    given = {"threads_per_worker": 1, "n_workers": 0, "dashboard_address": "127.0.0.1:0"}
    with open_workers(spec=asked("distributed.LocalCluster", workers=1, arguments=given)) as workers:
        assert workers.address.startswith("tls://")
        assert workers.count == 1
        assert spread(workers.address, str.upper, [("a",), ("b",)], lambda _: None) == ["A", "B"]


@pytest.mark.parametrize(
    ("given", "said"), [({"protocol": "tcp://"}, "started a scheduler without TLS"), ({}, "had no worker for 1 s")]
)
def test_without_tls_or_workers_nothing_is_sent(
    given: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ksdp.tasks.cluster._PATIENCE", 1.0)
    empty = {"n_workers": 0, "dashboard_address": "127.0.0.1:0", **given}
    started = asked("distributed.LocalCluster", arguments=empty)
    with pytest.raises(InputError, match=said), open_workers(spec=started):
        pass


def test_a_worker_that_is_killed_while_it_starts_does_not_end_the_audit() -> None:
    """The first one that shows itself is killed at once."""
    mine, killed = psutil.Process(), threading.Event()
    known = {process.pid for process in mine.children(recursive=True)}

    def kill() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and not killed.is_set():
            for process in mine.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if process.pid not in known and process.ppid() != mine.pid:  # forked by the fork server
                        process.kill()
                        killed.set()
                        return
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    with open_workers(1) as cluster:
        killer.join()
        assert killed.is_set()
        assert spread(cluster.address, str.upper, [("a",)], lambda _: None) == ["A"]


def test_an_audit_starts_again_where_dask_takes_too_long_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask waits ten seconds for its own loop, and then says `assert loop is not None`."""
    started, late = LoopRunner.start, iter([True])

    def start(self: LoopRunner) -> None:
        assert not next(late, False)
        started(self)

    monkeypatch.setattr(LoopRunner, "start", start)
    with open_workers(1) as cluster:
        assert spread(cluster.address, str.upper, [("a",)], lambda _: None) == ["A"]
    assert next(late, None) is None
