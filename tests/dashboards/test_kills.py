"""A killed dashboard loses no decision that it has confirmed."""

import asyncio
import http.client
import multiprocessing
import os
import signal
import socket
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
import uvicorn

from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LocalReviewer
from ksdp.storage.reviews.decisions import read_log
from ksdp.storage.reviews.log import check_chain
from ksdp.storage.store import Store

from ..deadly import Points
from .test_app import decision

_FORK = multiprocessing.get_context("fork")


def _serve(store: Path, listener: socket.socket, kill_at: int) -> None:
    """A dashboard of a store, in a process of its own, that dies at the so-manieth sync or rename."""
    os.setsid()
    origins = frozenset({f"http://127.0.0.1:{listener.getsockname()[1]}"})
    Points([(os, name) for name in ("fsync", "replace", "ftruncate")], kill_at)
    app = create_app(
        Store(store),
        actions=Actions(clock=lambda: datetime.now(UTC)),
        source=LocalReviewer("Ada"),
        origins=origins,
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    asyncio.run(server.serve(sockets=[listener]))


def _decide(port: int, document: str) -> bool:
    body = urlencode(decision(document=document))
    origin = f"http://127.0.0.1:{port}"
    headers = {"Origin": origin, "Content-Type": "application/x-www-form-urlencoded"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/audits/svd-09/decisions", body, headers)
        return connection.getresponse().status == 303
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.validity)])
def test_a_dashboard_that_is_killed_loses_no_decision_that_it_confirmed(own_store: Store, kills: int) -> None:
    rng, confirmed = np.random.default_rng(6), set[str]()
    waiting = [f"mail-{number:05d}" for number in range(60)]
    killed = 0
    for _ in range(kills):
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        process = _FORK.Process(target=_serve, args=(own_store.root, listener, int(rng.integers(1, 20))))
        process.start()
        listener.close()
        while waiting and process.is_alive():
            if not _decide(port, waiting[0]):
                break
            confirmed.add(waiting.pop(0))
        process.kill()  # if it has not died by itself
        process.join(60)
        killed += process.exitcode == -signal.SIGKILL
        report = check_chain(own_store.root)
        assert report.whole, report
        written = {entry.document for entry in read_log(own_store)}
        assert confirmed <= written
        # What was written when it died and not confirmed: people see it decided.
        waiting = [name for name in waiting if name not in written]
    print(f"{killed} kills, {len(confirmed)} decisions confirmed, 0 lost")
    assert killed == kills
    assert len(confirmed) >= kills / 2
