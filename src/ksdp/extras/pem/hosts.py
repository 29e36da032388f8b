"""PEM between hosts over the mesh of pinned keys: a server, the aggregator, a host that holds clients."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState
from ksdp.audit.mechanisms.pem.noise import Budget, Vetted, tight_epsilon
from ksdp.audit.randomness import os_random
from ksdp.extras.pem.messages import (
    NONCE_BYTES,
    PemNodes,
    PemTerms,
    PemUpload,
    client_name,
    is_of,
    make_roll,
    meet,
    unpack_state,
)
from ksdp.extras.pem.parties import PemAggregator, PemClient, PemServer
from ksdp.protocols.channel.keys import Envelope
from ksdp.protocols.channel.wire import number_of, pack, pack_number, unpack
from ksdp.protocols.network.links import LinkError
from ksdp.protocols.network.mesh import Mesh, Note, joined

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


_DELTA = 1e-5


def promise(servers: int) -> str:
    """What holds for a record, against whom."""
    return (
        "one record replaced by any other; how many each client has is public; trust: the aggregator, the other "
        f"clients and all but one of the {servers} servers together; everybody keeps to the protocol"
    )


def cost_of(budget: Budget, iterations: int, servers: int) -> dict[str, Any]:
    """What so many iterations of a run cost a record, for `run.json`."""
    return {
        "iterations": iterations,
        "planned_iterations": budget.iterations,
        "claimed": {"epsilon": budget.spent(iterations), "delta": 0.0},
        "tight": {"epsilon": tight_epsilon(budget, _DELTA, iterations), "delta": _DELTA},
        "promise": promise(servers),
    }


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
        """Number of what is said now: no message is taken for one of another."""
        self.sent = 0
        """Bytes of all that this host said."""

    def here(self, names: Iterable[str]) -> list[str]:
        """Those of them who have not failed."""
        return [name for name in names if not self.mesh.links[name].failed.done()]

    async def tell(self, peer: str, kind: str, body: bytes) -> None:
        """Say one thing."""
        message = pack("pem-said", kind.encode(), pack_number(self.round), body)
        self.note(what="sent", kind=kind, round=self.round, peer=peer, bytes=len(message))
        self.sent += len(message)
        await self.mesh.links[peer].send(message)

    async def tell_those_here(self, peers: Iterable[str], kind: str, body: bytes) -> None:
        """Say it to all who have not failed; who fails now is left out from here on."""

        async def one(peer: str) -> None:
            with contextlib.suppress(LinkError):
                await self.tell(peer, kind, body)

        await asyncio.gather(*map(one, self.here(peers)))

    async def hear(self, peer: str, kind: str) -> bytes:
        """Hear one thing."""
        message = await self.mesh.links[peer].receive()
        self.note(what="received", kind=kind, round=self.round, peer=peer, bytes=len(message))
        said, number, body = unpack("pem-said", message, 3)
        if (said, number_of(number)) != (kind.encode(), self.round):
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
    messages: PemMessages, nodes: PemNodes, name: str, key: Ed25519PrivateKey, clients: Iterable[str] = ()
) -> PemTerms:
    """Send this host's roll and hear everybody's; the aggregator collects them."""
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


async def play(
    messages: PemMessages,
    nodes: PemNodes,
    name: str,
    key: Ed25519PrivateKey,
    algorithm: PemAlgorithm | None,
    records: Mapping[str, sp.csr_array],
    patience: float,
) -> PemOutcome:
    """Take part as what the terms say that this host is.

    Parameters
    ----------
    algorithm : PemAlgorithm or None
        The functions; a server needs none.
    records : mapping
        Of a holder's clients, as the host calls them.
    patience : float
        Seconds that a server gives a holder's uploads; who is later is out.
    """
    role = nodes.role(name)
    if role == "server":
        return await _serve(messages, await agree(messages, nodes, name, key), patience)
    assert algorithm is not None
    if role == "aggregator":
        return await _aggregate(messages, await agree(messages, nodes, name, key), algorithm)
    held = {client_name(name, client): part for client, part in records.items()}
    return await _hold(messages, await agree(messages, nodes, name, key, held), algorithm, held)


def envelopes(body: bytes) -> list[Envelope]:
    """Those that one message holds."""
    return [Envelope.from_bytes(each) for each in unpack("envelopes", body)]


async def _serve(messages: PemMessages, terms: PemTerms, patience: float) -> PemOutcome:
    """Serve: add up shares and noise, iteration by iteration."""
    sampler = Vetted()
    await asyncio.to_thread(sampler.draw, 1.0, 1)  # loads what it needs now, not in the first iteration
    hub, holders = terms.nodes.aggregator.name, [p.name for p in terms.nodes.holders]
    server = PemServer(terms, sampler=sampler)
    refused = 0
    while True:
        messages.round += 1
        message = await messages.hear(hub, "state")
        if not await asyncio.to_thread(server.open, message):
            break
        one_at_a_time = asyncio.Lock()
        gathered = (
            _gather(messages, server, holder, patience, one_at_a_time) for holder in messages.here(holders)
        )  # each until its last batch
        refused += sum(await asyncio.gather(*gathered))
        await messages.tell(hub, "present", server.present())
        partial = await asyncio.to_thread(server.total, await messages.hear(hub, "roster"))
        await messages.tell(hub, "partial", partial)
        left = server.waits_for
        for holder in messages.here(holders):
            count = sum(is_of(client, holder) for client in left)
            await messages.tell_those_here([holder], "taken", pack_number(count))
    digest = hashlib.sha256(message).digest()
    await messages.tell_those_here(holders, "result", digest)
    return PemOutcome(
        terms.session.hex(), unpack_state(message), digest.hex(), len(terms.clients), refused=refused,
        sampler=sampler.label, lost=_lost(messages, holders),
    )  # fmt: skip


async def _gather(
    messages: PemMessages, server: PemServer, holder: str, patience: float, one_at_a_time: asyncio.Lock
) -> int:
    """Take one holder's uploads up to its last batch; how many were refused."""
    refused = 0

    def take(uploads: Sequence[bytes]) -> int:
        bad = 0
        for each in uploads:
            try:
                upload = PemUpload.from_bytes(each)
                if not is_of(upload.sender, holder):
                    raise ProtocolError(f"{holder} sent an upload of another client.")
                server.take(upload)
            except ProtocolError:
                bad += 1
        return bad

    async for body in _in_time(messages, holder, "uploads", patience):
        try:
            last, *uploads = unpack("pem-batch", body)
        except ProtocolError:
            await _out(messages, holder, "sends what is damaged")
            return refused + 1
        async with one_at_a_time:
            refused += await asyncio.to_thread(take, uploads)
        if last == b"\1":
            break
    return refused


