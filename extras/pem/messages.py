"""Shares in a prime field, states as bytes, the terms of a run and its messages."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemState, VectorBlock
from ksdp.audit.mechanisms.pem.noise import Budget, reach
from ksdp.audit.numeric.array_types import Words
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.keys import (
    VERSION,
    AgreementKey,
    Envelope,
    Participant,
    check_participants,
    open_envelope,
    sign_envelope,
)
from ksdp.protocols.channel.wire import name_of, number_of, pack, pack_number, unpack

PRIMES = {32: 2**32 - 5, 64: 2**64 - 59}
"""Bits of an entry to the prime."""

Signed = NDArray[np.int64]


@dataclass(frozen=True)
class PrimeField:
    """Integers modulo the largest prime of so many bits.

    Parameters
    ----------
    bits : {64, 32}
        Of an entry on the wire. 32 halves the traffic; sums and noise together must then stay below 2^31.

    Examples
    --------
    >>> field = PrimeField(32)
    >>> shares = field.share(np.array([5, -7]), 3)
    >>> field.decode(field.total(shares, 2))
    array([ 5, -7])
    """

    bits: int = 64

    def __post_init__(self) -> None:
        if self.bits not in PRIMES:
            raise InputError(f"`bits` must be 32 or 64; got {self.bits}.")

    @property
    def prime(self) -> int:
        """The modulus."""
        return PRIMES[self.bits]

    @property
    def largest(self) -> int:
        """Size of the largest signed number: (p - 1) / 2."""
        return (self.prime - 1) // 2

    def encode(self, values: NDArray[np.integer]) -> Words:
        """Signed integers modulo p, of the same shape."""
        signed = np.asarray(values)
        if signed.dtype.kind != "i":
            raise InputError(f"Only signed integers can be shared; got {signed.dtype}.")
        if signed.size and not (-self.largest <= int(signed.min()) and int(signed.max()) <= self.largest):
            raise InputError(f"Every value must be at most {self.largest} in size; one is not.")
        words = signed.astype(np.int64).view(np.uint64)
        # A negative int64 read as uint64 is v + 2^64; v + p is smaller by 2^64 - p.
        return np.where(signed < 0, words - np.uint64(2**64 - self.prime), words)

    def decode(self, words: Words) -> Signed:
        """The signed integers that field elements stand for, of the same shape."""
        negative = words > np.uint64(self.largest)
        return np.where(negative, words + np.uint64(2**64 - self.prime), words).view(np.int64)

    def add(self, a: Words, b: Words) -> Words:
        """a + b modulo p, entry by entry."""
        total = a + b
        gap, prime = np.uint64(2**64 - self.prime), np.uint64(self.prime)
        if self.bits == 64:  # the sum of two may pass 2^64, and is then smaller than either
            total = np.where(total < a, total + gap, total)
        return np.where(total >= prime, total - prime, total)

    def negate(self, a: Words) -> Words:
        """-a modulo p, entry by entry."""
        return np.where(a == 0, a, np.uint64(self.prime) - a)

    def total(self, rows: Iterable[Words], entries: int) -> Words:
        """The sum of vectors of field elements, modulo p, shape (entries,); of none: zeros.

        The running sum is kept modulo 2^64, and how often it wrapped is counted: each time it lost 2^64, which is
        2^64 - p modulo p. Below 2^32 vectors no count overflows.
        """
        result, wraps = np.zeros(entries, dtype=np.uint64), np.zeros(entries, dtype=np.uint32)
        wrapped = np.empty(entries, dtype=bool)
        for row in rows:
            result += row
            np.less(result, row, out=wrapped)
            wraps += wrapped
        prime, gap = np.uint64(self.prime), np.uint64(2**64 % self.prime)
        return self.add(result % prime, wraps.astype(np.uint64) * gap % prime)

    def uniform(self, entries: int, random: RandomBytes = os_random) -> Words:
        """Uniform field elements, by rejection.

        Parameters
        ----------
        random : callable
            Secret bytes; the operating system's unless a test injects another source.
        """
        width = self.bits // 8
        words = np.frombuffer(random(width * entries), dtype=f"<u{width}").astype(np.uint64)
        while (again := np.flatnonzero(words >= np.uint64(self.prime))).size:
            words[again] = np.frombuffer(random(width * again.size), dtype=f"<u{width}")
        return words

    def share(self, values: NDArray[np.integer], servers: int, random: RandomBytes = os_random) -> Words:
        """Split a vector into one share a server, shape (servers, entries).

        Parameters
        ----------
        values : array of int, shape (entries,)
        servers : int
            m, at least 2.
        """
        if servers < 2:
            raise InputError(f"`servers` must be at least 2, or one sees everything; got {servers}.")
        encoded = self.encode(values)
        drawn = self.uniform((servers - 1) * encoded.size, random).reshape(servers - 1, encoded.size)
        last = self.add(encoded, self.negate(self.total(drawn, encoded.size)))
        return np.vstack((drawn, last))

    def to_bytes(self, words: Words) -> bytes:
        """Entries as they travel: 4 or 8 bytes each, little-endian."""
        return words.astype(f"<u{self.bits // 8}").tobytes()

    def from_bytes(self, data: bytes, entries: int) -> Words:
        """What `to_bytes` wrote."""
        width = self.bits // 8
        if len(data) != width * entries:
            raise ProtocolError(f"A vector of {entries} entries has {width * entries} bytes; got {len(data)}.")
        words = np.frombuffer(data, dtype=f"<u{width}").astype(np.uint64)
        if words.size and words.max() >= np.uint64(self.prime):
            raise ProtocolError("A vector holds a number that is not in the field.")
        return words


_DTYPES = {"<f8", "<i8", "<i2", "|b1"}


def pack_budget(budget: Budget) -> bytes:
    """What the parties compare to know that they mean the same budget."""
    sparse = budget.sparse
    chosen = b"" if sparse is None else f"{sparse.threshold.hex()} {sparse.most} {sparse.part.hex()}".encode()
    numbers = (float(budget.epsilon).hex().encode(), pack_number(budget.iterations))
    rest = (float(budget.sampling).hex().encode(), bytes([budget.stream]), chosen)
    return pack("pem-budget", *numbers, *rest)


def pack_state(state: PemState) -> bytes:
    """The state as it travels."""
    fields: list[bytes] = []
    for name in sorted(state.arrays):
        array = np.ascontiguousarray(state.arrays[name])
        dtype = array.dtype.newbyteorder("<").str
        if dtype not in _DTYPES:
            raise InputError(f"`{name}` must be float64, int64, int16 or bool; got {array.dtype}.")
        shape = pack("shape", *map(pack_number, array.shape))
        fields += [name.encode(), dtype.encode(), shape, array.astype(dtype).tobytes()]
    blocks = pack("blocks", *map(_pack_block, state.blocks))
    return pack("pem-state", pack_number(state.iteration), blocks, *fields)


def unpack_state(data: bytes) -> PemState:
    """The state that `pack_state` wrote."""
    fields = unpack("pem-state", data)
    if len(fields) < 2 or len(fields) % 4 != 2:
        raise ProtocolError("A state has the wrong number of fields.")
    blocks = tuple(_unpack_block(field) for field in unpack("blocks", fields[1]))
    arrays: dict[str, NDArray[Any]] = {}
    for at in range(2, len(fields), 4):
        dtype = name_of(fields[at + 1])
        shape = tuple(number_of(field) for field in unpack("shape", fields[at + 2]))
        if dtype not in _DTYPES or math.prod(shape) * np.dtype(dtype).itemsize != len(fields[at + 3]):
            raise ProtocolError("An array of a state is damaged.")
        arrays[name_of(fields[at])] = np.frombuffer(fields[at + 3], dtype=dtype).reshape(shape)
    try:
        return PemState(number_of(fields[0]), arrays, blocks)
    except InputError as error:
        raise ProtocolError(f"A state is refused: {error}") from error


def _pack_block(block: VectorBlock) -> bytes:
    cap = b"" if block.cap is None else float(block.cap).hex().encode()
    reals = (float(x).hex().encode() for x in (block.bound, block.share))
    bits = pack_number(block.fraction_bits)
    return pack("block", pack_number(block.size), *reals, cap, bytes([block.nonnegative]), bits)


def _unpack_block(data: bytes) -> VectorBlock:
    size, bound, share, cap, nonnegative, bits = unpack("block", data, 6)
    try:
        reals = [float.fromhex(name_of(field)) for field in (bound, share)]
        cut = float.fromhex(name_of(cap)) if cap else None
        return VectorBlock(number_of(size), reals[0], reals[1], cut, nonnegative == b"\1", number_of(bits))
    except ValueError as error:
        raise ProtocolError(f"A block is damaged: {error}") from error


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
        """Refuse vectors whose sum with the noise could leave the field, but with probability 2^-60."""
        check_room(blocks, self.budget, len(self.clients) * self.rows, len(self.servers), self.field)


def check_room(
    blocks: tuple[VectorBlock, ...], budget: Budget, records: int, servers: int, field: PrimeField
) -> None:
    """The same before there are parties, for at most so many records in an iteration."""
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
        """The body."""
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


NONCE_BYTES = 16
_KIND = "pem-roll"


@dataclass(frozen=True)
class PemNodes:
    """What a protocol file says: who takes part as what, and what is run."""

    holders: tuple[Participant, ...]
    """Hosts that hold clients, by name."""
    servers: tuple[Participant, ...]
    """By name."""
    aggregator: Participant
    budget: Budget
    rows: int
    """Most records that one client puts into one iteration."""
    algorithm: str
    """`repr` of the functions."""
    field: PrimeField
    least_clients: int
    agreement: bytes
    """SHA-256 of everything agreed on."""

    @property
    def everybody(self) -> Mapping[str, Participant]:
        """All hosts by name."""
        return {p.name: p for p in (*self.holders, *self.servers, self.aggregator)}

    def role(self, name: str) -> str:
        """What a host does: `server`, `aggregator` or `holder`."""
        if name == self.aggregator.name:
            return "aggregator"
        return "server" if name in {p.name for p in self.servers} else "holder"


def client_name(holder: str, client: str) -> str:
    """What a host's client is called in a run: no two hosts have one of the same name."""
    return f"{holder}/{client}"


