"""What the parties of a PEM run agree on, and the messages between them.

One iteration::

    aggregator --- state ---> clients, servers       signed; the model and the blocks of the next vectors
    client ------- upload --> each server            its share, sealed for that server (AES-128-GCM)
    server ------- present -> aggregator             signed; whose uploads arrived
    aggregator --- roster --> servers                signed; whose uploads all servers have: the sum is of these
    server ------- partial -> aggregator             signed; sum of shares plus noise

A client's share is sealed under a key of that client and that server alone, so that nobody who carries messages
between them can put shares together. The state's hash is sealed in with it: an aggregator that shows clients and
servers different states (a smaller L to the servers) ends the run instead of getting less noise.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import VectorBlock
from ksdp.audit.mechanisms.pem.budget import Budget
from ksdp.audit.mechanisms.pem.discrete_laplace import reach
from ksdp.protocols.channel.keys import (
    VERSION,
    AgreementKey,
    Envelope,
    Participant,
    check_participants,
    open_envelope,
)
from ksdp.protocols.channel.wire import name_of, number_of, pack, pack_number, unpack
from ksdp.protocols.pem.field_shares import PrimeField
from ksdp.protocols.pem.state_messages import pack_budget

PURPOSE = "pem-share"


@dataclass(frozen=True)
class PemTerms:
    """What everybody agrees on before the first message."""

    clients: tuple[Participant, ...]
    """Sorted by name."""
    servers: tuple[Participant, ...]
    """Sorted by name; at least two."""
    aggregator: Participant
    budget: Budget
    rows: int
    """Most records that one client puts into one iteration."""
    algorithm: str
    """What is run, with its parameters; `repr` of the frozen dataclass does."""
    agreement: bytes
    """Anything else they agreed on, and what makes this run a new one."""
    field: PrimeField = dataclasses.field(default_factory=lambda: PrimeField(64))
    least_clients: int = 1
    """With fewer the run ends."""

    def __post_init__(self) -> None:
        check_participants(self.clients, 1)
        check_participants(self.servers, 2)
        everybody = (*self.clients, *self.servers, self.aggregator)
        if len({p.name for p in everybody}) != len(everybody) or len({p.identity for p in everybody}) != len(
            everybody
        ):
            raise InputError("Clients, servers and the aggregator must have different names and keys.")
        if not 1 <= self.least_clients <= len(self.clients):
            raise InputError(f"`least_clients` must be 1 to {len(self.clients)}; got {self.least_clients}.")
        if self.rows < 1:
            raise InputError(f"`rows` must be at least 1; got {self.rows}.")

    @cached_property
    def client_of(self) -> Mapping[str, Participant]:
        """Clients by name; there may be thousands."""
        return {p.name: p for p in self.clients}

    @cached_property
    def server_of(self) -> Mapping[str, Participant]:
        """Servers by name."""
        return {p.name: p for p in self.servers}

    @cached_property
    def session(self) -> bytes:
        """Hash of all this, 32 bytes; no key or message of another session is taken."""
        who = (
            field
            for role, people in (
                (b"client", self.clients),
                (b"server", self.servers),
                (b"aggregator", (self.aggregator,)),
            )
            for p in people
            for field in (role, p.name.encode(), p.identity)
        )
        numbers = (pack_number(n) for n in (self.rows, self.field.bits, self.least_clients))
        fixed = (pack_budget(self.budget), self.algorithm.encode(), self.agreement)
        return hashlib.sha256(pack("pem-terms", VERSION, *fixed, *numbers, *who)).digest()

    def room(self, block: VectorBlock) -> int:
        """The largest size, in steps, of an entry of a sum with its noise, but with probability 2^-60."""
        return _room(block, self.budget, len(self.clients) * self.rows, len(self.servers))

    def check_room(self, blocks: tuple[VectorBlock, ...]) -> None:
        """Refuse vectors whose sum with the noise could leave the field, but with probability 2^-60.

        Raises
        ------
        ProtocolError
            If it could: a sum that wraps would be announced as another number.
        """
        check_room(blocks, self.budget, len(self.clients) * self.rows, len(self.servers), self.field)


def check_room(
    blocks: tuple[VectorBlock, ...], budget: Budget, records: int, servers: int, field: PrimeField
) -> None:
    """The same before there are parties, for at most so many records in an iteration.

    Raises
    ------
    ProtocolError
        If a sum could leave the field.
    """
    for block in blocks:
        need = _room(block, budget, records, servers)
        if need > field.largest:
            bits = need.bit_length() + 1
            raise ProtocolError(
                f"A sum with its noise may need {bits} bits; the field has {field.bits}. "
                "Take the larger field, fewer fraction bits, fewer iterations or a larger epsilon."
            )


def _room(block: VectorBlock, budget: Budget, records: int, servers: int) -> int:
    return records * block.cap_steps + reach(budget.scale(block), block.size, servers)


@dataclass(frozen=True)
class PemUpload:
    """One client's share for one server in one iteration."""

    sender: str
    receiver: str
    iteration: int
    sealed: bytes
    """AES-128-GCM of state hash, rows, places and share."""

    def to_bytes(self) -> bytes:
        """As it travels."""
        names = (self.sender.encode(), self.receiver.encode())
        return pack("pem-upload", *names, pack_number(self.iteration), self.sealed)

    @classmethod
    def from_bytes(cls, data: bytes) -> PemUpload:
        """What `to_bytes` wrote."""
        sender, receiver, iteration, sealed = unpack("pem-upload", data, 4)
        return cls(name_of(sender), name_of(receiver), number_of(iteration), sealed)

    def _header(self, session: bytes) -> bytes:
        names = (self.sender.encode(), self.receiver.encode())
        return pack("pem-upload-header", session, *names, pack_number(self.iteration))

    @classmethod
    def seal(
        cls, key: bytes, session: bytes, sender: str, receiver: str, iteration: int, body: bytes
    ) -> PemUpload:
        """Encrypt and authenticate; an iteration's number is its nonce, so a key seals each once."""
        empty = cls(sender, receiver, iteration, b"")
        nonce = iteration.to_bytes(12, "big")
        return cls(sender, receiver, iteration, AESGCM(key).encrypt(nonce, body, empty._header(session)))

    def open(self, key: bytes, session: bytes) -> bytes:
        """The body.

        Raises
        ------
        ProtocolError
            If it is not what that client sealed for that server, session and iteration.
        """
        from cryptography.exceptions import InvalidTag

        nonce = self.iteration.to_bytes(12, "big")
        try:
            return AESGCM(key).decrypt(nonce, self.sealed, self._header(session))
        except InvalidTag:
            raise ProtocolError(f"An upload of {self.sender} was changed on the way, or is not theirs.") from None


def upload_key(agreement: AgreementKey, session: bytes, own: str, hello: Envelope, sender: Participant) -> bytes:
    """The key between a client and a server, from the other one's signed half."""
    public = open_envelope(hello, session, "pem-hello", sender)
    return agreement.derive(PURPOSE, session, own, sender.name, public)


def numbered(iteration: int, body: bytes) -> bytes:
    """A body that belongs to an iteration, to be signed."""
    return pack("pem-numbered", pack_number(iteration), body)


def open_numbered(envelope: Envelope, session: bytes, kind: str, sender: Participant, iteration: int) -> bytes:
    """The body of a signed message, if it belongs to this iteration."""
    number, body = unpack("pem-numbered", open_envelope(envelope, session, kind, sender), 2)
    if number_of(number) != iteration:
        raise ProtocolError(
            f"{sender.name} sent {kind} of iteration {number_of(number)}; iteration {iteration} is due."
        )
    return body
