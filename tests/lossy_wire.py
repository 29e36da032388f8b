"""A wire between two network namespaces that is slow and loses packets: `tc netem`, where a kernel has none.

Each end is a TUN device; a thread of this process carries IP packets from one to the other, late, and drops some.
What TCP makes of that (it sends again, it slows down) is the kernel's own.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from .hosts import ip

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI, _NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000
ADDRESSES = ("10.77.0.1", "10.77.0.2")


def why_no_wire() -> str | None:
    """What keeps this machine from having one; None where nothing does."""
    try:
        with lossy_wire(0.0, 0.0):
            return None
    except (OSError, subprocess.SubprocessError) as error:
        return f"this machine has no network namespaces or no TUN devices ({type(error).__name__})"


class Lost:
    """Counts packets."""

    def __init__(self) -> None:
        self.carried = self.dropped = 0


@contextlib.contextmanager
def lossy_wire(delay: float, loss: float, seed: int = 1) -> Iterator[tuple[tuple[str, str], Lost]]:
    """Two namespaces with the two addresses: their names, and what was lost.

    Parameters
    ----------
    delay : float
        Seconds, each way.
    loss : float
        Share of packets.
    """
    names = tuple(f"ksdp-wire-{os.getpid()}-{end}" for end in "ab")
    with contextlib.ExitStack() as gone:
        ends = []
        for name, address in zip(names, ADDRESSES, strict=True):
            ip("netns", "add", name)
            gone.callback(ip, "netns", "del", name)
            ends.append(_tun(name))
            gone.callback(os.close, ends[-1])
            for command in (["addr", "add", f"{address}/24", "dev", "wire"], ["link", "set", "wire", "up"]):
                ip("-n", name, *command)
            ip("-n", name, "link", "set", "lo", "up")
        over, counts = threading.Event(), Lost()
        thread = threading.Thread(target=_carry, args=(ends, delay, loss, random.Random(seed), over, counts))
        thread.start()
        try:
            yield (names[0], names[1]), counts
        finally:
            over.set()
            thread.join()


def _tun(namespace: str) -> int:
    """A TUN device `wire` in a namespace; opened by a thread that goes there and comes back no more."""
    opened: list[int | OSError] = []

    def there() -> None:
        try:
            with Path(f"/var/run/netns/{namespace}").open() as space:
                if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), _NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH14x", b"wire", _IFF_TUN | _IFF_NO_PI))
            opened.append(device)
        except OSError as error:
            opened.append(error)

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    if isinstance(opened[0], OSError):
        raise opened[0]
    return opened[0]


def _carry(
    ends: list[int], delay: float, loss: float, drops: random.Random, over: threading.Event, counts: Lost
) -> None:
    waiting: list[tuple[float, int, int, bytes]] = []
    count = 0
    while not over.is_set():
        pause = min(0.05, max(0.0, waiting[0][0] - time.monotonic())) if waiting else 0.05
        readable, _, _ = select.select(ends, [], [], pause)
        for end in readable:
            with contextlib.suppress(BlockingIOError):
                packet, count = os.read(end, 1 << 16), count + 1
                if drops.random() < loss:
                    counts.dropped += 1
                else:
                    heapq.heappush(waiting, (time.monotonic() + delay, count, ends[ends[0] == end], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(waiting)
            with contextlib.suppress(OSError):  # a full queue drops, as a wire does
                os.write(end, packet)
                counts.carried += 1
