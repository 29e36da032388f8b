"""From a protocol file to the terms of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksdp.audit.errors import SpecError
from ksdp.audit.registry import mechanism_of
from ksdp.audit.spec.models import Spec
from ksdp.flows.runs.countersigned import ProtocolFile, features_hash, file_below, public_key, read_protocol_file
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.network.mesh import Address
from ksdp.protocols.runs.programs import Precision, check_program, is_noisy
from ksdp.protocols.runs.protocol_file import PartySpec, RunSpec, parse_run_spec
from ksdp.protocols.runs.run_terms import RunTerms
from ksdp.protocols.runs.share_terms import share_terms, uses_shares
from ksdp.storage.readers.counts import read_vocabulary
from ksdp.storage.readers.files import toml_value


@dataclass(frozen=True, eq=False)
class Run:
    """A protocol file, checked."""

    spec: RunSpec
    file: ProtocolFile
    terms: RunTerms
    features: tuple[str, ...] | None
    """Their names, where the file gives them."""

    @property
    def base(self) -> Path:
        """Folder that its paths are relative to."""
        return self.file.base

    def address(self, name: str) -> Address:
        """Where a party, or the server, listens."""
        return next(Address.parse(node.address) for node in self.spec.nodes if node.name == name)

    @property
    def who(self) -> tuple[Participant, ...]:
        """All nodes with their keys."""
        return self.terms.nodes

    @property
    def said(self) -> Mapping[str, Any]:
        """Every term by its name."""
        return self.terms.terms

    def speaks_with(self, name: str) -> tuple[str, ...]:
        """All other nodes."""
        return self.terms.others(name)

    @property
    def server(self) -> str:
        """Name of the server; empty where there is none."""
        return self.spec.server.name if self.spec.server else ""


def read_run(path: Path) -> Run:
    """Read and check a protocol file, with the keys and the vocabulary that it names."""
    file = read_protocol_file(path)
    spec, base = parse_run_spec(file.tables), file.base
    count, vocabulary, names = _features(spec, base)
    for node in spec.nodes:
        Address.parse(node.address)
    participants = tuple(sorted(_participant(base, party) for party in spec.parties))
    server = _participant(base, spec.server) if spec.server else None
    mechanism = mechanism_of(spec.mechanism, installed=True)
    bits, bound = spec.precision.fraction_bits, spec.precision.bound
    widest = Precision.widest(mechanism, bits, len(participants))
    precision = widest if bound is None else Precision(bits, bound)
    shares = None
    if spec.shares is not None:
        if not uses_shares(mechanism):
            raise SpecError('`shares` must be left out unless `mechanism.opens` is "final" or norms are hidden.')
        parties, asked = tuple(p.name for p in participants), spec.shares
        shares = share_terms(mechanism, count, parties, asked.computing, asked.block, asked.rounds)
    terms = RunTerms(
        mechanism,
        count,
        vocabulary,
        precision,
        participants,
        server,
        rows=spec.features.rows or "",
        shares=shares,
    )
    return Run(spec, file, terms, names)


def _features(spec: RunSpec, base: Path) -> tuple[int, str, tuple[str, ...] | None]:
    """How many columns the run has, the hash of their names, and the names, if a vocabulary says them."""
    features = spec.features
    if features.vocabulary is None:
        assert features.hash is not None
        assert features.count is not None
        return features.count, features.hash, None
    names = read_vocabulary(file_below(base, features.vocabulary, "features.vocabulary"), "utf-8")
    if (features.hash or features_hash(names), features.count or len(names)) != (features_hash(names), len(names)):
        raise SpecError("`features.vocabulary` is not the file that `features.hash` and `features.count` name.")
    return len(names), features_hash(names), names


def protocol_text(spec: Spec, features: Mapping[str, str | int], parties: Sequence[str]) -> str:
    """A protocol file for the mechanism of a spec: noise, where there is any, as only runs draw it.

    Parameters
    ----------
    features : mapping
        `hash`, `count` and `rows`.
    parties : sequence of str
        NAME@HOST:PORT each; keys are expected in NAME.pub beside the file.

    Raises
    ------
    InputError
        If parties cannot run the mechanism, or they are not so written.
    """
    mechanism = mechanism_of(spec.mechanism)
    check_program(mechanism)
    table = {"name": mechanism.name, **spec.mechanism.parameters}
    if is_noisy(mechanism):
        table["sampler"] = "discrete"
    lines = ["protocol = 1", "", "[mechanism]", *_lines(table), "", "[features]", *_lines(features)]
    for party in parties:
        name, at, address = party.partition("@")
        if not at:
            raise SpecError(f"`--party` must be NAME@HOST:PORT; got {party!r}.")
        Address.parse(address)
        lines += ["", "[[parties]]", *_lines({"name": name, "address": address, "key": f"{name}.pub"})]
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {toml_value(value)}" for key, value in table.items() if value is not None]


def _participant(base: Path, node: PartySpec) -> Participant:
    return Participant(node.name, public_key(base, node.key).public_bytes_raw())
