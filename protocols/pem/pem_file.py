"""The protocol file of a PEM run between hosts: who takes part as what, what a record looks like, what is run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import Field, model_validator

from ksdp.audit.errors import ProtocolError, SpecError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.audit.mechanisms.pem.parameters import Number, Positive
from ksdp.audit.mechanisms.pem.run_spec import (
    AlgorithmSpec,
    BudgetSpec,
    OwnSpec,
    PemRecordsSpec,
    check_label,
    functions,
    planned,
)
from ksdp.audit.spec_tables import Section, validated
from ksdp.protocols.channel.keys import VERSION, Participant
from ksdp.protocols.pem.field_shares import PrimeField
from ksdp.protocols.pem.rolls import PemNodes
from ksdp.protocols.pem.terms import check_room
from ksdp.protocols.runs.protocol_file import PartySpec, TimeoutsSpec


class PemRecords(PemRecordsSpec, frozen=True):
    """What a record looks like."""

    features: Number | None = None
    """Columns of a count matrix; of a table they follow from the other keys."""

    @model_validator(mode="after")
    def _one_kind(self) -> PemRecords:
        if self.described == (self.features is not None):
            raise ValueError("`features` of a count matrix, or `columns`, `edges` and `categories` of a table.")
        return self

    @property
    def wide(self) -> int:
        """Columns that a record becomes."""
        return self.features or self.width


class PemTermsSpec(Section, frozen=True):
    """Bounds of a run."""

    rows: Number
    """Most records of one client; of a stream the `batch` counts instead."""
    least_clients: Number = 1
    """With fewer the run ends."""
    field_bits: Literal[64, 32] = 64
    patience: Positive = 60.0
    """Seconds that a server waits for a host's clients; who is later is out of the run."""
    every: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)] = 0.0
    """Seconds from one iteration to the next, at least; for streams."""


class PemDraft(Section, frozen=True):
    """What a run is about, before it is known where everybody is."""

    pem: Literal[1]
    """Version of what is sent."""
    servers: Annotated[tuple[str, ...], Field(min_length=2, max_length=100)]
    """Names of those who add up; they hold no records."""
    aggregator: str
    """Name of who makes the model; it holds none either."""
    records: PemRecords
    algorithm: AlgorithmSpec
    budget: BudgetSpec
    run: PemTermsSpec
    timeouts: TimeoutsSpec = TimeoutsSpec()

    @model_validator(mode="after")
    def _says_all(self) -> PemDraft:
        check_label(self.records, self.algorithm)
        own = self.algorithm
        if isinstance(own, OwnSpec) and (own.says is None or own.code is None):
            raise ValueError("`algorithm.says` and `code` must say which functions all mean.")
        if len({*self.servers, self.aggregator}) != len(self.servers) + 1:
            raise ValueError("`servers` and `aggregator` must be different hosts.")
        return self


class PemProtocol(PemDraft, frozen=True):
    """A run between hosts."""

    parties: Annotated[tuple[PartySpec, ...], Field(min_length=4, max_length=256)]
    """All hosts: servers, the aggregator, and those that hold clients, which is everybody else."""

    @model_validator(mode="after")
    def _everybody_is_there(self) -> PemProtocol:
        names = [node.name for node in self.parties]
        for what, found in (("name", names), ("address", [node.address for node in self.parties])):
            if len(set(found)) != len(found):
                raise ValueError(f"`parties.{what}` must differ from host to host.")
        missing = sorted({*self.servers, self.aggregator} - set(names))
        if missing:
            raise ValueError(f"`parties` must list {', '.join(missing)}, too.")
        if not set(names) - {*self.servers, self.aggregator}:
            raise ValueError("`parties` must list at least one host that holds clients.")
        return self

    def role(self, name: str) -> str:
        """What a host does: `server`, `aggregator` or `holder`."""
        return "server" if name in self.servers else "aggregator" if name == self.aggregator else "holder"

    def peers(self, name: str) -> list[str]:
        """With whom a host speaks: holders with servers and the aggregator, these with everybody but servers with
        each other."""
        role = self.role(name)
        apart = {"holder": {"holder"}, "server": {"server"}, "aggregator": set[str]()}[role]
        return [node.name for node in self.parties if node.name != name and self.role(node.name) not in apart]

    def functions(self, own: PemAlgorithm | None, code: str) -> PemAlgorithm:
        """The three functions.

        Parameters
        ----------
        own : PemAlgorithm, optional
            Those that were named on the command line.
        code : str
            Hash of the file that they are in.

        Raises
        ------
        InputError
            If they are not those that the protocol file means, or its own are refused.
        """
        chosen = self.algorithm
        if isinstance(chosen, OwnSpec) and own is not None and (repr(own), code) != (chosen.says, chosen.code):
            raise SpecError(
                "the functions are not those that the protocol file means. Here they are:\n"
                f"says = {json.dumps(repr(own))}\ncode = {json.dumps(code)}"
            )
        made = functions(chosen, self.budget, self.records.wide, own)
        if isinstance(chosen, OwnSpec):
            made.init()
        return made

    def nodes(self, keys: Mapping[str, Ed25519PublicKey]) -> PemNodes:
        """Who takes part as what, by their keys.

        Raises
        ------
        SpecError
            If the sums cannot hold the noise, or two hosts have one key.
        """
        who = {node.name: Participant(node.name, keys[node.name].public_bytes_raw()) for node in self.parties}
        if len({p.identity for p in who.values()}) != len(who):
            raise SpecError("`parties.key` must differ from host to host.")
        chosen = self.algorithm
        said = chosen.says if isinstance(chosen, OwnSpec) else None
        field = PrimeField(self.run.field_bits)
        if said is None:
            made = functions(chosen, self.budget, self.records.wide)
            said = repr(made)
            try:
                check_room(made.init().blocks, planned(self.budget, chosen), self._rows, len(self.servers), field)
            except ProtocolError as error:
                raise SpecError(f"the protocol file is refused: {error}") from error
        return PemNodes(
            tuple(sorted(p for p in who.values() if self.role(p.name) == "holder")),
            tuple(sorted(who[name] for name in self.servers)),
            who[self.aggregator],
            planned(self.budget, chosen), self._rows, said, field, self.run.least_clients,
            self._agreement(who),
        )  # fmt: skip

    @property
    def _rows(self) -> int:
        return self.budget.batch or self.run.rows

    def _agreement(self, who: Mapping[str, Participant]) -> bytes:
        """Hash of everything but where hosts are and how long they wait for each other."""
        said = self.model_dump(mode="json", exclude={"parties": True, "timeouts": True})
        keys = {name: participant.identity.hex() for name, participant in sorted(who.items())}
        text = json.dumps([VERSION.decode(), said, keys], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).digest()


def is_pem(tables: Mapping[str, Any]) -> bool:
    """Whether the tables are those of a PEM run between hosts."""
    return "pem" in tables


def parse_pem_protocol(tables: Mapping[str, Any]) -> PemProtocol:
    """Check the tables of a protocol file; `SpecError` as by `validated`."""
    return validated(PemProtocol, tables, "protocol file")


def parse_pem_draft(tables: Mapping[str, Any]) -> PemDraft:
    """Check the tables of a protocol file that names no hosts yet; `SpecError` as by `validated`."""
    return validated(PemDraft, tables, "draft of a protocol file")