async def _in_time(messages: PemMessages, holder: str, kind: str, patience: float) -> AsyncIterator[bytes]:
    """What a holder says, until it is late, lost, or says something else: then it is out."""
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        left = deadline - asyncio.get_running_loop().time()
        try:
            body = await asyncio.wait_for(messages.hear(holder, kind), max(left, 0.001))
        except (TimeoutError, ProtocolError) as error:
            why = "is late" if isinstance(error, TimeoutError) else "says what is not due"
            await _out(messages, holder, "is lost" if isinstance(error, LinkError) else why)
            return
        yield body


async def _out(messages: PemMessages, holder: str, why: str) -> None:
    link = messages.mesh.links[holder]
    if not link.failed.done():
        await link.abort("gone", holder)
        link.fail(f"{holder} {why}.", "gone")
    messages.note(what="out", peer=holder)


async def _aggregate(messages: PemMessages, terms: PemTerms, algorithm: PemAlgorithm) -> PemOutcome:
    """Aggregate: announce states, add the servers' sums."""
    aggregator = PemAggregator(terms, algorithm)
    holders, servers = [p.name for p in terms.nodes.holders], [p.name for p in terms.nodes.servers]
    while True:
        messages.round += 1
        message = aggregator.begin()
        for server in servers:
            await messages.tell(server, "state", message)
        await messages.tell_those_here(holders, "state", message)
        if aggregator.due == "done":
            break
        roster = aggregator.roster(await messages.hear_all(servers, "present"))
        for server in servers:
            await messages.tell(server, "roster", roster)
        await asyncio.to_thread(aggregator.reduce, await messages.hear_all(servers, "partial"))
    rows = tuple(total.rows for total in aggregator.totals)
    return PemOutcome(
        terms.session.hex(), aggregator.state, hashlib.sha256(message).hexdigest(), len(terms.clients),
        rows=rows, present=aggregator.present, lost=_lost(messages, holders),
    )  # fmt: skip


def _lost(messages: PemMessages, holders: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(set(holders) - set(messages.here(holders))))


async def _hold(
    messages: PemMessages, terms: PemTerms, algorithm: PemAlgorithm, records: Mapping[str, sp.csr_array]
) -> PemOutcome:
    """Hold clients: give each one's share to every server, iteration by iteration."""
    hub, servers = terms.nodes.aggregator.name, [p.name for p in terms.nodes.servers]
    clients = [PemClient(terms, name, algorithm, part) for name, part in records.items()]
    left = len(clients)
    while True:
        messages.round += 1
        message = await messages.hear(hub, "state")
        state = unpack_state(message)
        if terms.nodes.budget.over(state):
            break
        await _upload(messages, clients, message, servers)
        left = min(number_of(each) for each in (await messages.hear_all(servers, "taken")).values())
    digest = hashlib.sha256(message).digest()
    for server, theirs in (await messages.hear_all(servers, "result")).items():
        if theirs != digest:
            raise ProtocolError(f"{server} was shown another result: {hub} is not to be trusted.")
    return PemOutcome(terms.session.hex(), state, digest.hex(), len(terms.clients), left)


async def _upload(
    messages: PemMessages, clients: Sequence[PemClient], message: bytes, servers: Sequence[str]
) -> None:
    """Every client's answer, to every server; so many at a time that no message is long."""
    at = 0
    while True:
        batch: dict[str, list[bytes]] = {server: [] for server in servers}

        def fill(start: int, into: dict[str, list[bytes]] = batch) -> int:
            size = 0
            while start < len(clients) and size < BATCH_BYTES:
                for server, upload in clients[start].answer(message).items():
                    into[server].append(upload.to_bytes())
                    size += len(into[server][-1]) if server == servers[0] else 0
                start += 1
            return start

        at = await asyncio.to_thread(fill, at)
        last = b"\1" if at >= len(clients) else b"\0"
        for server, uploads in batch.items():
            await messages.tell(server, "uploads", pack("pem-batch", last, *uploads))
        if last == b"\1":
            return
