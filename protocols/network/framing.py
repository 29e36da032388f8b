"""Frames on a byte stream: kind, number, acknowledgement, length, payload; nothing longer than agreed.

::

    "KSF1" | kind (1) | number (8) | received (8) | length (8) | payload

`DATA` frames are numbered from 0, each once, in order. `RESUME` opens every connection, `BYE` says that all that
was wanted has arrived, `ABORT` that there will be nothing more, and why (a word of a fixed list, a party's name).
`links` keeps what was sent until it has arrived, over connections that may be lost; `FrameStream` is for one
connection, which is not resumed.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import struct
from dataclasses import astuple, dataclass

from ksdp.audit.errors import ProtocolError

_HEADER = struct.Struct(">4sBQQQ")
_MAGIC = b"KSF1"
_RESUME = struct.Struct(">16s16sQ")
HEADER_BYTES = _HEADER.size
_SMALL = 256
"""Longest payload of a frame that is not `DATA`."""


class Kind(enum.IntEnum):
    """What a frame is for."""

    RESUME = 1
    DATA = 2
    BYE = 3
    ABORT = 4


@dataclass(frozen=True)
class Frame:
    """One frame."""

    kind: Kind
    number: int = 0
    """Of a `DATA` frame."""
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
    """Those of the other end, as last heard; zeros before the first connection."""
    received: int
    """`DATA` frames taken in so far: the other end goes on from there."""

    def to_bytes(self) -> bytes:
        """As the payload of a `RESUME` frame."""
        return _RESUME.pack(*astuple(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Resume:
        """What `to_bytes` wrote."""
        if len(data) != _RESUME.size:
            raise ProtocolError("A connection was opened with something else than a greeting.")
        return cls(*_RESUME.unpack(data))


async def read_frame(reader: asyncio.StreamReader, limit: int) -> Frame:
    """The next frame.

    Parameters
    ----------
    limit : int
        Most bytes of a `DATA` payload; checked before any of it is read.

    Raises
    ------
    ProtocolError
        If it is no frame, or too long.
    asyncio.IncompleteReadError
        If the stream ends.
    """
    magic, kind, number, received, length = _HEADER.unpack(await reader.readexactly(_HEADER.size))
    try:
        known = Kind(kind) if magic == _MAGIC else None
    except ValueError:
        known = None
    if known is None:
        raise ProtocolError("sent something that is no frame of this protocol")
    most = limit if known is Kind.DATA else _SMALL
    if length > most:
        raise ProtocolError(f"sent a frame of {length} bytes; at most {most} are due")
    return Frame(known, number, received, await reader.readexactly(length))


class FrameStream:
    """`DATA` frames in both directions of one connection, in order; their bytes counted.

    Parameters
    ----------
    reader, writer : asyncio streams
        Of the connection.
    limit : int
        Most bytes of one message.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int) -> None:
        self._reader, self._writer, self._limit = reader, writer, limit
        self._next = self._received = 0
        self.sent = 0
        """Bytes, headers included."""

    def allow(self, limit: int) -> None:
        """Set the most bytes of a message from now on: whoever is not known yet is not given many."""
        self._limit = limit

    async def send(self, payload: bytes) -> None:
        """Write one message."""
        data = Frame(Kind.DATA, self._next, self._received, payload).to_bytes()
        self._next += 1
        self.sent += len(data)
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> bytes:
        """The next message.

        Raises
        ------
        ProtocolError
            If what comes is no frame, too long, or not the next one.
        asyncio.IncompleteReadError
            If the connection ends.
        """
        try:
            frame = await read_frame(self._reader, self._limit)
        except ProtocolError as error:
            raise ProtocolError(f"A party {error}.") from None
        if frame.kind is not Kind.DATA or frame.number != self._received:
            raise ProtocolError("A party sent a frame that is not the next one.")
        self._received += 1
        return frame.payload

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
