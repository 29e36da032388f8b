"""A killed dashboard loses no decision that it has confirmed; one that is asked for long keeps no memory."""

from __future__ import annotations

import asyncio
import gc
import http.client
import itertools
import multiprocessing
import os
import signal
import socket
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import psutil
import pytest
import uvicorn

from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LocalReviewer
from ksdp.storage.reviews.decisions import read_log
from ksdp.storage.reviews.log import check_chain
from ksdp.storage.store import Store

from ..deadly import Points
from .test_app import PAGES, client, decision

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
    """Whether the dashboard confirmed a decision."""
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


ROUNDS, WINDOWS = 4, 3


@pytest.mark.validity
def test_pages_that_are_asked_for_again_and_again_keep_no_memory(history_store: Store) -> None:
    """Growth from window to window, in the median: what grows once, as a table of Python's does, is no leak."""
    visitor, process = client(history_store), psutil.Process()
    never = itertools.count()

    def round_of_pages(times: int) -> None:
        for _ in range(times):
            for address in PAGES:
                assert visitor.get(address).status_code == 200
            new = next(never)
            visitor.get(f"/audits?search=never-asked-before-{new}")
            assert visitor.get(f"/audits/none-{new}").status_code == 404
        gc.collect()

    round_of_pages(4)  # caches fill
    traced, resident = [], []

    def look() -> None:
        traced.append(tracemalloc.get_traced_memory()[0])
        resident.append(process.memory_info().rss)

    tracemalloc.start()
    try:
        round_of_pages(2)
        look()
        for _ in range(WINDOWS):
            round_of_pages(ROUNDS)
            look()
    finally:
        tracemalloc.stop()
    pages = ROUNDS * (len(PAGES) + 2)
    print(f"{pages} pages a window; grown by {np.diff(traced)}, resident {np.diff(resident)} bytes")
    assert np.median(np.diff(traced)) < 1_000 * pages
    assert np.median(np.diff(resident)) < 50_000 * pages  # what DuckDB and Arrow take is in no trace
