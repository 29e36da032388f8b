"""One party of a run: the rounds of the protocol over the mesh of connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.rounds import Round, Rounds
from ksdp.protocols.network.links import LinkError
from ksdp.protocols.network.mesh import Mesh
from ksdp.protocols.runs.handshake import Outcome
from ksdp.protocols.runs.run_terms import DifferentTerms

__all__ = ["Note", "joined", "run_over_mesh"]

Note = Callable[..., None]
"""Told of every event by keyword: kinds, names, sizes, never a value."""
_PARTING = 5.0
"""Seconds to wait for the others' goodbye; they have all they need by then, unless a connection broke."""


async def run_over_mesh(rounds: Rounds[Outcome], mesh: Mesh, *, present: float, note: Note) -> Outcome:
    """Wait for the others, run, part.

    Parameters
    ----------
    rounds : Rounds
        The protocol.
    mesh : Mesh
        Open.
    present : float
        Seconds to wait for the others.

    Raises
    ------
    ProtocolError
        If anybody disappears, deviates or ends the run; the others are told, and nobody has a result.
    InputError
        If this party's own input is refused on the way; the others are told that much.
    """
    async with joined(mesh, note, present):
        try:
            step = await asyncio.to_thread(_advance, rounds, None)
            while isinstance(step, Round):
                spoken = step
                for peer, message in sorted(spoken.messages.items()):
                    note(what="sent", kind=spoken.kind, round=spoken.number, peer=peer, bytes=len(message))
                arrived = await mesh.exchange(spoken.messages)
                for peer, message in sorted(arrived.items()):
                    note(what="received", kind=spoken.kind, round=spoken.number, peer=peer, bytes=len(message))
                step = await asyncio.to_thread(_advance, rounds, arrived)
        except BaseException:
            with contextlib.suppress(ValueError):  # a step may still be running in its thread
                rounds.close()
            raise
    return step


@contextlib.asynccontextmanager
async def joined(
    mesh: Mesh, note: Note, present: float, optional: frozenset[str] = frozenset()
) -> AsyncIterator[None]:
    """Wait for the others, go on, part; where it ends badly the others hear that.

    Parameters
    ----------
    present : float
        Seconds to wait for the others.
    optional : frozenset of str
        Peers without whom it goes on.
    """
    note(what="waiting", peers=sorted(mesh.links))
    await mesh.join(present, optional)
    note(what="all present")
    try:
        yield
    except BaseException as error:
        await mesh.abort(*_told(error))
        raise
    await mesh.finish(_PARTING)


def _advance(rounds: Rounds[Outcome], arrived: Any) -> Round | Outcome:
    """The next round, or the end (no thread may let a `StopIteration` out)."""
    try:
        return next(rounds) if arrived is None else rounds.send(arrived)
    except StopIteration as stop:
        outcome: Outcome = stop.value
        return outcome


def _told(error: BaseException) -> tuple[str, str]:
    """What the others are told: a word of a fixed list, and whom it is about."""
    if isinstance(error, LinkError):
        return error.word, error.peer
    if isinstance(error, DifferentTerms):
        return "terms", ""
    if isinstance(error, ProtocolError):
        return "fault", ""
    return ("refused" if isinstance(error, InputError) else "stopped"), ""
