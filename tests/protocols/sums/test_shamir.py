"""Shamir against Lagrange's formula with fractions, and by counting."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.sums.shamir import PRIME, SHARE_BYTES, lagrange_at_zero, recover, split

from ..conftest import seeded


@given(st.binary(max_size=64), st.integers(1, 5), st.integers(0, 3))
@settings(deadline=None)
def test_every_large_enough_set_of_shares_gives_the_secret(secret: bytes, threshold: int, spare: int) -> None:
    shares = split(secret, threshold, range(1, threshold + spare + 1))
    for size in range(threshold, len(shares) + 1):
        for chosen in combinations(shares, size):
            assert recover({i: shares[i] for i in chosen}, len(secret)) == secret


@given(st.lists(st.integers(1, 50), min_size=1, max_size=7, unique=True), st.data())
def test_weights_are_lagranges_fractions(points: list[int], data: st.DataObject) -> None:
    """p(0) of a polynomial with known coefficients; and each weight times its denominator, in the rationals."""
    coefficients = data.draw(st.lists(st.integers(0, PRIME - 1), min_size=len(points), max_size=len(points)))
    weights = lagrange_at_zero(points)
    values = {p: sum(c * p**k for k, c in enumerate(coefficients)) for p in points}
    assert sum(weights[p] * values[p] for p in points) % PRIME == coefficients[0]
    for i in points:
        exact = Fraction(1)
        for j in points:
            if j != i:
                exact *= Fraction(j, j - i)
        assert weights[i] * exact.denominator % PRIME == exact.numerator % PRIME


def test_a_polynomial_written_out() -> None:
    """Secret 5, coefficients 3 and 2 in the order drawn: p(x) = 3 x^2 + 2 x + 5."""
    drawn = iter([3, 2])
    shares = split(b"\x05", 3, [1, 2, 7], random_bytes=lambda n: next(drawn).to_bytes(n, "big"))
    assert shares == {1: 10, 2: 21, 7: 166}
    assert recover(shares, 1) == b"\x05"


def test_all_ones_are_drawn_again() -> None:
    drawn = iter([2**528 - 1, 4])
    shares = split(b"", 2, [1, 2], random_bytes=lambda n: next(drawn).to_bytes(n, "big"))
    assert shares == {1: 4, 2: 8}


def test_too_few_or_false_shares_do_not_give_the_secret() -> None:
    secret = bytes(range(32))
    shares = split(secret, 3, range(1, 6))
    with pytest.raises(ProtocolError, match="do not fit together"):
        recover({1: shares[1], 2: shares[2]}, 32)
    with pytest.raises(ProtocolError, match="do not fit together"):
        recover({**shares, 4: shares[4] ^ 1 << 300}, 32)


def test_shares_of_a_fixed_secret_are_uniform() -> None:
    """One share less than the threshold: the top and the low bits of both, jointly, over 4,000 sharings."""
    source = seeded("shamir")
    counts = [0] * 256
    lows = [0] * 256
    for _ in range(4000):
        shares = split(b"the same secret every time", 3, (1, 2, 3), random_bytes=source)
        counts[(shares[1] >> 517) * 16 + (shares[2] >> 517)] += 1
        lows[(shares[1] & 15) * 16 + (shares[3] & 15)] += 1
    assert chisquare(counts).pvalue > 1e-6
    assert chisquare(lows).pvalue > 1e-6


def test_what_cannot_be_shared_is_refused() -> None:
    with pytest.raises(InputError, match="at most 64 bytes; got 65"):
        split(bytes(65), 2, [1, 2])
    for threshold in (0, 3):
        with pytest.raises(InputError, match="`threshold` must be 1 to 2"):
            split(b"a", threshold, [1, 2])
    for points in ([0, 1], [1, 1], [1, PRIME]):
        with pytest.raises(InputError, match="`points`"):
            split(b"a", 2, points)
    assert PRIME.bit_length() <= 8 * SHARE_BYTES
