"""PEM on one machine: every party a process, over loopback TCP."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError, SpecError
from ksdp.audit.mechanisms.contract import SAMPLERS
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState
from ksdp.audit.mechanisms.pem.noise import Budget, Sampler, Simulated, Vetted, tight_epsilon
from ksdp.extras.pem.messages import PemTerms, PemUpload, PrimeField, check_room, pack_state, unpack_state
from ksdp.extras.pem.parties import PemAggregator, PemClient, PemServer
from ksdp.extras.pem.records import Records, read_records
from ksdp.extras.pem.spec import AprioriSpec, LogisticSpec, PemRunSpec, PemSpec, parse_pem_spec
from ksdp.flows.interruption import Clock, current
from ksdp.flows.runs.local import Launcher, run_in_process
from ksdp.protocols.channel.keys import Envelope, Participant
from ksdp.protocols.network.links import FrameStream
from ksdp.storage.readers.files import Refused, read_toml
from ksdp.storage.store import write_arrays, write_json
from ksdp.tasks.provenance import versions

_HOST = "127.0.0.1"
_LIMIT = 1 << 30
"""Bytes of the longest message that is taken."""
_BUFFER = 1 << 20
_PASS_BYTES, _PASS_SECONDS = 64, 10.0


@dataclass(frozen=True)
class Fate:
    """When a client fails: from this iteration on it sends nothing, or only to the first server."""

    iteration: int
    halfway: bool = False


@dataclass(frozen=True, eq=False)
class ClientJob:
    """One client of a process."""

    name: str
    records: sp.csr_array
    fate: Fate | None = None
    stream: tuple[sp.csr_array, ...] = ()
    """Batches that arrive one before each iteration after the first."""


async def _connect(port: int, kind: str) -> FrameStream:
    link = FrameStream(*await asyncio.open_connection(_HOST, port, limit=_BUFFER), _LIMIT)
    await link.send(_pass(kind))
    return link


def _pass(kind: str) -> bytes:
    """What opens a door."""
    return hmac.digest(
        bytes(multiprocessing.current_process().authkey), b"ksdp-pem-door-1 " + kind.encode(), "sha256"
    )


class _Door:
    """A listening socket; whoever connects shows first that it belongs to the run, and as what."""

    def __init__(self) -> None:
        self.links: dict[str, list[FrameStream]] = {"clients": [], "server": []}
        self._came = asyncio.Condition()

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._welcome, _HOST, 0, limit=_BUFFER)
        return int(self._server.sockets[0].getsockname()[1])

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = FrameStream(reader, writer, _PASS_BYTES)
        try:
            shown = await asyncio.wait_for(link.receive(), _PASS_SECONDS)
        except (TimeoutError, ProtocolError, OSError, asyncio.IncompleteReadError):
            shown = b""
        kind = next((kind for kind in self.links if hmac.compare_digest(shown, _pass(kind))), None)
        if kind is None:
            await link.close()
            return
        link.allow(_LIMIT)
        async with self._came:
            self.links[kind].append(link)
            self._came.notify_all()

    async def wait_for(self, kind: str, count: int) -> list[FrameStream]:
        async with self._came:
            await self._came.wait_for(lambda: len(self.links[kind]) >= count)
        return self.links[kind]

    async def close(self) -> None:
        self._server.close()
        for link in (link for links in self.links.values() for link in links):
            await link.close()


async def _received(pipe: Connection) -> Any:
    return await asyncio.to_thread(pipe.recv)


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def aggregator_process(pipe: Connection, algorithm: PemAlgorithm, client_processes: int) -> None:
    """The aggregator: gives its port and public key, gets the terms, runs, tells of every iteration, gives the
    final state.
    """

    async def work() -> dict[str, Any]:
        key, door = Ed25519PrivateKey.generate(), _Door()
        pipe.send(("ready", (await door.open(), _public(key))))
        terms: PemTerms = await _received(pipe)
        aggregator = PemAggregator(terms, key, algorithm)
        servers = await door.wait_for("server", len(terms.servers))
        clients = await door.wait_for("clients", client_processes)
        started = time.perf_counter()
        while aggregator.due != "done":
            state = aggregator.begin().to_bytes()
            await asyncio.gather(*(link.send(state) for link in (*servers, *clients)))
            if aggregator.due == "done":
                break
            lists = await asyncio.gather(*(link.receive() for link in servers))
            roster = aggregator.roster(map(Envelope.from_bytes, lists)).to_bytes()
            await asyncio.gather(*(link.send(roster) for link in servers))
            sums = await asyncio.gather(*(link.receive() for link in servers))
            aggregator.reduce(map(Envelope.from_bytes, sums))
            pipe.send(("step", len(aggregator.totals)))
        seconds = time.perf_counter() - started
        await door.close()
        return {
            "state": pack_state(aggregator.state),
            "rows": [total.rows for total in aggregator.totals],
            "present": list(aggregator.present),
            "epsilon": aggregator.epsilon,
            "seconds": seconds,
            "bytes": sum(link.sent for link in (*servers, *clients)),
        }

    run_in_process(pipe, lambda: asyncio.run(work()))


def server_process(
    pipe: Connection, name: str, client_processes: int, patience: float, simulated_seed: int | None
) -> None:
    """A server: gives its port and public key, gets the terms and the aggregator's port, runs."""

    async def work() -> dict[str, Any]:
        key, door = Ed25519PrivateKey.generate(), _Door()
        pipe.send(("ready", (await door.open(), _public(key))))
        terms, port = await _received(pipe)
        seed = simulated_seed
        sampler: Sampler = Vetted() if seed is None else Simulated(np.random.default_rng([seed, *name.encode()]))
        sampler.draw(1.0, 1)  # loads what it needs now, not in the first iteration
        server = PemServer(terms, name, key, sampler=sampler)
        clients = await door.wait_for("clients", client_processes)
        aggregator = await _connect(port, "server")
        hello = server.hello().to_bytes()
        await asyncio.gather(*(link.send(hello) for link in clients))
        hellos: list[Envelope] = []
        for link in clients:
            count = int.from_bytes(await link.receive(), "big")
            hellos += [Envelope.from_bytes(await link.receive()) for _ in range(count)]
        server.hear(hellos)
        arrived: asyncio.Queue[bytes] = asyncio.Queue()
        listeners = [asyncio.create_task(_listen(link, arrived)) for link in clients]
        early: list[PemUpload] = []
        refused = iteration = 0
        while server.open(Envelope.from_bytes(await aggregator.receive())):
            refused += await _gather(server, arrived, early, iteration, patience)
            await aggregator.send(server.present().to_bytes())
            await aggregator.send(server.total(Envelope.from_bytes(await aggregator.receive())).to_bytes())
            iteration += 1
        for task in listeners:
            task.cancel()
        await aggregator.close()
        await door.close()
        return {"sampler": sampler.label, "refused": refused, "bytes": aggregator.sent}

    run_in_process(pipe, lambda: asyncio.run(work()))


