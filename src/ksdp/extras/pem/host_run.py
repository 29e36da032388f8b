"""PEM between hosts: what one of them does, from its files to its result."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from ksdp.audit.errors import InputError, KsdpError, SpecError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.audit.mechanisms.privacy.spent import Price, pure_price
from ksdp.audit.specs.models import validated
from ksdp.extras.pem.hosts import LARGEST, PemOutcome, cost_of, joined_messages, play, promise
from ksdp.extras.pem.messages import PemNodes
from ksdp.extras.pem.records import load_functions, read_records
from ksdp.extras.pem.spec import PemDataSpec, PemProtocol, PemRecordsSpec
from ksdp.flows.runs.budget import BudgetGuard, budget_files, open_guard
from ksdp.flows.runs.check import Finding, NodeQuestion, OwnCheck, check_budget
from ksdp.flows.runs.party import Node, TranscribedRun
from ksdp.flows.runs.protocol_files import public_key, read_protocol_file
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.network.links import LinkTimes
from ksdp.protocols.network.mesh import Address
from ksdp.storage.runs.results import write_run


@dataclass(frozen=True, eq=False)
class PemHosts:
    """A protocol file, checked."""

    spec: PemProtocol
    nodes: PemNodes
    base: Path
    """Folder that its paths are relative to."""

    @property
    def who(self) -> tuple[Participant, ...]:
        """All hosts with their keys."""
        return tuple(sorted(self.nodes.everybody.values()))

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
        return tuple(self.nodes.peers(name))

    def address(self, name: str) -> Address:
        """Where a host listens."""
        return next(Address.parse(node.address) for node in self.spec.parties if node.name == name)


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
        return pure_price(self.hosts.spec.budget.epsilon, promise(len(self.hosts.spec.servers)))

    def final(self, own: int, about: dict[str, Any]) -> Price:
        """Of those that were run."""
        spent = float(about["claimed"]["epsilon"])
        return pure_price(spent, str(about["promise"])) if spent else Price(0.0, "no iteration was run")


def read_pem_hosts(path: Path) -> PemHosts:
    """Read and check a protocol file, with the keys that it names."""
    file = read_protocol_file(path)
    spec, base = validated(PemProtocol, file.tables, "protocol file"), file.base
    keys = {}
    for node in spec.parties:
        Address.parse(node.address)
        keys[node.name] = public_key(base, node.key)
    file.require_signed()
    return PemHosts(spec, spec.nodes(keys), base)


@dataclass(frozen=True, eq=False)
class HeldRecords:
    """A holder's clients."""

    clients: Mapping[str, sp.csr_array]
    hash: str
    """Of all its records."""

    @property
    def count(self) -> int:
        """Records of all of them."""
        return sum(part.shape[0] for part in self.clients.values())


def hold_records(hosts: PemHosts, data: Path | None, client: str | None, clients: int | None) -> HeldRecords:
    """A holder's records, by client.

    Parameters
    ----------
    data : Path, optional
        Their file.
    client : str, optional
        Column that says whose a record is.
    clients : int, optional
        In its place: to how many clients they are dealt out in turns; one by default.
    """
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


_NO_DATA = frozenset({"roll", "rolls", "state"})


def run_pem_host(
    host: Node[PemHosts],
    *,
    algorithm: PemAlgorithm | None = None,
    held: HeldRecords | None = None,
    guard: BudgetGuard | None = None,
) -> dict[str, Any]:
    """Take part, and write the result into a folder: what its `run.json` says.

    Parameters
    ----------
    algorithm : PemAlgorithm, optional
        The functions; a server needs none.
    held : HeldRecords, optional
        Of a holder, which alone has some.
    guard : BudgetGuard, optional
        Of a holder, whose ledger the run is written into.
    """
    hosts, name, key = host.run, host.name, host.identity
    host.check()
    spec, nodes, role = hosts.spec, hosts.nodes, hosts.nodes.role(name)
    _check_held(name, role, algorithm, held)
    before_data = guard.begin if guard else None
    with TranscribedRun(host.out, host.clock, host.log, before_data, _NO_DATA) as noted:
        note = noted.note
        note(what="run", me=name, role=role, agreement=nodes.agreement.hex(), records=held.count if held else 0)

        async def run() -> PemOutcome:
            times = spec.timeouts
            # Who comes first hears nothing before the last one has come, or is given up; then for an iteration.
            message = times.present + times.message + 2 * spec.run.patience
            link = LinkTimes(message=message, reconnect=times.reconnect)
            async with (
                host.mesh(limit=LARGEST, times=link, note=note, grounds="not said") as mesh,
                joined_messages(mesh, note, present=times.present, optional=_optional(hosts, name)) as messages,
            ):
                records = held.clients if held else {}
                return await play(messages, nodes, name, key, algorithm, records, spec.run.patience)

        outcome = noted.played(run())
        about = _about(hosts, name, outcome, held) | noted.took()
        write_run(host.out, outcome.state.arrays, {}, about)
        note(what="done", session=outcome.session, result=outcome.digest)
    if guard is not None:
        guard.finish(about)
    return about


