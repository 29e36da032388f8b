"""Run PEM among real processes on this machine: clients (in batches), m servers, an aggregator."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState
from ksdp.audit.mechanisms.pem.budget import Budget
from ksdp.audit.mechanisms.pem.run_spec import PemRunSpec
from ksdp.flows.progress import current
from ksdp.flows.runs.launcher import Launcher
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.network.pem_processes import ClientJob, aggregator_process, clients_process, server_process
from ksdp.protocols.pem.field_shares import PrimeField
from ksdp.protocols.pem.state_messages import unpack_state
from ksdp.protocols.pem.terms import PemTerms


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
    jobs: Sequence[ClientJob],
    budget: Budget,
    run: PemRunSpec | None = None,
    *,
    rows: int | None = None,
) -> PemResult:
    """Start every party as a process of its own and wait for the result.

    Whoever listens (`ksdp.flows.progress`) hears of parties that are ready and of iterations that are done. No
    process outlives the call, however it ends.

    Parameters
    ----------
    jobs : sequence of ClientJob
        The clients.
    run : PemRunSpec, optional
        Servers, processes, noise and patience, as `[run]` of a spec says them.
    rows : int, optional
        Most records of a client in an iteration; the largest client's by default.

    Raises
    ------
    InputError
        If something is refused before the start.
    ProtocolError
        If a party ended with an error, or nothing came in time.
    """
    if not jobs:
        raise InputError("There must be at least one client.")
    run = run or PemRunSpec()
    rows = rows or max(job.records.shape[0] for job in jobs)
    parts = [list(jobs[i :: run.processes]) for i in range(min(run.processes, len(jobs)))]
    names = [f"server {j + 1}" for j in range(run.servers)]
    current().stage("start", 1 + len(names) + len(parts))
    with Launcher(run.timeout) as launcher:
        aggregator = launcher.start(aggregator_process, algorithm, len(parts))
        servers = [
            launcher.start(server_process, name, len(parts), run.patience, run.simulated_seed) for name in names
        ]
        clients = [launcher.start(clients_process, part, algorithm) for part in parts]
        aggregator_port, aggregator_key = launcher.hear(aggregator)
        opened = {name: launcher.hear(pipe) for name, pipe in zip(names, servers, strict=True)}
        terms = PemTerms(
            _participants({name: key for pipe in clients for name, key in launcher.hear(pipe).items()}),
            _participants({name: key for name, (_, key) in opened.items()}),
            Participant("aggregator", aggregator_key),
            budget,
            rows,
            repr(algorithm),
            os.urandom(16),  # makes this run a new one
            PrimeField(run.field_bits),
            run.least_clients,
        )
        ports = {name: opened[name][0] for name in sorted(opened)}
        current().stage("iterate", budget.iterations)
        aggregator.send(terms)
        for pipe in servers:
            pipe.send((terms, aggregator_port))
        for pipe in clients:
            pipe.send((terms, aggregator_port, ports))
        told = launcher.end(aggregator)
        return _result(told, [launcher.end(pipe) for pipe in servers], [launcher.end(pipe) for pipe in clients])


def _participants(keys: Mapping[str, bytes]) -> tuple[Participant, ...]:
    return tuple(Participant(name, key) for name, key in sorted(keys.items()))


def _result(told: dict[str, Any], by_servers: list[dict[str, Any]], by_clients: list[dict[str, Any]]) -> PemResult:
    """What the aggregator, the servers and the clients told at the end."""
    sent = {"clients": by_clients, "servers": by_servers, "aggregator": [told]}
    return PemResult(
        unpack_state(told["state"]),
        tuple(told["rows"]),
        tuple(told["present"]),
        told["epsilon"],
        by_servers[0]["sampler"],
        told["seconds"],
        {role: sum(one["bytes"] for one in many) for role, many in sent.items()},
        sum(one["refused"] for one in by_servers),
    )
