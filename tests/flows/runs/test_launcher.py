"""Processes that one run starts: their messages, their ends, and what is left of them."""

import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.flows.metrics_port import serve_metrics
from ksdp.flows.runs import party
from ksdp.flows.runs.local import Launcher, run_in_process
from ksdp.flows.runs.party import RunLog

from ..scraped import scrape


def count(pipe: Connection, upto: int) -> None:
    run_in_process(pipe, lambda: {"sum": sum(range(upto + 1)), "process": os.getpid()})


def fail(pipe: Connection) -> None:
    run_in_process(pipe, lambda: {"quotient": 1 // 0})


def sleep(pipe: Connection) -> None:
    pipe.send(("done", {"process": os.getpid()}))
    time.sleep(600)


def test_the_failure_of_one_ends_the_wait_for_all() -> None:
    with Launcher() as launcher:
        process = launcher.end(launcher.start(sleep))["process"]
        with pytest.raises(ProtocolError, match="ZeroDivisionError"):
            launcher.end(launcher.start(fail))
        # Left without an error, the block would wait some seconds for the sleeper before it ends it.
        launcher.__exit__(ProtocolError)
    assert not psutil.pid_exists(process)


def test_a_killed_party_is_gone_and_the_others_are_heard_still() -> None:
    with Launcher() as launcher:
        killed, other = launcher.start(sleep), launcher.start(count, 3)
        os.kill(launcher.end(killed)["process"], signal.SIGKILL)
        with pytest.raises(ProtocolError, match="before its time"):
            launcher.end(killed)
        assert launcher.end(other)["sum"] == 6


def test_a_run_is_seen_while_it_goes_on() -> None:
    now = [0.0]
    lines: list[str] = []
    log = RunLog(lines.append, lambda: now[0])
    with serve_metrics(log, "0") as url:
        log.note(what="run", me="ada", agreement="x")
        log.note(what="waiting", peers=["bob", "cyd"])
        log.note(what="connected", peer="bob")
        assert lines == ["bob connected; not connected: cyd"]
        seen = scrape(url)
        assert seen["ksdp_party_state", "waiting"] == 1
        assert (seen["ksdp_party_connected", "bob"], seen["ksdp_party_connected", "cyd"]) == (1, 0)
        log.note(what="connected", peer="cyd")
        log.note(what="all present")
        for number in range(3):
            now[0] += 4.0
            for peer, size in (("bob", 100), ("cyd", 50)):
                log.note(what="sent", kind="sum", round=number, peer=peer, bytes=size)
                log.note(what="received", kind="sum", round=number, peer=peer, bytes=2 * size)
        log.note(what="lost", peer="cyd")
        log.note(what="reconnected", peer="cyd")
        seen = scrape(url)
        assert seen["ksdp_party_state", "running"] == 1
        assert seen["ksdp_party_rounds_total",] == 3
        assert seen["ksdp_party_bytes_total", "bob", "sent"] == 300
        assert seen["ksdp_party_bytes_total", "cyd", "received"] == 300
        assert seen["ksdp_party_lost_connections_total", "cyd"] == 1
        assert seen["ksdp_party_connected", "cyd"] == 1
        assert seen["ksdp_party_seconds",] == 12
        log.note(what="done", session="x", result="y")
        assert scrape(url)["ksdp_party_state", "done"] == 1
    assert lines[-2:] == ["8 s: round 2 (sum), 0.0 MB", "cyd lost; not connected: cyd"]
    log.note(what="ended without a result", reason="cyd disappeared", counts=True)
    assert "counts in the ledger" in lines[-1]


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ('path = "s3://bucket/a.npz"', "path"),
        ('path = "a.npz"\nvocabulary = "gs://bucket/terms"', "vocabulary"),
        ('path = "a.npz"\n[corpus.levers]\nterms = "s3://bucket/terms"', "levers.terms"),
    ],
)
def test_a_url_is_refused_before_anything_is_read(keys: str, named: str, tmp_path: Path) -> None:
    spec, run = tmp_path / "spec.toml", SimpleNamespace(spec=None)
    spec.write_text(f'[corpus]\n{keys}\n[mechanism]\nname = "pd-svd"\n')
    asked: dict[str, Any] = {"identity": None, "now": None, "clearance": None, "uncleared": True}
    with pytest.raises(InputError, match=f"`corpus.{named}` is at a URL"):
        party.enter_documents(cast(Any, run), spec, **asked)
