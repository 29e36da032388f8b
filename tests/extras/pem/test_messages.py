"""Shares in a small prime field."""

from __future__ import annotations

from collections.abc import Callable

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemState, VectorBlock
from ksdp.extras.pem.messages import PRIMES, PrimeField, pack_state, unpack_state

FIELDS = [PrimeField(32), PrimeField(64)]


@pytest.mark.parametrize("bits", PRIMES)
def test_the_moduli_are_the_largest_primes_of_their_size(bits: int) -> None:
    assert gmpy2.is_prime(PRIMES[bits])
    assert gmpy2.next_prime(PRIMES[bits]) > 2**bits


@pytest.mark.parametrize("field", FIELDS, ids=str)
@settings(deadline=None)
@given(data=st.data())
def test_shares_of_all_clients_add_up_to_the_sum(field: PrimeField, data: st.DataObject) -> None:
    most = field.largest // 4
    vectors = data.draw(
        st.lists(st.lists(st.integers(-most, most), min_size=3, max_size=3), min_size=1, max_size=4)
    )
    servers = data.draw(st.integers(2, 4))
    shares = [field.share(np.array(v, dtype=np.int64), servers) for v in vectors]
    partial = [field.total([s[j] for s in shares], 3) for j in range(servers)]
    assert field.decode(field.total(partial, 3)).tolist() == np.sum(vectors, axis=0).tolist()


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_addition_is_that_of_python(field: PrimeField) -> None:
    p = field.prime
    edge = [0, 1, 2, p // 2, p // 2 + 1, p - 2, p - 1]
    a, b = (np.array(x, dtype=np.uint64) for x in zip(*[(x, y) for x in edge for y in edge], strict=True))
    assert [int(x) for x in field.add(a, b)] == [(int(x) + int(y)) % p for x, y in zip(a, b, strict=True)]
    assert [int(x) for x in field.total([a, b, b], a.size)] == [
        (int(x) + 2 * int(y)) % p for x, y in zip(a, b, strict=True)
    ]
    assert field.total([a] * 50, a.size).tolist() == [50 * int(x) % p for x in a]
    assert [int(x) for x in field.negate(a)] == [-int(x) % p for x in a]


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_signed_numbers_come_back_up_to_the_edge(field: PrimeField) -> None:
    edge = np.array([0, 1, -1, field.largest, -field.largest])
    assert field.decode(field.encode(edge)).tolist() == edge.tolist()
    assert [int(x) for x in field.encode(edge)] == [int(x) % field.prime for x in edge]
    with pytest.raises(InputError, match="at most"):
        field.encode(np.array([field.largest + 1]))


@pytest.mark.parametrize("field", FIELDS, ids=str)
@pytest.mark.parametrize("server", [0, 1, 2])
def test_any_share_is_uniform_whatever_is_shared(field: PrimeField, server: int) -> None:
    rng = np.random.default_rng(1)
    constant = np.full(20_000, 3)
    share = field.share(constant, 3, rng.bytes)[server]
    assert chisquare(np.bincount(share >> np.uint64(field.bits - 6), minlength=64)).pvalue > 1e-4
    assert chisquare(np.bincount(share % np.uint64(16), minlength=16)).pvalue > 1e-4


def test_a_word_outside_the_field_is_drawn_again() -> None:
    field = PrimeField(32)
    words = iter([[field.prime, 7, 2**32 - 1], [field.prime + 2, 5], [6]])

    def random(n: int) -> bytes:
        drawn = np.array(next(words), dtype="<u4").tobytes()
        assert len(drawn) == n
        return drawn

    assert field.uniform(3, random).tolist() == [6, 7, 5]


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_vectors_travel(field: PrimeField) -> None:
    words = field.encode(np.array([-3, 0, 9]))
    assert len(field.to_bytes(words)) == 3 * field.bits // 8
    assert field.from_bytes(field.to_bytes(words), 3).tolist() == words.tolist()
    with pytest.raises(ProtocolError, match="entries"):
        field.from_bytes(field.to_bytes(words), 4)
    with pytest.raises(ProtocolError, match="not in the field"):
        field.from_bytes(b"\xff" * (field.bits // 8), 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PrimeField(16), "32 or 64"),
        (lambda: PrimeField(64).share(np.array([1]), 1), "at least 2"),
        (lambda: PrimeField(64).share(np.array([1.0]), 2), "signed integers"),
    ],
)
def test_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


BLOCKS = (
    VectorBlock(3, 2.0, share=0.25, fraction_bits=8),
    VectorBlock(2, 1.5, share=0.75, cap=1.0, nonnegative=True, fraction_bits=3),
)


def test_a_state_travels() -> None:
    arrays = {
        "w": np.array([[1.5, -2.0]]),
        "items": np.arange(3, dtype=np.int16),
        "none": np.zeros((0, 4), dtype=np.int64),
    }
    state = PemState(3, arrays, BLOCKS)
    again = unpack_state(pack_state(state))
    assert (again.iteration, again.blocks) == (3, BLOCKS)
    assert pack_state(again) == pack_state(state)
    for name, array in arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)
        assert again.arrays[name].dtype == array.dtype


def test_a_damaged_state_is_refused() -> None:
    data = pack_state(PemState(3, {"w": np.zeros(2)}, BLOCKS))
    for cut in range(0, len(data), 7):
        with pytest.raises(ProtocolError):
            unpack_state(data[:cut])


def test_an_array_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="float64"):
        pack_state(PemState(0, {"a": np.array(["x"])}, ()))
