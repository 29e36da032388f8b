"""What devices and server agree on before noises are removed: see `noise_removal`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from gmpy2 import mpz

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.keys import VERSION, Participant, check_participants
from ksdp.protocols.channel.wire import pack, pack_number
from ksdp.protocols.one_noise.packing import Slots
from ksdp.protocols.one_noise.paillier import PublicKey


@dataclass(frozen=True)
class RemovalTerms:
    """What all agree on before the first message.

    Parameters
    ----------
    participants : tuple of Participant
        The devices, sorted by name; at least three: of two, each knows the other's noise from the sum.
    public : PublicKey
        Of the server.
    bound : int
        Largest size of one number of noise, in steps of the grid.
    entries : int
        Numbers of noise of each device.
    agreement : bytes
        Anything else they agreed on, and what makes this run a new one.

    Raises
    ------
    InputError
        If the people, the sizes or the key do not fit.
    """

    participants: tuple[Participant, ...]
    server: Participant
    public: PublicKey
    bound: int
    entries: int
    agreement: bytes

    def __post_init__(self) -> None:
        check_participants(self.participants, 3)
        if any(self.server.name == p.name or self.server.identity == p.identity for p in self.participants):
            raise InputError("`server` must not be one of the devices.")
        if self.entries < 1:
            raise InputError(f"`entries` must be at least 1; got {self.entries}.")
        _ = self.slots  # refused here, if they do not fit

    @cached_property
    def slots(self) -> Slots:
        """How noise is packed."""
        return Slots(self.public.bits, self.bound, len(self.participants))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the devices, in their order."""
        return tuple(p.name for p in self.participants)

    @cached_property
    def width(self) -> int:
        """Bytes of a ciphertext."""
        return -(-2 * self.public.bits // 8)

    @cached_property
    def session(self) -> bytes:
        """Hash of all this, 32 bytes."""
        people = (field for p in (self.server, *self.participants) for field in (p.name.encode(), p.identity))
        key = self.public.n.to_bytes(self.width, "big")
        numbers = (pack_number(self.bound), pack_number(self.entries))
        return hashlib.sha256(pack("noise-removal", VERSION, self.agreement, key, *numbers, *people)).digest()

    def write(self, ciphertexts: Iterable[mpz]) -> bytes:
        """Ciphertexts as bytes."""
        return b"".join(int(c).to_bytes(self.width, "big") for c in ciphertexts)

    def read(self, data: bytes, count: int) -> list[mpz]:
        """The other way; refused unless so many ciphertexts of this key."""
        if len(data) != count * self.width:
            raise ProtocolError(f"{count} ciphertexts were due; something of another length arrived.")
        parts = (data[start : start + self.width] for start in range(0, len(data), self.width))
        return [self.public.check(int.from_bytes(part, "big")) for part in parts]
