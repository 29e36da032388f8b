"""What the parties of a run agree on before anything that depends on data is said.

Everybody sends a hash of all terms, the hash of every single term, and a nonce. Where the first differ the others
say which term it is. The nonces of all make a run a new one: nothing of an earlier run is taken for this one's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.contract import Mechanism
from ksdp.audit.protocols.keys import Participant, check_participants
from ksdp.audit.protocols.party_programs import Precision, check_program, needs_norms
from ksdp.audit.protocols.wire import name_of, pack, unpack

__all__ = [
    "NONCE_BYTES",
    "PROTOCOL_VERSION",
    "DifferentTerms",
    "Greeting",
    "RunTerms",
    "Statement",
    "session_seed",
]

PROTOCOL_VERSION = 1
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
    precision : Precision
    participants : tuple of Participant
        Sorted by name; at least two.

    Raises
    ------
    InputError
        If the mechanism cannot be run by parties, the rank does not fit, or sums could wrap.
    """

    mechanism: Mechanism
    features: int
    vocabulary: str
    precision: Precision
    participants: tuple[Participant, ...]

    def __post_init__(self) -> None:
        check_participants(self.participants, 2)
        check_program(self.mechanism)
        if self.features < 1:
            raise InputError(f"`features` must be at least 1; got {self.features}.")
        self.mechanism.observables(self.features)
        self.precision.coding(self.parties)
        self.precision.integer_bits(self.parties)

    @property
    def parties(self) -> int:
        """M."""
        return len(self.participants)

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
            "sums": "secsum+normedsecsum" if needs_norms(self.mechanism) else "secsum",
            "parties": [[p.name, p.identity.hex()] for p in self.participants],
        }
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
        """What `to_bytes` wrote.

        Raises
        ------
        ProtocolError
            If it is something else.
        """
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
    """On what grounds a party takes part; sent once the terms are known to be the same."""

    cleared: bool
    clearance: str = ""
    """SHA-256 of the clearance's file; empty where there is none."""

    def to_bytes(self) -> bytes:
        """As it travels."""
        return pack("statement", b"cleared" if self.cleared else b"uncleared", self.clearance.encode())

    @classmethod
    def from_bytes(cls, data: bytes) -> Statement:
        """What `to_bytes` wrote.

        Raises
        ------
        ProtocolError
            If it is something else.
        """
        said, clearance = unpack("statement", data, 2)
        text = name_of(clearance)
        whole = len(text) == 64 and set(text) <= set("0123456789abcdef")
        if (said, whole, text == "") not in ((b"cleared", True, False), (b"uncleared", False, True)):
            raise ProtocolError("A statement is damaged.")
        return cls(said == b"cleared", text)


def session_seed(terms: RunTerms, nonces: Mapping[str, bytes], statements: Mapping[str, Statement]) -> bytes:
    """32 bytes that only the parties of this one run share, with all that was said so far."""
    said = (
        pack("said", p.name.encode(), nonces[p.name], statements[p.name].to_bytes()) for p in terms.participants
    )
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
