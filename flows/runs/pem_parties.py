"""Run PEM among real processes on this machine: clients (in batches), m servers, an aggregator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState
from ksdp.audit.mechanisms.pem.budget import Budget
from ksdp.flows.progress import current
from ksdp.flows.runs.launcher import Launcher
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.network.pem_processes import ClientJob, aggregator_process, clients_process, server_process
from ksdp.protocols.pem.field_shares import PrimeField
from ksdp.protocols.pem.state_messages import unpack_state
from ksdp.protocols.pem.terms import PemTerms

__all__ = ["PemResult", "run_pem"]


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
    *,
    servers: int = 2,
    processes: int = 2,
    patience: float = 10.0,
    simulated_seed: int | None = None,
    field_bits: int = 64,
    least_clients: int = 1,
    rows: int | None = None,
    timeout: float = 600.0,
) -> PemResult:
    """Start every party as a process of its own and wait for the result.

    Whoever listens (`ksdp.flows.progress`) hears of parties that are ready and of iterations that are done. No
    process outlives the call, however it ends.

    Parameters
    ----------
    jobs : sequence of ClientJob
        The clients.
    servers : int
        m, at least 2.
    processes : int
        Processes that the clients are spread over.
    patience : float
        Seconds that a server waits for a client; one that is later is out of the run.
    simulated_seed : int, optional
        Noise from NumPy, for simulations; OpenDP's otherwise.
    field_bits : {64, 32}
    least_clients : int
        With fewer the run ends.
    rows : int, optional
        Most records of a client in an iteration; the largest client's by default.
    timeout : float
        Seconds after which the run is given up.

    Raises
    ------
    InputError
        If something is refused before the start.
    ProtocolError
        If a party ended with an error, or nothing came in time.
    """
    if not jobs or processes < 1:
        raise InputError("There must be at least one client and one process for it.")
    parts = [list(jobs[i::processes]) for i in range(min(processes, len(jobs)))]
    server_names = [f"server {j + 1}" for j in range(servers)]
    current().stage("start", 1 + servers + len(parts))
    with Launcher(timeout) as launcher:
        aggregator = launcher.start(aggregator_process, algorithm, len(parts))
        ports_of = [
            launcher.start(server_process, name, len(parts), patience, simulated_seed) for name in server_names
        ]
        clients = [launcher.start(clients_process, part, algorithm) for part in parts]
        aggregator_port, aggregator_key = launcher.hear(aggregator)
        opened = [launcher.hear(pipe) for pipe in ports_of]
        keys = {name: key for pipe in clients for name, key in launcher.hear(pipe).items()}
        terms = PemTerms(
            tuple(Participant(name, key) for name, key in sorted(keys.items())),
            tuple(Participant(n, key) for n, (_, key) in sorted(zip(server_names, opened, strict=True))),
            Participant("aggregator", aggregator_key),
            budget,
            rows or max(job.records.shape[0] for job in jobs),
            repr(algorithm),
            os.urandom(16),  # makes this run a new one
            PrimeField(field_bits),
            least_clients,
        )
        ports = {n: port for n, (port, _) in sorted(zip(server_names, opened, strict=True))}
        current().stage("iterate", budget.iterations)
        aggregator.send(terms)
        for pipe in ports_of:
            pipe.send((terms, aggregator_port))
        for pipe in clients:
            pipe.send((terms, aggregator_port, ports))
        result = launcher.end(aggregator)
        from_servers = [launcher.end(pipe) for pipe in ports_of]
        from_clients = [launcher.end(pipe) for pipe in clients]
    sent = {"clients": from_clients, "servers": from_servers, "aggregator": [result]}
    return PemResult(
        unpack_state(result["state"]),
        tuple(result["rows"]),
        tuple(result["present"]),
        result["epsilon"],
        from_servers[0]["sampler"],
        result["seconds"],
        {role: sum(one["bytes"] for one in many) for role, many in sent.items()},
        sum(one["refused"] for one in from_servers),
    )
