"""Connections that do not get on, too many of them, and the proxy that pages name."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LIMITS, LocalReviewer
from ksdp.storage.store import Store


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A dashboard of an empty store, as `ksdp review` runs it but for fewer connections."""
    listener = socket.create_server(("127.0.0.1", 0))
    number = listener.getsockname()[1]
    store = Store.open(tmp_path / "store")
    origins = frozenset({f"http://127.0.0.1:{number}"})
    app = create_app(store, actions=Actions(), source=LocalReviewer("ana"), origins=origins)
    config = uvicorn.Config(app, log_level="critical", **LIMITS | {"limit_concurrency": 20})
    server = uvicorn.Server(config)
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


def test_more_connections_than_may_be_are_answered_so(port: int) -> None:
    idle = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(20)]
    assert b" 503 " in ask(port)
    for one in idle:
        one.close()
    time.sleep(0.5)  # until the server has seen them go
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
