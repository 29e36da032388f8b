"""What the parties of a secure sum agree on, send and get."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.channel.keys import VERSION, Participant, check_participants
from ksdp.protocols.channel.wire import name_of, number_of, pack, pack_number, unpack


@dataclass(frozen=True)
class SumTerms:
    """What all parties agree on before the first message."""

    participants: tuple[Participant, ...]
    """Sorted by name; at least two."""
    agreement: bytes
    """Anything else they agreed on (hash of mechanism, spec, clearances), and what makes this run a new one."""

    def __post_init__(self) -> None:
        check_participants(self.participants, 2)

    @cached_property
    def session(self) -> bytes:
        """Hash of all this, 32 bytes; no key or message of another session is taken."""
        who = (field for p in self.participants for field in (p.name.encode(), p.identity))
        return hashlib.sha256(pack("sum-terms", VERSION, self.agreement, *who)).digest()


@dataclass(frozen=True)
class Contribution:
    """One party's masked vector for one sum, for everybody else."""

    session: bytes
    sender: str
    number: int
    """Of the sum, from 0."""
    shape: tuple[int, ...]
    coding: bytes
    """Of `FixedPoint.to_bytes`."""
    payload: bytes | memoryview
    """Entries modulo 2^64, little-endian."""
    tags: tuple[tuple[str, bytes], ...]
    """Receiver and AES-GMAC tag (16 bytes) over all the rest, sorted by receiver."""

    def header(self) -> bytes:
        """All but the entries and the tags."""
        shape = (pack_number(n) for n in self.shape)
        return pack(
            "sum-header", self.session, self.sender.encode(), pack_number(self.number), self.coding, *shape
        )

    def to_bytes(self) -> bytes:
        """As it travels."""
        tags = (field for name, tag in self.tags for field in (name.encode(), tag))
        return pack("contribution", self.header(), self.payload, *tags)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Contribution:
        """What `to_bytes` wrote; the tag is checked by `SumParty.combine`."""
        fields = unpack("contribution", data)
        if len(fields) < 2 or len(fields) % 2:
            raise ProtocolError("A contribution has the wrong number of fields.")
        header = unpack("sum-header", fields[0])
        if len(header) < 4:
            raise ProtocolError("The header of a contribution has too few fields.")
        session, sender, number, coding = header[:4]
        shape = tuple(number_of(field) for field in header[4:])
        tags = tuple(zip(map(name_of, fields[2::2]), fields[3::2], strict=True))
        return cls(session, name_of(sender), number_of(number), shape, coding, fields[1], tags)


@dataclass(frozen=True, eq=False)
class SecureTotal:
    """A sum, and what it gives away."""

    values: NDArray[np.float64]
    number: int
    """Of the sum, from 0."""
    parties: int
    reveals: str
    """What somebody who took part can compute from it, in plain words."""


def what_follows(parties: int) -> str:
    """What somebody who took part can compute from an exact sum, in plain words."""
    if parties == 2:
        return "Two parties: each learns the other's input exactly, by subtracting its own from the sum."
    return f"Any {parties - 1} of the {parties} parties together learn the last one's input, by subtraction."


def tag(key: bytes, number: int, header: bytes, payload: bytes | memoryview) -> bytes:
    """AES-GMAC of a contribution under the key of one direction of one pair."""
    # GCM without plaintext is GMAC. A nonce is a sum's number, so none repeats under a key of one direction.
    mac = Cipher(algorithms.AES(key), modes.GCM(number.to_bytes(12, "big"))).encryptor()
    mac.authenticate_additional_data(header)
    mac.authenticate_additional_data(payload)
    mac.finalize()
    return mac.tag
