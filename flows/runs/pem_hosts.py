"""PEM between hosts: what one of them does, from its files to its result."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.audit.mechanisms.pem.budget import tight_epsilon
from ksdp.audit.mechanisms.pem.discrete_laplace import Sampler, Vetted
from ksdp.flows.clock import Clock, utc_now
from ksdp.flows.runs.budget import Purse
from ksdp.flows.runs.check_words import about_of
from ksdp.flows.runs.node_run import NotedRun
from ksdp.flows.runs.pem_records import HeldRecords, deal_out
from ksdp.flows.runs.pem_terms import PemHosts, promise
from ksdp.flows.runs.watch import Watch
from ksdp.protocols.network.certificates import make_credentials
from ksdp.protocols.network.links import LinkTimes
from ksdp.protocols.network.mesh import Address, Mesh, Peer
from ksdp.protocols.network.pem_holder import play_holder
from ksdp.protocols.network.pem_messages import LARGEST, PemMessages, PemOutcome, joined_messages
from ksdp.protocols.network.pem_nodes import play_aggregator, play_server
from ksdp.protocols.pem.spread_noise import SpreadSampler
from ksdp.storage.runs.results import require_no_result, write_run

_DELTA = 1e-5
_NO_DATA = frozenset({"roll", "rolls", "hello", "hellos", "state"})


@dataclass(frozen=True, eq=False)
class PemHost:
    """One host of a run, on its own machine."""

    hosts: PemHosts
    """All of them, as the protocol file says."""
    name: str
    key: Ed25519PrivateKey
    out: Path
    """Folder of the result; made where there is none."""
    listen: Address | None = None
    """Where it is not the address that the others dial."""
    clock: Clock = utc_now
    watch: Watch = field(default_factory=Watch)
    """Told of all that happens."""


def run_pem_host(
    host: PemHost,
    *,
    algorithm: PemAlgorithm | None = None,
    held: HeldRecords | None = None,
    processes: int = 1,
    purse: Purse | None = None,
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
    purse : Purse, optional
        Of a holder, whose ledger the run is written into.

    Raises
    ------
    InputError
        If the name, the key, the folder, the records or the budget are refused.
    ProtocolError
        If the run ends without a result; then none is written.
    """
    hosts, name, key = host.hosts, host.name, host.key
    require_no_result(host.out)
    spec, nodes, role = hosts.spec, hosts.nodes, hosts.spec.role(name)
    nodes.check(name, key)
    _check_held(name, role, algorithm, held)
    before_data = purse.begin if purse else None
    with (
        NotedRun(host.out, host.clock, host.watch, before_data, _NO_DATA) as noted,
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
            present = spec.timeouts.present
            async with (
                _mesh(host, note) as mesh,
                joined_messages(mesh, note, present=present, optional=_optional(hosts, name)) as messages,
            ):
                return await play(messages)

        outcome = noted.played(run())
        about = _about(hosts, name, outcome, held) | noted.took()
        write_run(host.out, outcome.state.arrays, {}, about)
        note(what="done", session=outcome.session, result=outcome.digest)
    if purse is not None:
        purse.finish(about)
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


def _mesh(host: PemHost, note: Any) -> Mesh:
    hosts, name, clock = host.hosts, host.name, host.clock
    times, keys = hosts.spec.timeouts, {peer: hosts.keys[peer] for peer in hosts.spec.peers(name)}
    # Whoever comes first hears nothing before the last one has come, or is given up; then for a whole iteration.
    message = times.present + times.message + hosts.spec.run.every + 2 * hosts.spec.run.patience
    return Mesh(
        name,
        host.listen or hosts.address(name),
        {peer: Peer(peer, hosts.address(peer), public) for peer, public in keys.items()},
        make_credentials(host.key, keys, now=clock()),
        limit=LARGEST,
        times=LinkTimes(message=message, reconnect=times.reconnect),
        observe=lambda what, peer: note(what=what, peer=peer),
        about=lambda: about_of(hosts, "not said", clock()).to_bytes(),
    )


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
