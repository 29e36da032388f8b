"""Generators that take their steps together: parties of a protocol, scripts of a node, nodes of a process."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TypeVar

from ksdp.audit.errors import ProtocolError

_Yielded = TypeVar("_Yielded")
_Sent = TypeVar("_Sent")
_Result = TypeVar("_Result")


def lockstep(
    generators: Iterable[Generator[_Yielded, _Sent, _Result]], sent: Iterable[_Sent]
) -> tuple[list[_Yielded], list[_Result]]:
    """Send each generator what is meant for it: what all of them yield next, or what all of them return."""
    yielded, results = list[_Yielded](), list[_Result]()
    for generator, each in zip(generators, sent, strict=True):
        try:
            yielded.append(generator.send(each))
        except StopIteration as stop:
            results.append(stop.value)
    if yielded and results:
        raise ProtocolError("Some parties are done, others are not: they are out of step.")
    return yielded, results
