"""PEM between hosts: a host that holds clients, one or thousands (`pem_nodes` has the others)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence

import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.protocols.channel.keys import Envelope
from ksdp.protocols.channel.wire import number_of, pack
from ksdp.protocols.network.pem_messages import BATCH_BYTES, PemMessages, PemOutcome, agree
from ksdp.protocols.pem.client import PemClient
from ksdp.protocols.pem.rolls import PemNodes, client_name
from ksdp.protocols.pem.state_messages import unpack_state
from ksdp.protocols.pem.terms import open_numbered

Arrivals = Callable[[], Mapping[str, sp.csr_array]]
"""Of a stream: what has come since it was last asked, by client."""


async def play_holder(
    messages: PemMessages,
    nodes: PemNodes,
    name: str,
    key: Ed25519PrivateKey,
    algorithm: PemAlgorithm,
    records: Mapping[str, sp.csr_array],
    arrivals: Arrivals | None = None,
) -> PemOutcome:
    """Hold clients: give each one's share to every server, iteration by iteration.

    Parameters
    ----------
    records : mapping
        By client, as the host calls them; of a stream what is there at the start.
    arrivals : callable, optional
        Asked before every iteration of a stream.

    Raises
    ------
    ProtocolError
        If a server or the aggregator is lost or deviates.
    InputError
        If the records are refused.
    """
    names = {client: client_name(name, client) for client in records}
    keys = {client: Ed25519PrivateKey.generate() for client in records}
    public = {names[c]: k.public_key().public_bytes_raw() for c, k in keys.items()}
    terms = await agree(messages, nodes, name, key, public)
    hub, servers = nodes.aggregator, [p.name for p in nodes.servers]
    clients = await asyncio.to_thread(
        lambda: {c: PemClient(terms, names[c], keys[c], algorithm, part) for c, part in records.items()}
    )
    greetings = [Envelope.from_bytes(body) for body in (await messages.hear_all(servers, "hello")).values()]
    hellos = await asyncio.to_thread(lambda: [client.hello().to_bytes() for client in clients.values()])
    for server in servers:
        await messages.tell(server, "hellos", pack("envelopes", *hellos))

    def hear() -> None:
        for client in clients.values():
            client.hear(greetings)

    await asyncio.to_thread(hear)
    iteration, left = 0, len(clients)
    while True:
        messages.round = iteration + 1
        message = Envelope.from_bytes(await messages.hear(hub.name, "state"))
        body = open_numbered(message, terms.session, "pem-state", hub, iteration)
        state = unpack_state(body)
        if terms.budget.over(state):
            break
        if arrivals is not None:
            for client, part in arrivals().items():
                clients[client].offer(part)
        await _upload(messages, list(clients.values()), message, servers)
        left = min(number_of(each) for each in (await messages.hear_all(servers, "taken")).values())
        iteration += 1
    digest = hashlib.sha256(body).digest()
    for server, theirs in (await messages.hear_all(servers, "result")).items():
        if theirs != digest:
            raise ProtocolError(f"{server} was shown another result: {hub.name} is not to be trusted.")
    return PemOutcome(terms.session.hex(), state, digest.hex(), len(terms.clients), left)


async def _upload(
    messages: PemMessages, clients: Sequence[PemClient], message: Envelope, servers: Sequence[str]
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
