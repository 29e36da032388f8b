"""A PEM run among its machines in one process, and tiny data; plain functions for tables of cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.audit.mechanisms.pem.noise import Budget, Sampler
from ksdp.audit.randomness import RandomBytes
from ksdp.extras.pem.messages import PemNodes, PemTerms, PemUpload, PrimeField
from ksdp.extras.pem.parties import PemAggregator, PemClient, PemServer

from ...protocols.conftest import participant, seeded

Lost = Callable[[PemUpload, str], bool]


@dataclass
class ScriptedSampler:
    """A sampler that remembers what it gave, or gives what it remembers."""

    rng: np.random.Generator
    given: list[NDArray[np.int64]] = field(default_factory=list)
    label: str = "scripted"

    def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
        drawn = np.rint(self.rng.normal(size=entries) * scale).astype(np.int64) * parties
        self.given.append(drawn)
        return drawn


def terms_of(
    algorithm: PemAlgorithm, clients: int, servers: int, budget: Budget, *, rows: int = 100, least: int = 1,
    bits: int = 64,
) -> PemTerms:  # fmt: skip
    nodes = PemNodes(
        (participant("host"),),
        tuple(participant(f"server {j}") for j in range(servers)),
        participant("aggregator"),
        budget, rows, repr(algorithm), PrimeField(bits), least, b"a test",
    )  # fmt: skip
    return PemTerms(nodes, tuple(f"client {i}" for i in range(clients)), b"a session")


@dataclass
class Parties:
    """All machines of a run."""

    clients: dict[str, PemClient]
    servers: dict[str, PemServer]
    aggregator: PemAggregator
    wire: list[PemUpload] = field(default_factory=list)
    """Every upload that was sent."""

    def step(self, lost: Lost = lambda upload, server: False) -> bool:
        """One iteration; False when the run is over. Uploads that are `lost` do not arrive."""
        state = self.aggregator.begin()
        going = [server.open(state) for server in self.servers.values()]
        for client in self.clients.values():
            for server, upload in client.answer(state).items():
                self.wire.append(upload)
                if not lost(upload, server):
                    try:
                        self.servers[server].take(PemUpload.from_bytes(upload.to_bytes()))
                    except ProtocolError:  # removed earlier
                        assert upload.sender not in self.aggregator.present
        if not all(going):
            return False
        self.aggregator.reduce(self.totals(self.aggregator.roster(self.present())))
        return True

    def present(self) -> dict[str, bytes]:
        return {name: server.present() for name, server in self.servers.items()}

    def totals(self, roster: bytes) -> dict[str, bytes]:
        return {name: server.total(roster) for name, server in self.servers.items()}


def parties_of(
    terms: PemTerms, algorithm: PemAlgorithm, parts: Sequence[sp.csr_array], samplers: Sequence[Sampler],
    random: RandomBytes | None = None,
) -> Parties:  # fmt: skip
    clients = {
        name: PemClient(
            terms, name, algorithm, part,
            random=random or seeded(name), sampler=ScriptedSampler(np.random.default_rng(0)),
        )
        for name, part in zip(terms.clients, parts, strict=True)
    }  # fmt: skip
    servers = {
        p.name: PemServer(terms, sampler=sampler) for p, sampler in zip(terms.nodes.servers, samplers, strict=True)
    }
    return Parties(clients, servers, PemAggregator(terms, algorithm))


def one_hot(rows: int, seed: int, attributes: int = 3, values: int = 3) -> sp.csr_array:
    """Records of so many attributes, one column a value, around a few prototypes."""
    rng = np.random.default_rng(seed)
    prototypes = np.random.default_rng(0).integers(0, values, size=(3, attributes))
    picked = prototypes[rng.integers(0, 3, size=rows)]
    picked = np.where(rng.random((rows, attributes)) < 0.15, rng.integers(0, values, picked.shape), picked)
    columns = picked + values * np.arange(attributes)
    dense = np.zeros((rows, attributes * values))
    np.put_along_axis(dense, columns, 1.0, axis=1)
    return sp.csr_array(dense)
