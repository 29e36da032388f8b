"""MPyC without its sockets: one computing party, which returns what to send and takes what arrived.

MPyC's runtime speaks to its peers over asyncio connections of its own, which nobody authenticates. Here its event
loop is a queue that is worked off until everybody waits for messages (`Turns`), and its connections are buffers.
So a computation is a sequence of rounds like all others (`channel.rounds`): pinned keys, transcripts and the end
of a run when somebody dies are those of every run, and all parties of a test can live in one process.

Three parties, threshold one: any two of them together see everything, one alone nothing (MPyC 0.11, passive
security; Shamir shares, pseudorandom secret sharing with keys of 128 bits).
"""

from __future__ import annotations

import os
import struct
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from types import SimpleNamespace
from typing import Any

from ksdp.audit.errors import ProtocolError
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.shares.field import PRIME

# Imported as its documentation is built, MPyC reads no command line, opens no event loop and logs nothing.
_before = os.environ.get("READTHEDOCS")
os.environ.setdefault("MPYC_MAXWORKERS", "0")
os.environ["READTHEDOCS"] = "True"
try:
    from mpyc import asyncoro, finfields, mpctools, sectypes, thresha
    from mpyc import runtime as mpyc_runtime
finally:
    del os.environ["READTHEDOCS"]
    if _before is not None:
        os.environ["READTHEDOCS"] = _before

COMPUTING = 3
"""Parties that compute."""
FIELD = finfields.GF(PRIME)
_SECRETS = finfields.GF(2**521 - 1)
_ACTS = threading.Lock()
_SHARE_BYTES = 66
_HIDING = 64
"""Bits by which the masks of MPyC's own comparisons are longer than what they hide."""


def split(secret: bytes, threshold: int, parties: int) -> list[bytes]:
    """Shares of 32 bytes, one a party: any `threshold` of them give the bytes back, fewer say nothing."""
    rows = thresha.random_split(_SECRETS, [int.from_bytes(secret, "big")], threshold - 1, parties)
    return [int(row[0]).to_bytes(_SHARE_BYTES, "big") for row in rows]


def join(shares: Mapping[int, bytes]) -> bytes:
    """The 32 bytes, from `threshold` shares by their place in `split`; others where a share is false."""
    points = [(at + 1, [_SECRETS(int.from_bytes(share, "big"))]) for at, share in sorted(shares.items())]
    secret = int(thresha.recombine(_SECRETS, points)[0])
    return (secret % (1 << 256)).to_bytes(32, "big")


class Turns:
    """The event loop that MPyC needs: callbacks in the order they came, until there are none."""

    def __init__(self) -> None:
        self._ready: deque[tuple[Callable[..., object], tuple[Any, ...], Context | None]] = deque()

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> SimpleNamespace:
        """Do it after all that is waiting."""
        self._ready.append((callback, args, context))
        return SimpleNamespace(cancel=lambda: None)

    def run(self) -> None:
        """Work until everybody waits."""
        while self._ready:
            callback, args, context = self._ready.popleft()
            if context is None:
                callback(*args)
            else:
                context.run(callback, *args)

    def get_debug(self) -> bool:
        """No."""
        return False

    def stop(self) -> None:
        """Asked for before an exception that ends the run."""

    def call_exception_handler(self, context: Mapping[str, Any]) -> None:
        """Ignore the exceptions of tasks that end with the run."""


