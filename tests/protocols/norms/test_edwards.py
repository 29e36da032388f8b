"""The curve against Ed25519 and X25519 of the library."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.norms.edwards import BASE, ORDER, Table, add, base_table, decode, encode, montgomery_u, negate

SEEDS = st.binary(min_size=32, max_size=32)
FACTORS = st.integers(0, ORDER - 1) | st.sampled_from([0, 1, 2, ORDER - 1])
NEUTRAL = (1).to_bytes(32, "little")


def clamped(seed: bytes) -> int:
    number = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
    return (number & ~7 & ((1 << 255) - 1)) | (1 << 254)


@given(SEEDS)
@settings(max_examples=15, deadline=None)
def test_multiples_of_the_generator_are_ed25519_public_keys(seed: bytes) -> None:
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    assert encode(base_table().times(clamped(seed) % ORDER)) == public
    assert encode(decode(public)) == public


@given(SEEDS, SEEDS)
@settings(max_examples=10, deadline=None)
def test_multiples_of_a_point_agree_with_x25519(ours: bytes, theirs: bytes) -> None:
    point = decode(Ed25519PrivateKey.from_private_bytes(theirs).public_key().public_bytes_raw())
    key = X25519PrivateKey.from_private_bytes(hashlib.sha512(ours).digest()[:32])
    shared = key.exchange(X25519PublicKey.from_public_bytes(montgomery_u(point)))
    assert shared == montgomery_u(Table(point).times(clamped(ours) % ORDER))


@given(FACTORS, FACTORS)
@settings(max_examples=15, deadline=None)
def test_it_is_a_group(a: int, b: int) -> None:
    table = base_table()
    p, q = table.times(a), table.times(b)
    assert encode(add(p, q)) == encode(add(q, p)) == encode(table.times((a + b) % ORDER))
    assert encode(add(p, negate(p))) == NEUTRAL
    assert encode(add(p, p)) == encode(table.times(2 * a % ORDER))


@pytest.mark.parametrize(
    "data",
    [
        bytes(32),  # y = 0: order 4
        NEUTRAL,
        (2**255 - 20).to_bytes(32, "little"),  # y = -1: order 2
        (2**255 - 19 + 3).to_bytes(32, "little"),  # not reduced
        (2).to_bytes(32, "little"),  # no point of the curve
        encode(BASE)[:31],
    ],
)
def test_what_is_no_point_of_the_subgroup_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(data)


def test_a_point_with_a_part_of_small_order_is_refused() -> None:
    small = decode(bytes(32), prime_order=False)
    mixed = encode(add(BASE, small))
    assert encode(decode(mixed, prime_order=False)) == mixed
    with pytest.raises(ProtocolError, match="subgroup"):
        decode(mixed)