def _check_held(name: str, role: str, algorithm: PemAlgorithm | None, held: HeldRecords | None) -> None:
    """Refuse records where none are held, and a host without what its role needs."""
    if (role == "holder") != (held is not None):
        raise InputError(
            f"{name} is {_ROLES[role]}: records are for hosts that hold clients, and for all of them."
        )
    if role != "server" and algorithm is None:
        raise SpecError("functions are needed here.")


_ROLES = {"holder": "a host that holds clients", "server": "a server", "aggregator": "the aggregator"}


def _optional(hosts: PemHosts, name: str) -> frozenset[str]:
    """Peers without whom the run goes on."""
    return frozenset(peer for peer in hosts.nodes.peers(name) if hosts.nodes.role(peer) == "holder")


def _about(hosts: PemHosts, name: str, outcome: PemOutcome, held: HeldRecords | None) -> dict[str, Any]:
    spec, nodes = hosts.spec, hosts.nodes
    return cost_of(nodes.budget, outcome.state.iteration, len(nodes.servers)) | {
        "me": name,
        "role": nodes.role(name),
        "session": outcome.session,
        "agreement": nodes.agreement.hex(),
        "result": outcome.digest,
        "mechanism": {"name": f"pem {spec.algorithm.name}", "version": spec.pem},
        "functions": nodes.algorithm,
        "parties": {node.name: nodes.role(node.name) for node in spec.parties},
        "clients": outcome.clients,
        "own_clients": len(held.clients) if held else 0,
        "own_clients_at_the_end": outcome.here,
        "records": list(outcome.rows),
        "present": len(outcome.present),
        "lost": list(outcome.lost),
        "refused_uploads": outcome.refused,
        "own_records": held.count if held else 0,
        "sampler": outcome.sampler,
    }


@dataclass(frozen=True)
class PemQuestion(NodeQuestion):
    """What `ksdp pem` would be given."""

    data: Path | None = None
    client: str | None = None
    clients: int | None = None
    functions: str | None = None
    """MODULE:OBJECT of functions of one's own."""
    folder: Path = Path()
    """In which these are."""


def check_pem_here(question: PemQuestion, now: datetime) -> OwnCheck:
    """Look at everything that needs no network; a fault ends no more than it must."""
    me, findings = question.me, list[Finding]()
    try:
        hosts = read_pem_hosts(question.protocol)
    except KsdpError as error:
        return question.refused(str(error), "file")
    agreement = hosts.nodes.agreement.hex()[:16]
    findings.append(Finding(me, "protocol", f"{question.protocol.name}, hash {agreement}"))
    identity = question.check_key(hosts.who, findings)
    if me in hosts.nodes.everybody:
        findings += _functions(question, hosts)
        findings += _records(question, hosts, now)
    findings += question.check_out()
    return OwnCheck(tuple(findings), hosts, identity, "not said")


def _functions(question: PemQuestion, hosts: PemHosts) -> list[Finding]:
    if hosts.nodes.role(question.me) == "server":
        return []
    try:
        own = load_functions(question.functions, question.folder) if question.functions else None
        hosts.spec.functions(own.algorithm if own else None, own.code if own else "")
    except KsdpError as error:
        return [Finding.fault(question.me, "protocol", str(error), "functions")]
    return []


def _records(question: PemQuestion, hosts: PemHosts, now: datetime) -> list[Finding]:
    me, role = question.me, hosts.nodes.role(question.me)
    given = (question.data, question.client, question.clients) != (None, None, None)
    if role != "holder":
        if given:
            fault = f"{me} is {'the aggregator' if role == 'aggregator' else 'a server'}, and records are given"
            return [Finding.fault(me, "documents", fault, "none-held", me=me)]
        return []
    if question.data is None:
        return [Finding(me, "documents", "not looked at: no --data")]
    try:
        held = hold_records(hosts, question.data, question.client, question.clients)
    except KsdpError as error:
        return [Finding.fault(me, "documents", str(error), "records", protocol=question.protocol)]
    entered = Finding(me, "documents", f"{held.count} records of {len(held.clients)} clients enter")
    return [_budget(question, hosts, held, now), entered]


def _budget(question: PemQuestion, hosts: PemHosts, held: HeldRecords, now: datetime) -> Finding:
    ledger, limits = budget_files(question.me, question.key)

    def opened() -> BudgetGuard:
        prices = PemPrices(hosts, hosts.spec.algorithm.name)
        return open_guard(prices, held.hash, held.count, ledger, limits, lambda: now)

    return check_budget(question.me, opened, ledger, limits)
