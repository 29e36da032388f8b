"""Paillier against its definition, with numbers small enough to follow and keys large enough to mean it."""

import math

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.extras.fedpower.paillier import FixedBase, PrivateKey, PublicKey, Slots, generate

KEY = generate(512)
N = KEY.public.n


def decrypt_by_definition(key: PrivateKey, c: int) -> int:
    """L(c^lambda mod n^2) / L(g^lambda mod n^2) mod n, as in Paillier (1999), section 3."""
    n = key.p * key.q
    lam = math.lcm(key.p - 1, key.q - 1)

    def quotient(x: int) -> int:
        return (pow(x, lam, n * n) - 1) // n

    return quotient(c) * pow(quotient(1 + n), -1, n) % n


@given(st.integers(-(N // 2) + 1, N // 2 - 1), st.integers(2, N - 1))
@settings(deadline=None, max_examples=30)
def test_both_directions_are_those_of_the_definition(message: int, r: int) -> None:
    by_definition = pow(1 + N, message % N, N * N) * pow(r, N, N * N) % (N * N)
    assert KEY.decrypt(by_definition) == message
    assert decrypt_by_definition(KEY, int(KEY.public.encrypt(message))) == message % N


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.integers(-1000, 1000))
@settings(deadline=None, max_examples=30)
def test_sums_products_and_fresh_randomness(a: int, b: int, k: int) -> None:
    public = KEY.public
    c = public.encrypt(a) * public.encrypt(b) % public.square
    assert KEY.decrypt(c) == a + b
    assert KEY.decrypt(gmpy2.powmod(public.encrypt(a), k % N, public.square)) == a * k
    again = public.rerandomise(c)
    assert again != c
    assert KEY.decrypt(again) == a + b


def test_ciphertexts_of_one_number_differ() -> None:
    assert len({int(KEY.public.encrypt(0)) for _ in range(40)}) == 40


@given(st.integers(0, 2**300 - 1))
@settings(deadline=None, max_examples=40)
def test_the_table_gives_the_same_powers(exponent: int) -> None:
    table = FixedBase(12345, N, 300)
    assert table.power(exponent) == pow(12345, exponent, N)


def test_the_table_refuses_what_it_does_not_hold() -> None:
    table = FixedBase(3, N, 10)
    for exponent in (-1, 1024):
        with pytest.raises(InputError, match="exponent"):
            table.power(exponent)


def test_keys_have_the_length_asked_for() -> None:
    assert KEY.public.bits == 512
    assert gmpy2.is_prime(KEY.p)
    assert gmpy2.is_prime(KEY.q)
    assert KEY.p.bit_length() == KEY.q.bit_length() == 256
    assert str(KEY.p) not in repr(KEY)
    for bits in (255, 511, 128):
        with pytest.raises(InputError, match="bits"):
            generate(bits)


def test_what_is_no_ciphertext_is_refused() -> None:
    for c in (0, N * N, KEY.p, -1):
        with pytest.raises(ProtocolError, match="no ciphertext"):
            KEY.decrypt(c)
    with pytest.raises(InputError, match="below n / 2"):
        KEY.public.encrypt(N // 2 + 1)
    with pytest.raises(InputError, match="odd"):
        PublicKey(2**400)


@given(st.integers(1, 2**30), st.integers(1, 200), st.integers(1, 60), st.integers(0, 10_000))
def test_sums_of_the_extremes_fit(bound: int, terms: int, entries: int, seed: int) -> None:
    slots = Slots(512, bound, terms)
    rng = np.random.default_rng(seed)
    values = rng.choice([-bound, bound, 0, 1], size=(terms, entries))
    packed = [slots.pack(row) for row in values]
    sums = [sum(column) for column in zip(*packed, strict=True)]
    assert all(2 * abs(s) < 2**510 for s in sums)
    assert np.array_equal(slots.unpack(sums, entries), values.sum(axis=0))


def test_what_does_not_fit_a_plaintext_is_refused() -> None:
    slots = Slots(512, 10, 3)
    with pytest.raises(InputError, match="at most 10"):
        slots.pack(np.array([11]))
    with pytest.raises(ProtocolError, match="plaintexts were due"):
        slots.unpack([0, 0], 3)
    with pytest.raises(ProtocolError, match="larger than the bounds"):
        slots.unpack([31], 1)
    with pytest.raises(ProtocolError, match="larger than the bounds"):
        slots.unpack([1 << 511], 1)
    with pytest.raises(ProtocolError, match="larger than the bounds"):
        slots.unpack([1 << slots.width], 1)  # in a slot that is not used
    with pytest.raises(InputError, match="does not fit"):
        Slots(256, 1 << 250, 100)
    with pytest.raises(InputError, match="at least 1"):
        Slots(512, 0, 3)