async def _listen(link: FrameStream, arrived: asyncio.Queue[bytes]) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            await arrived.put(await link.receive())


async def _gather(
    server: PemServer, arrived: asyncio.Queue[bytes], early: list[PemUpload], iteration: int, patience: float
) -> int:
    """Take uploads until nobody is missing or it is late; how many were refused."""
    refused = 0
    deadline = asyncio.get_running_loop().time() + patience
    waiting, early[:] = list(early), []
    while server.waits_for:
        if waiting:
            upload = waiting.pop()
        else:
            left = deadline - asyncio.get_running_loop().time()
            try:
                upload = PemUpload.from_bytes(await asyncio.wait_for(arrived.get(), max(left, 0.001)))
            except TimeoutError:
                break
        if upload.iteration > iteration:  # a quick client's next one, before our aggregator's next state
            early.append(upload)
            continue
        try:
            server.take(upload)
        except ProtocolError:
            refused += 1
    return refused


def clients_process(pipe: Connection, jobs: Sequence[ClientJob], algorithm: PemAlgorithm) -> None:
    """Some clients: gives their public keys, gets the terms and the ports, runs."""

    async def work() -> dict[str, Any]:
        keys = {job.name: Ed25519PrivateKey.generate() for job in jobs}
        pipe.send(("ready", {name: _public(key) for name, key in keys.items()}))
        terms, aggregator_port, ports = await _received(pipe)
        clients = {j.name: PemClient(terms, j.name, keys[j.name], algorithm, j.records) for j in jobs}
        servers = {name: await _connect(port, "clients") for name, port in ports.items()}
        aggregator = await _connect(aggregator_port, "clients")
        hellos = [client.hello().to_bytes() for client in clients.values()]
        for link in servers.values():
            await link.send(len(hellos).to_bytes(8, "big"))
            for hello in hellos:
                await link.send(hello)
        greetings = [Envelope.from_bytes(await link.receive()) for link in servers.values()]
        for client in clients.values():
            client.hear(greetings)
        iteration, going = 0, True
        while going:
            message = Envelope.from_bytes(await aggregator.receive())
            for job in jobs:
                if 0 < iteration <= len(job.stream):
                    clients[job.name].offer(job.stream[iteration - 1])
                uploads = clients[job.name].answer(message)
                going = bool(uploads)
                for server, upload in uploads.items():
                    fails = job.fate is not None and iteration >= job.fate.iteration
                    if not fails or (job.fate is not None and job.fate.halfway and server == min(uploads)):
                        await servers[server].send(upload.to_bytes())
            iteration += 1
        sent = sum(link.sent for link in servers.values())
        for link in (*servers.values(), aggregator):
            await link.close()
        return {"bytes": sent}

    run_in_process(pipe, lambda: asyncio.run(work()))


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

    Whoever listens (`ksdp.flows.interruption`) hears of parties that are ready and of iterations that are done. No
    process outlives the call, however it ends.

    Parameters
    ----------
    jobs : sequence of ClientJob
        The clients.
    run : PemRunSpec, optional
        Servers, processes, noise and patience, as `[run]` of a spec says them.
    rows : int, optional
        Most records of a client in an iteration; the largest client's by default.
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


