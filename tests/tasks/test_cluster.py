"""Nobody but whoever started a cluster runs code in it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException

import psutil
import pytest
from distributed.utils import LoopRunner

from ksdp.audit.errors import InputError
from ksdp.tasks.cluster import Workers, credentials, dask_address, open_workers, spread

NOBODY = 65534

INTRUDER = """
import json, os, sys
import cryptography.x509
from distributed import Client, LocalCluster
from distributed.security import Security

address, user = sys.argv[1], int(sys.argv[2])
keys = Security.temporary()
if user:  # after the imports: the folder of this Python may be closed to others
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
found = {"uid": os.getuid()}
plain = address.replace("tls://", "tcp://")
for how, where, security in (("plain", plain, None), ("own key", address, keys), ("no key", address, Security())):
    try:
        with Client(where, timeout="4s", security=security, set_as_default=False) as client:
            found[how] = client.submit(os.getuid).result(timeout=5)
    except Exception as error:
        found[how] = type(error).__name__
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Workers]:
    with open_workers(1) as started:
        yield started


def intrude(address: str, user: int = 0) -> dict[str, object]:
    """What a process got that tries to run code at an address: a number where it did."""
    done = subprocess.run(
        [sys.executable, "-c", INTRUDER, address, str(user)],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.e2e
def test_whoever_started_it_runs_code_there(cluster: Workers) -> None:
    assert cluster.address.startswith("tls://127.0.0.1:")
    seen: list[str] = []
    assert spread(cluster.address, str.upper, [("a",), ("b",)], seen.append) == ["A", "B"]
    stopped = threading.Event()
    threading.Timer(0.3, stopped.set).start()
    with pytest.raises(KeyboardInterrupt):  # it waits for no worker to end what it does
        spread(cluster.address, time.sleep, [(5.0,)], seen.append, 0, stopped)
    assert len(seen) == 2
    assert sorted(seen) == ["A", "B"]


@pytest.mark.e2e
def test_another_user_does_not(cluster: Workers) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    found = intrude(cluster.address, NOBODY)
    assert found.pop("uid") == NOBODY
    assert not [how for how, got in found.items() if isinstance(got, int)], found


@pytest.mark.e2e
def test_the_same_stranger_does_where_a_cluster_has_no_tls() -> None:
    """The attempt is a real one: this is what it takes to stop it."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=None
    ) as theirs:
        assert intrude(theirs.scheduler_address, NOBODY)["plain"] == os.getuid()
        address = dask_address(theirs.scheduler_address, insecure=True)
        with open_workers(address=address) as workers:
            assert workers.count == 1


@pytest.mark.e2e
def test_nor_does_another_process_of_the_same_user_without_the_key(cluster: Workers) -> None:
    found = intrude(cluster.address)
    del found["uid"]
    assert not [how for how, got in found.items() if isinstance(got, int)], found


def plainly(port: int, page: str) -> int | str:
    """What a port answers to a browser."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, HTTPException) as error:
        return type(error).__name__


@pytest.mark.e2e
def test_every_port_of_the_cluster_is_closed_to_plain_connections_and_shows_no_pages(cluster: Workers) -> None:
    """The scheduler's, its nannies' and their workers' ports, by what the processes listen on."""
    mine = psutil.Process()
    ports = {
        connection.laddr.port: connection.laddr.ip
        for process in [mine, *mine.children(recursive=True)]
        for connection in process.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert int(cluster.address.rsplit(":", 1)[1]) in ports
    assert set(ports.values()) == {"127.0.0.1"}
    answers = {plainly(port, page) for port in ports for page in ("status", "metrics", "health", "info/logs.html")}
    assert {answer for answer in answers if isinstance(answer, int)} <= {404}


def test_the_key_is_forgotten_with_its_cluster() -> None:
    assert credentials("tls://127.0.0.1:1").tls_client_key is None


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "10.0.0.1:8786", "ws://10.0.0.1:8786"])
def test_an_address_without_tls_is_refused_unless_it_is_meant(address: str) -> None:
    with pytest.raises(InputError, match="must be an address with TLS"):
        dask_address(address, insecure=False)
    assert str(dask_address(address, insecure=True)).endswith(address)
    with pytest.raises(InputError, match="must be an address with TLS"), open_workers(address=address):
        pass


def test_an_address_with_tls_is_taken_as_it_is() -> None:
    assert dask_address("tls://10.0.0.1:8786", insecure=False) == "tls://10.0.0.1:8786"
    assert dask_address(None, insecure=True) is None


@pytest.mark.e2e
def test_a_scheduler_that_asks_for_a_key_refuses_whoever_has_none() -> None:
    with pytest.raises(InputError, match="no Dask scheduler answers"), open_workers(address="tls://127.0.0.1:9"):
        pass


@pytest.mark.e2e
def test_a_worker_that_is_killed_while_it_starts_does_not_end_the_audit() -> None:
    """The first one that shows itself is killed at once."""
    mine, killed = psutil.Process(), threading.Event()
    known = {process.pid for process in mine.children(recursive=True)}

    def kill() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and not killed.is_set():
            for process in mine.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if process.pid not in known and "spawn_main" in " ".join(process.cmdline()):
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


@pytest.mark.e2e
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


STARTING = """
import sys
from ksdp.tasks.cluster import open_workers

try:
    with open_workers(2):
        print("started", flush=True)
        sys.stdin.read()
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.e2e
@pytest.mark.parametrize("wait", [0.0, 0.5, 1.0])
def test_who_stops_it_while_workers_start_reads_no_trace_and_leaves_nobody(wait: float) -> None:
    command = subprocess.Popen(
        [sys.executable, "-c", STARTING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hear_interrupts,
    )
    started = psutil.Process(command.pid)
    while len(started.children()) < 3 and command.poll() is None:  # the tracker of resources and the first worker
        time.sleep(0.01)
    time.sleep(wait)
    children = started.children(recursive=True)
    os.killpg(command.pid, signal.SIGINT)  # as a terminal does
    _, errors = command.communicate(timeout=120)
    assert (command.returncode, errors) == (130, "")
    assert psutil.wait_procs(children, timeout=20)[1] == []


def hear_interrupts() -> None:
    """A test that was started in the background would hand on that they are ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
