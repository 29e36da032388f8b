"""One party of a run: the rounds of the protocol over the mesh of connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.rounds import Round, Rounds
from ksdp.protocols.network.kept_run import Begun, KeptRun, step_of
from ksdp.protocols.network.mesh import Mesh
from ksdp.protocols.network.places import LinkError
from ksdp.protocols.runs.handshake import RunOutcome
from ksdp.protocols.runs.run_terms import DifferentTerms

Note = Callable[..., None]
"""Told of every event by keyword: kinds, names, sizes, never a value."""
_PARTING = 5.0
"""Seconds to wait for the others' goodbye; they have all they need by then, unless a connection broke."""
_NONE: frozenset[str] = frozenset()
_NEW = Begun()


async def run_over_mesh(
    rounds: Rounds[RunOutcome], mesh: Mesh, *, present: float, note: Note, begun: Begun = _NEW
) -> RunOutcome:
    """Wait for the others, run, part.

    Parameters
    ----------
    rounds : Rounds
        The protocol.
    mesh : Mesh
        Open; it goes on with `begun`.
    begun : Begun
        How far the run is, where it is written down.
    present : float
        Seconds to wait for the others.

    Raises
    ------
    ProtocolError
        If anybody disappears, deviates or ends the run; the others are told, and nobody has a result.
    InputError
        If this party's own input is refused on the way; the others are told that much.
    """
    kept, step, waits = begun.kept, begun.step, begun.pending
    parting = _PARTING if kept is None else max(_PARTING, mesh.times.reconnect)
    # Who has all that arrived needs nobody any more: the others may, or may be gone.
    over = step is not None and not isinstance(step, Round)
    present, optional = (parting, frozenset(mesh.links)) if over else (present, _NONE)
    async with joined(mesh, note, present, optional, parting):
        try:
            if kept is not None:
                kept.met({name: link.peer_ticket for name, link in mesh.links.items()})
            if step is None:
                step = await asyncio.to_thread(step_of, rounds, None)
            while isinstance(step, Round):
                if not waits:
                    await _spoken(step, mesh, kept, note)
                arrived = await (mesh.hear(step.messages) if waits else mesh.exchange(step.messages))
                waits = False
                for peer, message in sorted(arrived.items()):
                    note(what="received", kind=step.kind, round=step.number, peer=peer, bytes=len(message))
                if kept is not None:
                    await asyncio.to_thread(kept.came, arrived)
                step = await asyncio.to_thread(step_of, rounds, arrived)
            if kept is not None:
                await _stored(mesh, kept)
        except BaseException:
            with contextlib.suppress(ValueError):  # a step may still be running in its thread
                rounds.close()
            if kept is not None:
                kept.forget()
            raise
    outcome: RunOutcome = step
    return outcome


async def _spoken(step: Round, mesh: Mesh, kept: KeptRun | None, note: Note) -> None:
    """Note what is about to be sent; where it is written down, return when it is."""
    for peer, message in sorted(step.messages.items()):
        note(what="sent", kind=step.kind, round=step.number, peer=peer, bytes=len(message))
    if kept is not None:
        await asyncio.to_thread(kept.sending, step)
        await _stored(mesh, kept)


async def _stored(mesh: Mesh, kept: KeptRun) -> None:
    await asyncio.to_thread(kept.sync)
    for link in mesh.links.values():
        link.store(kept.rounds)


@contextlib.asynccontextmanager
async def joined(
    mesh: Mesh, note: Note, present: float, optional: frozenset[str] = _NONE, parting: float = _PARTING
) -> AsyncIterator[None]:
    """Wait for the others, go on, part; where it ends badly the others hear that.

    Parameters
    ----------
    present : float
        Seconds to wait for the others.
    optional : frozenset of str
        Peers without whom it goes on.
    parting : float
        Seconds to wait for the others' goodbye.
    """
    note(what="waiting", peers=sorted(mesh.links))
    await mesh.join(present, optional)
    note(what="all present")
    try:
        yield
    except BaseException as error:
        await mesh.abort(*_told(error))
        raise
    await mesh.finish(parting)


def _told(error: BaseException) -> tuple[str, str]:
    """What the others are told: a word of a fixed list, and whom it is about."""
    if isinstance(error, LinkError):
        return error.word, error.peer
    if isinstance(error, DifferentTerms):
        return "terms", ""
    if isinstance(error, ProtocolError):
        return "fault", ""
    return ("refused" if isinstance(error, InputError) else "stopped"), ""
