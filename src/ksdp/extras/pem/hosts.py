"""PEM between hosts: what one of them does, from its files to its result."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import scipy.sparse as sp

from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.audit.mechanisms.privacy.spent import Price, pure_price
from ksdp.audit.specs.models import validated
from ksdp.extras.pem.records import read_records
from ksdp.extras.pem.rounds import PemOutcome, PemTerms, pem_rounds
from ksdp.extras.pem.spec import PemDataSpec, PemProtocol, PemRecordsSpec, cost_of, promise
from ksdp.flows.runs.budget import BudgetGuard
from ksdp.flows.runs.party import Node, TranscribedRun
from ksdp.flows.runs.protocol_files import public_key, read_protocol_file
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.network.links import LinkTimes
from ksdp.protocols.network.mesh import Address
from ksdp.storage.runs.results import require_no_result, write_run

_LARGEST = 1 << 30
"""Bytes of the longest message that is taken."""


@dataclass(frozen=True, eq=False)
class PemHosts:
    """A protocol file, checked."""

    spec: PemProtocol
    who: tuple[Participant, ...]
    terms: PemTerms
    packages: ClassVar = ("dp_accounting", "opendp")

    @property
    def said(self) -> Mapping[str, Any]:
        """Every term by its name."""
        return self.terms.terms

    def address(self, name: str) -> Address:
        """Where a host listens."""
        return next(Address.parse(node.address) for node in self.spec.parties if node.name == name)


@dataclass(frozen=True)
class PemPrices:
    """Epsilon of a run of PEM for a record, for the ledger."""

    spec: PemProtocol

    @property
    def identity(self) -> dict[str, Any]:
        """The algorithm and its budget."""
        spec = self.spec
        return {"name": f"pem {spec.algorithm.name}", "version": spec.pem, "epsilon": spec.budget.epsilon}

    def worst(self, own: int) -> Price:
        """Price of all iterations."""
        return pure_price(self.spec.budget.epsilon, promise(len(self.spec.servers)))

    def final(self, own: int, about: dict[str, Any]) -> Price:
        """Price of the iterations that were run."""
        spent = float(about["claimed"]["epsilon"])
        return pure_price(spent, str(about["promise"])) if spent else Price(0.0, "no iteration was run")


def read_pem_hosts(path: Path) -> PemHosts:
    """Read and check a protocol file, with the keys that it names."""
    file = read_protocol_file(path)
    spec, base = validated(PemProtocol, file.tables, "protocol file"), file.base
    who = []
    for node in spec.parties:
        Address.parse(node.address)
        who.append(Participant(node.name, public_key(base, node.key).public_bytes_raw()))
    file.require_signed()
    return PemHosts(spec, tuple(sorted(who)), spec.agreed(tuple(sorted(who))))


@dataclass(frozen=True, eq=False)
class HeldRecords:
    """A holder's clients."""

    clients: Mapping[str, sp.csr_array]
    hash: str

    @property
    def count(self) -> int:
        """Records of all of them."""
        return sum(part.shape[0] for part in self.clients.values())


def hold_records(hosts: PemHosts, data: Path | None, client: str | None, clients: int | None) -> HeldRecords:
    """A holder's records, by client."""
    spec = hosts.spec
    if data is None:
        raise InputError("`--data` must name the file of the clients' records.")
    if client is not None and clients is not None:
        raise InputError("`--client` and `--clients` exclude each other.")
    keys = spec.records.model_dump(include=set(PemRecordsSpec.model_fields))
    dealt = None if client is not None else clients or 1
    records = read_records(
        PemDataSpec(path=str(data.resolve()), client=client, clients=dealt, **keys),
        data.resolve().parent,
        spec.algorithm,
    )
    if records.matrix.shape[1] != spec.records.wide:
        raise InputError(
            f"{data.name} has {records.matrix.shape[1]} columns; the protocol file says {spec.records.wide}."
        )
    parts = dict(zip(records.clients, records.parts(), strict=True))
    largest = max(part.shape[0] for part in parts.values())
    if spec.budget.batch is None and largest > spec.run.rows:
        raise InputError(f"a client has {largest} records; the protocol file allows {spec.run.rows} (`run.rows`).")
    matrix = records.matrix
    digest = hashlib.sha256(matrix.data.tobytes() + matrix.indices.tobytes() + matrix.indptr.tobytes())
    return HeldRecords(parts, f"sha256:{digest.hexdigest()}")


_NO_DATA = frozenset({"greeting", "clients", "state"})


def run_pem_host(
    host: Node[PemHosts],
    *,
    algorithm: PemAlgorithm | None = None,
    records: HeldRecords | None = None,
    guard: BudgetGuard | None = None,
) -> dict[str, Any]:
    """Take part, and write the result into a folder: what its `run.json` says."""
    hosts, name, terms, count = host.run, host.name, host.run.terms, records.count if records else 0
    host.check()
    require_no_result(host.out)
    role, times, patience = terms.role(name), hosts.spec.timeouts, hosts.spec.run.patience
    if (role == "holder") != (records is not None):
        raise InputError(
            f"{name} is {_ROLES[role]}: records are for hosts that hold clients, and for all of them."
        )
    if role != "server" and algorithm is None:
        raise SpecError("functions are needed here.")
    with TranscribedRun(host.out, host.clock, host.log, guard.begin if guard else None, _NO_DATA) as noted:
        noted.note(what="run", me=name, role=role, agreement=terms.digest.hex(), records=count)
        # The first host hears nothing until the last one has come or is given up, and then for an iteration.
        link = LinkTimes(message=times.present + times.message + 2 * patience, reconnect=times.reconnect)
        late = {peer: patience for peer in terms.holders if peer != name}
        mesh = host.mesh(limit=_LARGEST, times=link, note=noted.note, patience=late)
        rounds = pem_rounds(terms, name, algorithm, records.clients if records else None)
        outcome = noted.played(rounds, mesh, times.present)
        about = _about(hosts, name, outcome, records) | noted.took()
        write_run(host.out, outcome.state.arrays, {}, about)
        noted.note(what="done", session=outcome.session, result=outcome.digest)
    if guard is not None:
        guard.finish(about)
    return about


_ROLES = {"holder": "a host that holds clients", "server": "a server", "aggregator": "the aggregator"}


def _about(hosts: PemHosts, name: str, outcome: PemOutcome, records: HeldRecords | None) -> dict[str, Any]:
    spec, terms = hosts.spec, hosts.terms
    return cost_of(terms.budget, outcome.state.iteration, len(terms.servers)) | {
        "me": name,
        "role": terms.role(name),
        "session": outcome.session,
        "agreement": terms.digest.hex(),
        "result": outcome.digest,
        "mechanism": {"name": f"pem {spec.algorithm.name}", "version": spec.pem},
        "functions": terms.algorithm,
        "parties": {node.name: terms.role(node.name) for node in spec.parties},
        "clients": outcome.clients,
        "own_clients": len(records.clients) if records else 0,
        "records": list(outcome.rows),
        "present": outcome.present,
        "lost": list(outcome.lost),
        "own_records": records.count if records else 0,
        "sampler": outcome.sampler,
    }
