"""PEM's parties as processes of their own, talking over loopback TCP.

Everybody makes an identity key in its own process and hands out the public half. Servers and the aggregator
listen; client processes (each may hold many clients) connect to all of them, servers to the aggregator. What is in
the frames (`framing`) is signed, or sealed for one receiver (`protocols/pem/terms.py`): the sockets need not be
trusted. A server waits for uploads until all have arrived or `patience` is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.audit.mechanisms.pem.discrete_laplace import Sampler, Simulated, Vetted
from ksdp.protocols.channel.keys import Envelope
from ksdp.protocols.network.framing import FrameStream
from ksdp.protocols.network.party_process import run_in_process
from ksdp.protocols.pem.aggregator import PemAggregator
from ksdp.protocols.pem.client import PemClient
from ksdp.protocols.pem.server import PemServer
from ksdp.protocols.pem.state_messages import pack_state
from ksdp.protocols.pem.terms import PemTerms, PemUpload

_HOST = "127.0.0.1"
_LIMIT = 1 << 30
"""Bytes of the longest message that is taken."""
_BUFFER = 1 << 20
_PASS_BYTES, _PASS_SECONDS = 64, 10.0


@dataclass(frozen=True)
class Fate:
    """When a client fails: from this iteration on it sends nothing, or only to the first server."""

    iteration: int
    halfway: bool = False


@dataclass(frozen=True, eq=False)
class ClientJob:
    """One client of a process."""

    name: str
    records: sp.csr_array
    fate: Fate | None = None
    stream: tuple[sp.csr_array, ...] = ()
    """Batches that arrive one before each iteration after the first."""


async def _connect(port: int, kind: str) -> FrameStream:
    link = FrameStream(*await asyncio.open_connection(_HOST, port, limit=_BUFFER), _LIMIT)
    await link.send(_pass(kind))
    return link


def _pass(kind: str) -> bytes:
    """What opens a door: it takes the secret that processes of one run have from the parent that started them all,
    through pipes that nobody else holds."""
    return hmac.digest(
        bytes(multiprocessing.current_process().authkey), b"ksdp-pem-door-1 " + kind.encode(), "sha256"
    )


class _Door:
    """A listening socket; whoever connects shows first that it belongs to the run, and as what.

    Others are shown out, and so is who says nothing for some seconds; they are not counted.
    """

    def __init__(self) -> None:
        self.links: dict[str, list[FrameStream]] = {"clients": [], "server": []}
        self._came = asyncio.Condition()

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._welcome, _HOST, 0, limit=_BUFFER)
        return int(self._server.sockets[0].getsockname()[1])

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = FrameStream(reader, writer, _PASS_BYTES)
        try:
            shown = await asyncio.wait_for(link.receive(), _PASS_SECONDS)
        except (TimeoutError, ProtocolError, OSError, asyncio.IncompleteReadError):
            shown = b""
        kind = next((kind for kind in self.links if hmac.compare_digest(shown, _pass(kind))), None)
        if kind is None:
            await link.close()
            return
        link.allow(_LIMIT)
        async with self._came:
            self.links[kind].append(link)
            self._came.notify_all()

    async def wait_for(self, kind: str, count: int) -> list[FrameStream]:
        async with self._came:
            await self._came.wait_for(lambda: len(self.links[kind]) >= count)
        return self.links[kind]

    async def close(self) -> None:
        self._server.close()
        for link in (link for links in self.links.values() for link in links):
            await link.close()


async def _received(pipe: Connection) -> Any:
    return await asyncio.to_thread(pipe.recv)


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def aggregator_process(pipe: Connection, algorithm: PemAlgorithm, client_processes: int) -> None:
    """The aggregator: gives its port and public key, gets the terms, runs, tells of every iteration, gives the
    final state."""

    async def work() -> dict[str, Any]:
        key, door = Ed25519PrivateKey.generate(), _Door()
        pipe.send(("ready", (await door.open(), _public(key))))
        terms: PemTerms = await _received(pipe)
        aggregator = PemAggregator(terms, key, algorithm)
        servers = await door.wait_for("server", len(terms.servers))
        clients = await door.wait_for("clients", client_processes)
        started = time.perf_counter()
        while aggregator.due != "done":
            state = aggregator.begin().to_bytes()
            await asyncio.gather(*(link.send(state) for link in (*servers, *clients)))
            if aggregator.due == "done":
                break
            lists = await asyncio.gather(*(link.receive() for link in servers))
            roster = aggregator.roster(map(Envelope.from_bytes, lists)).to_bytes()
            await asyncio.gather(*(link.send(roster) for link in servers))
            sums = await asyncio.gather(*(link.receive() for link in servers))
            aggregator.reduce(map(Envelope.from_bytes, sums))
            pipe.send(("step", len(aggregator.totals)))
        seconds = time.perf_counter() - started
        await door.close()
        return {
            "state": pack_state(aggregator.state),
            "rows": [total.rows for total in aggregator.totals],
            "present": list(aggregator.present),
            "epsilon": aggregator.epsilon,
            "seconds": seconds,
            "bytes": sum(link.sent for link in (*servers, *clients)),
        }

    run_in_process(pipe, lambda: asyncio.run(work()))


def server_process(
    pipe: Connection, name: str, client_processes: int, patience: float, simulated_seed: int | None
) -> None:
    """A server: gives its port and public key, gets the terms and the aggregator's port, runs."""

    async def work() -> dict[str, Any]:
        key, door = Ed25519PrivateKey.generate(), _Door()
        pipe.send(("ready", (await door.open(), _public(key))))
        terms, port = await _received(pipe)
        seed = simulated_seed
        sampler: Sampler = Vetted() if seed is None else Simulated(np.random.default_rng([seed, *name.encode()]))
        sampler.draw(1.0, 1)  # loads what it needs now, not in the first iteration
        server = PemServer(terms, name, key, sampler=sampler)
        clients = await door.wait_for("clients", client_processes)
        aggregator = await _connect(port, "server")
        hello = server.hello().to_bytes()
        await asyncio.gather(*(link.send(hello) for link in clients))
        hellos: list[Envelope] = []
        for link in clients:
            count = int.from_bytes(await link.receive(), "big")
            hellos += [Envelope.from_bytes(await link.receive()) for _ in range(count)]
        server.hear(hellos)
        arrived: asyncio.Queue[bytes] = asyncio.Queue()
        listeners = [asyncio.create_task(_listen(link, arrived)) for link in clients]
        early: list[PemUpload] = []
        refused = iteration = 0
        while server.open(Envelope.from_bytes(await aggregator.receive())):
            refused += await _gather(server, arrived, early, iteration, patience)
            await aggregator.send(server.present().to_bytes())
            await aggregator.send(server.total(Envelope.from_bytes(await aggregator.receive())).to_bytes())
            iteration += 1
        for task in listeners:
            task.cancel()
        await aggregator.close()
        await door.close()
        return {"sampler": sampler.label, "refused": refused, "bytes": aggregator.sent}

    run_in_process(pipe, lambda: asyncio.run(work()))


