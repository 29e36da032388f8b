"""A relay between processes that delays what it carries: network latency without `tc netem`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType


class Relay:
    """Listens at addresses HOST:PORT, and carries each connection to a free port behind it, late both ways.

    Parameters
    ----------
    delay : float
        Seconds, each way; bytes keep their order and their pace.
    """

    def __init__(self, addresses: list[str], delay: float) -> None:
        self._delay, self._addresses = delay, addresses
        self._behind: dict[str, str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Relay:
        self._thread.start()
        for address in self._addresses:
            port = asyncio.run_coroutine_threadsafe(self._open(address), self._loop).result()
            self._behind[address] = f"127.0.0.1:{port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def behind(self, address: str) -> str:
        """Where the one must listen whom others dial at an address."""
        return self._behind[address]

    async def _open(self, address: str) -> int:
        # A port that was free a moment ago, as for the addresses themselves.
        free = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port: int = free.sockets[0].getsockname()[1]
        free.close()

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                inner = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                writer.close()
                return
            await asyncio.gather(self._late(reader, inner[1]), self._late(inner[0], writer))

        host, _, outer = address.rpartition(":")
        await asyncio.start_server(carry, host, int(outer))
        return port

    async def _late(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            with contextlib.suppress(OSError):
                while True:
                    due, data = await waiting.get()
                    await asyncio.sleep(due - self._loop.time())
                    if not data:
                        break
                    writer.write(data)
                    await writer.drain()
            writer.close()

        delivery = self._loop.create_task(deliver())
        data = b"-"
        while data:
            try:
                data = await reader.read(1 << 16)
            except OSError:
                data = b""
            waiting.put_nowait((self._loop.time() + self._delay, data))
        await delivery
