"""The records of a host that holds clients: of a file, or as they come."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.run_spec import LogisticSpec, PemDataSpec, PemRecordsSpec
from ksdp.flows.runs.pem_terms import PemHosts
from ksdp.protocols.network.pem_holder import Arrivals
from ksdp.storage.readers.live_records import LiveRecords
from ksdp.storage.readers.records import numbered, read_records


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

    Raises
    ------
    InputError
        Naming the option, or the file, row and column, at fault.
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
