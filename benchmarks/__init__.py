"""Ratios, side by side in one run: `make bench`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def data_folder() -> Path:
    """Where the data sets are: what KSDP_DATA names, or the folder beside the repository."""
    return Path(os.environ.get("KSDP_DATA", ROOT.parent / "shared" / "data"))


_WAITING = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
first, code = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0
try:
    while True:
        process, status = os.wait()
        code = os.waitstatus_to_exitcode(status) if process == first else code
except ChildProcessError:
    sys.exit(code)
"""


def waiting(command: Sequence[str]) -> list[str]:
    """The command by way of a process that waits for all that it leaves: so their CPU seconds are counted."""
    return [sys.executable, "-c", _WAITING, *command]
