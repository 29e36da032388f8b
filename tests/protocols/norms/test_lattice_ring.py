"""The lattice's ring against Python's integers."""

from __future__ import annotations

from math import log2, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.protocols.norms import lattice_ring as ring
from ksdp.protocols.norms.lattice_cipher import LARGEST_MODULUS_BITS
from ksdp.protocols.norms.wide_ring import WideRing

N, Q = ring.DEGREE, ring.MODULUS


def numbers(coefficients: ring.Residues) -> list[int]:
    """Chinese remainders, the slow way: from 0 to q - 1."""
    found = []
    for column in coefficients.T.tolist():
        found.append(sum(r * (Q // p) * pow(Q // p, -1, p) for r, p in zip(column, ring.PRIMES, strict=True)) % Q)
    return found


def negacyclic(left: dict[int, int], right: dict[int, int]) -> dict[int, int]:
    """Product modulo X^N + 1 and q of two polynomials of a few powers."""
    product: dict[int, int] = {}
    for i, x in left.items():
        for j, y in right.items():
            sign = -1 if i + j >= N else 1
            product[(i + j) % N] = (product.get((i + j) % N, 0) + sign * x * y) % Q
    return product


def of_powers(polynomial: dict[int, int]) -> ring.Residues:
    coefficients = np.zeros((len(ring.PRIMES), N), dtype=np.uint64)
    for power, value in polynomial.items():
        coefficients[:, power] = [value % p for p in ring.PRIMES]
    return coefficients


def is_prime(n: int) -> bool:
    return n % 2 == 1 and all(n % k for k in range(3, int(n**0.5) + 2, 2))


def test_the_primes_are_the_largest_that_fit() -> None:
    found, candidate = [], (1 << 30) + 1 - 2 * N
    while len(found) < 14:
        if is_prime(candidate):
            found.append(candidate)
        candidate -= 2 * N
    assert tuple(found) == ring.PRIMES
    assert ring.PRIMES[0] == 32765 * 2**15 + 1
    assert log2(Q) < 420 <= LARGEST_MODULUS_BITS
    assert prod(ring.PRIMES) == Q


polynomials = st.dictionaries(st.integers(0, N - 1), st.integers(0, Q - 1), min_size=1, max_size=6)


@given(polynomials, polynomials)
@settings(max_examples=12, deadline=None)
def test_products_are_negacyclic(left: dict[int, int], right: dict[int, int]) -> None:
    product = ring.times(ring.forward(of_powers(left)), ring.forward(of_powers(right)))
    assert (ring.inverse(product) == of_powers(negacyclic(left, right))).all()


def test_dense_products_at_some_coefficients() -> None:
    rng = np.random.default_rng(1)
    left, right = (rng.integers(0, np.array(ring.PRIMES)[:, None], (14, N)).astype(np.uint64) for _ in range(2))
    product = ring.inverse(ring.times(ring.forward(left), ring.forward(right)))
    for power in (0, 1, 777, N - 1):
        for i in (0, 13):
            p, x, y = ring.PRIMES[i], left[i].tolist(), right[i].tolist()
            expected = sum(x[j] * y[power - j] * (1 if j <= power else -1) for j in range(N)) % p
            assert product[i, power] == expected


@pytest.mark.parametrize("worst", [0, 1])
def test_transforms_undo_each_other_at_the_ends_of_the_range(worst: int) -> None:
    coefficients = np.array(ring.PRIMES, dtype=np.uint64)[:, None] - np.uint64(worst + 1)
    coefficients = np.broadcast_to(coefficients, (14, N)).copy()
    assert (ring.inverse(ring.forward(coefficients)) == coefficients).all()


@given(st.integers(1, 27), st.data())
@settings(max_examples=20, deadline=None)
def test_raising_rounds_to_the_nearest(limbs: int, data: st.DataObject) -> None:
    wide = WideRing(limbs)
    values = data.draw(st.lists(st.integers(0, wide.modulus - 1), min_size=1, max_size=5))
    values += [0, wide.modulus // 2, wide.modulus - 1]
    found = numbers(ring.raised(wide.from_ints(values)))
    for value, raised in zip(values, found, strict=True):
        distance = (raised * wide.modulus - Q * value) % (Q * wide.modulus)
        assert min(distance, Q * wide.modulus - distance) <= wide.modulus // 2


@given(st.integers(1, 27), st.lists(st.integers(0, Q - 1), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_lowering_rounds_to_the_nearest(limbs: int, values: list[int]) -> None:
    wide = WideRing(limbs)
    values += [0, Q // 2, Q - 1]
    columns = np.concatenate([ring.constants(value) for value in values], axis=1)
    for value, lowered in zip(values, wide.ints(ring.lowered(columns, limbs)), strict=True):
        distance = (lowered * Q - wide.modulus * value) % (Q * wide.modulus)
        assert min(distance, Q * wide.modulus - distance) <= Q // 2 + (Q >> 30)


def test_what_is_raised_and_lowered_again_is_what_it_was() -> None:
    wide = WideRing(24)
    values = wide.from_bytes(np.random.default_rng(3).bytes(wide.width * 40), 40)
    assert (ring.lowered(ring.raised(values), 24) == values).all()


def test_integers_signs_and_sums() -> None:
    wide = WideRing(11)
    values = [0, 1, wide.modulus - 1, 1 << 175]
    assert numbers(ring.integers(wide.from_ints(values))) == values
    assert numbers(ring.small(np.array([-3, 5]))) == [Q - 3, 5]
    assert numbers(ring.shifted(ring.small(np.array([-3, 5])), -(1 << 90))) == [
        Q - 3 - (1 << 90),
        Q + 5 - (1 << 90),
    ]
    assert numbers(ring.total([ring.small(np.array([1, 2, 3])), ring.small(np.array([4]))])) == [5, 2, 3]


def test_public_polynomials_follow_from_the_label_and_are_spread_evenly() -> None:
    one = ring.uniform(b"one")
    assert (one == ring.uniform(b"one")).all()
    assert (one != ring.uniform(b"two")).mean() > 0.999
    for row, p in zip(one, ring.PRIMES, strict=True):
        assert row.max() < p
        counts = np.bincount((row * 16 // p).astype(np.int64), minlength=16)
        assert (np.abs(counts - N / 16) < 8 * (N / 16) ** 0.5).all()
