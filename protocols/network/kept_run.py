"""What a party writes down of a run, so that a process started anew says the very same, and then goes on.

A party's rounds are a function of what it drew (secret bytes, noise) and of what arrived. Both are written down,
and of every round that goes out a hash; the same generator, run again, then makes the same messages. One that it
did not make alike is not sent: a second message under one mask would show the difference of the two.

Before a message leaves, all that it follows from is on the disk. A peer is told that it may forget a message
only when that is on the disk, too, so that it can be asked for it again.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import ProtocolError
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.arrays import pack_array, unpack_array
from ksdp.protocols.channel.rounds import Bodies, Round, Rounds
from ksdp.protocols.channel.wire import name_of, pack, unpack
from ksdp.protocols.network.places import TICKET_BYTES, Ticket

_Result = TypeVar("_Result")
_STARTED, _MET, _DREW, _SENT, _CAME = range(5)
_AGAIN = 3
"""Rounds that a peer may still ask for: it is at most one behind what arrived, and one more is on its way."""


class DivergedError(ProtocolError):
    """What is made again is not what was sent."""


class Log(Protocol):
    """Entries that are added, and survive the process (`ksdp.storage.runs.journal`)."""

    def entries(self) -> Iterator[tuple[int, bytes]]:
        """All that are there, with their kinds, in order."""
        ...

    def add(self, kind: int, body: bytes) -> None:
        """One more."""
        ...

    def sync(self) -> None:
        """Return when all are on the disk."""
        ...

    def remove(self) -> None:
        """Forget everything."""
        ...


class KeptRun:
    """One party's run, written down.

    Parameters
    ----------
    log : Log
        New, or of an earlier process; nobody else writes into it.
    secret : callable
        Source of secret bytes; what it gives is written down.
    """

    def __init__(self, log: Log, secret: RandomBytes = os_random) -> None:
        self._log, self._secret = log, secret
        self.ticket, self.peers, started, self.rounds = b"", dict[str, bytes](), 0, 0
        self.sent = False
        """Whether anything went out."""
        for kind, body in log.entries():
            if kind == _STARTED:
                self.ticket, started = body, started + 1
            elif kind == _MET:
                self.peers = _bodies(body)
            self.rounds += kind == _CAME
            self.sent |= kind == _SENT
        self.ticket = self.ticket or secret(TICKET_BYTES)
        self.attempt = started + 1
        """Processes that had this run, this one with them."""
        self._past = (entry for entry in log.entries() if entry[0] in (_DREW, _SENT, _CAME))
        self._next = next(self._past, None)
        self.said = False
        """Whether the round after those that arrived went out already."""
        log.add(_STARTED, self.ticket)
        log.sync()

    @property
    def place(self) -> Ticket:
        """As it is shown to the peers."""
        return Ticket(self.ticket, self.attempt, dict(self.peers), self.rounds)

    @property
    def name(self) -> str:
        """Of this run, for the party's own files; the same after a restart."""
        return hashlib.sha256(pack("kept-run", self.ticket)).hexdigest()[:16]

    def random_bytes(self, n: int) -> bytes:
        """Secret bytes: those that an earlier process drew here, or new ones."""
        found = self._again(_DREW)
        if found is None:
            found = self._secret(n)
            self._log.add(_DREW, found)
        if len(found) != n:
            raise _diverged()
        return found

    def noise(
        self, source: Callable[[tuple[int, ...], float], NDArray[np.float64]]
    ) -> Callable[[tuple[int, ...], float], NDArray[np.float64]]:
        """A source of noise that gives what an earlier process drew, then new noise."""

        def drawn(shape: tuple[int, ...], deviation: float) -> NDArray[np.float64]:
            found = self._again(_DREW)
            if found is None:
                found = pack_array(source(shape, deviation))
                self._log.add(_DREW, found)
            again = unpack_array(found)
            if again.shape != shape:
                raise _diverged()
            return again

        return drawn

    def met(self, peers: Mapping[str, bytes]) -> None:
        """Write down with which processes' tickets the run began; once."""
        if not self.peers:
            self.peers = dict(peers)
            self._log.add(_MET, _packed(self.peers))

    def replayed(self, step: Round) -> dict[str, bytes] | None:
        """What arrived in a round that went out before this process; None where that is not written down.

        When all that is written down is through, what follows is new.

        Raises
        ------
        DivergedError
            If another message was sent in its place.
        """
        said = self._again(_SENT)
        if said is not None and said != _digest(step):
            raise _diverged()
        self.said = said is not None
        found = self._again(_CAME)
        return None if found is None else _bodies(found)

    def sending(self, step: Round) -> None:
        """Write down what is about to be sent. When this returns it may be, now and at every later start."""
        self._log.add(_SENT, _digest(step))
        self._log.sync()
        self.sent = True

    def came(self, bodies: Bodies) -> None:
        """Write down what arrived; on the disk with the next `sending`, or `sync`."""
        self._log.add(_CAME, _packed(bodies))
        self.rounds += 1

    def sync(self) -> None:
        """Return when all is on the disk."""
        self._log.sync()

    def forget(self) -> None:
        """The run is over, with a result or without: nobody can take it up again."""
        self._log.remove()

    def _again(self, kind: int) -> bytes | None:
        if self._next is None:
            return None
        found, body = self._next
        if found != kind:
            raise _diverged()
        self._next = next(self._past, None)
        return body


@dataclass(frozen=True, eq=False)
class Begun:
    """A run as far as it is: the next round, or the end, and what peers may still ask for."""

    step: Any = None
    """A `Round`, or the result; None before the first round."""
    kept: KeptRun | None = None
    sent: tuple[Round, ...] = ()
    """The last rounds that earlier processes sent."""
    pending: bool = False
    """Whether the last of these is `step`: what arrives in it is not known here."""
    number: int = 0
    """Rounds that earlier processes sent."""


def begin_again(rounds: Rounds[_Result], kept: KeptRun) -> Begun:
    """Make all rounds of which is written down what arrived, and the one after them; send nothing.

    Raises
    ------
    DivergedError
        If a round is not what was sent: the documents changed, or the machine.
    """
    sent: deque[Round] = deque(maxlen=_AGAIN)
    step = step_of(rounds, None)
    while isinstance(step, Round) and (arrived := kept.replayed(step)) is not None:
        sent.append(step)
        step = step_of(rounds, arrived)
    pending = isinstance(step, Round) and kept.said
    if pending:
        sent.append(step)
    return Begun(step, kept, tuple(sent), pending, kept.rounds + pending)


def step_of(rounds: Rounds[Any], arrived: Bodies | None) -> Any:
    """The next round, or the result (no thread may let a `StopIteration` out)."""
    try:
        return next(rounds) if arrived is None else rounds.send(arrived)
    except StopIteration as stop:
        return stop.value


def _diverged() -> DivergedError:
    return DivergedError(
        "What is computed now is not what this party sent before it was restarted: the documents changed, or "
        "the machine or its libraries. Nothing was sent. Start with the same files on the same machine, or remove "
        "`journal` from the folder of the result to give the run up."
    )


def _digest(step: Round) -> bytes:
    return hashlib.sha256(pack("sent", step.kind.encode(), _packed(step.messages))).digest()


def _packed(bodies: Mapping[str, bytes]) -> bytes:
    return pack("bodies", *(field for name, body in sorted(bodies.items()) for field in (name.encode(), body)))


def _bodies(data: bytes) -> dict[str, bytes]:
    fields = unpack("bodies", data)
    return dict(zip(map(name_of, fields[::2]), fields[1::2], strict=True))
