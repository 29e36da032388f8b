"""Many oblivious transfers from 128 base ones, and products by them.

Extension (Ishai, Kilian, Nissim & Petrank). The receiver holds n choice bits r and, from base
transfers in the other direction, 128 pairs of seeds; the sender holds 128 secret bits Delta and one seed of each
pair. The receiver announces u_i = G(k0_i) + G(k1_i) + r (modulo 2) for each i; then for every transfer j the two
hold rows t_j and q_j = t_j + r_j Delta of 128 bits. All u_i look random as long as AES-CTR is a pseudorandom
generator. A receiver that announces one r in one column and another in the next is found (`ot_check`).

Products (Gilboa). For an integer a of the sender and a bit r_j of the receiver, the sender announces H(q_j) -
H(q_j + Delta) + a and keeps -H(q_j); the receiver keeps H(t_j), plus the announcement if r_j = 1. The two add up
to r_j a, modulo a power of two. H is the tweakable hash pi(pi(x) + i) + pi(x) with pi = AES-128 under a fixed
public key, i = (transfer, slot): correlation robust if pi is an ideal permutation (Guo, Katz, Wang & Yu,
https://eprint.iacr.org/2019/074). No two hashes share their (row, tweak): transfers are numbered over the whole
life of the seeds.

Source: https://www.iacr.org/archive/crypto2003/27290145/27290145.pdf; Gilboa, Two party RSA key generation, 1999.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from ksdp.audit.errors import ProtocolError
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.norms.ot_check import HASH_BYTES, ColumnHash
from ksdp.protocols.norms.wide_ring import Limbs, carry

SECURITY = 128
"""Base transfers; bits of a row."""
Bytes = NDArray[np.uint8]
_PERMUTATION = Cipher(algorithms.AES(b"ksdp fixed key 1"), modes.ECB())  # a permutation, not encryption
_WORDS = 2
"""Of 64 bits, in a block."""
_UNUSED = 128
"""Transfers that hide the others' choices in the check."""
_CHUNK = 4096
"""Transfers at a time: what they need stays in the cache."""
_SWAPS = tuple(
    (np.uint64(shift), np.uint64(mask))
    for shift, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))
)


def keystream(key: bytes, n_bytes: int, start: int = 0) -> Bytes:
    """AES-128-CTR of zeros from block number `start` times 2^64."""
    cipher = Cipher(algorithms.AES(key), modes.CTR((start << 64).to_bytes(16, "big"))).encryptor()
    out = np.empty(n_bytes + 15, dtype=np.uint8)
    cipher.update_into(bytes(n_bytes), out.data)
    return out[:n_bytes]


