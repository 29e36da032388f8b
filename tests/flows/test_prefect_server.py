"""The server's port is ours before anybody hears of it, and it does not outlive its parent."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from ksdp.audit.errors import KsdpError
from ksdp.flows.prefect_server import Server, reached

STARTS = """
import sys, time
from pathlib import Path
from ksdp.flows.prefect_server import prefect_server
with prefect_server(Path(sys.argv[1])) as server:
    port = int(server.url.rsplit(":", 1)[1])
    import socket
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        probe.bind(("127.0.0.1", port))
        print("free", flush=True)
    except OSError:
        print("taken", flush=True)
    server.wait()
    print(server.process.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.e2e
def test_nobody_can_take_the_announced_port_and_the_server_is_gone_two_seconds_after_its_parent(
    tmp_path: Path,
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_API")}
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS, str(tmp_path / "home")], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert parent.stdout is not None
    try:
        assert parent.stdout.readline().strip() == "taken"
        server = psutil.Process(int(parent.stdout.readline()))
        # It is busy with somebody: a connection that never ends would hold a graceful shutdown up.
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        killed = time.monotonic()
        psutil.wait_procs([server], timeout=30)
        assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE
        assert time.monotonic() - killed < 10  # two seconds on an idle machine
    finally:
        parent.kill()


ANSWERS = """
import sys, urllib.request
from pathlib import Path
from ksdp.flows.prefect_server import prefect_server, reached
with prefect_server(Path(sys.argv[1])) as server:
    server.wait()
    with reached(server):
        from prefect import flow
        print(flow(lambda: "ran", name="one")(), flush=True)
"""


@pytest.mark.e2e
def test_a_second_home_starts_from_the_database_that_the_first_server_made(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")

    def start(home: str) -> tuple[list[str], list[str]]:
        command = [sys.executable, "-c", ANSWERS, str(tmp_path / home)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.stdout == "ran\n", done.stderr
        (template,) = (tmp_path / "cache" / "ksdp").iterdir()
        found = []
        for file in (template, tmp_path / home / "prefect.db"):
            with contextlib.closing(sqlite3.connect(file)) as database:
                made = "SELECT group_concat(sql) FROM (SELECT sql FROM sqlite_schema ORDER BY name)"
                runs = "SELECT count(*) FROM flow_run"
                found.append([str(database.execute(what).fetchone()) for what in (made, runs)])
        return found[0], found[1]

    template, first = start("first")
    template.pop()
    again, second = start("second")
    assert again.pop() == "(0,)"  # nothing of a home is in the template
    assert first == second == [*again, "(1,)"]
    assert template == again


def test_a_server_that_refuses_is_one_line(tmp_path: Path) -> None:
    """As one whose disk is full does."""
    server = Server("http://127.0.0.1:9", None, tmp_path / "server.log", "x")
    said = r"the Prefect server failed \(500; see .*server.log\): the same command"
    with pytest.raises(KsdpError, match=said), reached(server):
        raise httpx.HTTPError("500 for url 'http://127.0.0.1:9/api'")
