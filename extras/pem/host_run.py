"""PEM between hosts: what one of them does, from its files to its result."""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, KsdpError, SpecError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.audit.mechanisms.pem.noise import Sampler, Vetted, tight_epsilon
from ksdp.audit.mechanisms.privacy.spent import Price, pure_price
from ksdp.extras.pem.hosts import (
    LARGEST,
    Arrivals,
    PemMessages,
    PemOutcome,
    joined_messages,
    play_aggregator,
    play_holder,
    play_server,
)
from ksdp.extras.pem.messages import PemNodes
from ksdp.extras.pem.records import LiveRecords, load_functions, numbered, read_records
from ksdp.extras.pem.spec import LogisticSpec, PemDataSpec, PemProtocol, PemRecordsSpec, parse_pem_protocol
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
    file = read_protocol_file(path)
    spec, base = parse_pem_protocol(file.tables), file.base
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
    """Of all its records; of a live stream nothing is known beforehand."""
    live: LiveRecords | None = None

    @property
    def count(self) -> int:
        """Records at the start."""
        return sum(part.shape[0] for part in self.clients.values())


def hold_records(
    hosts: PemHosts, data: Path | None, live: str | None, client: str | None, clients: int | None
) -> HeldRecords:
    """A holder's records, by client.

    Parameters
    ----------
    data : Path, optional
        Their file.
    live : str, optional
        In its place: a path, or `-`, of records that come while the run goes on.
    client : str, optional
        Column that says whose a record is.
    clients : int, optional
        In its place: to how many clients they are dealt out in turns; one by default.
    """
    spec = hosts.spec
    if (data is None) == (live is None):
        raise InputError("one of `--data` and `--live` must be given, and not both.")
    if client is not None and clients is not None:
        raise InputError("`--client` and `--clients` exclude each other.")
    nonnegative = not isinstance(spec.algorithm, LogisticSpec)
    if live is not None:
        if client is not None or spec.budget.batch is None:
            raise InputError("`--live` goes with `budget.batch`, and with `--clients` instead of `--client`.")
        names = numbered(clients or 1)
        nothing = sp.csr_array(np.zeros((0, spec.records.wide)))
        source = LiveRecords(live, spec.records, nonnegative=nonnegative)
        return HeldRecords(dict.fromkeys(names, nothing), "live", source)
    assert data is not None
    keys = spec.records.model_dump(include=set(PemRecordsSpec.model_fields))
    dealt = None if client is not None else clients or 1
    records = read_records(
        PemDataSpec(path=str(data.resolve()), client=client, clients=dealt, **keys),
        data.resolve().parent,
        nonnegative=nonnegative,
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


def deal_out(held: HeldRecords) -> Arrivals:
    """What has come of a live stream, dealt out to a holder's clients in turns."""
    names, dealt = sorted(held.clients), 0

    def arrived() -> dict[str, sp.csr_array]:
        nonlocal dealt
        assert held.live is not None
        come = held.live.take()
        owners = (np.arange(come.shape[0]) + dealt) % len(names)
        dealt += come.shape[0]
        return {name: come[np.flatnonzero(owners == place)] for place, name in enumerate(names)}

    return arrived


class SpreadSampler:
    """A sampler whose numbers are drawn by other processes, each its part of a vector; a context that ends them.

    Parameters
    ----------
    sampler : Sampler
        One that needs no seed: every process draws by it on its own.
    processes : int
        At least 1.
    """

    def __init__(self, sampler: Sampler, processes: int) -> None:
        self._sampler, self._processes = sampler, processes
        self._pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))

    @property
    def label(self) -> str:
        """Which it is."""
        return self._sampler.label

    def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
        """Sums of `parties` independent numbers each, shape (entries,)."""
        sizes = [len(part) for part in np.array_split(np.arange(entries), self._processes)]
        drawn = self._pool.map(
            self._sampler.draw, [scale] * len(sizes), sizes, [parties] * len(sizes)
        )  # in the order of the parts
        return np.concatenate(list(drawn))

    def __enter__(self) -> SpreadSampler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


_DELTA = 1e-5
_NO_DATA = frozenset({"roll", "rolls", "hello", "hellos", "state"})


