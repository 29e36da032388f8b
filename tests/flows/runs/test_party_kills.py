"""A party is killed at any event or write: the others end by its name or with the result, and it runs again."""

import json
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ksdp.audit.errors import KsdpError
from ksdp.flows.runs.party import Node, run_party
from ksdp.flows.runs.protocol_files import read_run
from ksdp.storage.keys import load_private
from ksdp.storage.runs.results import Transcript

from ...deadly import ended_well
from .test_protocol import NMF, Organisations, organisations

_FORK = multiprocessing.get_context("fork")  # what is imported is imported once
POINTS = ((Transcript, "note"), (os, "fsync"), (os, "replace"), (tempfile, "mkstemp"))
VICTIM = "bob"
NOISY = 'name = "hardt-roth"\nrank = 2\niterations = 6\nepsilon = 2.0\nsampler = "discrete"'


def _take_part(org: Organisations, protocol: Path, name: str, out: Path, kill_at: int, told: Connection) -> None:
    """Take part, and die at the so-manieth point after the first message; tell how many there are, or the error.

    Before it has said anything, nobody has lost it: the others wait for it as long as the file says.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    points = 0

    def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            nonlocal points
            points += bool(points) or named.get("what") == "sent"
            if points and points == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)

        return called

    for owner, called in POINTS:
        setattr(owner, called, deadly(getattr(owner, called)))
    try:
        entered = org.enter(read_run(protocol), name, uncleared=True)
        run_party(Node(read_run(protocol), name, load_private(org.folder / f"{name}.key"), out), entered)
    except KsdpError as error:
        told.send(str(error))
        sys.exit(1)
    told.send(points)
    ended_well()


def played(org: Organisations, protocol: Path, out: Path, kill_at: int = 0) -> dict[str, tuple[int | None, Any]]:
    """All take part: exit codes, and what each told."""
    started, ears = {}, {}
    for name in org.names:
        ears[name], there = _FORK.Pipe(duplex=False)
        dies = kill_at if name == VICTIM else 0
        started[name] = _FORK.Process(
            target=_take_part, args=(org, protocol, name, out / name, dies, there), daemon=True
        )
        started[name].start()
        there.close()
    for process in started.values():
        process.join(300)
    return {
        name: (process.exitcode, ears[name].recv() if process.exitcode in (0, 1) else None)
        for name, process in started.items()
    }


def results(org: Organisations, out: Path) -> dict[str, dict[str, np.ndarray]]:
    done = [name for name in org.names if (out / name / "run.json").is_file()]
    return {name: dict(np.load(out / name / "result.npz")) for name in done}


def kills(folder: Path, count: int, seed: int) -> int:
    """Kill a party at random points, run again; how often something was lost, or said by half."""
    org = organisations(folder, 3)
    protocol = org.protocol(NMF)
    ends = played(org, protocol, folder / "whole")
    assert {code for code, _ in ends.values()} == {0}, ends
    whole, points = results(org, folder / "whole"), ends[VICTIM][1]
    rng, lost = np.random.default_rng(seed), 0
    chosen = np.concatenate([[points, points - 3, 1], rng.integers(1, points + 1, count)])[:count]
    for turn, at in enumerate(chosen.tolist()):
        out = folder / f"killed-{turn}"
        ends = played(org, protocol, out, at)
        assert ends[VICTIM][0] == -signal.SIGKILL
        found = results(org, out)
        for name in (name for name in org.names if name != VICTIM):
            code, said = ends[name]
            assert code in (0, 1)
            assert (code == 0) is (name in found)
            if code == 1:
                assert VICTIM in said
                assert [path.name for path in (out / name).iterdir()] == ["transcript.jsonl"], "no partial result"
                last = (out / name / "transcript.jsonl").read_text().splitlines()[-1]
                assert json.loads(last)["what"] == "ended without a result"
                assert ("counts in the ledger" in said) == json.loads(last)["counts"]
        lost += not all(_alike(whole["ada"], one) for one in found.values())
        # Whoever has no result runs again with the same command; who has a part of one is told where it is.
        again = out if not any((out / name / "own.npz").exists() for name in org.names) else folder / f"new-{turn}"
        ends = played(org, protocol, again)
        assert {code for code, _ in ends.values()} == {0}, ends
        found = results(org, again)
        lost += len(found) < len(org.names) or not all(_alike(whole["ada"], one) for one in found.values())
    print(f"{len(chosen)} kills, {lost} lost")
    return lost


def _alike(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.allclose(one[n], other[n], rtol=0, atol=1e-6) for n in one)


def test_a_killed_party_loses_nothing(tmp_path: Path) -> None:
    assert kills(tmp_path, 1, 5) == 0


def test_the_others_go_on_without_a_party_that_is_killed_where_parties_may_leave(tmp_path: Path) -> None:
    """Real processes over TLS, `kill -9` in the middle: the others have one result, and say who is missing."""
    org = organisations(tmp_path, 3)
    protocol = org.protocol(NOISY)
    protocol.write_text(protocol.read_text() + "[leave]\nthreshold = 2\n")
    ends = played(org, protocol, tmp_path / "whole")
    assert {code for code, _ in ends.values()} == {0}, ends
    points = ends[VICTIM][1]
    missing = []
    for at in (points // 3, points // 2, points * 3 // 4):
        out = tmp_path / f"killed-{at}"
        ends = played(org, protocol, out, at)
        assert ends.pop(VICTIM)[0] == -signal.SIGKILL
        assert {code for code, _ in ends.values()} == {0}, ends
        about = [json.loads((out / name / "run.json").read_text()) for name in ends]
        assert about[0]["result"] == about[1]["result"]
        assert about[0]["departed"] == about[1]["departed"]
        assert about[0]["departed"].keys() == {VICTIM}
        missing.append(about[0]["departed"][VICTIM])
        assert "Up to 1 of the 3 parties may leave" in about[0]["reveals"]
    assert missing == sorted(missing)
    assert 0 <= missing[0] < missing[-1] <= 6, "the later it is killed, the more sums it is in"


@pytest.mark.validity
def test_forty_killed_parties_lose_nothing(tmp_path: Path) -> None:
    assert kills(tmp_path, 40, 6) == 0
