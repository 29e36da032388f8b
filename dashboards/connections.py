"""Connections that do not get on: a request must be there in some seconds, and there is room for so many."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class PatientProtocol(H11Protocol):
    """Uvicorn's protocol, with an end to its patience.

    A connection that has sent no whole head of a request in `head_seconds` is closed, and so is one more than
    `most`. How long a body may take is the gate's to say.
    """

    head_seconds = 10.0
    most = 256
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client has connected."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._begin()

    def data_received(self, data: bytes) -> None:
        """Something of a request."""
        if self._deadline is None and self._idle:
            self._begin()
        super().data_received(data)
        if not self._idle:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop()
        super().connection_lost(exc)

    @property
    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _begin(self) -> None:
        self._deadline = self.loop.call_later(self.head_seconds, self._late)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        if self._idle:
            self.transport.abort()
