"""SIGTERM ends a command at once, with its children, and one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import scipy.sparse as sp

COMMAND = """
import subprocess, sys, time
from ksdp.terminal import terminal
with terminal():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stderr=subprocess.DEVNULL)
    print(child.pid, flush=True)
    try:
        time.sleep(600)
    finally:
        time.sleep(600)  # whatever wants to be put in order is not waited for
"""


@pytest.mark.e2e
@pytest.mark.parametrize("times", [1, 3])
def test_it_leaves_one_line_and_no_child(times: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        child = psutil.Process(int(running.stdout.readline()))
        for _ in range(times):
            running.send_signal(signal.SIGTERM)
            time.sleep(0.01)
        _, said = running.communicate(timeout=300)
    assert running.returncode == 128 + signal.SIGTERM
    assert said.split("\n") == ["", "stopped; the same command resumes from what is stored.", ""]
    _, alive = psutil.wait_procs([child], timeout=300)
    assert alive == []


@pytest.mark.e2e
def test_a_flow_of_prefect_s_that_is_on_its_way_ends_like_that_too(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "counts.npz", sp.csr_array(np.random.default_rng(1).poisson(1.0, (60, 8))))
    (tmp_path / "audit.toml").write_text(
        '[corpus]\npath = "counts.npz"\n[mechanism]\nname = "pd-svd"\nrank = 2\n'
        '[design]\nparty_size = 0.3\nwith_runs = 60000\n[statistics]\nfamilies = ["geometry"]\n'
    )
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-m", "ksdp", "audit", "audit.toml", "--workers", "1"]
    with subprocess.Popen(command, env=bare, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as running:
        assert running.stderr is not None
        said = [next(running.stderr)]
        while "Prefect UI" not in said[-1]:
            said.append(next(running.stderr))
        store = tmp_path / "ksdp-store"
        assert ((store.stat().st_mode | (store / "prefect" / "password").stat().st_mode) & 0o077) == 0
        while not any((store / "runs").rglob("*.parquet")):  # the mechanism is run: the flow is on its way
            time.sleep(0.05)
        children = psutil.Process(running.pid).children(recursive=True)
        running.send_signal(signal.SIGTERM)
        _, rest = running.communicate(timeout=300)
    assert running.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in rest
    assert rest.rstrip().split("\n")[-1] == "stopped; the same command resumes from what is stored."
    _, alive = psutil.wait_procs(children, timeout=300)
    assert alive == []
