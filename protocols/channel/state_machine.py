"""What all protocol state machines share: steps in order, each taken once; secrets are wiped at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from ksdp.audit.errors import InputError, ProtocolError


class Sent(Protocol):
    """A message that says who sent it."""

    @property
    def sender(self) -> str:
        """Name of the node."""
        ...


_Message = TypeVar("_Message", bound=Sent)


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
        """Run a step if it is due. Input that is refused changes nothing; any other fault ends the machine."""
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
        self._due = then

    @abstractmethod
    def _forget(self) -> None:
        """Drop all secrets."""


def one_each(messages: Iterable[_Message], allowed: Container[str], what: str) -> dict[str, _Message]:
    """Messages by sender, sorted; at most one each, from nobody but `allowed`.

    Raises
    ------
    ProtocolError
        If a sender is a stranger or sent two.
    """
    by_sender: dict[str, _Message] = {}
    for message in messages:
        if message.sender not in allowed:
            raise ProtocolError(f"A {what} arrived from a party that was not expected to send one.")
        if message.sender in by_sender:
            raise ProtocolError(f"{message.sender} sent its {what} twice.")
        by_sender[message.sender] = message
    return dict(sorted(by_sender.items()))
