"""PEM between hosts: a server and the aggregator, over the mesh of pinned keys (`pem_holder` has the third).

::

    all        --- roll ------> aggregator --- rolls ---> all              who is there (`pem.rolls`)
    server     --- hello -----> holders, and their clients' hellos back
    aggregator --- state -----> holders, servers
    holder     --- uploads ---> each server, in batches; the last one says so
    server     --- present ---> aggregator --- roster --> servers --- partial --> aggregator
    server     --- taken -----> holders: how many of its clients are still in
    server     --- result ----> holders: a hash of the last state, which must be the one that they were shown

A holder that is lost, late or silent is out with its clients, as PEM's clients are; a server or the aggregator
that is lost ends the run for all.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.audit.mechanisms.pem.discrete_laplace import Sampler
from ksdp.protocols.channel.keys import Envelope
from ksdp.protocols.channel.wire import pack_number, unpack
from ksdp.protocols.network.links import LinkError
from ksdp.protocols.network.pem_messages import PemMessages, PemOutcome, agree, envelopes
from ksdp.protocols.pem.aggregator import PemAggregator
from ksdp.protocols.pem.rolls import PemNodes, is_of
from ksdp.protocols.pem.server import PemServer
from ksdp.protocols.pem.state_messages import unpack_state
from ksdp.protocols.pem.terms import PemTerms, PemUpload, open_numbered


async def play_server(
    messages: PemMessages, nodes: PemNodes, name: str, key: Ed25519PrivateKey, sampler: Sampler, patience: float
) -> PemOutcome:
    """Serve: add up shares and noise, iteration by iteration.

    Parameters
    ----------
    patience : float
        Seconds that are given a holder's uploads; who is later is out.

    Raises
    ------
    ProtocolError
        If the aggregator is lost or deviates, or too few clients are left.
    """
    await asyncio.to_thread(sampler.draw, 1.0, 1)  # loads what it needs now, not in the first iteration
    terms = await agree(messages, nodes, name, key, {})
    hub, holders = nodes.aggregator, [p.name for p in nodes.holders]
    server = PemServer(terms, name, key, sampler=sampler)
    await messages.tell_those_here(holders, "hello", server.hello().to_bytes())
    heard = await asyncio.gather(*(_hellos(messages, holder, patience) for holder in messages.here(holders)))
    hellos = [hello for each in heard for hello in each]
    await asyncio.to_thread(server.hear, hellos)
    refused = iteration = 0
    while True:
        messages.round = iteration + 1
        message = Envelope.from_bytes(await messages.hear(hub.name, "state"))
        if not await asyncio.to_thread(server.open, message):
            break
        one_at_a_time = asyncio.Lock()
        gathered = (
            _gather(messages, server, holder, patience, one_at_a_time) for holder in messages.here(holders)
        )  # each until its last batch
        refused += sum(await asyncio.gather(*gathered))
        await messages.tell(hub.name, "present", server.present().to_bytes())
        roster = Envelope.from_bytes(await messages.hear(hub.name, "roster"))
        partial = await asyncio.to_thread(server.total, roster)
        await messages.tell(hub.name, "partial", partial.to_bytes())
        left = server.waits_for
        for holder in messages.here(holders):
            count = sum(is_of(client, holder) for client in left)
            await messages.tell_those_here([holder], "taken", pack_number(count))
        iteration += 1
    body = open_numbered(message, terms.session, "pem-state", hub, iteration)
    digest = hashlib.sha256(body).digest()
    await messages.tell_those_here(holders, "result", digest)
    return PemOutcome(
        terms.session.hex(), unpack_state(body), digest.hex(), len(terms.clients), refused=refused,
        sampler=sampler.label, lost=_lost(messages, holders),
    )  # fmt: skip


async def _hellos(messages: PemMessages, holder: str, patience: float) -> list[Envelope]:
    """Those of one holder's clients; none where it is out."""
    async for body in _in_time(messages, holder, "hellos", patience):
        try:
            return [each for each in envelopes(body) if is_of(each.sender, holder)]
        except ProtocolError:
            await _out(messages, holder, "sends what is damaged")
    return []


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


async def play_aggregator(
    messages: PemMessages,
    nodes: PemNodes,
    name: str,
    key: Ed25519PrivateKey,
    algorithm: PemAlgorithm,
    every: float,
) -> PemOutcome:
    """Aggregate: announce states, add the servers' sums.

    Parameters
    ----------
    every : float
        Seconds from one iteration to the next, at least: what a stream needs to come.

    Raises
    ------
    ProtocolError
        If a server is lost or deviates, or too few clients are left.
    """
    terms: PemTerms = await agree(messages, nodes, name, key, {})
    aggregator = PemAggregator(terms, key, algorithm)
    holders, servers = [p.name for p in nodes.holders], [p.name for p in nodes.servers]
    clock = asyncio.get_running_loop().time
    while True:
        messages.round, began = len(aggregator.totals) + 1, clock()
        message = aggregator.begin()
        for server in servers:
            await messages.tell(server, "state", message.to_bytes())
        await messages.tell_those_here(holders, "state", message.to_bytes())
        if aggregator.due == "done":
            break
        lists = await messages.hear_all(servers, "present")
        roster = aggregator.roster(map(Envelope.from_bytes, lists.values())).to_bytes()
        for server in servers:
            await messages.tell(server, "roster", roster)
        sums = [Envelope.from_bytes(body) for body in (await messages.hear_all(servers, "partial")).values()]
        await asyncio.to_thread(aggregator.reduce, sums)
        if not aggregator.over:
            await asyncio.sleep(max(0.0, every - (clock() - began)))
    body = open_numbered(message, terms.session, "pem-state", nodes.aggregator, len(aggregator.totals))
    rows = tuple(total.rows for total in aggregator.totals)
    return PemOutcome(
        terms.session.hex(), aggregator.state, hashlib.sha256(body).hexdigest(), len(terms.clients),
        rows=rows, present=aggregator.present, lost=_lost(messages, holders),
    )  # fmt: skip


def _lost(messages: PemMessages, holders: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(set(holders) - set(messages.here(holders))))
