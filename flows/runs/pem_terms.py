"""From the protocol file of a PEM run between hosts to its terms, and to what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ksdp.audit.mechanisms.privacy.spent import Price, pure_price
from ksdp.flows.runs.terms import public_key
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.network.mesh import Address
from ksdp.protocols.pem.pem_file import PemProtocol, parse_pem_protocol
from ksdp.protocols.pem.rolls import PemNodes
from ksdp.storage.readers.toml import read_toml


@dataclass(frozen=True, eq=False)
class PemHosts:
    """A protocol file, checked."""

    spec: PemProtocol
    nodes: PemNodes
    keys: Mapping[str, Ed25519PublicKey]
    base: Path
    """Folder that its paths are relative to."""

    @property
    def who(self) -> tuple[Participant, ...]:
        """All hosts with their keys."""
        return tuple(Participant(name, key.public_bytes_raw()) for name, key in sorted(self.keys.items()))

    @cached_property
    def said(self) -> Mapping[str, Any]:
        """Every line of the file by its name, but where hosts are and how long they wait for each other."""
        tables = self.spec.model_dump(mode="json", exclude={"parties": True, "timeouts": True})
        lines: dict[str, Any] = {}
        for name, value in tables.items():
            lines |= (
                {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
            )
        return lines | {"parties": [[each.name, each.identity.hex()] for each in self.who]}

    def speaks_with(self, name: str) -> tuple[str, ...]:
        """The hosts that a host has a connection with."""
        return tuple(self.spec.peers(name))

    def address(self, name: str) -> Address:
        """Where a host listens."""
        return next(Address.parse(node.address) for node in self.spec.parties if node.name == name)


def promise(hosts: PemHosts) -> str:
    """What holds for a record, against whom."""
    return (
        "one record replaced by any other; how many each client has is public; trust: the aggregator, the other "
        f"clients and all but one of the {len(hosts.spec.servers)} servers together; everybody keeps to the "
        "protocol"
    )


@dataclass(frozen=True)
class PemPrices:
    """What a run of PEM costs a record, for the ledger."""

    hosts: PemHosts
    algorithm: str

    @property
    def identity(self) -> dict[str, Any]:
        """The algorithm and its budget."""
        return {
            "name": f"pem {self.algorithm}",
            "version": self.hosts.spec.pem,
            "epsilon": self.hosts.spec.budget.epsilon,
        }

    def worst(self, own: int) -> Price:
        """Of all iterations."""
        return pure_price(self.hosts.spec.budget.epsilon, promise(self.hosts))

    def final(self, own: int, about: dict[str, Any]) -> Price:
        """Of those that were run."""
        spent = float(about["claimed"]["epsilon"])
        return pure_price(spent, promise(self.hosts)) if spent else Price(0.0, "no iteration was run")


def read_pem_hosts(path: Path) -> PemHosts:
    """Read and check a protocol file, with the keys that it names."""
    spec, base = parse_pem_protocol(read_toml(path, "the protocol file")), path.resolve().parent
    keys = {}
    for node in spec.parties:
        Address.parse(node.address)
        keys[node.name] = public_key(base, node.key)
    return PemHosts(spec, spec.nodes(keys), keys, base)
