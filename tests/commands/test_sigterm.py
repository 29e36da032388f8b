"""SIGTERM ends a command at once, with its children, and one line."""

import signal
import subprocess
import sys
import time

import psutil

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


def test_it_leaves_one_line_and_no_child() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        child = psutil.Process(int(running.stdout.readline()))
        for _ in range(3):
            running.send_signal(signal.SIGTERM)
            time.sleep(0.01)
        _, said = running.communicate(timeout=300)
    assert running.returncode == 128 + signal.SIGTERM
    assert said.split("\n") == ["", "stopped; the same command goes on, or begins again if nothing is stored.", ""]
    _, alive = psutil.wait_procs([child], timeout=300)
    assert alive == []
