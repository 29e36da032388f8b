"""Workers without a scheduler: results in order, deaths made good, and nobody left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ksdp.audit.errors import InputError, KsdpError
from ksdp.tasks.local_workers import ended_by, local_workers

PARENT = """
import sys, time
from ksdp.tasks.local_workers import local_workers
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from calls import sleep
if __name__ == "__main__":
    with local_workers(2) as workers:
        workers.each(sleep, [(sys.argv[1], n) for n in range(4)], print)
"""
CALLS = """
import os, time
from pathlib import Path

def sleep(folder, n):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(120)
"""


def doubled(number: int) -> tuple[int, int]:
    """Twice a number, and who says so."""
    return 2 * number, os.getpid()


def refused(number: int) -> None:
    """Raise what a person reads."""
    raise InputError(f"{number} is refused.")


def deadly(folder: str, number: int, ever: bool) -> int:
    """Kill the worker: at each call, or once."""
    mark = Path(folder) / "killed"
    if number == 3 and (ever or not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_script_without_a_guard_is_refused_before_workers_start(tmp_path: Path) -> None:
    """Every worker would import it, and start workers of its own."""
    (tmp_path / "calls.py").write_text(CALLS)
    script = tmp_path / "script.py"
    script.write_text(PARENT.replace('if __name__ == "__main__":', "if True:"))
    done = subprocess.run(
        [sys.executable, script, tmp_path, tmp_path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert 'must start under `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]


def test_results_are_in_order_and_of_other_processes() -> None:
    arrived: list[tuple[int, int]] = []
    with local_workers(2) as workers:
        results = workers.each(doubled, [(n,) for n in range(20)], arrived.append)
        again = workers.each(doubled, [(5,)], arrived.append)
    assert [result for result, _ in results] == list(range(0, 40, 2))
    assert sorted(arrived) == sorted([*results, *again])
    assert os.getpid() not in {process for _, process in results}
    assert {process for _, process in again} <= {process for _, process in results}


def test_an_error_of_a_call_is_raised_here() -> None:
    with local_workers(2) as workers, pytest.raises(InputError, match="is refused"):
        workers.each(refused, [(1,), (2,)], print)


def test_what_a_killed_worker_had_in_hand_is_done_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with local_workers(2) as workers:
        assert workers.each(deadly, [(str(tmp_path), n, False) for n in range(6)], lambda _: None) == list(
            range(6)
        )
    assert "killed by signal 9: out of memory, or somebody killed it, during deadly" in caplog.text


@pytest.mark.parametrize(
    ("code", "said"), [(-11, "killed by signal 11: segmentation fault"), (3, "ended with status 3")]
)
def test_how_a_worker_ended_is_said(code: int, said: str) -> None:
    assert ended_by(code) == said


def test_a_call_that_kills_every_worker_ends_with_one_error(tmp_path: Path) -> None:
    with local_workers(2) as workers, pytest.raises(KsdpError, match=r"died of deadly .* signal 9: .*resumes"):
        workers.each(deadly, [(str(tmp_path), n, True) for n in range(6)], lambda _: None)


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.e2e)])
def test_workers_end_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "calls.py").write_text(CALLS)
    (tmp_path / "parent.py").write_text(PARENT)
    seen = tmp_path / "seen"
    seen.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, str(tmp_path / "parent.py"), str(seen), str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as parent:
        until = time.monotonic() + 60
        while len(list(seen.iterdir())) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        workers = [int(path.name) for path in seen.iterdir()]
        assert len(workers) == 2
        parent.send_signal(number)
        errors = parent.communicate(timeout=20)[1].decode()
    until = time.monotonic() + 10
    while any(map(psutil.pid_exists, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(psutil.pid_exists, workers))
    assert errors.count("Traceback") == (number == signal.SIGINT)  # the parent's own alone
