"""Rounds of a run, one node's side: everybody tells every other node one thing, which may be nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.channel.wire import number_of, pack, pack_number, unpack

__all__ = ["Bodies", "Hops", "Round", "Talk", "from_senders"]


class _Sent(Protocol):
    @property
    def sender(self) -> str: ...


Bodies = Mapping[str, bytes]
_Result = TypeVar("_Result")
_Message = TypeVar("_Message", bound=_Sent)


@dataclass(frozen=True)
class Round:
    """What one node says in one round."""

    number: int
    kind: str
    messages: Bodies
    """By receiver; one for every other node."""


Hops = Generator[Round, Bodies, _Result]
"""Some rounds of a run: yields what is to be sent, is sent what arrived."""


class Talk:
    """Numbers the rounds and names them, so that nobody can take one message for another.

    Parameters
    ----------
    name : str
        Of this node.
    others : sequence of str
        All other nodes.
    """

    def __init__(self, name: str, others: Sequence[str]) -> None:
        self.name, self.others = name, tuple(others)
        self._number = 0

    def everybody(self, kind: str, body: bytes) -> Hops[dict[str, bytes]]:
        """Tell all the same, and hear all."""
        return (yield from self.exchange(kind, dict.fromkeys(self.others, body)))

    def exchange(self, kind: str, bodies: Bodies, due: Collection[str] | None = None) -> Hops[dict[str, bytes]]:
        """Tell each its own, nothing where nothing is named.

        Parameters
        ----------
        kind : str
        bodies : mapping from name to bytes
        due : collection of str, optional
            From whom something must come, nothing from anybody else; from everybody anything unless given.

        Returns
        -------
        dict
            What those said that are `due`.

        Raises
        ------
        ProtocolError
            If somebody is at another step, says nothing, or speaks out of turn.
        """
        messages = {peer: self._packed(kind, bodies.get(peer, b"")) for peer in self.others}
        arrived = yield Round(self._number, kind, messages)
        found = {}
        for peer in self.others:
            theirs, number, body = unpack("round", arrived[peer], 3)
            if (theirs, number_of(number)) != (kind.encode(), self._number):
                raise ProtocolError(
                    f"{peer} is at another step: the parties drifted apart, or a message was repeated."
                )
            if due is not None and (peer in due) != bool(body):
                what = "nothing where something is" if peer in due else "something where nothing is"
                raise ProtocolError(f"{peer} said {what} due ({kind}).")
            found[peer] = body
        self._number += 1
        return found if due is None else {peer: found[peer] for peer in self.others if peer in due}

    def tell(self, kind: str, bodies: Bodies) -> Hops[None]:
        """Tell some of the others, in a round in which nobody else says anything."""
        yield from self.exchange(kind, bodies, ())

    def hear(self, kind: str, who: str) -> Hops[bytes]:
        """Hear the one who speaks in this round."""
        return (yield from self.exchange(kind, {}, (who,)))[who]

    def _packed(self, kind: str, body: bytes) -> bytes:
        return pack("round", kind.encode(), pack_number(self._number), body)


def from_senders(arrived: Bodies, read: Callable[[bytes], _Message]) -> list[_Message]:
    """What arrived, if each message names the node that it came from.

    Raises
    ------
    ProtocolError
        If one names another.
    """
    messages = {peer: read(body) for peer, body in arrived.items()}
    for peer, message in messages.items():
        if message.sender != peer:
            raise ProtocolError(f"{peer} sent a message of somebody else.")
    return list(messages.values())
