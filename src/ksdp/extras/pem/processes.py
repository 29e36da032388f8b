"""PEM on one machine: every host a process, over loopback; what hosts do on machines of their own (`hosts`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.errors import InputError, ProtocolError, SpecError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState
from ksdp.audit.mechanisms.pem.noise import Budget
from ksdp.audit.specs.models import validated
from ksdp.extras.pem.hosts import LARGEST, cost_of, joined_messages, play
from ksdp.extras.pem.messages import PemNodes, PrimeField, check_room
from ksdp.extras.pem.records import Records, read_records
from ksdp.extras.pem.spec import AprioriSpec, PemRunSpec, PemSpec
from ksdp.flows.interruption import Clock, current
from ksdp.flows.runs.local import Launcher, run_in_process
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.network.links import LinkTimes
from ksdp.protocols.network.mesh import Address, Mesh, Peer
from ksdp.protocols.network.tls import make_credentials
from ksdp.storage.readers.files import read_toml
from ksdp.storage.runs.results import require_no_result, write_run
from ksdp.tasks.provenance import versions

_HUB = "aggregator"
_PRESENT = 120.0
"""Seconds for the slowest process to start."""


@dataclass(frozen=True, eq=False)
class _Host:
    """What one process is given when it starts."""

    name: str
    algorithm: PemAlgorithm
    run: PemRunSpec
    records: Mapping[str, sp.csr_array]
    """Of its clients; empty at a server and at the aggregator."""


def _host_process(pipe: Connection, host: _Host) -> None:
    """Give the public key, get who the others are and where, take part, give what it came to."""
    run_in_process(pipe, lambda: asyncio.run(_take_part(pipe, host)))


async def _take_part(pipe: Connection, host: _Host) -> dict[str, Any]:
    key, name = Ed25519PrivateKey.generate(), host.name
    pipe.send(("ready", key.public_key().public_bytes_raw()))
    nodes, ports = await asyncio.to_thread(pipe.recv)
    keys = {p.name: Ed25519PublicKey.from_public_bytes(p.identity) for p in nodes.everybody.values()}
    peers = {peer: keys[peer] for peer in nodes.peers(name)}

    def note(**event: Any) -> None:
        if event["what"] == "sent" and event["kind"] == "roster" and event["peer"] == servers[0]:
            pipe.send(("step", event["round"]))

    servers = [p.name for p in nodes.servers]
    mesh = Mesh(
        name,
        Address("127.0.0.1", ports[name]),
        {peer: Peer(peer, Address("127.0.0.1", ports[peer]), public) for peer, public in peers.items()},
        make_credentials(key, peers, now=datetime.now(UTC)),
        limit=LARGEST,
        times=LinkTimes(message=host.run.timeout, reconnect=2.0),
        observe=lambda what, peer: None,
    )
    async with mesh, joined_messages(mesh, note, present=_PRESENT, optional=frozenset()) as messages:
        started = time.perf_counter()
        outcome = await play(messages, nodes, name, key, host.algorithm, host.records, host.run.patience)
        seconds = time.perf_counter() - started
    return {"outcome": outcome, "seconds": seconds, "bytes": messages.sent}


@dataclass(frozen=True, eq=False)
class PemResult:
    """What came of a run."""

    state: PemState
    """The last one."""
    rows: tuple[int, ...]
    """Records that took part, iteration by iteration."""
    present: tuple[str, ...]
    """Clients that were there at the end."""
    epsilon: float
    """What it cost a record."""
    sampler: str
    """What drew the noise."""
    seconds: float
    """From the first state to the last, without starting processes."""
    sent: dict[str, int]
    """Bytes that clients, servers and the aggregator sent."""
    refused: int
    """Uploads that a server did not take: late, or of clients that had left."""


def run_pem(
    algorithm: PemAlgorithm,
    clients: Mapping[str, sp.csr_array],
    budget: Budget,
    run: PemRunSpec | None = None,
    *,
    rows: int | None = None,
) -> PemResult:
    """Start every host as a process of its own and wait for the result.

    Whoever listens (`ksdp.flows.interruption`) hears of hosts that are ready and of iterations that are done. No
    process outlives the call, however it ends.

    Parameters
    ----------
    clients : mapping
        Records by client, dealt out to `run.processes` hosts.
    run : PemRunSpec, optional
        Servers, processes, noise and patience, as `[run]` of a spec says them.
    rows : int, optional
        Most records of a client in an iteration; the largest client's by default.
    """
    if not clients:
        raise InputError("There must be at least one client.")
    run = run or PemRunSpec()
    if run.least_clients > len(clients):
        raise InputError(f"{len(clients)} clients are there; `least_clients` asks for {run.least_clients}.")
    rows = rows or max(part.shape[0] for part in clients.values())
    names = sorted(clients)
    held = {
        f"clients {i + 1}": {client: clients[client] for client in names[i :: run.processes]}
        for i in range(min(run.processes, len(names)))
    }
    servers = [f"server {j + 1}" for j in range(run.servers)]
    hosts = [_Host(name, algorithm, run, held.get(name, {})) for name in (_HUB, *servers, *held)]
    current().stage("start", len(hosts))
    with Launcher(run.timeout) as launcher:
        pipes = {host.name: launcher.start(_host_process, host) for host in hosts}
        who = {name: Participant(name, launcher.hear(pipe)) for name, pipe in pipes.items()}
        nodes = PemNodes(
            tuple(sorted(who[name] for name in held)), tuple(sorted(who[name] for name in servers)), who[_HUB],
            budget, rows, repr(algorithm), PrimeField(run.field_bits), run.least_clients,
            os.urandom(32),  # makes this run a new one
        )  # fmt: skip
        current().stage("iterate", budget.iterations)
        ports = dict(zip(pipes, free_ports(len(pipes)), strict=True))
        for pipe in pipes.values():
            pipe.send((nodes, ports))
        ends = {name: launcher.end(pipe) for name, pipe in pipes.items()}
    hub, serving = ends[_HUB]["outcome"], [ends[name]["outcome"] for name in servers]
    sent = {"clients": held, "servers": servers, "aggregator": [_HUB]}
    return PemResult(
        hub.state,
        hub.rows,
        tuple(sorted(name.partition("/")[2] for name in hub.present)),
        budget.spent(len(hub.rows)),
        serving[0].sampler,
        ends[_HUB]["seconds"],
        {role: sum(ends[name]["bytes"] for name in members) for role, members in sent.items()},
        sum(server.refused for server in serving),
    )


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. Whoever takes one before its host has no key of the run."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in held]


@dataclass(frozen=True, eq=False)
class PreparedPem:
    """A run that nothing stands in the way of."""

    spec: PemSpec
    records: Records
    algorithm: PemAlgorithm
    rows: int
    """Most records of a client in an iteration."""


def read_pem_spec(path: Path) -> tuple[PemSpec, Path]:
    """Read a TOML spec: (spec, folder that its paths are relative to)."""
    return validated(PemSpec, read_toml(path, "the spec"), "spec"), path.resolve().parent


def prepare_pem(spec: PemSpec, base: Path, own: PemAlgorithm | None = None) -> PreparedPem:
    """Read the records and check that the run can be made.

    Parameters
    ----------
    own : PemAlgorithm, optional
        Functions of one's own, where the spec says that there are some.
    """
    records = read_records(spec.data, base, spec.algorithm)
    algorithm = spec.made(records.matrix.shape[1], own)
    clients = len(records.clients)
    if spec.run.least_clients > clients:
        raise SpecError(f"`run.least_clients` must be at most the number of clients, {clients}.")
    rows = spec.budget.batch or int(np.bincount(records.owners).max())
    try:
        check_room(
            algorithm.init().blocks, spec.planned(), clients * rows, spec.run.servers,
            PrimeField(spec.run.field_bits),
        )  # fmt: skip
    except ProtocolError as error:
        raise SpecError(f"the spec is refused: {error}") from error
    return PreparedPem(spec, records, algorithm, rows)


def run_prepared(prepared: PreparedPem, out: Path, clock: Clock) -> dict[str, Any]:
    """Run all parties as processes of this machine; write `run.json` and `result.npz`; return the former.

    Parameters
    ----------
    out : Path
        A folder without a result.
    clock : callable
        The time, with a time zone.
    """
    require_no_result(out)
    spec, records = prepared.spec, prepared.records
    began = clock()
    clients = dict(zip(records.clients, records.parts(), strict=True))
    result = run_pem(prepared.algorithm, clients, spec.planned(), spec.run, rows=prepared.rows)
    content = _about(prepared, result) | {
        "started": began.isoformat(timespec="seconds"),
        "finished": clock().isoformat(timespec="seconds"),
        "versions": versions(),
    }
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_run(out, result.state.arrays, {}, content)
    return content


def _about(prepared: PreparedPem, result: PemResult) -> dict[str, Any]:
    spec, records = prepared.spec, prepared.records
    there = set(result.present)
    return cost_of(spec.planned(), len(result.rows), spec.run.servers) | {
        "algorithm": prepared.algorithm.name,
        "records": result.rows,
        "clients": len(records.clients),
        "lost": [name for name in records.clients if name not in there],
        "servers": spec.run.servers,
        "sampler": result.sampler,
        "found": _found(prepared, result),
        "columns": records.columns,
        "arrays": {name: list(array.shape) for name, array in sorted(result.state.arrays.items())},
        "seconds": result.seconds,
        "bytes_sent": result.sent,
        "refused_uploads": result.refused,
        "spec": spec.model_dump(mode="json"),
    }


def _found(prepared: PreparedPem, result: PemResult) -> str:
    """What the model is, in a few words."""
    arrays = result.state.arrays
    if isinstance(prepared.spec.algorithm, AprioriSpec):
        counts = [len(arrays[f"items{length}"]) for length in range(1, len(result.rows) + 1)]
        return "frequent itemsets by length: " + ", ".join(str(count) for count in counts)
    sizes = (f"{name}: {' x '.join(map(str, array.shape))}" for name, array in sorted(arrays.items()))
    return "; ".join(sizes)
