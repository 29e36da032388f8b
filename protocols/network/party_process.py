"""A party in a process of its own: what becomes of it is told to the process that started it."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


def run_in_process(pipe: Connection, work: Callable[[], dict[str, Any]]) -> None:
    """Do the work of a started process and send what came of it; where the parent dies, end at once."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        pipe.send(("done", work()))
    except Exception as error:  # the parent, not a traceback on this process's terminal, says what went wrong
        pipe.send(("failed", f"{type(error).__name__}: {error}"))


def _end_with_parent() -> None:
    """A parent that was killed could not end its parties, and they would go on among themselves."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
