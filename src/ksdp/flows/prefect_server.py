"""A Prefect server for the length of an audit or of `ksdp serve`, where none is named.

Prefect reads its settings when it is imported, so nothing here imports it: the environment is set first.
The server listens on the loopback only, asks for a password that stands in the store (readable by its owner),
sends nothing anywhere, and dies with its parent.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksdp.audit.errors import KsdpError
from ksdp.flows.interruption import current, die_with_parent
from ksdp.storage.prefect_home import make_home, open_log, server_address, server_password, sharing_address
from ksdp.tasks.local_workers import environment

# For schedules, workers and automations: a server that lives for one audit has none of them.
_SCHEDULE_SERVICES = ("SCHEDULER", "LATE_RUNS", "CANCELLATION_CLEANUP", "FOREMAN", "EVENT_PERSISTER", "TRIGGERS")
_IDLE_SERVICES = ("PAUSE_EXPIRATIONS", "REPOSSESSOR")

_START_SECONDS = 300.0  # a busy machine takes minutes; a server that dies is noticed at once

_LITTLE = 2**20
"""Bytes; with fewer a disk is called full."""
_SHOWN = 120


@dataclass(frozen=True)
class Server:
    """A Prefect server that is there or on its way."""

    url: str
    """Address of the pages for people."""
    process: subprocess.Popen[bytes] | None
    log: Path | None
    password: str | None

    @property
    def ours(self) -> bool:
        """Whether it is this store's, started here or by `ksdp serve`; else `PREFECT_API_URL` names it."""
        return self.password is not None

    def words(self, home: Path) -> str:
        """Where its pages are, and what they ask for."""
        return f"Prefect UI {self.url}" + (f"   (user:password in {home / 'password'})" if self.ours else "")

    def lost(self) -> str:
        """Sentence that says that this server, started here, is gone; empty while it is there."""
        if self.process is None or self.process.poll() is None:
            return ""
        # What Prefect, Dask and the loops of the flow that is left say of it at length is said here in a line.
        for name in list(logging.root.manager.loggerDict):
            if name.partition(".")[0] in ("prefect", "distributed", "tornado", "asyncio", "ksdp"):
                logging.getLogger(name).disabled = True
        _give_up()
        return self.fails(f"stopped (exit {self.process.returncode}")

    def fails(self, how: str) -> str:
        """Sentence that says that this server is gone; `how` begins a bracket."""
        full = self.log is not None and shutil.disk_usage(self.log.parent).free < _LITTLE
        where = f"; see {self.log}" if self.log is not None else ""
        return (
            f"the Prefect server {how}{', the disk is full' if full else ''}{where}): the same command goes on "
            "from what is stored."
        )

    def wait(self) -> None:
        """Return when the server answers."""
        if self.process is None:
            return
        end = time.monotonic() + _START_SECONDS
        request = urllib.request.Request(f"{self.url}/api/health")
        request.add_header("Authorization", f"Basic {b64encode((self.password or '').encode()).decode()}")
        while time.monotonic() < end:
            if gone := self.lost():
                raise KsdpError(gone)
            with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=2) as answer:
                if answer.status == 200:
                    return
            time.sleep(0.05)
        raise KsdpError(f"the Prefect server did not answer within {_START_SECONDS:.0f} s; see {self.log}.")


@contextlib.contextmanager
def reached(server: Server) -> Iterator[None]:
    """Let Prefect in this process talk to this server."""
    from httpx import HTTPError
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    ours = {PREFECT_API_URL: f"{server.url}/api", PREFECT_API_AUTH_STRING: server.password}
    try:
        with temporary_settings(ours if server.ours else {}):
            yield
    except HTTPError as error:
        raise KsdpError(server.fails(f"failed ({str(error).partition(' for url')[0][:_SHOWN]}")) from error


def _listening() -> socket.socket:
    """A socket that listens on a free port of the loopback: the port is ours before anybody hears of it."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    return listener


@contextlib.contextmanager
def prefect_server(home: Path, *, calendar: bool = False) -> Iterator[Server]:
    """Use the server of `PREFECT_API_URL` or of `ksdp serve`, or start one without waiting for it."""
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")  # not that workers come and go
    os.environ.setdefault("PREFECT_RESULTS_DEFAULT_SERIALIZER", "json")
    if within_a_run():
        from prefect.settings import PREFECT_API_URL

        yield Server((PREFECT_API_URL.value() or "of the run").removesuffix("/api"), None, None, None)
        return
    named = os.environ.get("PREFECT_API_URL", "").removesuffix("/api")
    if stale := server_address(home, stale=True):
        current().say(f"{home / 'serving'} names {stale}, where `ksdp serve` was killed: this address is ignored.")
    if named and named != stale:
        yield Server(named, None, None, None)
        return
    make_home(home)
    password, there = server_password(home), server_address(home)
    if there is not None:
        with environment(_named(home, there, password)):
            yield Server(there, None, None, password)
        return
    idle = _IDLE_SERVICES if calendar else _IDLE_SERVICES + _SCHEDULE_SERVICES
    blocks = {} if calendar else {"PREFECT_API_BLOCKS_REGISTER_ON_START": "false"}
    listener = _listening()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with environment(_named(home, url, password)):
        log, output = open_log(home)
        with output, listener:
            given = [str(listener.fileno()), str(os.getpid())]
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ksdp.flows.prefect_child", *given],
                env=os.environ
                | {"PREFECT_UI_API_URL": f"{url}/api"}
                | blocks
                | {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in idle},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
                pass_fds=[listener.fileno()],
                umask=0o077,
                start_new_session=calendar,  # Ctrl-C is ours to hear: runs are stopped before their server
            )
        try:
            with sharing_address(home, url) if calendar else contextlib.nullcontext():
                yield Server(url, process, log, password)
        finally:
            if process.poll() is None:  # it takes what Prefect still holds, which would try for up to a minute
                for sender in _senders():
                    with contextlib.suppress(Exception):
                        sender.drain_all(timeout=5)
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def within_a_run() -> bool:
    """Whether this process already runs a flow, whose server is then used."""
    if "prefect" not in sys.modules:
        return False
    from prefect.context import FlowRunContext

    return FlowRunContext.get() is not None


def _senders() -> list[Any]:
    if "prefect" not in sys.modules:
        return []
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    return [APILogWorker, EventsWorker]


def _give_up() -> None:
    """Let nobody wait at this process's end for what can be sent to nobody; without this they do for seconds."""
    for sender in _senders():
        with contextlib.suppress(Exception):
            for service in list(sender._instances.values()):
                service._loop.call_soon_threadsafe(service._done_event.set)


def _named(home: Path, url: str, password: str) -> dict[str, str]:
    return {
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"{url}/api",
        "PREFECT_API_AUTH_STRING": password,
        "PREFECT_SERVER_API_AUTH_STRING": password,
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
    }
