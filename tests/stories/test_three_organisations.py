"""Three organisations on this machine: from an audit to a clearance to a run; and one of them is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..fences import type_page
from ..flows.runs.test_protocol import organisations

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "three-parties" / "run.py"
FINAL = 'name = "pd-svd"\nrank = 2\nopens = "final"\n[shares]\nblock = 12\nrounds = 1000'


def test_from_an_audit_to_a_clearance_to_a_run_of_three(tmp_path: Path) -> None:
    type_page("three-organisations.md", tmp_path, Path(sys.executable).parent)

    command = [sys.executable, str(EXAMPLE), str(tmp_path / "three"), "--documents", "150"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "the three results are equal, bit by bit" in done.stdout


def test_a_killed_party_ends_the_run_for_all_by_name(tmp_path: Path) -> None:
    """In the midst of computing on shares: the others end by its name, without a result."""
    org = organisations(tmp_path, 3)
    protocol = org.protocol(FINAL)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": {**os.environ}}
    started = {
        name: subprocess.Popen(org.command(protocol, name), **pipes)  # type: ignore[call-overload]
        for name in org.names
    }
    transcript = protocol.with_suffix("") / "cyd" / "transcript.jsonl"
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if transcript.exists() and transcript.read_text().count('"kind": "computation"') > 40:
            break
        time.sleep(0.1)
    started["bob"].kill()
    for name in ("ada", "cyd"):
        _, error = started[name].communicate(timeout=300)
        assert started[name].returncode == 1
        assert "bob" in error
        assert "disappeared" in error or "it lost bob" in error
        folder = protocol.with_suffix("") / name
        assert [path.name for path in folder.iterdir()] == ["transcript.jsonl"], "no partial result"
        last = (folder / "transcript.jsonl").read_text().splitlines()[-1]
        assert json.loads(last)["what"] == "ended without a result"