async def _listen(link: FrameStream, arrived: asyncio.Queue[bytes]) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            await arrived.put(await link.receive())


async def _gather(
    server: PemServer, arrived: asyncio.Queue[bytes], early: list[PemUpload], iteration: int, patience: float
) -> int:
    """Take uploads until nobody is missing or it is late; how many were refused."""
    refused = 0
    deadline = asyncio.get_running_loop().time() + patience
    waiting, early[:] = list(early), []
    while server.waits_for:
        if waiting:
            upload = waiting.pop()
        else:
            left = deadline - asyncio.get_running_loop().time()
            try:
                upload = PemUpload.from_bytes(await asyncio.wait_for(arrived.get(), max(left, 0.001)))
            except TimeoutError:
                break
        if upload.iteration > iteration:  # a quick client's next one, before our aggregator's next state
            early.append(upload)
            continue
        try:
            server.take(upload)
        except ProtocolError:
            refused += 1
    return refused


def clients_process(pipe: Connection, jobs: Sequence[ClientJob], algorithm: PemAlgorithm) -> None:
    """Some clients: gives their public keys, gets the terms and the ports, runs."""

    async def work() -> dict[str, Any]:
        keys = {job.name: Ed25519PrivateKey.generate() for job in jobs}
        pipe.send(("ready", {name: _public(key) for name, key in keys.items()}))
        terms, aggregator_port, ports = await _received(pipe)
        clients = {j.name: PemClient(terms, j.name, keys[j.name], algorithm, j.records) for j in jobs}
        servers = {name: await _connect(port, "clients") for name, port in ports.items()}
        aggregator = await _connect(aggregator_port, "clients")
        hellos = [client.hello().to_bytes() for client in clients.values()]
        for link in servers.values():
            await link.send(len(hellos).to_bytes(8, "big"))
            for hello in hellos:
                await link.send(hello)
        greetings = [Envelope.from_bytes(await link.receive()) for link in servers.values()]
        for client in clients.values():
            client.hear(greetings)
        iteration, going = 0, True
        while going:
            message = Envelope.from_bytes(await aggregator.receive())
            for job in jobs:
                if 0 < iteration <= len(job.stream):
                    clients[job.name].offer(job.stream[iteration - 1])
                uploads = clients[job.name].answer(message)
                going = bool(uploads)
                for server, upload in uploads.items():
                    fails = job.fate is not None and iteration >= job.fate.iteration
                    if not fails or (job.fate is not None and job.fate.halfway and server == min(uploads)):
                        await servers[server].send(upload.to_bytes())
            iteration += 1
        sent = sum(link.sent for link in servers.values())
        for link in (*servers.values(), aggregator):
            await link.close()
        return {"bytes": sent}

    run_in_process(pipe, lambda: asyncio.run(work()))