def transpose_bits(columns: Bytes) -> NDArray[np.uint64]:
    """128 columns of n bits (shape (128, n / 8), lowest bit first) as n rows of 128 bits (shape (n, 2))."""
    n_bytes = columns.shape[1]
    rows = np.empty((n_bytes, 8, 16), dtype=np.uint8)
    for begin in range(0, n_bytes, _CHUNK // 8):
        part = columns[:, begin : begin + _CHUNK // 8]
        # One word: eight columns, eight transfers. Three swaps of ever larger blocks transpose it.
        eights = np.ascontiguousarray(part.reshape(16, 8, -1).transpose(0, 2, 1))
        words = eights.view("<u8")[:, :, 0]
        for shift, mask in _SWAPS:
            swap = ((words >> shift) ^ words) & mask
            words ^= swap
            words ^= swap << shift
        rows[begin : begin + _CHUNK // 8] = eights.transpose(1, 2, 0)
    return rows.reshape(8 * n_bytes, 16).view("<u8")


@dataclass(frozen=True, eq=False, repr=False)
class ReceiverRows:
    """The receiver's end of n transfers."""

    bits: Bytes
    """r, one byte a bit, shape (n,)."""
    rows: NDArray[np.uint64]
    """t, shape (n, 2)."""
    number: int
    """Of the extension: sets its hashes apart from those of others."""


@dataclass(frozen=True, eq=False, repr=False)
class SenderRows:
    """The sender's end of n transfers."""

    delta: NDArray[np.uint64]
    """Shape (2,)."""
    rows: NDArray[np.uint64]
    """q, shape (n, 2)."""
    number: int
    """As the receiver's."""


def announced_bytes(n: int) -> int:
    """What the receiver announces for n transfers."""
    return SECURITY * (n // 8 + _UNUSED // 8) + HASH_BYTES * (1 + SECURITY)


def extend_receiver(
    pairs: Sequence[tuple[bytes, bytes]], bits: Bytes, number: int, *, random_bytes: RandomBytes = os_random
) -> tuple[ReceiverRows, bytes]:
    """The receiver's rows, and what it announces: its columns, and their check.

    Parameters
    ----------
    pairs : sequence of 128 pairs of bytes
        Both seeds of every base transfer.
    bits : array of shape (n,)
        Choices, n a multiple of 8.
    number : int
        Of this extension; never twice with the same seeds.
    random_bytes : callable
        Source of the choices that only the check uses.
    """
    unused = np.frombuffer(random_bytes(_UNUSED // 8), dtype=np.uint8)
    packed = np.concatenate([unused, np.packbits(bits, bitorder="little")])
    columns = np.empty((SECURITY, len(packed)), dtype=np.uint8)
    announced = np.empty_like(columns)
    for i, (zero, one) in enumerate(pairs):
        columns[i] = keystream(zero, len(packed), number)
        announced[i] = columns[i] ^ keystream(one, len(packed), number) ^ packed
    body = announced.tobytes()
    hashed = ColumnHash(body, number, len(packed))
    check = b"".join(hashed(column).tobytes() for column in (packed, *columns))
    return ReceiverRows(bits, transpose_bits(columns)[_UNUSED:], number), body + check


def extend_sender(seeds: Sequence[bytes], delta: Bytes, announced: bytes, number: int) -> SenderRows:
    """The sender's rows.

    Parameters
    ----------
    seeds : sequence of 128 bytes
        The one of every pair that `delta` chose.
    delta : array of shape (128,)
        0 or 1.
    announced : bytes
        What the receiver announced.
    number : int
        As the receiver's.

    Raises
    ------
    ProtocolError
        If the receiver's columns are not of one and the same choices.
    """
    body, check = announced[: -HASH_BYTES * (1 + SECURITY)], announced[-HASH_BYTES * (1 + SECURITY) :]
    columns = np.frombuffer(body, dtype=np.uint8).reshape(SECURITY, -1).copy()
    hashed = ColumnHash(body, number, columns.shape[1])
    of_choices, *of_columns = np.frombuffer(check, dtype=np.uint8).reshape(1 + SECURITY, HASH_BYTES)
    for i, seed in enumerate(seeds):
        stream = keystream(seed, columns.shape[1], number)
        columns[i] = columns[i] ^ stream if delta[i] else stream
        if (hashed(columns[i]) != (of_columns[i] ^ of_choices if delta[i] else of_columns[i])).any():
            raise ProtocolError(
                "What a party announced for the oblivious transfers does not hold together: a message was "
                "changed, or that party does not follow the protocol. Nothing was computed."
            )
    rows = transpose_bits(columns)[_UNUSED:]
    return SenderRows(np.packbits(delta, bitorder="little").view("<u8"), rows, number)


def hash_rows(rows: NDArray[np.uint64], first: int, slot: int, n_bytes: int) -> Bytes:
    """H of rows numbered from `first`: shape (n, n_bytes); slots give independent hashes of the same rows."""
    n, blocks = len(rows), -(-n_bytes // 16)
    inner = _permute(rows)
    tweaked = np.empty((n, blocks, _WORDS), dtype=np.uint64)
    numbers = np.arange(first, first + n, dtype=np.uint64)
    tweaked[:, :, 0] = (inner[:, 0] ^ numbers)[:, None]
    tweaked[:, :, 1] = inner[:, 1, None] ^ np.arange(slot << 32, (slot << 32) + blocks, dtype=np.uint64)
    out = _permute(tweaked.reshape(-1, _WORDS)).reshape(n, blocks, _WORDS)
    out ^= inner[:, None, :]
    return out.view(np.uint8).reshape(n, 16 * blocks)[:, :n_bytes]


def _permute(blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    blocks = np.ascontiguousarray(blocks)
    out = np.empty(blocks.nbytes + 15, dtype=np.uint8)
    _PERMUTATION.encryptor().update_into(blocks.data.cast("B"), out.data)
    result: NDArray[np.uint64] = out[: blocks.nbytes].view("<u8").reshape(-1, _WORDS)
    return result


def pads(rows: NDArray[np.uint64], first: int, slot: int, limbs: int) -> Limbs:
    """H as residues modulo 2^(16 limbs), shape (limbs, n)."""
    out = np.empty((limbs, len(rows)), dtype=np.uint16)
    for at in range(0, len(rows), _CHUNK):
        hashed = hash_rows(rows[at : at + _CHUNK], first + at, slot, 16 * -(-limbs // 8))
        out[:, at : at + _CHUNK] = hashed.view("<u2")[:, :limbs].T
    return out


def expand(rows: NDArray[np.uint64], first: int, limbs: int, length: int, slot: int = 0) -> Limbs:
    """A vector of residues a row, from the hash as an AES-CTR key: shape (limbs, n, length)."""
    keys = hash_rows(rows, first, slot, 16)
    out = np.empty((limbs, len(rows), length), dtype=np.uint16)
    for j, key in enumerate(keys):
        out[:, j] = keystream(key.tobytes(), 2 * limbs * length).view("<u2").reshape(limbs, length)
    return out


def correlate(zero: Limbs, one: Limbs, value: Limbs) -> Limbs:
    """What the sender announces: pad of 0 less pad of 1 plus its value, modulo 2^(16 limbs)."""
    total = zero.astype(np.int64)
    total -= one
    total += value
    return carry(total)