class _Outbox:
    """A connection of MPyC: what was written since the last turn."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self._written.append(data)

    def writelines(self, parts: list[bytes]) -> None:
        self._written += parts

    def close(self) -> None:
        pass

    def taken(self) -> bytes:
        data, self._written = b"".join(self._written), []
        return data


class _Runtime(mpyc_runtime.Runtime):  # type: ignore[misc]  # MPyC has no types
    """MPyC's runtime on `Turns`."""

    def __init__(self, place: int, turns: Turns, random_bytes: RandomBytes, names: tuple[str, ...]) -> None:
        self.names = names
        self.pid, self.parties = place, tuple(mpyc_runtime.Party(at) for at in range(COMPUTING))
        self.options = SimpleNamespace(
            threshold=1, no_log=True, no_prss=False, no_async=False, no_barrier=True, sec_param=_HIDING,
            bit_length=32, ssl=False, mix32_64bit=True,  # the last one: no message is unpickled
        )  # fmt: skip
        self._logging_enabled, self._program_counter, self._pc_level = False, [0, 0], 0
        self._loop, self.start_time, self.aggregate_load = turns, None, 0.0
        self.threshold = 1
        keys: dict[tuple[int, ...], bytes] = self._prss_keys  # type: ignore[has-type]  # MPyC has no types
        self._prss_keys = {who: random_bytes(len(key)) for who, key in sorted(keys.items())}


class ComputingParty:
    """One of the three.

    Parameters
    ----------
    place : int
        0, 1 or 2.
    names : tuple of str
        Of the three, for messages.
    """

    def __init__(
        self, place: int, random_bytes: RandomBytes, names: tuple[str, ...] = ("first", "second", "third")
    ) -> None:
        self._names, self._turns = names, Turns()
        self.runtime = _Runtime(place, self._turns, random_bytes, names)
        self.place = place
        self._boxes, self._links = dict[int, _Outbox](), dict[int, Any]()

    def start(self, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
        """Begin a computation: a coroutine over the runtime."""
        with self._acting():
            self.runtime.parties[self.place].protocol = asyncoro.Future(loop=self._turns)
            for peer in (at for at in range(COMPUTING) if at != self.place):
                link = asyncoro.MessageExchanger(self.runtime, peer if peer > self.place else None)
                self._links[peer], self._boxes[peer] = link, _Outbox()
                link.connection_made(self._boxes[peer])
            self._task = asyncoro.Task(self._work(work), loop=self._turns)

    async def _work(self, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        await self.runtime.parties[self.place].protocol
        return await work(self.runtime)

    @property
    def done(self) -> bool:
        """Whether the result is there."""
        return bool(self._task.done())

    @property
    def result(self) -> Any:
        """Result of the computation."""
        return self._task.result()

    def turn(self, arrived: Mapping[int, bytes]) -> dict[int, bytes]:
        """Take what arrived, compute until all waits, and say what is to be sent, by place."""
        with self._acting():
            try:
                for peer, data in arrived.items():
                    self._take(peer, data)
                self._turns.run()
                if self.done:
                    self._task.result()
            except (ArithmeticError, IndexError, LookupError, TypeError, ValueError, struct.error) as error:
                senders = " or ".join(self._names[peer] for peer, data in arrived.items() if data) or "this party"
                raise ProtocolError(
                    f"The shares of {senders} fit no computation ({type(error).__name__})."
                ) from error
        return {peer: box.taken() for peer, box in self._boxes.items()}

    def _take(self, peer: int, data: bytes) -> None:
        link = self._links[peer]
        try:
            if data:
                link.data_received(data)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error) as error:
            # AttributeError: a counter that was sent before, of which MPyC holds the message in place of a future.
            raise ProtocolError(
                f"{self._names[peer]} sent shares that fit no computation, or sent some twice."
            ) from error
        if data and link.peer_pid != peer:
            raise ProtocolError(f"{self._names[peer]} names another place than its own.")

    @contextmanager
    def _acting(self) -> Iterator[None]:
        """MPyC finds its runtime in variables of its modules: parties of one process act one after the other."""
        modules = (asyncoro, mpctools, sectypes, mpyc_runtime.mpyc.random)
        with _ACTS:
            before = [module.runtime for module in modules]
            try:
                for module in modules:
                    module.runtime = self.runtime
                yield
            finally:
                for module, runtime in zip(modules, before, strict=True):
                    module.runtime = runtime