def require_new_folder(folder: Path) -> None:
    """Refuse a folder that has something in it, or that cannot be made."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder.")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; name a new folder.")
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be made: {above} cannot be written to.")


def write_pem_result(folder: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
    """Write both files beside the folder, and put them in its place at once."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".part"))
    try:
        write_arrays(part / "model.npz", arrays)
        write_json(part / "result.json", dict(about))
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


_DELTA = 1e-5


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
    return parse_pem_spec(read_toml(path, "the spec")), path.resolve().parent


def prepare_pem(spec: PemSpec, base: Path, own: PemAlgorithm | None = None) -> PreparedPem:
    """Read the records and check that the run can be made.

    Parameters
    ----------
    own : PemAlgorithm, optional
        Functions of one's own, where the spec says that there are some.
    """
    records = read_records(spec.data, base, nonnegative=not isinstance(spec.algorithm, LogisticSpec))
    algorithm = spec.functions(records.matrix.shape[1], own)
    if isinstance(spec.algorithm, LogisticSpec) and spec.algorithm.label is not None:
        _check_label(records, spec.algorithm.label)
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
    """Run all parties as processes of this machine; write `result.json` and `model.npz`; return the former.

    Parameters
    ----------
    out : Path
        A new or empty folder.
    clock : callable
        The time, with a time zone.
    """
    require_new_folder(out)
    spec, records = prepared.spec, prepared.records
    began = clock()
    jobs = [
        ClientJob(f"client {name}", part)
        for name, part in zip(records.clients, records.parts(), strict=True)
    ]  # fmt: skip
    result = run_pem(prepared.algorithm, jobs, spec.planned(), spec.run, rows=prepared.rows)
    content = _about(prepared, result) | {
        "started": began.isoformat(timespec="seconds"),
        "finished": clock().isoformat(timespec="seconds"),
        "versions": versions(),
    }
    write_pem_result(out, result.state.arrays, content)
    return content


def _check_label(records: Records, label: int) -> None:
    column = records.matrix[:, [label]].toarray()[:, 0]
    wrong = (column != 0) & (column != 1)
    if wrong.any():
        raise Refused(
            records.path, "is not 0 or 1, and it is the label.", row=int(wrong.argmax()) + 1, column=str(label + 1)
        )


def _about(prepared: PreparedPem, result: PemResult) -> dict[str, Any]:
    spec, records = prepared.spec, prepared.records
    done = len(result.rows)
    there = set(result.present)
    return {
        "algorithm": prepared.algorithm.name,
        "iterations": done,
        "planned_iterations": spec.algorithm.iterations,
        "records": result.rows,
        "clients": len(records.clients),
        "lost_clients": [name for name in records.clients if f"client {name}" not in there],
        "servers": spec.run.servers,
        "cost": {
            "epsilon": result.epsilon,
            "delta": 0.0,
            "tight_epsilon": tight_epsilon(spec.planned(), _DELTA, done),
            "tight_delta": _DELTA,
            "unit": "one record replaced by any other; how many records each client has is public",
            "against": f"the aggregator, other clients and all but one of {spec.run.servers} servers, together",
        },
        "sampler": {
            "name": spec.run.sampler,
            "is": SAMPLERS[spec.run.sampler],
            "drawn_by": result.sampler,
            "protects": spec.run.sampler == "discrete",
        },
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
