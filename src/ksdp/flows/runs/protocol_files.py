"""The protocol file that every party signs, from its text to the terms of a run.

One TOML file. `[[signatures]]` stand last, one a party, written by `ksdp agree --invite` and `--accept`: Ed25519
over the hash of all lines (with the keys and the vocabulary that they name) and 32 bits of a hash of each line.
So a file that was changed after somebody signed is refused, and the refusal names the lines that are new.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.registry import mechanism_of
from ksdp.audit.specs.models import Spec, validated
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.network.mesh import Address
from ksdp.protocols.programs.programs import Precision, check_program, is_noisy, packages_of
from ksdp.protocols.programs.protocol_file import PartySpec, RunSpec, parse_draft, parse_run_spec
from ksdp.protocols.programs.run_terms import RunTerms, who_must_be_trusted
from ksdp.protocols.programs.share_terms import share_terms, uses_shares
from ksdp.storage.files import LARGEST_TOML, read_bounded, read_toml, toml_value
from ksdp.storage.keys import load_public
from ksdp.storage.readers.counts import read_vocabulary
from ksdp.storage.store import write_whole

_PREFIX = b"ksdp-protocol-file-1\n"
_DIGITS = 40
"""Hex digits of the fingerprint: 160 bits, as whoever writes the file could look for two with one fingerprint."""
_SIGNATURES = re.compile(r"^[ \t]*\[\[[ \t]*signatures[ \t]*\]\]", re.MULTILINE)
_LEARNS = re.compile(r"\Alearns = .*\n")
_SHOWN = 100


@dataclass(frozen=True)
class Signature:
    """One party's signature, as it stands in the file."""

    name: str
    content: str
    """SHA-256 of the lines that were signed, in hex."""
    lines: str
    """Eight hex digits for each of them."""
    signature: str

    def signed(self) -> bytes:
        """Bytes that the signature is over."""
        return _PREFIX + json.dumps([self.name, self.content, self.lines]).encode()


