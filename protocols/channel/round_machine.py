"""Rounds without sockets: everybody sends everybody one message, waits for all of theirs, goes on.

A protocol is written as a generator (`Script`): it yields what it sends in a round and how long the answers must
be, receives the answers, and returns its result. `RoundMachine` does the rest. A message that is early by
one round waits; everything else that does not fit is refused and ends the run.

Messages carry no signature. Whoever moves them must bring them unchanged from the party that they name (an
authenticated channel). Secrecy is not needed for the inputs; who listens learns the result.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from ksdp.audit.errors import ProtocolError

__all__ = ["Exchange", "RoundMachine", "RoundMessage", "Script"]

Result = TypeVar("Result")
_HEADER = struct.Struct("<4s32sHHI")
_MAGIC = b"KNS1"
SESSION_BYTES = 32


@dataclass(frozen=True)
class RoundMessage:
    """What one party tells another in one round."""

    session: bytes
    """32 bytes."""
    sender: int
    receiver: int
    round: int
    payload: bytes

    def to_bytes(self) -> bytes:
        """As it travels: 44 bytes of header and the payload."""
        return _HEADER.pack(_MAGIC, self.session, self.sender, self.receiver, self.round) + self.payload

    @classmethod
    def from_bytes(cls, data: bytes) -> RoundMessage:
        """What `to_bytes` wrote.

        Raises
        ------
        ProtocolError
            If the header is not one.
        """
        if len(data) < _HEADER.size or data[:4] != _MAGIC:
            raise ProtocolError("A message of a normed sum was expected; this is none.")
        _, session, sender, receiver, number = _HEADER.unpack_from(data)
        return cls(session, sender, receiver, number, data[_HEADER.size :])


@dataclass(frozen=True)
class Exchange:
    """One round of one party."""

    payloads: Mapping[int, bytes]
    """Receiver to payload; may be empty bytes, is never left out."""
    expected: Mapping[int, int]
    """Sender to the exact number of bytes due from it."""

    @classmethod
    def broadcast(cls, payload: bytes, party: int, parties: int) -> Exchange:
        """The same to all, and as much from all."""
        others = [peer for peer in range(parties) if peer != party]
        return cls(dict.fromkeys(others, payload), dict.fromkeys(others, len(payload)))


Script = Generator[Exchange, dict[int, bytes], Result]
"""Yields exchanges, is sent sender-to-payload, returns the result."""


class RoundMachine(Generic[Result]):
    """Runs a script: `start` once, then `receive` for every message; both return what is to be sent.

    Not a frozen value: whoever could go back to an earlier round could be asked twice. Any `ProtocolError` ends
    it.

    Parameters
    ----------
    session : bytes
        32 bytes; messages of other sessions are refused.
    party, parties : int
        Which party this is, from 0, and how many there are.
    script : generator
        The protocol.
    largest : int
        No payload may have more bytes, not even one that is early.
    """

    def __init__(self, session: bytes, party: int, parties: int, script: Script[Result], *, largest: int) -> None:
        self._session, self._party, self._parties = session, party, parties
        self._script: Script[Result] | None = script
        self._largest = largest
        self._round = -1
        self._expected: Mapping[int, int] = {}
        self._arrived: dict[int, dict[int, bytes]] = {}
        self._result: Result | None = None
        self.sent_bytes = 0
        """Payloads and headers, to all peers together."""
        self.received_bytes = 0

    @property
    def party(self) -> int:
        """Which party this is."""
        return self._party

    @property
    def rounds(self) -> int:
        """Rounds begun."""
        return self._round + 1

    @property
    def done(self) -> bool:
        """Whether there is a result."""
        return self._result is not None

    @property
    def result(self) -> Result:
        """What the script returned.

        Raises
        ------
        ProtocolError
            If it has not, or was ended.
        """
        if self._result is None:
            raise ProtocolError("This run has no result" + (" yet." if self._script else ": it was ended."))
        return self._result

    def start(self) -> tuple[RoundMessage, ...]:
        """The messages of the first round."""
        if self._round >= 0:
            raise ProtocolError("This run has been started before.")
        return self._advance(None)

    def receive(self, message: RoundMessage) -> tuple[RoundMessage, ...]:
        """Take one message in.

        Returns
        -------
        tuple of RoundMessage
            Those of the next round or rounds, if this one was the last that was missing.

        Raises
        ------
        ProtocolError
            If it is from another session, for somebody else, from no peer, of a round that is over or far ahead,
            the second of its kind, or not of the length that is due.
        """
        self._check(message)
        self._arrived.setdefault(message.round, {})[message.sender] = message.payload
        self.received_bytes += _HEADER.size + len(message.payload)
        sent: tuple[RoundMessage, ...] = ()
        while self._script and len(self._arrived.get(self._round, ())) == self._parties - 1:
            arrived = self._arrived.pop(self._round)
            for sender, payload in arrived.items():
                if len(payload) != self._expected[sender]:
                    self._refuse(f"Party {sender} sent {len(payload)} bytes; {self._expected[sender]} are due.")
            sent += self._advance(arrived)
        return sent

    def _check(self, message: RoundMessage) -> None:
        if self._script is None or self._round < 0:
            raise ProtocolError("No message is due: this run has not begun, or is over.")
        if message.session != self._session:
            self._refuse("A message belongs to another session, or to other terms.")
        if message.receiver != self._party:
            self._refuse(f"A message for party {message.receiver} came to party {self._party}.")
        if message.sender == self._party or not 0 <= message.sender < self._parties:
            self._refuse("A message came from somebody from whom none is due.")
        if not self._round <= message.round <= self._round + 1:
            self._refuse(f"Party {message.sender} sent round {message.round}; round {self._round} is due.")
        if message.sender in self._arrived.get(message.round, {}):
            self._refuse(f"Party {message.sender} sent round {message.round} twice.")
        due = self._expected[message.sender] if message.round == self._round else self._largest
        if len(message.payload) > due:
            self._refuse(f"Party {message.sender} sent {len(message.payload)} bytes; at most {due} are due.")
        if message.round == self._round and len(message.payload) < due:
            self._refuse(f"Party {message.sender} sent {len(message.payload)} bytes; {due} are due.")

    def _refuse(self, reason: str) -> None:
        self._end()
        raise ProtocolError(reason)

    def _end(self) -> None:
        if self._script is not None:
            self._script.close()
        self._script = None
        self._arrived.clear()

    def _advance(self, arrived: dict[int, bytes] | None) -> tuple[RoundMessage, ...]:
        assert self._script is not None
        try:
            exchange = next(self._script) if arrived is None else self._script.send(arrived)
        except StopIteration as stop:
            self._result = stop.value
            self._end()
            return ()
        except BaseException:
            self._end()
            raise
        self._round += 1
        self._expected = exchange.expected
        sent = tuple(
            RoundMessage(self._session, self._party, peer, self._round, payload)
            for peer, payload in exchange.payloads.items()
        )
        self.sent_bytes += sum(_HEADER.size + len(message.payload) for message in sent)
        return sent