def run_pem_host(
    host: Node[PemHosts],
    *,
    algorithm: PemAlgorithm | None = None,
    held: HeldRecords | None = None,
    processes: int = 1,
    guard: BudgetGuard | None = None,
) -> dict[str, Any]:
    """Take part, and write the result into a folder: what its `run.json` says.

    Parameters
    ----------
    algorithm : PemAlgorithm, optional
        The functions; a server needs none.
    held : HeldRecords, optional
        Of a holder, which alone has some.
    processes : int
        That a server draws its noise by.
    guard : BudgetGuard, optional
        Of a holder, whose ledger the run is written into.
    """
    hosts, name, key = host.run, host.name, host.identity
    host.check()
    spec, nodes, role = hosts.spec, hosts.nodes, hosts.spec.role(name)
    _check_held(name, role, algorithm, held)
    before_data = guard.begin if guard else None
    with (
        TranscribedRun(host.out, host.clock, host.log, before_data, _NO_DATA) as noted,
        contextlib.ExitStack() as stack,
    ):
        note = noted.note
        note(what="run", me=name, role=role, agreement=nodes.agreement.hex(), records=held.count if held else 0)
        sampler: Sampler = Vetted()
        if role == "server" and processes > 1:
            sampler = stack.enter_context(SpreadSampler(sampler, processes))
        if held is not None and held.live is not None:
            stack.enter_context(held.live)

        async def play(messages: PemMessages) -> PemOutcome:
            if role == "server":
                return await play_server(messages, nodes, name, key, sampler, spec.run.patience)
            assert algorithm is not None
            if role == "aggregator":
                return await play_aggregator(messages, nodes, name, key, algorithm, spec.run.every)
            assert held is not None
            arrivals = deal_out(held) if held.live is not None else None
            return await play_holder(messages, nodes, name, key, algorithm, held.clients, arrivals)

        async def run() -> PemOutcome:
            times = spec.timeouts
            # Who comes first hears nothing before the last one has come, or is given up; then for an iteration.
            message = times.present + times.message + spec.run.every + 2 * spec.run.patience
            link = LinkTimes(message=message, reconnect=times.reconnect)
            async with (
                host.mesh(limit=LARGEST, times=link, note=note, grounds="not said") as mesh,
                joined_messages(mesh, note, present=times.present, optional=_optional(hosts, name)) as messages,
            ):
                return await play(messages)

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
    return frozenset(peer for peer in hosts.spec.peers(name) if hosts.spec.role(peer) == "holder")


def _about(hosts: PemHosts, name: str, outcome: PemOutcome, held: HeldRecords | None) -> dict[str, Any]:
    spec, nodes = hosts.spec, hosts.nodes
    done = outcome.state.iteration
    epsilon = nodes.budget.spent(done)
    live = held.live if held else None
    return {
        "me": name,
        "role": spec.role(name),
        "session": outcome.session,
        "agreement": nodes.agreement.hex(),
        "result": outcome.digest,
        "mechanism": {"name": f"pem {spec.algorithm.name}", "version": spec.pem},
        "functions": nodes.algorithm,
        "iterations": done,
        "planned_iterations": nodes.budget.iterations,
        "claimed": {"epsilon": epsilon, "delta": 0.0},
        "tight": {"epsilon": tight_epsilon(nodes.budget, _DELTA), "delta": _DELTA},
        "promise": promise(hosts),
        "parties": {node.name: spec.role(node.name) for node in spec.parties},
        "clients": outcome.clients,
        "own_clients": len(held.clients) if held else 0,
        "own_clients_at_the_end": outcome.here,
        "records": list(outcome.rows),
        "present": len(outcome.present),
        "lost": list(outcome.lost),
        "refused_uploads": outcome.refused,
        "refused_records": live.refused if live else 0,
        "own_records": live.taken if live else held.count if held else 0,
        "sampler": outcome.sampler,
    }


@dataclass(frozen=True)
class PemQuestion(NodeQuestion):
    """What `ksdp pem` would be given."""

    data: Path | None = None
    live: str | None = None
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
    if hosts.spec.role(question.me) == "server":
        return []
    try:
        own = load_functions(question.functions, question.folder) if question.functions else None
        hosts.spec.functions(own.algorithm if own else None, own.code if own else "")
    except KsdpError as error:
        return [Finding.fault(question.me, "protocol", str(error), "functions")]
    return []


def _records(question: PemQuestion, hosts: PemHosts, now: datetime) -> list[Finding]:
    me, role = question.me, hosts.spec.role(question.me)
    given = (question.data, question.live, question.client, question.clients) != (None, None, None, None)
    if role != "holder":
        if given:
            fault = f"{me} is {'the aggregator' if role == 'aggregator' else 'a server'}, and records are given"
            return [Finding.fault(me, "documents", fault, "none-held", me=me)]
        return []
    if question.data is None and question.live is None:
        return [Finding(me, "documents", "not looked at: no --data and no --live")]
    try:
        held = hold_records(hosts, question.data, question.live, question.client, question.clients)
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
