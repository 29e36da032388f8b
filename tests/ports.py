"""Ports that nobody listens on, and that no other test worker is given."""

import itertools
import os
import random
import socket

_FIRST, _EACH, _WORKERS = 11_000, 2_000, 10
"""Below the ports that the system gives to connections (32768 on)."""
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
_PORTS = list(range(_FIRST + _WORKER * _EACH, _FIRST + (_WORKER + 1) * _EACH))
_START = random.SystemRandom().randrange(_EACH)
"""Another pytest on this machine begins elsewhere."""
_NEXT = itertools.cycle(_PORTS[_START:] + _PORTS[:_START])


def free_ports(count: int) -> list[int]:
    return list(itertools.islice(filter(_is_free, _NEXT), count))


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
