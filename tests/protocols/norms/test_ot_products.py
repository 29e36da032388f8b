"""The two ends' shares add up to the product, and the sender's are uniform."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from ksdp.protocols.norms.ot_extension import SECURITY, ReceiverRows, SenderRows, extend_receiver, extend_sender
from ksdp.protocols.norms.ot_products import (
    bits_of_int,
    bits_of_vector,
    inner_receive,
    inner_send,
    long_bytes,
    scalars_receive,
    scalars_send,
    vector_receive,
    vector_send,
)
from ksdp.protocols.norms.wide_ring import Limbs, WideRing

RNG = np.random.default_rng(11)


def ends(bits: np.ndarray, number: int = 0) -> tuple[ReceiverRows, SenderRows]:
    pairs = [(RNG.bytes(16), RNG.bytes(16)) for _ in range(SECURITY)]
    delta = np.random.default_rng(0).integers(0, 2, SECURITY).astype(np.uint8)
    padded = np.concatenate([bits, np.zeros(-len(bits) % 8, dtype=np.uint8)])
    receiver, announced = extend_receiver(pairs, padded, number)
    chosen = [pair[choice] for pair, choice in zip(pairs, delta, strict=True)]
    return receiver, extend_sender(chosen, delta, announced, number)


def uniform(ring: WideRing, length: int, seed: int) -> Limbs:
    return ring.from_bytes(np.random.default_rng(seed).bytes(ring.width * length), length)


@pytest.mark.parametrize(("limbs", "length", "number"), [(1, 1, 0), (5, 3, 1), (10, 40, 2)])
def test_inner_products(limbs: int, length: int, number: int) -> None:
    ring = WideRing(limbs)
    left, right = uniform(ring, length, 1), uniform(ring, length, 2)
    lead = np.ones(3, dtype=np.uint8)  # transfers of somebody else before these
    receiver, sender = ends(np.concatenate([lead, bits_of_vector(left)]), number)
    share, announced = inner_send(ring, sender, 3, right)
    assert len(announced) == long_bytes(ring, length)
    assert (share + inner_receive(ring, receiver, 3, length, announced)) % ring.modulus == ring.dot(left, right)


@pytest.mark.parametrize(("limbs", "length"), [(1, 1), (5, 3), (10, 40)])
def test_an_integer_times_a_vector(limbs: int, length: int) -> None:
    ring = WideRing(limbs)
    factor = int.from_bytes(RNG.bytes(ring.width), "little")
    values = uniform(ring, length, 3)
    receiver, sender = ends(bits_of_int(factor, ring.bits))
    share, announced = vector_send(ring, sender, 0, values)
    assert len(announced) == long_bytes(ring, length)
    total = ring.add(share, vector_receive(ring, receiver, 0, length, announced))
    assert (total == ring.multiply(factor, values)).all()


@pytest.mark.parametrize("n_bits", [7, 64, 213, 700])
def test_integers_times_integers_with_the_same_bits_twice(n_bits: int) -> None:
    ring = WideRing(41)
    rng = np.random.default_rng(n_bits)
    factors = [int.from_bytes(rng.bytes(90), "little") % (1 << n_bits) for _ in range(3)]
    receiver, sender = ends(np.concatenate([bits_of_int(factor, n_bits) for factor in factors]))
    for slot in (0, 1):
        values = [int.from_bytes(rng.bytes(82), "little") for _ in range(3)]
        shares, announced = scalars_send(ring, sender, n_bits, slot, values)
        others = scalars_receive(ring, receiver, n_bits, slot, 3, announced)
        for share, other, factor, value in zip(shares, others, factors, values, strict=True):
            assert (share + other) % ring.modulus == factor * value % ring.modulus


def test_shares_and_announcements_of_fixed_values_are_uniform() -> None:
    ring, d = WideRing(2), 3
    ones = ring.from_ints([1] * d)
    seen = []
    for _ in range(150):
        _, sender = ends(bits_of_vector(ones))
        share, announced = inner_send(ring, sender, 0, ones)
        seen.append([share / ring.modulus, int.from_bytes(announced[:2], "little") / 65536])
    for column in np.array(seen).T:
        assert kstest(column, "uniform").pvalue > 1e-4
