"""Messages of two parties, in order, each once, over connections that may be lost and come back.

They travel in frames, none longer than agreed::

    "KSF1" | kind (1) | number (8) | received (8) | length (8) | payload

`DATA` frames are numbered from 0, each once, in order. `RESUME` opens every connection, `BYE` says that all that
was wanted has arrived, `ABORT` that there will be nothing more, and why (a word of a fixed list, a party's name).
A `Link` keeps what was sent until the peer has acknowledged it, and sends it again on the next connection. A frame
out of order or a second time is refused and ends the run, as does a peer that was restarted. One that
only checks and one that takes part in a run greet each other, and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import secrets
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

from ksdp.audit.errors import ProtocolError

_HEADER = struct.Struct(">4sBQQQ")
_MAGIC = b"KSF1"
_RESUME = struct.Struct(">16s16sQ?")
HEADER_BYTES = _HEADER.size
_SMALL = 256
"""Longest payload of a frame that is not `DATA`."""


class Kind(enum.IntEnum):
    """Purpose of a frame."""

    RESUME = 1
    DATA = 2
    BYE = 3
    ABORT = 4


@dataclass(frozen=True)
class Frame:
    """One frame."""

    kind: Kind
    number: int = 0
    received: int = 0
    """`DATA` frames that the sender has; the other end need not keep them."""
    payload: bytes = b""

    def to_bytes(self) -> bytes:
        """As it travels."""
        return _HEADER.pack(_MAGIC, self.kind, self.number, self.received, len(self.payload)) + self.payload


@dataclass(frozen=True)
class Resume:
    """The first thing that either end says on a connection."""

    own: bytes
    """16 random bytes that name this end's process."""
    other: bytes
    """The bytes that name the other end's process, as last heard; zeros before the first connection."""
    received: int
    """`DATA` frames taken in so far: the other end goes on from there."""
    checks: bool = False
    """Whether this end only checks what would stand in the way of a run."""

    def to_bytes(self) -> bytes:
        """As the payload of a `RESUME` frame."""
        return _RESUME.pack(*astuple(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Resume:
        """Read the bytes of `to_bytes`."""
        if len(data) != _RESUME.size:
            raise ProtocolError("A connection was opened with something else than a greeting.")
        return cls(*_RESUME.unpack(data))


async def read_frame(reader: asyncio.StreamReader, limit: int) -> Frame:
    """The next frame."""
    magic, kind, number, received, length = _HEADER.unpack(await reader.readexactly(_HEADER.size))
    try:
        frame_kind = Kind(kind) if magic == _MAGIC else None
    except ValueError:
        frame_kind = None
    if frame_kind is None:
        raise ProtocolError("sent something that is no frame of this protocol")
    most = limit if frame_kind is Kind.DATA else _SMALL
    if length > most:
        raise ProtocolError(f"sent a frame of {length} bytes; at most {most} are due")
    return Frame(frame_kind, number, received, await reader.readexactly(length))


Observer = Callable[[str, str], None]
"""Told (what, peer) of connections that come and go."""

ABORTS = {
    b"fault": "it got something that nobody may send",
    b"refused": "its own input was refused",
    b"stopped": "it was stopped",
    b"terms": "it agreed to other terms, and says there which",
}
"""Why a party ends a run, in words that say nothing about its data."""
ABOUT = {
    b"ended": "{who} ended the run, as {peer} has heard.",
    b"gone": "{who} disappeared: {peer} heard nothing more of it.",
    b"missing": "{peer} has left, as {who} did not come to it.",
}
"""Why, where it is about a third party, which is named alike at all."""
MISSING, STOPPED = "missing", "stopped"
RUNS = "runs"
"""Why a check goes no further: the peer is in the run itself."""
_AHEAD = 4
"""Messages that may wait to be taken: a peer is at most one round ahead."""
_NOBODY = bytes(16)


class LinkError(ProtocolError):
    """There is no way on with one peer.

    Parameters
    ----------
    peer : str
        Which; of one that has disappeared, its name at every party.
    word : str
        The reason, as the others are told.
    """

    def __init__(self, message: str, peer: str, word: str) -> None:
        super().__init__(message)
        self.peer, self.word = peer, word


@dataclass(frozen=True)
class LinkTimes:
    """Seconds."""

    message: float = 600.0
    """Until the next message of a peer; longer than the longest step of its algorithm."""
    reconnect: float = 30.0
    """Until a lost connection is back."""


class Link:
    """The messages between this party and one peer.

    Parameters
    ----------
    own, peer : str
        Names of the two ends.
    limit : int
        Most bytes of one message.
    checks : bool
        Only greet a peer that checks, too: one that takes part in a run is not disturbed.
    """

    def __init__(
        self, own: str, peer: str, *, limit: int, times: LinkTimes, observe: Observer, checks: bool = False
    ) -> None:
        self._checks = checks
        self.own, self.peer = own, peer
        self._limit, self._times, self._observe = limit, times, observe
        self._process, self._theirs = secrets.token_bytes(16), _NOBODY
        self._kept: deque[Frame] = deque()
        self._next = self._received = 0
        self._inbox: asyncio.Queue[bytes] = asyncio.Queue(_AHEAD)
        self._writer: asyncio.StreamWriter | None = None
        self._connection: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[LinkError] = self._loop.create_future()
        """Set once, when there is no way on."""
        self.connected, self._over = asyncio.Event(), asyncio.Event()
        self._begun = self._parting = False
        self.missed: tuple[str, ...] = ()
        """Parties for whom the peer has waited in vain, where it has left for that before all had come."""

    def attach(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> asyncio.Task[None]:
        """Go on over this connection; an earlier one is dropped. Ends when the connection does."""
        if self._connection is not None:
            self._connection.cancel()
        self._connection = self._loop.create_task(self._serve(reader, writer))
        return self._connection

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._resume(reader, writer)
            while True:
                await self._take(await read_frame(reader, self._limit))
        except ProtocolError as error:
            self.fail(f"{self.peer} {error}.")
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # lost; the timer decides
        finally:
            if self._writer is writer or self._writer is None:
                self._drop()
            writer.close()

    async def _resume(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        expected = self._theirs if self._fixed else _NOBODY
        hello = Resume(self._process, expected, self._received, self._checks)
        writer.write(Frame(Kind.RESUME, payload=hello.to_bytes()).to_bytes())
        opening = await asyncio.wait_for(read_frame(reader, 0), self._times.reconnect)
        if opening.kind is not Kind.RESUME:
            raise ProtocolError("did not begin with a greeting")
        theirs = Resume.from_bytes(opening.payload)
        if theirs.checks != self._checks:
            if self._checks:
                self.fail(f"{self.peer} takes part in a run.", RUNS)
            raise ConnectionAbortedError
        self._meet(theirs)
        what, self._theirs = "reconnected" if theirs.own == self._theirs else "connected", theirs.own
        if not self._next - len(self._kept) <= theirs.received <= self._next:
            raise ProtocolError("asked for messages that it has acknowledged, or that were never sent")
        self._acknowledged(theirs.received)
        self._writer = writer
        for frame in self._kept:
            writer.write(frame.to_bytes())
        if self._parting:
            writer.write(Frame(Kind.BYE, received=self._received).to_bytes())
        await writer.drain()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.missed = ()
        self.connected.set()
        self._observe(what, self.peer)

    def _meet(self, hello: Resume) -> None:
        """Refuse a process that is not the one that the messages so far were exchanged with."""
        if self._fixed and self._theirs not in (_NOBODY, hello.own):
            raise ProtocolError("was restarted during a run: all parties must begin again")
        if hello.other not in (_NOBODY, self._process):
            if self._fixed:
                raise ProtocolError("means another run than this one")
            raise ConnectionAbortedError  # it is in an earlier run, and hears from this greeting that it is over

    @property
    def _fixed(self) -> bool:
        return self._begun or self._received > 0

    async def _take(self, frame: Frame) -> None:
        if frame.kind is Kind.ABORT:
            self._ended(frame.payload)
            return
        if frame.kind is Kind.BYE:
            self._over.set()
            return
        if frame.kind is not Kind.DATA:
            raise ProtocolError("greeted twice")
        if frame.number < self._received:
            raise ProtocolError(f"sent message {frame.number} a second time")
        if frame.number > self._received:
            raise ProtocolError(f"sent message {frame.number} where {self._received} was due")
        if frame.received > self._next:  # fewer than before is a frame that was sent again
            raise ProtocolError("acknowledged messages that were never sent")
        self._acknowledged(frame.received)
        self._received += 1
        await self._inbox.put(frame.payload)

    def _ended(self, payload: bytes) -> None:
        word, _, who = payload.partition(b" ")
        name = who.decode("utf-8", "replace") if who and len(who) <= 200 else "somebody"
        name = name if name.isprintable() else "somebody"
        if word == MISSING.encode() and not self._begun:  # it may come again
            self.missed = tuple(name.split(", "))
            raise ConnectionAbortedError
        if word in ABOUT:
            # A party that is told of itself that it is gone ends the run: else the teller chooses who stays.
            how = "ended" if name == self.peer else word.decode()
            self.fail(ABOUT[word].format(who=name, peer=self.peer), how, name)
            return
        how = STOPPED if word == STOPPED.encode() else "ended"
        self.fail(f"{self.peer} ended the run: {ABORTS.get(word, 'it gave no reason')}.", how)

    def _acknowledged(self, received: int) -> None:
        while self._kept and self._kept[0].number < received:
            self._kept.popleft()

    def _drop(self) -> None:
        self._writer = None
        was, wait = self.connected.is_set(), self._times.reconnect
        self.connected.clear()
        if not was or self._over.is_set() or self.failed.done():
            return
        self._observe("lost", self.peer)
        if self._begun:
            message = f"{self.peer} disappeared: no connection for {wait:g} seconds."
            self._timer = self._loop.call_later(wait, self.fail, message, "gone")

    @property
    def over(self) -> bool:
        """Whether nothing more is to come: the peer said goodbye, or there is no way on."""
        return self._over.is_set() or self.failed.done()

    def begin(self) -> None:
        """All have come: from here on a peer that is gone for long, or started anew, ends the run."""
        self._begun = True

    def fail(self, message: str, word: str = "fault", who: str = "") -> None:
        """There is no way on with this peer, or for what became of another; the first reason stays."""
        if not self.failed.done():
            self.failed.set_result(LinkError(message, who or self.peer, word))

    async def send(self, payload: bytes) -> None:
        """Hand over one message; it is kept until the peer has it."""
        self._check()
        frame = Frame(Kind.DATA, self._next, self._received, payload)
        self._next += 1
        self._kept.append(frame)
        await self._write(frame)

    async def receive(self, within: float | None = None) -> bytes:
        """The next message."""
        self._check()
        seconds = self._times.message if within is None else within
        waiting = self._loop.create_task(self._inbox.get())
        either: set[asyncio.Future[Any]] = {waiting, self.failed}
        done, _ = await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if waiting in done:
            return waiting.result()
        waiting.cancel()
        if not done:
            self.fail(f"{self.peer} sent nothing for {seconds:g} seconds.", "gone")
        raise self.failed.result()

    def _check(self) -> None:
        if self.failed.done():
            raise self.failed.result()

    async def _write(self, frame: Frame) -> None:
        writer = self._writer
        if writer is None:
            return  # `DATA` goes out with the next connection
        with contextlib.suppress(OSError):
            writer.write(frame.to_bytes())
            await writer.drain()

    async def finish(self, wait: float) -> None:
        """Say that all has arrived, and wait a while for the peer to say so."""
        self._parting = True
        await self._write(Frame(Kind.BYE, received=self._received))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), wait)

    async def abort(self, word: str, who: str = "") -> None:
        """Tell the peer that there will be nothing more, if it can be told."""
        with contextlib.suppress(TimeoutError):
            text = f"{word} {who}".encode()[:200]
            await asyncio.wait_for(self._write(Frame(Kind.ABORT, payload=text)), 2.0)

    async def close(self) -> None:
        """Drop everything."""
        self._over.set()  # no timer from here on
        if self._timer is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.cancel()
            await asyncio.wait({self._connection})
