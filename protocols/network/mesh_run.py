"""One party of a run: the rounds of the protocol over the mesh of connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.rounds import Bodies, Round, Rounds
from ksdp.protocols.network.links import LinkError
from ksdp.protocols.network.mesh import Mesh
from ksdp.protocols.runs.handshake import RunOutcome
from ksdp.protocols.runs.run_terms import DifferentTerms

Note = Callable[..., None]
"""Told of every event by keyword: kinds, names, sizes, never a value."""
_PARTING = 5.0
"""Seconds to wait for the others' goodbye; they have all they need by then, unless a connection broke."""
_NONE: frozenset[str] = frozenset()


async def run_over_mesh(rounds: Rounds[RunOutcome], mesh: Mesh, *, present: float, note: Note) -> RunOutcome:
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
            step = await asyncio.to_thread(_step_of, rounds, None)
            while isinstance(step, Round):
                for peer, message in sorted(step.messages.items()):
                    note(what="sent", kind=step.kind, round=step.number, peer=peer, bytes=len(message))
                arrived = await mesh.exchange(step.messages)
                for peer, message in sorted(arrived.items()):
                    note(what="received", kind=step.kind, round=step.number, peer=peer, bytes=len(message))
                step = await asyncio.to_thread(_step_of, rounds, arrived)
        except BaseException:
            with contextlib.suppress(ValueError):  # a step may still be running in its thread
                rounds.close()
            raise
    outcome: RunOutcome = step
    return outcome


def _step_of(rounds: Rounds[Any], arrived: Bodies | None) -> Any:
    """The next round, or the result (no thread may let a `StopIteration` out)."""
    try:
        return next(rounds) if arrived is None else rounds.send(arrived)
    except StopIteration as stop:
        return stop.value


@contextlib.asynccontextmanager
async def joined(mesh: Mesh, note: Note, present: float, optional: frozenset[str] = _NONE) -> AsyncIterator[None]:
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


def _told(error: BaseException) -> tuple[str, str]:
    """What the others are told: a word of a fixed list, and whom it is about."""
    if isinstance(error, LinkError):
        return error.word, error.peer
    if isinstance(error, DifferentTerms):
        return "terms", ""
    if isinstance(error, ProtocolError):
        return "fault", ""
    return ("refused" if isinstance(error, InputError) else "stopped"), ""
