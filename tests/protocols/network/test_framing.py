"""Frames of one connection: read as they were written, none too long."""

import asyncio

import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.network.links import HEADER_BYTES, Frame, Kind, Resume, read_frame

LIMIT = 100


def read(data: bytes) -> Frame:
    async def play() -> Frame:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await read_frame(reader, LIMIT)

    return asyncio.run(play())


@pytest.mark.parametrize("payload", [b"", b"one", bytes(LIMIT)])
def test_a_frame_is_read_as_it_was_written(payload: bytes) -> None:
    frame = Frame(Kind.DATA, 7, 3, payload)
    assert read(frame.to_bytes()) == frame


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (Frame(Kind.DATA, payload=bytes(LIMIT + 1)).to_bytes(), "sent a frame of 101 bytes; at most 100 are due"),
        (b"x" * HEADER_BYTES, "sent something that is no frame"),
        (b"KSF1\x09" + bytes(HEADER_BYTES - 5), "sent something that is no frame"),
    ],
)
def test_what_is_no_frame_is_refused(data: bytes, fault: str) -> None:
    with pytest.raises(ProtocolError, match=fault):
        read(data)


@pytest.mark.parametrize("checks", [True, False])
def test_a_greeting_says_whether_its_end_only_checks(checks: bool) -> None:
    hello = Resume(bytes(16), bytes(range(16)), 5, checks)
    assert Resume.from_bytes(hello.to_bytes()) == hello
