"""What the parties of a run agree on before anything that depends on data is said.

Everybody sends a hash of all terms, the hash of every single term, and a nonce. Where the first differ the others
say which term it is. The nonces of all make a run a new one: nothing of an earlier run is taken for this one's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.contract import Mechanism
from ksdp.protocols.channel.keys import Participant, check_participants
from ksdp.protocols.channel.wire import name_of, pack, unpack
from ksdp.protocols.runs.programs import (
    Precision,
    check_noisy,
    check_program,
    how_summed,
    is_noisy,
    program_of,
)
from ksdp.protocols.runs.share_terms import ShareTerms, check_sizes, share_terms, uses_shares

PROTOCOL_VERSION = 4
"""Of what parties send each other, and in which order."""
NONCE_BYTES = 32
_MAX_TERMS = 256


class DifferentTerms(ProtocolError):
    """A party means another run."""


@dataclass(frozen=True)
class RunTerms:
    """What all parties must mean alike.

    Parameters
    ----------
    mechanism : Mechanism
        With every parameter; seed, rank and the stop rule among them.
    features : int
        Columns.
    vocabulary : str
        `sha256:` of the names of the features in their order.
    participants : tuple of Participant
        The parties, sorted by name; at least two.
    server : Participant, optional
        Who collects, where the mechanism needs that; it holds no documents.
    rows : str
        `sha256:` of how every party makes its rows; empty where that is not agreed.
    shares : ShareTerms, optional
        Who computes on shares, where the final output alone is opened or norms are hidden; settled if not given.

    Raises
    ------
    InputError
        If the mechanism cannot be run by these parties, the rank does not fit, sums could wrap, or there is a
        server where none is needed or none where one is.
    """

    mechanism: Mechanism
    features: int
    vocabulary: str
    precision: Precision
    participants: tuple[Participant, ...]
    server: Participant | None = None
    rows: str = ""
    shares: ShareTerms | None = None

    def __post_init__(self) -> None:
        check_participants(self.participants, 2)
        check_program(self.mechanism)
        self._check_server()
        if self.features < 1:
            raise InputError(f"`features` must be at least 1; got {self.features}.")
        self.mechanism.observables(self.features)
        self._settle_shares()
        check_sizes(self.mechanism, self.features, self.parties * self.precision.bound)
        self.precision.coding(self.parties)
        if is_noisy(self.mechanism):
            check_noisy(self.mechanism, self.precision.fraction_bits, self.precision.bound, self.parties)

    def _settle_shares(self) -> None:
        given, names = self.shares, tuple(p.name for p in self.participants)
        if uses_shares(self.mechanism):
            settled = share_terms(self.mechanism, self.features, names, *(astuple(given) if given else ()))
            object.__setattr__(self, "shares", settled)
        elif given is not None:
            raise InputError('`shares` must be left out unless `opens` is "final" or norms are hidden.')

    def _check_server(self) -> None:
        name, why = self.mechanism.name, program_of(self.mechanism).server
        if self.server is None:
            if why:
                raise InputError(f"`server` must be given for {name}: {why}.")
            return
        if not why:
            raise InputError(f"`server` must not be given for {name}: its parties need no server.")
        check_participants(tuple(sorted(self.nodes)), 3)

    @property
    def parties(self) -> int:
        """M; the server is none of them."""
        return len(self.participants)

    @property
    def nodes(self) -> tuple[Participant, ...]:
        """The parties, then the server, where there is one."""
        return self.participants if self.server is None else (*self.participants, self.server)

    def others(self, name: str) -> tuple[str, ...]:
        """Names of all nodes but one."""
        return tuple(p.name for p in self.nodes if p.name != name)

    @cached_property
    def terms(self) -> dict[str, Any]:
        """Every term by its name, as JSON knows values."""
        assert is_dataclass(self.mechanism)
        said = {
            "protocol": PROTOCOL_VERSION,
            "mechanism.name": self.mechanism.name,
            "mechanism.version": self.mechanism.version,
            "features": self.features,
            "vocabulary": self.vocabulary,
            "precision.fraction_bits": self.precision.fraction_bits,
            "precision.bound": self.precision.bound,
            "sums": how_summed(self.mechanism),
            "parties": [[p.name, p.identity.hex()] for p in self.participants],
            "server": [self.server.name, self.server.identity.hex()] if self.server else None,
        }
        if self.rows:
            said["rows"] = self.rows
        if self.shares is not None:
            said |= {f"shares.{name}": value for name, value in asdict(self.shares).items()}
        for field in fields(self.mechanism):
            if field.init:
                said[f"mechanism.{field.name}"] = getattr(self.mechanism, field.name)
        return said

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Of every term."""
        return {name: hashlib.sha256(_json(value)).hexdigest() for name, value in sorted(self.terms.items())}

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that two parties share only if they agree on everything."""
        return hashlib.sha256(pack("run-terms", _json(self.terms))).digest()


@dataclass(frozen=True)
class Greeting:
    """The first message of a party; it holds nothing of its data."""

    digest: bytes
    hashes: Mapping[str, str]
    nonce: bytes

    def to_bytes(self) -> bytes:
        """As it travels."""
        return pack("greeting", self.digest, self.nonce, _json(self.hashes))

    @classmethod
    def from_bytes(cls, data: bytes) -> Greeting:
        """What `to_bytes` wrote."""
        digest, nonce, text = unpack("greeting", data, 3)
        hashes = _object(text)
        if len(nonce) != NONCE_BYTES or len(hashes) > _MAX_TERMS:
            raise ProtocolError("A greeting is damaged.")
        return cls(digest, {str(name): str(value) for name, value in hashes.items()}, nonce)

    def check(self, own: RunTerms, sender: str) -> None:
        """Refuse a party that means something else.

        Raises
        ------
        DifferentTerms
            Naming every term that differs.
        """
        if self.digest == own.digest:
            return
        names = own.hashes.keys() | self.hashes.keys()
        other = sorted(name for name in names if own.hashes.get(name) != self.hashes.get(name))
        # Names of terms that only the other end knows are its own words, and are not repeated.
        known = [f"`{name}` ({_shown(own.terms[name])} here)" for name in other if name in own.terms]
        what = ", ".join(known) or "a term that is not known here"
        raise DifferentTerms(f"{sender} agreed to something else; what differs: {what}.")


@dataclass(frozen=True)
class Statement:
    """On what grounds a node takes part; sent once the terms are known to be the same."""

    cleared: bool
    clearance: str = ""
    """SHA-256 of the clearance's file; empty where there is none."""
    collects: bool = False
    """The server's: it enters nothing, so that there is nothing to clear."""

    def __post_init__(self) -> None:
        if self.collects and (self.cleared or self.clearance):
            raise InputError("a server enters nothing that could be cleared.")

    def to_bytes(self) -> bytes:
        """As it travels."""
        word = b"collects" if self.collects else b"cleared" if self.cleared else b"uncleared"
        return pack("statement", word, self.clearance.encode())

    @classmethod
    def from_bytes(cls, data: bytes) -> Statement:
        """What `to_bytes` wrote."""
        said, clearance = unpack("statement", data, 2)
        text = name_of(clearance)
        whole = len(text) == 64 and set(text) <= set("0123456789abcdef")
        known = ((b"cleared", True, False), (b"uncleared", False, True), (b"collects", False, True))
        if (said, whole, text == "") not in known:
            raise ProtocolError("A statement is damaged.")
        return cls(said == b"cleared", text, said == b"collects")

    def as_json(self) -> dict[str, Any]:
        """For files."""
        if self.collects:
            return {"collects": True}
        return {"cleared": self.cleared, "clearance": self.clearance or None}


COLLECTS = Statement(cleared=False, collects=True)
"""What a server states."""


def session_seed(terms: RunTerms, nonces: Mapping[str, bytes], statements: Mapping[str, Statement]) -> bytes:
    """32 bytes that only the nodes of this one run share, with all that was said so far."""
    said = (pack("said", p.name.encode(), nonces[p.name], statements[p.name].to_bytes()) for p in terms.nodes)
    return hashlib.sha256(pack("run", terms.digest, *said)).digest()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ProtocolError("A greeting is damaged.") from None
    if not isinstance(found, dict):
        raise ProtocolError("A greeting is damaged.")
    return found


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
