"""What PEM's hosts have in common: named messages over the mesh, a start, and an end that all hear of."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemState
from ksdp.audit.randomness import os_random
from ksdp.protocols.channel.keys import Envelope
from ksdp.protocols.channel.wire import pack, unpack
from ksdp.protocols.network.links import LinkError
from ksdp.protocols.network.mesh import Mesh
from ksdp.protocols.network.mesh_run import Note, joined
from ksdp.protocols.pem.rolls import NONCE_BYTES, PemNodes, make_roll, meet
from ksdp.protocols.pem.terms import PemTerms

LARGEST = 1 << 30
"""Bytes of the longest message that is taken."""
BATCH_BYTES = 4 << 20
"""Of clients' messages, before the next batch begins."""


@dataclass(frozen=True, eq=False)
class PemOutcome:
    """The end of a run at one host."""

    session: str
    """64 hex digits; the same at every host."""
    state: PemState
    """The last one."""
    digest: str
    """SHA-256 of it as it was announced."""
    clients: int
    """Of all hosts, at the start."""
    here: int = 0
    """This holder's clients that all servers had at the end."""
    rows: tuple[int, ...] = ()
    """Records that took part, iteration by iteration; the aggregator knows it."""
    present: tuple[str, ...] = ()
    """Clients that were there at the end; the aggregator knows it."""
    refused: int = 0
    """Uploads that this server did not take."""
    sampler: str = ""
    """What drew this server's noise."""
    lost: tuple[str, ...] = ()
    """Hosts that did not come, or were lost."""


class PemMessages:
    """This host's messages: each says what it is, and is noted.

    Parameters
    ----------
    note : callable
        Told of every event; kinds, names and sizes.
    """

    def __init__(self, mesh: Mesh, note: Note) -> None:
        self.mesh, self.note = mesh, note
        self.round = 0
        """Number of what is said now, for the transcript."""

    def here(self, names: Iterable[str]) -> list[str]:
        """Those of them who have not failed."""
        return [name for name in names if not self.mesh.links[name].failed.done()]

    async def tell(self, peer: str, kind: str, body: bytes) -> None:
        """Say one thing."""
        message = pack("pem-said", kind.encode(), body)
        self.note(what="sent", kind=kind, round=self.round, peer=peer, bytes=len(message))
        await self.mesh.links[peer].send(message)

    async def tell_those_here(self, peers: Iterable[str], kind: str, body: bytes) -> None:
        """Say it to all who have not failed; who fails now is left out from here on."""

        async def one(peer: str) -> None:
            with contextlib.suppress(LinkError):
                await self.tell(peer, kind, body)

        await asyncio.gather(*map(one, self.here(peers)))

    async def hear(self, peer: str, kind: str) -> bytes:
        """Hear one thing.

        Raises
        ------
        LinkError
            If the peer is gone.
        ProtocolError
            If it says something else.
        """
        message = await self.mesh.links[peer].receive()
        self.note(what="received", kind=kind, round=self.round, peer=peer, bytes=len(message))
        said, body = unpack("pem-said", message, 2)
        if said != kind.encode():
            raise ProtocolError(f"{peer} is at another step: {kind} is due.")
        return body

    async def hear_all(self, peers: Sequence[str], kind: str) -> dict[str, bytes]:
        """Hear one thing of each."""
        tasks = [asyncio.create_task(self.hear(peer, kind)) for peer in peers]
        try:
            return dict(zip(peers, await asyncio.gather(*tasks), strict=True))
        finally:
            for task in tasks:
                task.cancel()


@contextlib.asynccontextmanager
async def joined_messages(
    mesh: Mesh, note: Note, *, present: float, optional: frozenset[str]
) -> AsyncIterator[PemMessages]:
    """Join, exchange messages, part (`joined`)."""
    async with joined(mesh, note, present, optional):
        yield PemMessages(mesh, note)


async def agree(
    messages: PemMessages, nodes: PemNodes, name: str, key: Ed25519PrivateKey, clients: dict[str, bytes]
) -> PemTerms:
    """Send this host's roll and hear everybody's; the aggregator collects them.

    Raises
    ------
    ProtocolError
        If anybody means something else (`meet`).
    """
    own = make_roll(nodes, name, key, os_random(NONCE_BYTES), clients)
    hub = nodes.aggregator.name
    if name != hub:
        await messages.tell(hub, "roll", own.to_bytes())
        return meet(nodes, name, own, envelopes(await messages.hear(hub, "rolls")))
    rolls = [own]
    for peer in messages.here(sorted(messages.mesh.links)):
        try:
            rolls.append(Envelope.from_bytes(await messages.hear(peer, "roll")))
        except LinkError:
            if peer not in {p.name for p in nodes.holders}:
                raise
    terms = meet(nodes, name, own, rolls)
    await messages.tell_those_here(messages.mesh.links, "rolls", pack("envelopes", *(r.to_bytes() for r in rolls)))
    return terms


def envelopes(body: bytes) -> list[Envelope]:
    """Those that one message holds."""
    return [Envelope.from_bytes(each) for each in unpack("envelopes", body)]
