"""The round engine: every node sends every other node one message, possibly empty, and waits for theirs.

A protocol is a generator. It yields a `Round` (what it sends), is sent what arrived, by sender, and returns its
result. It knows no sockets: `ksdp.protocols.network` carries rounds among hosts, `run_together` within one
process. Any fault ends the run, and a generator that has ended cannot be asked again.

Rounds carry no signature. Whoever moves them must bring them unchanged, in order, and from the node that they name
(an authenticated channel). They may leave out a node that is lost, where the run goes on without it: it counts no
more from then on.

State machines have steps in order, each taken once; a fault ends one, and its secrets are forgotten.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.numeric.lockstep import lockstep
from ksdp.protocols.channel.wire import number_of, pack, pack_number, unpack


class _Sent(Protocol):
    """A message that says who sent it."""

    @property
    def sender(self) -> str:
        """Name of the node."""


_Message = TypeVar("_Message", bound=_Sent)


class Machine(ABC):
    """Steps that follow each other; a fault in one ends the machine, and its secrets are forgotten.

    Not a frozen value: whoever could go back to an earlier step could be asked twice.

    Parameters
    ----------
    first : str
        The step that is due first.
    """

    def __init__(self, first: str) -> None:
        self._due = first

    @property
    def due(self) -> str:
        """The step that may be called now; `done` or `ended` if none."""
        return self._due

    @contextmanager
    def _step(self, name: str, then: str) -> Iterator[None]:
        """Run a step if it is due; it may say what follows. Refused input changes nothing; faults end all."""
        if self._due == "ended":
            raise ProtocolError("This run has ended with an error: start a new session.")
        if self._due == "done":
            raise ProtocolError("This run is done: nobody may be asked twice.")
        if self._due != name:
            raise ProtocolError(f"`{self._due}` is due, not `{name}`.")
        try:
            yield
        except InputError:
            raise
        except BaseException:
            self._due = "ended"
            self._forget()
            raise
        if self._due == name:
            self._due = then

    @abstractmethod
    def _forget(self) -> None:
        """Drop all secrets."""


def one_each(messages: Iterable[_Message], allowed: Container[str], what: str) -> dict[str, _Message]:
    """Messages by sender, sorted; at most one each, from nobody but `allowed`."""
    by_sender: dict[str, _Message] = {}
    for message in messages:
        if message.sender not in allowed:
            raise ProtocolError(f"A {what} arrived from a party that was not expected to send one.")
        if message.sender in by_sender:
            raise ProtocolError(f"{message.sender} sent its {what} twice.")
        by_sender[message.sender] = message
    return dict(sorted(by_sender.items()))


Bodies = Mapping[str, bytes]
_Result = TypeVar("_Result")
_Read = TypeVar("_Read")


def read_from(peer: str, read: Callable[[bytes], _Read], body: bytes) -> _Read:
    """Read the message of a peer; `ProtocolError` with its name if it cannot be read."""
    try:
        return read(body)
    except ProtocolError as error:
        raise ProtocolError(f"{peer}: {error}") from None


def agreed(said: Mapping[str, _Read], what: str, same: Callable[[_Read, _Read], bool] = operator.eq) -> _Read:
    """Return the value that all state, as the first by name states it."""
    sides: list[list[str]] = []
    for name in sorted(said):
        side = next((side for side in sides if same(said[side[0]], said[name])), None)
        if side is None:
            sides.append(side := [])
        side.append(name)
    if len(sides) > 1:
        against = " against ".join(", ".join(side) for side in sorted(sides, key=len))
        raise ProtocolError(f"The parties {what}: {against}.")
    return said[sides[0][0]]


@dataclass(frozen=True)
class Round:
    """Messages of one node in one round."""

    number: int
    kind: str
    messages: Bodies
    """By receiver; one for every other node."""
    may_leave: bool = False
    """Whether the run goes on without those who are gone."""


Rounds = Generator[Round, Bodies, _Result]
"""Some rounds of one node: yields what is to be sent, is sent what arrived."""


class RoundEngine:
    """One node's rounds: numbered and named, so that no message is taken for another.

    Parameters
    ----------
    name : str
        Of this node.
    others : sequence of str
        All other nodes.
    """

    def __init__(self, name: str, others: Sequence[str]) -> None:
        self.name, self.others = name, tuple(others)
        """`others`: all other nodes that are still there."""
        self._number, self.may_leave = 0, False
        """`may_leave`: whether the rest of the run goes on without those who are gone."""

    def everybody(self, kind: str, body: bytes) -> Rounds[dict[str, bytes]]:
        """Tell all the same, and hear all."""
        return (yield from self.exchange(kind, dict.fromkeys(self.others, body)))

    def exchange(self, kind: str, bodies: Bodies, due: Collection[str] | None = None) -> Rounds[dict[str, bytes]]:
        """Tell each its own, nothing where nothing is named."""
        head = kind.encode(), pack_number(self._number)
        messages = {peer: pack("round", *head, bodies.get(peer, b"")) for peer in self.others}
        arrived = yield Round(self._number, kind, messages, self.may_leave)
        self.others = tuple(peer for peer in self.others if peer in arrived)
        taken = {}
        for peer in self.others:
            theirs, number, body = read_from(peer, partial(unpack, "round", count=3), arrived[peer])
            if (theirs, number_of(number)) != (kind.encode(), self._number):
                raise ProtocolError(
                    f"{peer} is at another step: the parties are out of step, or a message was repeated."
                )
            if due is not None and (peer in due) != bool(body):
                what = "nothing where something is" if peer in due else "something where nothing is"
                raise ProtocolError(f"{peer} said {what} due ({kind}).")
            taken[peer] = body
        self._number += 1
        return taken if due is None else {peer: taken[peer] for peer in self.others if peer in due}

    def tell(self, kind: str, bodies: Bodies) -> Rounds[None]:
        """Tell some of the others, in a round in which nobody else says anything."""
        yield from self.exchange(kind, bodies, ())

    def hear(self, kind: str, who: str) -> Rounds[bytes]:
        """Hear the one who speaks in this round."""
        return (yield from self.exchange(kind, {}, (who,)))[who]


def from_senders(arrived: Bodies, read: Callable[[bytes], _Message]) -> list[_Message]:
    """Return the arrived messages, if each names the node that it came from."""
    messages = {peer: read_from(peer, read, body) for peer, body in arrived.items()}
    for peer, message in messages.items():
        if message.sender != peer:
            raise ProtocolError(f"{peer} sent a message of another party.")
    return list(messages.values())


def play_together(
    nodes: Mapping[str, Rounds[_Result]], watch: Callable[[Mapping[str, Round]], None]
) -> dict[str, _Result]:
    """Run all nodes in this process and carry their messages."""
    results = list[_Result]()
    rounds = {name: next(node) for name, node in nodes.items()}
    while rounds:
        watch(rounds)
        arrived = (
            {sender: each.messages[name] for sender, each in rounds.items() if sender != name} for name in nodes
        )
        following, results = lockstep(nodes.values(), arrived)
        rounds = dict(zip(nodes, following, strict=bool(following)))
    return dict(zip(nodes, results, strict=True))


def run_together(nodes: Mapping[str, Rounds[_Result]]) -> tuple[dict[str, _Result], list[tuple[str, Round]]]:
    """The results of `play_together`, and all that was sent: what somebody sees who reads every message."""
    sent: list[tuple[str, Round]] = []
    results = play_together(nodes, lambda rounds: sent.extend(rounds.items()))
    return results, sent
