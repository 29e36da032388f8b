"""Connections that do not get on, and users of the same machine who are not the reviewer."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LocalReviewer, PatientProtocol
from ksdp.storage.store import Store


class Hasty(PatientProtocol):
    head_seconds = 0.5
    most = 20


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A dashboard of an empty store, as `ksdp review` runs it but in a hurry."""
    listener = socket.create_server(("127.0.0.1", 0))
    number = listener.getsockname()[1]
    store = Store.open(tmp_path / "store")
    origins = frozenset({f"http://127.0.0.1:{number}"})
    app = create_app(store, actions=Actions(), source=LocalReviewer("ana"), origins=origins)
    server = uvicorn.Server(uvicorn.Config(app, http=Hasty, log_level="critical"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield number
    server.should_exit = True
    thread.join(10)


def ask(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as there:
        there.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
        return there.makefile("rb").readline()


def test_slow_connections_end_and_others_are_served(port: int) -> None:
    slow = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(15)]
    for one in slow[::2]:
        one.sendall(b"GET / HTTP/1.1\r\nHost: ")
    assert b" 200 " in ask(port)
    for one in slow:
        with one:
            assert one.recv(1) == b""  # closed by the other side
    many = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(40)]
    ended = 0
    for one in many[20:]:
        with one:
            try:
                ended += one.recv(1) == b""
            except ConnectionError:
                ended += 1
    assert ended == 20
    for one in many[:20]:
        one.close()
    time.sleep(0.7)
    assert b" 200 " in ask(port)


def test_a_body_that_is_cut_off_is_no_crash(port: int) -> None:
    head = (
        f"POST /sign-out HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\n"
    )
    for body in (b"", b"a=b"):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as there:
            there.sendall(head.encode() + body)
    assert b" 200 " in ask(port)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a connection is")
def test_another_user_of_this_machine_is_nobody(port: int) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    script = (
        "import encodings.idna, os, socket, sys\nos.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n"
        "there = socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=10)\n"
        "there.sendall(b'GET / HTTP/1.1\\r\\nHost: 127.0.0.1:' + sys.argv[1].encode() + b'\\r\\n\\r\\n')\n"
        "print(there.makefile('rb').readline().decode())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(port)], capture_output=True, text=True, timeout=60, check=True
    )
    assert " 401 " in done.stdout
    assert b" 200 " in ask(port)
