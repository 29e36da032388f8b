"""Whoever connects to a party of PEM without belonging to the run is not counted, and holds nobody up."""

from __future__ import annotations

import asyncio

import pytest

from ksdp.protocols.network import pem_processes
from ksdp.protocols.network.framing import FrameStream
from ksdp.protocols.network.pem_processes import _connect, _Door, _pass


def test_strangers_are_shown_out_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pem_processes, "_PASS_SECONDS", 0.3)

    async def run() -> None:
        door = _Door()
        port = await door.open()
        quiet = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for said in (b"clients", b"server", b"", b"x" * 60, _pass("servers")):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await FrameStream(reader, writer, 1024).send(said)
            assert await asyncio.wait_for(reader.read(1), 5) == b""
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\xff" * 5000)  # says that it is long
        with pytest.raises((ConnectionError, AssertionError)):
            assert await asyncio.wait_for(reader.read(1), 5) != b""
        mine = await _connect(port, "server")
        assert len(await asyncio.wait_for(door.wait_for("server", 1), 5)) == 1
        assert not door.links["clients"]
        for reader, writer in quiet:
            assert await asyncio.wait_for(reader.read(1), 5) == b""
            writer.close()
        await mine.close()
        await door.close()

    asyncio.run(run())