@dataclass(frozen=True, eq=False)
class ProtocolFile:
    """A protocol file as it was read; its keys and values are not checked."""

    path: Path
    text: str
    tables: Mapping[str, Any]
    signatures: tuple[Signature, ...]

    @property
    def base(self) -> Path:
        """Folder that its paths are relative to."""
        return self.path.resolve().parent

    @cached_property
    def lines(self) -> dict[str, str]:
        """Every line that counts, by its key: values as JSON, keys in hex, the vocabulary by its hash."""
        return dict(sorted(self._flat(self.tables)))

    @property
    def words(self) -> str:
        """All lines, for a terminal."""
        return "\n".join(f"{_plain(key):32} {value}" for key, value in self.lines.items())

    @cached_property
    def content(self) -> str:
        """SHA-256 of all lines, in hex."""
        return hashlib.sha256(_PREFIX + json.dumps(self.lines).encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """Groups of four hex digits, 160 bits, for people to compare."""
        return "-".join(self.content[at : at + 4] for at in range(0, _DIGITS, 4))

    def _flat(self, value: Any, path: str = "") -> Iterator[tuple[str, str]]:
        if isinstance(value, Mapping):
            for key, item in value.items():
                yield from self._flat(item, f"{path}.{key}" if path else str(key))
        elif path == "parties" and isinstance(value, list):
            for at, item in enumerate(value):
                name = item.get("name", at) if isinstance(item, Mapping) else at
                yield from self._flat(item, f"parties.{name}")
        elif re.fullmatch(r"(parties\..*|server)\.key", path) and isinstance(value, str):
            yield path, public_key(self.base, value).public_bytes_raw().hex()
        elif path == "features.vocabulary" and isinstance(value, str):
            yield path, features_hash(read_vocabulary(file_below(self.base, value, path), "utf-8"))
        else:
            yield path, json.dumps(value, sort_keys=True, default=str)

    @property
    def keys(self) -> dict[str, Ed25519PublicKey]:
        """Every party's, and the server's."""
        by_party = {name: bytes.fromhex(fields["key"]) for name, (_, fields) in self._entries().items()}
        return {name: Ed25519PublicKey.from_public_bytes(key) for name, key in by_party.items()}

    def faults(self) -> tuple[str, ...]:
        """Name those who have not signed the present lines of the file, one sentence each; none if all have."""
        keys = self.keys
        signed = {signature.name: signature for signature in self.signatures}
        faults = [f"{_plain(name)} is no party, and has signed it" for name in signed if name not in keys]
        for name, key in keys.items():
            if name not in signed:
                faults.append(f"{name} has not signed it")
                continue
            if (signature := signed[name]).content != self.content:
                faults.append(f"{name} has signed other lines: {self.changed_since(signature)}")
                continue
            try:
                key.verify(bytes.fromhex(signature.signature), signature.signed())
            except (InvalidSignature, ValueError):
                faults.append(f"the signature of {name} is not by the key that the file names for {name}")
        return tuple(faults)

    def changed_since(self, signature: Signature) -> str:
        """Which lines are not as they were when this was signed."""
        signed = {signature.lines[at : at + 8] for at in range(0, len(signature.lines), 8)}
        new = [
            f"`{_plain(key)}` is {_short(value)} now"
            for key, value in self.lines.items()
            if _mark(key, value) not in signed
        ]
        gone = len(signed) - (len(self.lines) - len(new))
        return "; ".join(new) or f"{gone} that it has signed are gone"

    def require_signed(self) -> None:
        """Refuse a file that some have signed, and not all as it is now."""
        if self.signatures and (faults := self.faults()):
            raise InputError(
                f"{self.path.name} is not signed by all as it is: {'; '.join(faults)}. Each of them: ksdp agree "
                f"{self.path.name} --me NAME --key NAME.key --accept."
            )

    def sign(self, name: str, key: Ed25519PrivateKey) -> None:
        """Write this party's signature of the lines as they are into the file; the others' stay."""
        named = self.keys.get(name)
        if named is None or named.public_bytes_raw() != key.public_key().public_bytes_raw():
            raise InputError(f"{self.path.name} does not name this key for {name}.")
        marks = "".join(_mark(key, value) for key, value in self.lines.items())
        unsigned = Signature(name, self.content, marks, "")
        mine = Signature(name, self.content, marks, key.sign(unsigned.signed()).hex())
        self.write([signature for signature in self.signatures if signature.name != name] + [mine])

    def state(self, learns: str) -> ProtocolFile:
        """Write who learns what into the file, as its first line; signatures stay, of the lines they are over."""
        text = f"learns = {toml_value(learns)}\n{_LEARNS.sub('', self.text, count=1)}"
        stated = replace(self, text=text, tables=tomllib.loads(text))
        stated.write(self.signatures)
        return stated

    def join(self, name: str, address: str, key: Ed25519PublicKey, *, server: bool) -> None:
        """Write a party, or the server, into the file."""
        Address.parse(address)
        entry = {"name": name, "address": address, "key": key.public_bytes_raw().hex()}
        validated(PartySpec, entry, "party")
        if name in self._entries() or (server and "server" in self.tables):
            who = name if name in self._entries() else "a server"
            raise InputError(f"{who} is in {self.path.name}: change its lines there; all must sign them again.")
        if "pem" not in self.tables:  # `ksdp pem --check` says what is wrong with those
            parse_draft({key: value for key, value in self.tables.items() if key not in ("parties", "server")})
        self.write(self.signatures, [("[server]" if server else "[[parties]]", entry)])

    def merge(self, copies: Sequence[ProtocolFile]) -> None:
        """Take parties and signatures from copies of this file, whose other lines must be the same."""
        entries, signatures = self._entries(), {each.name: each for each in self.signatures}
        added: list[tuple[str, dict[str, Any]]] = []
        for copy in copies:
            here, there = (
                {key: value for key, value in each.lines.items() if not key.startswith(("parties.", "server."))}
                for each in (self, copy)
            )
            for key in sorted(here.keys() | there.keys()):
                if here.get(key) != there.get(key):
                    was, now = (_short(each.get(key, "left out")) for each in (here, there))
                    raise InputError(
                        f"{copy.path.name} is no copy of {self.path.name}: `{_plain(key)}` is {now}, {was} here."
                    )
            for name, (kind, entry) in copy._entries().items():
                if entries.setdefault(name, (kind, entry)) != (kind, entry):
                    raise InputError(
                        f"{_plain(name)} has another entry in {copy.path.name} than in {self.path.name}."
                    )
                if name not in self._entries() and all(each["name"] != name for _, each in added):
                    added.append((kind, entry))
            signatures |= {each.name: each for each in copy.signatures}
        self.write(signatures.values(), added)

    def _entries(self) -> dict[str, tuple[str, dict[str, Any]]]:
        listed = self.tables.get("parties", [])
        tables = [("[[parties]]", table) for table in (listed if isinstance(listed, list) else [listed])]
        tables += [("[server]", self.tables["server"])] if "server" in self.tables else []
        entries = {}
        for kind, table in tables:
            if not (
                isinstance(table, Mapping)
                and all(isinstance(table.get(k), str) for k in ("name", "address", "key"))
            ):
                raise SpecError(f"each party in {self.path.name} must have a `name`, an `address` and a `key`.")
            key = public_key(self.base, table["key"]).public_bytes_raw().hex()
            entries[str(table["name"])] = (kind, {**table, "key": key})
        return entries

    def write(self, signatures: Any, added: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> None:
        """Write the file with these signatures, and with parties added."""
        blocks = [*added, *(("[[signatures]]", vars(s)) for s in sorted(signatures, key=lambda s: s.name))]
        text = self.text.rstrip() + "\n"
        for header, fields in blocks:
            text += f"\n{header}\n" + "".join(f"{key} = {toml_value(value)}\n" for key, value in fields.items())
        write_whole(self.path, lambda part: part.write_text(text, encoding="utf-8"))


def read_protocol_file(path: Path) -> ProtocolFile:
    """Read a protocol file, or the draft of one."""
    tables = read_toml(path, "the protocol file")
    listed = tables.pop("signatures", [])
    content = read_bounded(path, LARGEST_TOML).decode("utf-8")
    first = _SIGNATURES.search(content) if listed else None
    text = content[: first.start()] if first else content
    try:
        signatures = tuple(Signature(**table) for table in listed)
        if not all(isinstance(value, str) for table in listed for value in table.values()):
            raise TypeError
        if tomllib.loads(text) != tables or len({table.name for table in signatures}) != len(signatures):
            raise ValueError
    except (TypeError, ValueError, AttributeError):
        raise SpecError(
            f"the signatures of {path.name} cannot be read: `[[signatures]]` stand last, one a party, as `ksdp "
            "agree` writes them."
        ) from None
    return ProtocolFile(path, text, tables, signatures)


def require_typed(typed: str, file: ProtocolFile) -> None:
    """Refuse a fingerprint that is not the file's; the right one is not shown."""
    if re.sub(r"[\s-]", "", typed).lower() != file.content[:_DIGITS]:
        raise InputError(
            f"what was typed is not the fingerprint of {file.path.name} ({_DIGITS} hex digits). Ask again by "
            "telephone; if they still differ, the file was changed on its way: do not go on."
        )


def file_below(base: Path, named: str, key: str) -> Path:
    """A file that a protocol file names, which must be in its own folder or below."""
    path = (base / named).resolve()
    if not path.is_relative_to(base.resolve()):
        raise SpecError(
            f"`{key}` must be a file in the folder of the protocol file, or below; got {named[:_SHOWN]!r}."
        )
    return path


def public_key(base: Path, text: str) -> Ed25519PublicKey:
    """The key that a protocol file names: 64 hex digits, or a file beside it."""
    if re.fullmatch(r"[0-9a-f]{64}", text):
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    return load_public(file_below(base, text, "key"))


def features_hash(names: Sequence[str]) -> str:
    """`sha256:` of feature names in their order, a line feed after each."""
    return "sha256:" + hashlib.sha256("".join(f"{name}\n" for name in names).encode()).hexdigest()


def _mark(key: str, value: str) -> str:
    return hashlib.sha256(f"{key}\0{value}".encode()).hexdigest()[:8]


def _plain(text: str) -> str:
    return _short(json.dumps(text)[1:-1])


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


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

    @property
    def packages(self) -> tuple[str, ...]:
        """Optional packages that it imports."""
        return packages_of(self.terms.mechanism)

    @property
    def server(self) -> str:
        """Name of the server; empty where there is none."""
        return self.spec.server.name if self.spec.server else ""


def read_run(path: Path, *, stated: bool = True) -> Run:
    """Read and check a protocol file, with the keys and the vocabulary that it names."""
    file = read_protocol_file(path)
    if "pem" in file.tables:
        raise SpecError(f"{path.name} is of a run of PEM: `ksdp pem {path.name} --me NAME --key NAME.key`.")
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
        parties, computing = tuple(p.name for p in participants), spec.shares
        shares = share_terms(mechanism, count, parties, computing.computing, computing.block, computing.rounds)
    threshold = spec.leave.threshold if spec.leave else 0
    least = {party.name: party.enters or 0 for party in spec.parties}
    terms = RunTerms(
        mechanism,
        count,
        vocabulary,
        precision,
        participants,
        server,
        rows=spec.features.rows or "",
        shares=shares,
        threshold=threshold,
        enters=tuple(least[party.name] for party in participants),
    )
    if stated and spec.learns not in (None, who_must_be_trusted(terms)):
        raise SpecError(
            f"`learns` must be what follows from the other lines of {path.name}, which is: "
            f"{who_must_be_trusted(terms)} `ksdp agree {path.name} --invite` writes it."
        )
    return Run(spec, file, terms, names)


def _features(spec: RunSpec, base: Path) -> tuple[int, str, tuple[str, ...] | None]:
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
    """A protocol file for the mechanism of a spec: noise, where there is any, as only runs draw it."""
    mechanism = mechanism_of(spec.mechanism)
    check_program(mechanism)
    table = {"name": spec.mechanism.name, **spec.mechanism.parameters}
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
