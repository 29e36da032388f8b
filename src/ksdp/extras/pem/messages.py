"""Shares in a prime field, states as bytes, the terms of a run and its messages."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemState, VectorBlock
from ksdp.audit.mechanisms.pem.noise import Budget, reach
from ksdp.audit.numeric.array_types import Words
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.keys import Envelope, Participant, check_participants, open_envelope, sign_envelope
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


@dataclass(frozen=True)
class PemNodes:
    """Who takes part as what, and what is run: what everybody agrees on before the first message."""

    holders: tuple[Participant, ...]
    """Hosts that hold clients, by name."""
    servers: tuple[Participant, ...]
    """By name; at least two."""
    aggregator: Participant
    budget: Budget
    rows: int
    """Most records that one client puts into one iteration."""
    algorithm: str
    """`repr` of the functions, frozen dataclasses of all parameters."""
    field: PrimeField
    least_clients: int
    """With fewer the run ends."""
    agreement: bytes
    """SHA-256 of everything agreed on."""

    def __post_init__(self) -> None:
        check_participants(self.holders, 1)
        check_participants(self.servers, 2)
        check_participants(tuple(sorted((*self.holders, *self.servers, self.aggregator))), 4)

    @property
    def everybody(self) -> Mapping[str, Participant]:
        """All hosts by name."""
        return {p.name: p for p in (*self.holders, *self.servers, self.aggregator)}

    def role(self, name: str) -> str:
        """What a host does: `server`, `aggregator` or `holder`."""
        if name == self.aggregator.name:
            return "aggregator"
        return "server" if name in {p.name for p in self.servers} else "holder"

    def peers(self, name: str) -> list[str]:
        """With whom a host speaks: with all whose role is another."""
        return [peer for peer in self.everybody if self.role(peer) != self.role(name)]


@dataclass(frozen=True)
class PemTerms:
    """One run of what was agreed on: with whom, and which it is."""

    nodes: PemNodes
    clients: tuple[str, ...]
    """Their names (`client_name`), sorted."""
    session: bytes
    """Hash of everything agreed on and of all rolls, 32 bytes."""

    def room(self, block: VectorBlock) -> int:
        """The largest size, in steps, of an entry of a sum with its noise, but with probability 2^-60."""
        return _room(block, self.nodes.budget, len(self.clients) * self.nodes.rows, len(self.nodes.servers))

    def check_room(self, blocks: tuple[VectorBlock, ...]) -> None:
        """Refuse vectors that the field has no room for."""
        nodes = self.nodes
        check_room(blocks, nodes.budget, len(self.clients) * nodes.rows, len(nodes.servers), nodes.field)


def check_room(
    blocks: tuple[VectorBlock, ...], budget: Budget, records: int, servers: int, field: PrimeField
) -> None:
    """Refuse vectors whose sum with the noise could leave the field, but with probability 2^-60."""
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
    state: bytes
    """SHA-256 of the state that the client was shown."""
    rows: int
    places: bytes
    """Of a sparse vector, which entries it has; empty: all."""
    share: bytes

    def to_bytes(self) -> bytes:
        """As it travels."""
        return pack(
            "pem-upload", self.sender.encode(), self.state, pack_number(self.rows), self.places, self.share
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> PemUpload:
        """What `to_bytes` wrote."""
        sender, state, rows, places, share = unpack("pem-upload", data, 5)
        return cls(name_of(sender), state, number_of(rows), places, share)


NONCE_BYTES = 16
_KIND = "pem-roll"


def client_name(holder: str, client: str) -> str:
    """What a host's client is called in a run: no two hosts have one of the same name."""
    return f"{holder}/{client}"


def is_of(client: str, holder: str) -> bool:
    """Whether that is what one of this host's clients is called."""
    return client.startswith(client_name(holder, ""))


def make_roll(
    nodes: PemNodes, name: str, key: Ed25519PrivateKey, nonce: bytes, clients: Iterable[str]
) -> Envelope:
    """A host's own roll, signed.

    Parameters
    ----------
    nonce : bytes
        `NONCE_BYTES` random ones.
    clients : iterable of str
        Their names (`client_name`); none but at a host that holds clients.
    """
    listed = (client.encode() for client in sorted(clients))
    return sign_envelope(key, nodes.agreement, _KIND, name, pack(_KIND, nonce, *listed))


def meet(nodes: PemNodes, name: str, own: Envelope, rolls: Iterable[Envelope]) -> PemTerms:
    """The terms of this run, from everybody's rolls."""
    everybody, holders = nodes.everybody, {p.name for p in nodes.holders}
    heard: dict[str, Envelope] = {}
    clients: list[str] = []
    for roll in rolls:
        sender = everybody.get(roll.sender)
        if sender is None or roll.sender in heard:
            raise ProtocolError("The list of those present names an unknown party, or a party twice.")
        nonce, *listed = unpack(_KIND, open_envelope(roll, nodes.agreement, _KIND, sender))
        if len(nonce) != NONCE_BYTES or (listed and sender.name not in holders):
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
    return PemTerms(nodes, tuple(sorted(clients)), hashlib.sha256(said).digest())


def _clients(holder: str, listed: list[bytes]) -> list[str]:
    found = [name_of(name) for name in listed]
    if not all(is_of(client, holder) for client in found):
        raise ProtocolError(f"The roll of {holder} names a client that is not its own.")
    if len(set(found)) != len(found):
        raise ProtocolError(f"The roll of {holder} names a client twice.")
    return found
