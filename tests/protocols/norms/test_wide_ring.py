"""Every operation against Python's integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.protocols.norms.wide_ring import WideRing

RINGS = st.integers(1, 41).map(WideRing)


@st.composite
def two_vectors(draw: st.DrawFn) -> tuple[WideRing, list[int], list[int]]:
    ring = draw(RINGS)
    length = draw(st.integers(1, 6))
    entry = st.integers(0, ring.modulus - 1) | st.sampled_from([0, 1, ring.modulus - 1, ring.modulus >> 1])
    return ring, *(draw(st.lists(entry, min_size=length, max_size=length)) for _ in range(2))


@given(two_vectors(), st.integers(-(1 << 700), 1 << 700))
@settings(max_examples=60, deadline=None)
def test_it_is_arithmetic_modulo_a_power_of_two(case: tuple[WideRing, list[int], list[int]], factor: int) -> None:
    ring, a, b = case
    left, right = ring.from_ints(a), ring.from_ints(b)
    m = ring.modulus
    assert ring.ints(left) == a
    assert ring.ints(ring.add(left, right, left)) == [(2 * x + y) % m for x, y in zip(a, b, strict=True)]
    assert ring.ints(ring.subtract(left, right)) == [(x - y) % m for x, y in zip(a, b, strict=True)]
    assert ring.ints(ring.combine([], [left, right])) == [(-x - y) % m for x, y in zip(a, b, strict=True)]
    assert ring.ints(ring.multiply(factor, left)) == [factor * x % m for x in a]
    assert ring.dot(left, right) == sum(x * y for x, y in zip(a, b, strict=True)) % m
    assert (ring.from_bytes(ring.to_bytes(left), len(a)) == left).all()
    assert len(ring.to_bytes(left)) == ring.width * len(a)
    assert all(-m // 2 <= x < m // 2 for x in ring.signed(left))


@given(st.integers(4, 12), st.integers(0, 120), st.lists(st.integers(-(1 << 46), (1 << 46) - 1), min_size=1))
@settings(max_examples=60, deadline=None)
def test_a_shift_rounds_down_and_keeps_the_sign(limbs: int, bits: int, values: list[int]) -> None:
    ring = WideRing(limbs)
    bits = min(bits, ring.bits - 48)
    below = [(value << bits) + (1 << bits) - 1 if bits else value for value in values]
    assert ring.shifted(ring.from_ints(below), bits).tolist() == values


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=5), st.integers(4, 12).map(WideRing))
def test_signed_words_keep_their_value(values: list[int], ring: WideRing) -> None:
    assert ring.signed(ring.from_int64(np.array(values, dtype=np.int64))) == values


def test_sums_of_products_are_exact_at_the_largest_length() -> None:
    ring = WideRing(2)
    ones = np.full((2, 1 << 20), 0xFFFF, dtype=np.uint16)
    assert ring.dot(ones, ones) == (1 << 20) * (ring.modulus - 1) ** 2 % ring.modulus