def is_of(client: str, holder: str) -> bool:
    """Whether that is what one of this host's clients is called."""
    return client.startswith(client_name(holder, ""))


def make_roll(
    nodes: PemNodes, name: str, key: Ed25519PrivateKey, nonce: bytes, clients: Mapping[str, bytes]
) -> Envelope:
    """A host's own roll, signed.

    Parameters
    ----------
    nonce : bytes
        `NONCE_BYTES` random ones.
    clients : mapping
        Public keys by name (`client_name`); none but at a host that holds clients.
    """
    listed = (field for client, public in sorted(clients.items()) for field in (client.encode(), public))
    return sign_envelope(key, nodes.agreement, _KIND, name, pack(_KIND, nonce, *listed))


def meet(nodes: PemNodes, name: str, own: Envelope, rolls: Iterable[Envelope]) -> PemTerms:
    """The terms of this run, from everybody's rolls."""
    everybody, holders = nodes.everybody, {p.name for p in nodes.holders}
    heard: dict[str, Envelope] = {}
    clients: list[Participant] = []
    for roll in rolls:
        sender = everybody.get(roll.sender)
        if sender is None or roll.sender in heard:
            raise ProtocolError("The list of those present names an unknown party, or a party twice.")
        nonce, *listed = unpack(_KIND, open_envelope(roll, nodes.agreement, _KIND, sender))
        if len(nonce) != NONCE_BYTES or len(listed) % 2 or (listed and sender.name not in holders):
            raise ProtocolError(f"The roll of {sender.name} is damaged, or names clients that it cannot have.")
        heard[sender.name] = roll
        clients += _clients(sender.name, listed)
    missing = sorted(everybody.keys() - holders - heard.keys())
    if missing:
        raise ProtocolError(f"{', '.join(missing)} cannot be left out, and is not there.")
    if heard.get(name) != own:
        raise ProtocolError(f"{nodes.aggregator.name} does not tell the others what {name} said: the run is void.")
    if len(clients) < nodes.least_clients:
        raise ProtocolError(f"{len(clients)} clients are there; the terms ask for {nodes.least_clients}.")
    said = pack("pem-rolls", nodes.agreement, *(heard[who].to_bytes() for who in sorted(heard)))
    return PemTerms(
        tuple(sorted(clients)), nodes.servers, nodes.aggregator, nodes.budget, nodes.rows, nodes.algorithm,
        hashlib.sha256(said).digest(), nodes.field, nodes.least_clients,
    )  # fmt: skip


def _clients(holder: str, listed: list[bytes]) -> list[Participant]:
    found = []
    for name, public in zip(listed[::2], listed[1::2], strict=True):
        client = name_of(name)
        if not is_of(client, holder) or len(public) != 32:
            raise ProtocolError(f"The roll of {holder} names a client that is not its own.")
        found.append(Participant(client, public))
    if len({p.name for p in found}) != len(found):
        raise ProtocolError(f"The roll of {holder} names a client twice.")
    return found
