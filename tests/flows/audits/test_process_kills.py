"""An audit, a worker or Prefect's server is killed at any time: the same command ends it, with the same result."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.storage.readers.spec_files import read_spec_file

from .test_kills import found, is_lost

MARKS = {"worker": "spawn_main", "server": "prefect_child"}
"""What stands in the command line of the processes of an audit; `main` is the one that was started."""
STARTING = 90.0


def family(main: psutil.Process, who: str) -> list[psutil.Process]:
    """Living processes of one kind."""
    if who == "main":
        return [main]
    alive = []
    with contextlib.suppress(psutil.Error):
        for process in main.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if MARKS[who] in " ".join(process.cmdline()):
                    alive.append(process)
    return alive


def started(spec: Path, store: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ksdp", "audit", str(spec), "--store", str(store), "--workers", "1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_API")}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed_audit(spec: Path, store: Path, who: str, wait: float) -> str:
    """Start an audit, and kill it, its worker or its server some time after that is there; what it said.

    An audit that ended before is one that nobody killed.
    """
    process = started(spec, store)
    main = psutil.Process(process.pid)
    members: list[psutil.Process] = []
    end = time.monotonic() + STARTING
    while process.poll() is None and time.monotonic() < end and not (members := family(main, who)):
        time.sleep(0.05)
    time.sleep(wait)
    everybody = [main]
    with contextlib.suppress(psutil.Error):
        everybody += main.children(recursive=True)
    for victim in members[:1]:
        with contextlib.suppress(psutil.Error):
            victim.kill()
    _, said = process.communicate(timeout=900)
    _, alive = psutil.wait_procs(everybody, timeout=60)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE], "it left a process behind"
    return said


def kills(spec: Path, folder: Path, victims: list[str], seed: int) -> int:
    """Kill, audit again, compare with an audit that nobody killed; how many stores were lost."""
    run_audit(*read_spec_file(spec), folder / "whole", HERE)
    reference, rng, lost = found(folder / "whole"), np.random.default_rng(seed), 0
    for who in victims:
        store = folder / "killed"
        said = killed_audit(spec, store, who, float(rng.uniform(0, 8)))
        assert "Traceback" not in said, said
        run_audit(*read_spec_file(spec), store, HERE)
        lost += is_lost(store, reference)
    print(f"{len(victims)} kills, {lost} lost")
    return lost


@pytest.fixture
def small(spec: Callable[..., Path]) -> Path:
    return spec("process-kills", seed=22, with_runs=60, families=["paper"])


SERVER_GONE = re.compile(r"error: the Prefect server stopped \(exit -9; see .*\): the same command goes on")


@pytest.mark.e2e
@pytest.mark.parametrize("after", ["starting the Prefect server", "running the mechanism", "audit "])
def test_a_server_killed_at_any_stage_ends_the_audit_within_ten_seconds_in_a_line(
    after: str, small: Path, tmp_path: Path
) -> None:
    """Or the audit was finished before anybody missed it."""
    process = started(small, tmp_path / "s")
    assert process.stderr is not None
    assert any(line.startswith(after) for line in process.stderr)
    (server,) = family(psutil.Process(process.pid), "server")
    server.kill()
    killed, rest = time.monotonic(), process.stderr.read().splitlines()
    process.wait()
    assert time.monotonic() - killed < 20  # five seconds on an idle machine
    assert "Traceback" not in "\n".join(rest)
    if process.returncode == 1:
        assert SERVER_GONE.match(rest[-1]), rest
        assert len([line for line in rest if "audit" not in line]) < 6, rest
    run_audit(*read_spec_file(small), tmp_path / "s", HERE)


@pytest.mark.e2e
def test_a_killed_audit_and_a_killed_worker_lose_nothing(small: Path, tmp_path: Path) -> None:
    assert kills(small, tmp_path, ["main", "worker"], 3) == 0


@pytest.mark.e2e
@pytest.mark.validity
@pytest.mark.parametrize("seed", range(4, 14))
def test_sixty_killed_processes_lose_nothing(seed: int, small: Path, tmp_path: Path) -> None:
    assert kills(small, tmp_path, ["main", "worker", "server"] * 2, seed) == 0
