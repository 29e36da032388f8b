"""PEM on one machine: all hosts play their rounds in this process."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ksdp.audit.errors import InputError, ProtocolError, SpecError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState
from ksdp.audit.mechanisms.pem.noise import Budget
from ksdp.audit.specs.models import validated
from ksdp.extras.pem.records import Records, read_records
from ksdp.extras.pem.rounds import PemTerms, pem_rounds
from ksdp.extras.pem.spec import AprioriSpec, PemRunSpec, PemSpec, cost_of
from ksdp.flows.interruption import Clock, advance, check_stopped, current, interrupts_wait
from ksdp.protocols.channel.rounds import Round, play_together
from ksdp.storage.files import read_toml
from ksdp.storage.runs.results import require_no_result, write_run
from ksdp.tasks.provenance import versions

_HOLDER, _HUB = "clients", "aggregator"


@dataclass(frozen=True, eq=False)
class PemResult:
    """Result of a run."""

    state: PemState
    rows: tuple[int, ...]
    """Records that took part, iteration by iteration."""
    epsilon: float
    """Epsilon that the run cost a record."""
    sampler: str
    seconds: float
    sent: dict[str, int]
    """Bytes that clients, servers and the aggregator sent."""


def _terms(algorithm: PemAlgorithm, budget: Budget, run: PemRunSpec, rows: int) -> PemTerms:
    servers = tuple(f"server {number + 1}" for number in range(run.servers))
    terms = {"algorithm": repr(algorithm), "budget": repr(budget), "rows": rows, **run.model_dump(mode="json")}
    return PemTerms((_HOLDER,), servers, _HUB, budget, rows, repr(algorithm), run.least_clients, terms)


def run_pem(
    algorithm: PemAlgorithm,
    clients: Mapping[str, sp.csr_array],
    budget: Budget,
    run: PemRunSpec | None = None,
    *,
    rows: int | None = None,
) -> PemResult:
    """Play a host with all clients, the servers and the aggregator, and return the result."""
    if not clients:
        raise InputError("There must be at least one client.")
    run = run or PemRunSpec()
    if run.least_clients > len(clients):
        raise InputError(f"{len(clients)} clients are there; `least_clients` asks for {run.least_clients}.")
    terms = _terms(algorithm, budget, run, rows or max(part.shape[0] for part in clients.values()))
    current().stage("iterate", budget.iterations)
    sent = Counter[str]()

    def watch(said: Mapping[str, Round]) -> None:
        check_stopped()
        for name, each in said.items():
            role = _HOLDER if name == _HOLDER else _HUB if name == _HUB else "servers"
            sent[role] += sum(map(len, each.messages.values()))
        if said[_HUB].kind == "roster":
            advance(1)

    began = time.perf_counter()
    sides = {name: pem_rounds(terms, name, algorithm, clients) for name in terms.everybody}
    with interrupts_wait():  # OpenDP finalises measurements all the time
        ends = play_together(sides, watch)
    hub, sampler = ends[_HUB], ends[terms.servers[0]].sampler
    seconds = time.perf_counter() - began
    return PemResult(hub.state, hub.rows, budget.spent(len(hub.rows)), sampler, seconds, dict(sent))


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
    """Read the records and check that the run can be made."""
    records = read_records(spec.data, base, spec.algorithm)
    algorithm = spec.made(records.matrix.shape[1], own)
    clients = len(records.clients)
    if spec.run.least_clients > clients:
        raise SpecError(f"`run.least_clients` must be at most the number of clients, {clients}.")
    rows = spec.budget.batch or int(np.bincount(records.owners).max())
    try:
        _terms(algorithm, spec.planned(), spec.run, rows).check_room(algorithm.init().blocks, clients)
    except ProtocolError as error:
        raise SpecError(f"the spec is refused: {error}") from error
    return PreparedPem(spec, records, algorithm, rows)


def run_prepared(prepared: PreparedPem, out: Path, clock: Clock) -> dict[str, Any]:
    """Play all hosts in this process; write `run.json` and `result.npz`; return the former."""
    require_no_result(out)
    spec, records = prepared.spec, prepared.records
    began = clock()
    clients = dict(zip(records.clients, records.parts(), strict=True))
    result = run_pem(prepared.algorithm, clients, spec.planned(), spec.run, rows=prepared.rows)
    content = cost_of(spec.planned(), len(result.rows), spec.run.servers) | {
        "algorithm": prepared.algorithm.name,
        "records": result.rows,
        "clients": len(records.clients),
        "servers": spec.run.servers,
        "sampler": result.sampler,
        "found": _found(prepared, result),
        "columns": records.columns,
        "arrays": {name: list(array.shape) for name, array in sorted(result.state.arrays.items())},
        "seconds": result.seconds,
        "bytes_sent": result.sent,
        "spec": spec.model_dump(mode="json"),
        "started": began.isoformat(timespec="seconds"),
        "finished": clock().isoformat(timespec="seconds"),
        "versions": versions(),
    }
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_run(out, result.state.arrays, {}, content)
    return content


def _found(prepared: PreparedPem, result: PemResult) -> str:
    arrays = result.state.arrays
    if isinstance(prepared.spec.algorithm, AprioriSpec):
        counts = [len(arrays[f"items{length}"]) for length in range(1, len(result.rows) + 1)]
        return "frequent itemsets by length: " + ", ".join(str(count) for count in counts)
    sizes = (f"{name}: {' x '.join(map(str, array.shape))}" for name, array in sorted(arrays.items()))
    return "; ".join(sizes)
