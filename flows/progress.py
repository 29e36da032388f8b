"""Who is told how far an audit is. The command line listens on the terminal; nobody has to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from ksdp.flows.interruption import check_stopped


class Listener(Protocol):
    """Hears of stages and of units done."""

    def stage(self, name: str, total: int) -> None:
        """A stage begins; `total` units are to be done."""
        ...

    def advance(self, units: int) -> None:
        """Units of the present stage are done."""
        ...

    def say(self, text: str) -> None:
        """Something a person wants to know."""
        ...


Heard = TypeVar("Heard", bound=Listener)


class _Nobody:
    def stage(self, name: str, total: int) -> None:
        pass

    def advance(self, units: int) -> None:
        pass

    def say(self, text: str) -> None:
        pass


_listener: ContextVar[Listener] = ContextVar("ksdp-listener", default=_Nobody())  # noqa: B039 - it holds no state


def current() -> Listener:
    """The listener of this context."""
    return _listener.get()


def advance(units: int) -> None:
    """Count units of the current stage as done; a run that was asked to stop stops here."""
    check_stopped()
    current().advance(units)


@contextmanager
def listening(listener: Heard) -> Iterator[Heard]:
    """Let `listener` hear what happens inside."""
    token = _listener.set(listener)
    try:
        yield listener
    finally:
        _listener.reset(token)
