"""Parties that are killed in the middle of a run, as processes, and started anew by the same command."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ksdp.audit.errors import SpecError
from ksdp.flows.runs.terms import read_run
from ksdp.protocols.runs.restart import seconds_to_restart
from ksdp.storage.runs.ledger import Ledger

from .test_protocol import LONG, NMF, NORMED, SVD, Organisations, organisations, results

KILLED = """
import os, signal, sys
from ksdp.flows.runs.node_run import NotedRun
what, number = {what!r}, {number}
note = NotedRun.note
def noted(self, **event):
    note(self, **event)
    if (event["what"], event.get("round")) == (what, number):
        os.kill(os.getpid(), signal.SIGKILL)
NotedRun.note = noted
sys.argv = ["ksdp", *sys.argv[1:]]
from ksdp.cli import main
main()
"""
"""`ksdp`, killed where it notes an event: no clock decides when."""


def protocol_of(org: Organisations, mechanism: str, restart: str = "restart = 240") -> Path:
    path = org.protocol(mechanism)
    path.write_text(path.read_text().replace("message = 60", f"message = 240\n{restart}"))
    return path


def start(org: Organisations, protocol: Path, name: str, killed: tuple[str, int] | None) -> subprocess.Popen[str]:
    command = org.command(protocol, name)
    if killed is not None:
        script = KILLED.format(what=killed[0], number=killed[1])
        command = [sys.executable, "-c", script, *command[3:]]
    files = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, **files)  # type: ignore[call-overload,no-any-return]


@pytest.mark.e2e
def test_killed_parties_that_are_started_again_come_to_the_same_result(tmp_path: Path) -> None:
    """Bob twice, before and after a message is out; cyd once, in the last round; ada sees all of it."""
    org = organisations(tmp_path, 3)
    protocol = protocol_of(org, NMF)
    kills = {"ada": [None], "bob": [("sent", 5), ("received", 6), None], "cyd": [("received", 9), None]}
    left = {name: list(each) for name, each in kills.items()}
    running = {name: start(org, protocol, name, left[name].pop(0)) for name in org.names}
    said = dict.fromkeys(org.names, "")
    while running:
        time.sleep(0.05)
        for name, process in list(running.items()):
            if process.poll() is None:
                continue
            _, error = process.communicate()
            said[name] += error
            del running[name]
            if left[name]:
                assert process.returncode == -9, error
                running[name] = start(org, protocol, name, left[name].pop(0))
            else:
                assert process.returncode == 0, error
    found = results(protocol, org.names)
    ideal = read_run(protocol).terms.mechanism.run(org.database(protocol), np.random.default_rng(0))
    for name in org.names:
        assert found[name]["T"].tobytes() == found["ada"]["T"].tobytes()
        assert sorted(path.name for path in (protocol.with_suffix("") / name).iterdir()) == [
            "own.npz",
            "result.npz",
            "run.json",
            "transcript.jsonl",
        ], "nothing is kept of a run that is done"
        runs = [line for line in Ledger(tmp_path / f"{name}.ledger").read() if line["what"] == "begun"]
        assert len(runs) == 1, "one run, however many processes"
    np.testing.assert_allclose(found["ada"]["T"], ideal["T"], rtol=0, atol=1e-6)
    assert "takes its place in that run again" in said["bob"]
    assert "bob restarted" in said["ada"]


@pytest.mark.e2e
def test_who_lost_its_place_ends_the_run_with_its_name(tmp_path: Path) -> None:
    org = organisations(tmp_path, 2)
    protocol = protocol_of(org, NMF)
    ada, bob = start(org, protocol, "ada", None), start(org, protocol, "bob", ("sent", 5))
    bob.communicate(timeout=240)
    (protocol.with_suffix("") / "bob" / "journal").unlink()
    again = start(org, protocol, "bob", None)
    _, error = ada.communicate(timeout=240)
    assert ada.returncode == 1
    assert "bob was restarted during a run without its place" in error
    with contextlib.suppress(subprocess.TimeoutExpired):
        again.communicate(timeout=1)
    again.kill()
    again.communicate()


@pytest.mark.e2e
def test_who_comes_back_to_another_run_hears_so_and_may_begin_again(tmp_path: Path) -> None:
    org = organisations(tmp_path, 2)
    protocol = protocol_of(org, NMF, "restart = 1")
    ada, bob = start(org, protocol, "ada", None), start(org, protocol, "bob", ("sent", 5))
    bob.communicate(timeout=240)
    _, error = ada.communicate(timeout=240)
    assert ada.returncode == 1
    assert "bob disappeared: no connection for 1 seconds" in error
    folder = protocol.with_suffix("")
    ada, late = start(org, protocol, "ada", None), start(org, protocol, "bob", None)
    _, error = late.communicate(timeout=240)
    assert late.returncode == 1
    assert "ada has begun another run since" in error
    assert [path.name for path in (folder / "bob").iterdir()] == ["transcript.jsonl"]
    last = start(org, protocol, "bob", None)
    for process in (ada, last):
        _, error = process.communicate(timeout=240)
        assert process.returncode == 0, error
    about = json.loads((folder / "bob" / "run.json").read_text())
    begun = [line["what"] for line in Ledger(tmp_path / "bob.ledger").read()]
    assert begun == ["begun", "begun", "finished"], "what the first one gave away is not forgotten"
    assert about["sums"] > 0


@pytest.mark.parametrize(
    ("mechanism", "why"),
    [
        ('name = "pd-nmf"\nrank = 2\nsweeps = 5\ntolerance = 0.0\nopens = "final"', "draws randomness of its own"),
    ],
)
def test_a_run_that_cannot_take_anybody_back_says_why(tmp_path: Path, mechanism: str, why: str) -> None:
    org = organisations(tmp_path, 3)
    with pytest.raises(SpecError, match=f"`timeouts.restart` must be left out.*{why}"):
        read_run(protocol_of(org, mechanism))
    read_run(protocol_of(org, mechanism, "restart = 0"))
    for supported in (NMF, SVD, LONG, NORMED):
        read_run(protocol_of(org, supported))


def test_hidden_lengths_are_kept_where_that_is_asked_for(tmp_path: Path) -> None:
    org = organisations(tmp_path, 3)
    asked, not_asked = (read_run(protocol_of(org, NORMED, line)) for line in ("restart = 240", ""))
    assert seconds_to_restart(asked.terms, asked.spec.timeouts) == 240
    assert seconds_to_restart(not_asked.terms, not_asked.spec.timeouts) == 0
    sums = read_run(protocol_of(org, NMF, ""))
    assert seconds_to_restart(sums.terms, sums.spec.timeouts) == sums.spec.timeouts.reconnect
