"""Rows, hashes and the transposition, against slow references."""

from __future__ import annotations

import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from ksdp.protocols.norms.ot_extension import (
    SECURITY,
    announced_bytes,
    extend_receiver,
    extend_sender,
    hash_rows,
    keystream,
    pads,
    transpose_bits,
)


@pytest.mark.parametrize("n_bytes", [1, 5, 512, 1300])
def test_transposition(n_bytes: int) -> None:
    columns = np.random.default_rng(n_bytes).integers(0, 256, (128, n_bytes)).astype(np.uint8)
    slow = np.packbits(np.unpackbits(columns, axis=1, bitorder="little").T, axis=1, bitorder="little")
    assert (transpose_bits(columns).view(np.uint8) == slow).all()


def extension(n: int, number: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint64], bytes, bool]:
    rng = np.random.default_rng(5)
    pairs = [(os.urandom(16), os.urandom(16)) for _ in range(SECURITY)]
    delta, bits = rng.integers(0, 2, SECURITY).astype(np.uint8), rng.integers(0, 2, n).astype(np.uint8)
    receiver, announced = extend_receiver(pairs, bits, number)
    chosen = [pair[choice] for pair, choice in zip(pairs, delta, strict=True)]
    sender = extend_sender(chosen, delta, announced, number)
    packed = np.packbits(delta, bitorder="little").view("<u8")
    holds = bool((sender.rows == receiver.rows ^ (bits[:, None].astype(np.uint64) * packed)).all())
    return bits, delta, receiver.rows, announced, holds


def test_rows_differ_by_delta_where_the_bit_is_one() -> None:
    *_, holds = extension(4096, 0)
    assert holds


def test_the_announcement_hides_the_bits() -> None:
    """Every column of it is balanced and uncorrelated with the choices."""
    bits, _, _, announced, _ = extension(20_000, 1)
    told = np.frombuffer(announced, dtype=np.uint8)[: SECURITY * (16 + 20_000 // 8)]
    columns = np.unpackbits(told.reshape(SECURITY, -1), axis=1, bitorder="little")[:, 128:]
    signs = 1.0 - 2.0 * columns
    assert np.abs(signs.mean(axis=1)).max() < 5 / np.sqrt(20_000)
    assert np.abs((signs * (1.0 - 2.0 * bits)).mean(axis=1)).max() < 5 / np.sqrt(20_000)


def test_its_length_is_known_beforehand() -> None:
    assert len(extension(80, 1)[3]) == announced_bytes(80)


def test_streams_of_two_extensions_differ_and_continue() -> None:
    key = os.urandom(16)
    assert (keystream(key, 100)[:64] == keystream(key, 64)).all()
    assert (keystream(key, 64) != keystream(key, 64, 1)).any()


def test_the_hash_is_the_one_of_the_paper() -> None:
    rows = np.random.default_rng(1).integers(0, 2**63, (5, 2)).astype(np.uint64)

    def permute(block: bytes) -> bytes:
        return Cipher(algorithms.AES(b"ksdp fixed key 1"), modes.ECB()).encryptor().update(block)

    found = hash_rows(rows, 1 << 33, 3, 40)
    for j, row in enumerate(rows):
        inner = permute(row.tobytes())
        slow = b""
        for block in range(3):
            tweak = ((1 << 33) + j).to_bytes(8, "little") + ((3 << 32) + block).to_bytes(8, "little")
            masked = bytes(a ^ b for a, b in zip(inner, tweak, strict=True))
            slow += bytes(a ^ b for a, b in zip(permute(masked), inner, strict=True))
        assert found[j].tobytes() == slow[:40]


def test_pads_do_not_depend_on_how_they_are_cut() -> None:
    rows = np.random.default_rng(1).integers(0, 2**63, (9000, 2)).astype(np.uint64)
    whole = pads(rows, 7, 1, 11)
    assert (whole[:, 5000:] == pads(rows[5000:], 5007, 1, 11)).all()
    assert (whole != pads(rows, 7, 2, 11)).mean() > 0.99
