"""Keep Ctrl-C from processes that are started: a terminal sends it to all, and one that imports prints it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C in this thread: what is started now, processes and threads, inherits that.

    Whoever starts them ends them by other signals.
    """
    resource_tracker.ensure_running()  # when it starts, it lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
