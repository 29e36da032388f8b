"""Parties with real keys on real sockets of this machine; plain functions, because tests make several."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.contract import Mechanism
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.network.links import LinkTimes
from ksdp.protocols.network.mesh import Address, Mesh, Peer, run_over_mesh
from ksdp.protocols.network.tls import make_credentials
from ksdp.protocols.programs.programs import Precision, party_program, sum_entries
from ksdp.protocols.programs.rounds import RunOutcome, largest_message, party_rounds
from ksdp.protocols.programs.run_terms import RunTerms, Statement

from ...ports import free_ports

NAMES = ("ada", "bob", "cyd")
NMF = PDNMF(rank=2, sweeps=4, tolerance=0.0)
TIMES = LinkTimes(message=10.0, reconnect=1.0)
FEATURES = 10


def party_matrix(name: str, seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng([NAMES.index(name), seed])
    return sp.csr_array(np.where(rng.random((8, FEATURES)) < 0.6, rng.random((8, FEATURES)), 0.0))


class Party:
    """One organisation: its key, its address, and what it takes the others' to be."""

    def __init__(self, name: str, names: tuple[str, ...], ports: Mapping[str, int], keys: Mapping[str, Any]):
        self.name, self.port, self.keys = name, ports[name], dict(keys)
        self.ports = dict(ports)
        self.identity: Ed25519PrivateKey = keys[name]
        self.names = names
        self.mechanism: Mechanism = NMF
        self.threshold = 0
        self.times = TIMES
        self.present = 5.0
        self.seed = 0
        self.now = datetime.now(UTC)
        """By its clock; the others' is right."""
        self.events: list[dict[str, Any]] = []

    def note(self, **event: Any) -> None:
        self.events.append(event)

    @property
    def terms(self) -> RunTerms:
        everybody = tuple(Participant(n, self.keys[n].public_key().public_bytes_raw()) for n in self.names)
        return RunTerms(
            self.mechanism, FEATURES, "sha256:0", Precision(bound=2.0**12), everybody, threshold=self.threshold
        )

    def mesh(self) -> Mesh:
        others = {n: Peer(n, Address("127.0.0.1", self.ports[n]), self.keys[n].public_key()) for n in self.names}
        others.pop(self.name)
        known = {n: peer.key for n, peer in others.items()}
        return Mesh(
            self.name,
            Address("127.0.0.1", self.port),
            others,
            make_credentials(self.identity, known, now=self.now),
            limit=largest_message(self.terms, sum_entries(self.mechanism, FEATURES)),
            times=self.times,
            observe=lambda what, peer: self.note(what=what, peer=peer),
        )

    async def run(self) -> RunOutcome:
        program = party_program(self.terms.as_run, party_matrix(self.name, self.seed), len(self.names))
        rounds = party_rounds(self.terms, self.name, self.keys[self.name], program, Statement(cleared=False))
        async with self.mesh() as mesh:
            return await run_over_mesh(rounds, mesh, present=self.present, note=self.note)


def parties(m: int = 3) -> dict[str, Party]:
    names = NAMES[:m]
    ports = dict(zip(names, free_ports(m), strict=True))
    keys = {name: Ed25519PrivateKey.generate() for name in names}
    return {name: Party(name, names, ports, keys) for name in names}


async def all_ends(*runs: Awaitable[RunOutcome]) -> list[RunOutcome | BaseException]:
    return await asyncio.gather(*runs, return_exceptions=True)


Meddle = Callable[[int, bytes], Awaitable[bytes | None]]


@contextlib.asynccontextmanager
async def proxy(port: int, to: int, meddle: Meddle) -> AsyncIterator[None]:
    """Carries bytes to `to`; `meddle` gets (number of connection, bytes) and gives bytes, or None to hang up."""
    count = 0

    async def carry(reader: Any, writer: Any, number: int, *, watched: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                changed = await meddle(number, data) if watched else data
                if changed is None:
                    break
                writer.write(changed)
                await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        number = count
        try:
            there, back = await asyncio.open_connection("127.0.0.1", to)
        except OSError:
            writer.close()
            return
        with contextlib.suppress(asyncio.CancelledError):  # the loop ends while both ends are open
            await asyncio.gather(
                carry(reader, back, number, watched=True), carry(there, writer, number, watched=False)
            )

    server = await asyncio.start_server(accept, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()
