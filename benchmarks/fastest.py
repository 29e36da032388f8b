"""The fastest of several calls: what disturbs a machine only ever makes one slower."""

from __future__ import annotations

import time
from collections.abc import Callable


def best(action: Callable[[], object], repeats: int = 3, clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of the fastest of several calls."""
    seconds = []
    for _ in range(repeats):
        begin = clock()
        action()
        seconds.append(clock() - begin)
    return min(seconds)
