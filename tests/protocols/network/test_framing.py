"""Frames of one connection: in order, each once, none too long."""

from __future__ import annotations

import asyncio

import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.network.links import HEADER_BYTES, Frame, FrameStream, Kind

LIMIT = 100


def received(*data: bytes) -> list[bytes]:
    """What a stream takes of so many frames that arrive."""

    async def play() -> list[bytes]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"".join(data))
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        stream = FrameStream(*await asyncio.open_connection("127.0.0.1", port), LIMIT)
        try:
            return [await stream.receive() for _ in data]
        finally:
            await stream.close()
            server.close()

    return asyncio.run(play())


def data(number: int, payload: bytes) -> bytes:
    return Frame(Kind.DATA, number, 0, payload).to_bytes()


def test_what_is_sent_arrives_and_is_counted() -> None:
    async def play() -> tuple[list[bytes], int]:
        arrived: asyncio.Queue[bytes] = asyncio.Queue()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            stream = FrameStream(reader, writer, LIMIT)
            for _ in range(3):
                await arrived.put(await stream.receive())
            await stream.send(b"all")
            await stream.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        stream = FrameStream(*await asyncio.open_connection("127.0.0.1", port), LIMIT)
        for payload in (b"", b"one", bytes(LIMIT)):
            await stream.send(payload)
        answer = await stream.receive()
        await stream.close()
        server.close()
        return [answer, *(arrived.get_nowait() for _ in range(3))], stream.sent

    taken, sent = asyncio.run(play())
    assert taken == [b"all", b"", b"one", bytes(LIMIT)]
    assert sent == 3 * HEADER_BYTES + 3 + LIMIT


@pytest.mark.parametrize(
    ("frames", "fault"),
    [
        ((data(0, b"a"), data(0, b"a")), "not the next one"),
        ((data(1, b"a"),), "not the next one"),
        ((Frame(Kind.BYE).to_bytes(),), "not the next one"),
        ((data(0, bytes(LIMIT + 1)),), "A party sent a frame of 101 bytes; at most 100 are due."),
        ((b"x" * HEADER_BYTES,), "A party sent something that is no frame"),
    ],
)
def test_what_is_no_next_frame_is_refused(frames: tuple[bytes, ...], fault: str) -> None:
    with pytest.raises(ProtocolError, match=fault):
        received(*frames)


def test_a_connection_that_ends_within_a_frame_is_told() -> None:
    assert received(data(0, b"a"), data(1, b"b")) == [b"a", b"b"]
    with pytest.raises(asyncio.IncompleteReadError):
        received(data(0, b"abc")[:-1])
