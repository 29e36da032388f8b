"""Which user of this machine is at the other end of a connection over the loopback, as Linux tells it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
_LOCAL, _REMOTE, _USER = 1, 2, 7


def _written(address: tuple[str, int]) -> tuple[socket.AddressFamily, str]:
    """An address as the kernel's table has it: words of four bytes in the order of this machine."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    raw = socket.inet_pton(family, address[0])
    words = "".join(f"{int.from_bytes(raw[at : at + 4], 'little'):08X}" for at in range(0, len(raw), 4))
    return family, f"{words}:{address[1]:04X}"


def is_stranger(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether a connection to `server` comes from another user of this machine; root is none, it may do anything.

    Where the system does not say (no Linux, or a connection from elsewhere), nobody is taken for a stranger.
    """
    try:
        (family, theirs), (_, ours) = _written(client), _written(server)
        for line in _TABLES[family].read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[_LOCAL] == theirs and fields[_REMOTE] == ours:
                return int(fields[_USER]) not in (0, os.getuid())
    except (OSError, ValueError, KeyError, IndexError, AttributeError):
        pass
    return False
