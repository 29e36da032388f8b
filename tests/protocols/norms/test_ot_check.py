"""The check of extended transfers: linear, blind to honest receivers, and not to others."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.norms.ot_check import HASH_BYTES, ColumnHash
from ksdp.protocols.norms.ot_extension import SECURITY, extend_receiver, extend_sender, keystream

CHOICES = 400
POLYNOMIAL = 0xE1 << 120


def slow_ghash(key: int, column: bytes) -> int:
    """GHASH as its definition prints it: bit by bit, the first bit the highest."""

    def times(x: int, y: int) -> int:
        product = 0
        for bit in range(127, -1, -1):
            product ^= y if x >> bit & 1 else 0
            y = y >> 1 ^ (POLYNOMIAL if y & 1 else 0)
        return product

    hashed = 0
    padded = column + bytes(-len(column) % 16)
    for at in range(0, len(padded), 16):
        hashed = times(hashed ^ int.from_bytes(padded[at : at + 16], "big"), key)
    return times(hashed, key)  # and the block of lengths, which a linear part does not see


def test_it_is_ghash() -> None:
    column = np.random.default_rng(0).integers(0, 256, 37).astype(np.uint8)
    key = hashlib.sha256(b"ksdp ot check 1" + (5).to_bytes(8, "big") + b"told").digest()[:16]
    subkey = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(bytes(16))
    slow = slow_ghash(int.from_bytes(subkey, "big"), column.tobytes())
    assert ColumnHash(b"told", 5, 37)(column).tobytes() == slow.to_bytes(16, "big")


def test_another_announcement_gives_another_hash() -> None:
    column = np.arange(40, dtype=np.uint8)
    assert (ColumnHash(b"one", 0, 40)(column) != ColumnHash(b"two", 0, 40)(column)).any()
    assert (ColumnHash(b"one", 0, 40)(column) != ColumnHash(b"one", 1, 40)(column)).any()


class Ends:
    """Both ends of one extension."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.random_bytes = rng.bytes
        self.pairs = [(rng.bytes(16), rng.bytes(16)) for _ in range(SECURITY)]
        self.delta = rng.integers(0, 2, SECURITY).astype(np.uint8)
        self.seeds = [pair[choice] for pair, choice in zip(self.pairs, self.delta, strict=True)]
        self.bits = rng.integers(0, 2, CHOICES).astype(np.uint8)

    def announced(self) -> bytearray:
        return bytearray(extend_receiver(self.pairs, self.bits, 3, random_bytes=self.random_bytes)[1])

    def received(self, announced: bytes) -> None:
        extend_sender(self.seeds, self.delta, bytes(announced), 3)


def test_a_changed_bit_anywhere_is_refused() -> None:
    ends = Ends(1)
    announced = ends.announced()
    ends.received(announced)
    for at in np.random.default_rng(2).integers(0, 8 * len(announced), 60):
        spoilt = bytearray(announced)
        spoilt[at // 8] ^= 1 << at % 8
        with pytest.raises(ProtocolError, match="does not hold together"):
            ends.received(spoilt)


def _cheating(ends: Ends, column: int) -> bytes:
    """A receiver whose choices are others in one column, and who makes the check for what it announces.

    It passes where the sender's secret bit of that column is 0: then the column is its own stream.
    """
    flipped = ends.bits.copy()
    flipped[7] ^= 1
    rng = np.random.default_rng(9)
    unused = rng.bytes(16)
    told, streams, packed = _columns(ends, unused, ends.bits)
    other = _columns(ends, unused, flipped)[0]
    told[column] = other[column]
    hashed = ColumnHash(told.tobytes(), 3, told.shape[1])
    return told.tobytes() + b"".join(hashed(one).tobytes() for one in (packed, *streams))


def _columns(
    ends: Ends, unused: bytes, bits: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
    size = 16 + CHOICES // 8
    announced = extend_receiver(ends.pairs, bits, 3, random_bytes=lambda _: unused)[1]
    told = np.frombuffer(announced[: SECURITY * size], dtype=np.uint8).reshape(SECURITY, size).copy()
    packed = np.concatenate([np.frombuffer(unused, dtype=np.uint8), np.packbits(bits, bitorder="little")])
    streams = np.stack([keystream(zero, size, 3) for zero, _ in ends.pairs])
    return told, streams, packed


def test_a_receiver_with_two_minds_passes_only_where_it_guessed_the_senders_bit() -> None:
    ends = Ends(4)
    for column in range(SECURITY):
        announced = _cheating(ends, column)
        if ends.delta[column]:
            with pytest.raises(ProtocolError, match="does not hold together"):
                ends.received(announced)
        else:
            ends.received(announced)
    assert 0 < ends.delta.sum() < SECURITY


def test_the_hash_of_the_choices_is_masked() -> None:
    """The same choices, other unused ones: the bits of x are fair coins."""
    ends = Ends(5)
    told = [bytes(ends.announced())[-HASH_BYTES * (1 + SECURITY) :][:HASH_BYTES] for _ in range(200)]
    bits = np.unpackbits(np.frombuffer(b"".join(told), dtype=np.uint8).reshape(200, HASH_BYTES), axis=1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(200)
