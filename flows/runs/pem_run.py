"""A PEM run from a spec: all is checked, then all parties run on this machine, then the result is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ksdp.audit.errors import ProtocolError, SpecError
from ksdp.audit.mechanisms.guarantee import SAMPLERS
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.audit.mechanisms.pem.budget import tight_epsilon
from ksdp.audit.mechanisms.pem.run_spec import AprioriSpec, LogisticSpec, PemSpec, parse_pem_spec
from ksdp.flows.clock import Clock
from ksdp.flows.runs.pem_parties import PemResult, run_pem
from ksdp.protocols.network.pem_processes import ClientJob
from ksdp.protocols.pem.field_shares import PrimeField
from ksdp.protocols.pem.terms import check_room
from ksdp.storage.readers.files import Refused
from ksdp.storage.readers.records import Records, read_records
from ksdp.storage.readers.toml import read_toml
from ksdp.storage.runs.pem_results import require_new_folder, write_pem_result
from ksdp.tasks.provenance import versions

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

    Raises
    ------
    InputError
        Naming the key, or the file, row and column, at fault.
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

    Raises
    ------
    InputError
        If `out` is refused; nothing was started.
    ProtocolError
        If the run ended without a result; nothing was written.
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
