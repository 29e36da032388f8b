"""Products by homomorphic encryption: exact, within their noise, hidden."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from ksdp.protocols.norms import lattice_cipher as cipher
from ksdp.protocols.norms.lattice_cipher import Cipher, ProductTerms, Secret, answer
from ksdp.protocols.norms.lattice_ring import (
    DEGREE,
    MODULUS,
    PRIMES,
    Residues,
    forward,
    inverse,
    lowered,
    raised,
    shifted,
    times,
    total,
)
from ksdp.protocols.norms.normed_parameters import KAPPA
from ksdp.protocols.norms.own_masks import random_vector
from ksdp.protocols.norms.wide_ring import Limbs, WideRing

from .test_lattice_ring import numbers

RING = WideRing(10)
COUNT = 50


def drawn(length: int = COUNT, bits: int = RING.bits) -> Limbs:
    return random_vector(RING, length, bits, os.urandom)


def centred(values: list[int]) -> list[int]:
    return [value - MODULUS if 2 * value > MODULUS else value for value in values]


def encrypted(secret: Secret, terms: ProductTerms, message: Limbs) -> list[Cipher]:
    labels = [b"message %d" % part for part in range(terms.parts)]
    parts = terms.weighted(message)
    return [
        Cipher.from_bytes(secret.encrypt(label, part), label) for label, part in zip(labels, parts, strict=True)
    ]


def key(random_bytes: Callable[[int], bytes] = os.urandom) -> tuple[Secret, Cipher]:
    secret = Secret(random_bytes)
    return secret, Cipher.from_bytes(secret.encrypt(b"zero"), b"zero")


def phase(secret: Secret, body: Residues, mask: Residues) -> list[int]:
    """b + a s, as integers; of coefficients, shape (14, n) and (14, N)."""
    product = inverse(times(forward(mask), secret._key))[:, : body.shape[1]]
    return numbers(total([body, product]))


@pytest.fixture(scope="module")
def pair() -> tuple[Secret, Cipher]:
    return key()


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_an_integer_times_a_vector(pair: tuple[Secret, Cipher], parts: int) -> None:
    secret, zero = pair
    terms = ProductTerms(10, 10, 1, 2 * COUNT, parts)
    message, factor, masks = drawn(), drawn(1), drawn()
    data = answer(
        zero, zip(encrypted(secret, terms, message), terms.cut(factor), strict=True), masks, terms, os.urandom
    )
    assert len(data) == terms.answer_bytes(COUNT)
    expected = RING.add(masks, RING.multiply(RING.ints(factor)[0], message))
    assert (secret.decrypt(data, 10, COUNT) == expected).all()


@pytest.mark.parametrize("parts", [1, 2])
def test_polynomials_of_full_length(pair: tuple[Secret, Cipher], parts: int) -> None:
    """The lowest coefficient is m_0 x_0 less the sum of m_i x_(N - i)."""
    secret, zero = pair
    terms = ProductTerms(10, 10, DEGREE, 1, parts)
    message, factor, masks = drawn(DEGREE), drawn(DEGREE), drawn(1)
    factors = [forward(part) for part in terms.cut(factor)]
    data = answer(zero, zip(encrypted(secret, terms, message), factors, strict=True), masks, terms, os.urandom)
    (found,) = RING.ints(secret.decrypt(data, 10, 1))
    reversed_factor = np.concatenate([factor[:, :1], RING.multiply(-1, factor[:, :0:-1])], axis=1)
    assert found == (RING.ints(masks)[0] + RING.dot(message, reversed_factor)) % RING.modulus


word = st.sampled_from([0, 1, 2, 2**21 - 1, (2**21 - 1) << 21, 2**64 - 1, 2**63])
"""Coins of the largest errors of both signs, all three ternary values, floods at both ends."""


@given(st.lists(word, min_size=2, max_size=4), st.integers(1, 2), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_noise_stays_within_its_bound_whatever_is_drawn(
    words: list[int], parts: int, dense: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)

    def worst(n: int) -> bytes:
        return rng.choice(np.array(words, dtype="<u8"), -(-n // 8)).tobytes()[:n]

    terms = ProductTerms(10, 10, DEGREE if dense else 1, 2 * COUNT, parts)
    assert terms.fits
    secret, zero = key(worst)
    largest = np.full((10, DEGREE if dense else 1), 65535, dtype=np.uint16)
    message, masks = drawn(DEGREE), drawn()
    ciphers = encrypted(secret, terms, message)
    for each, plain in zip(ciphers, terms.weighted(message), strict=True):
        body = total([inverse(each.body), _negative(raised(plain))])
        error = phase(secret, body[:, :40], inverse(each.mask))
        assert max(map(abs, centred(error))) <= cipher._FRESH
    factors = [forward(part) if dense else part for part in terms.cut(largest)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            cipher, "random_vector", lambda ring, n, bits, source: np.zeros((ring.limbs, n), np.uint16)
        )
        body, mask = cipher._hidden(zero, zip(ciphers, factors, strict=True), masks, terms, worst)
    body = shifted(body, 1 << terms.flood_bits - 1)
    expected = lowered(total([body, inverse(times(forward(mask), secret._key))[:, :COUNT]]), 10)
    noise = phase(secret, total([body, _negative(raised(expected))]), mask)
    assert max(map(abs, centred(noise))) <= terms.noise
    body, mask = cipher._hidden(zero, zip(ciphers, factors, strict=True), masks, terms, worst)
    told = lowered(total([body, inverse(times(forward(mask), secret._key))[:, :COUNT]]), 10)
    assert (told == expected).all()
    data = answer(zero, zip(ciphers, factors, strict=True), masks, terms, worst)
    assert (secret.decrypt(data, 10, COUNT) == told).all()
    if not dense:
        assert (told == RING.add(masks, RING.multiply(-1, message[:, :COUNT]))).all()


def _negative(residues: Residues) -> Residues:
    return times(residues, cipher.constants(-1))


def test_the_flood_is_as_wide_as_stated_and_covers_the_noise(pair: tuple[Secret, Cipher]) -> None:
    secret, zero = pair
    told = 3000
    terms = ProductTerms(10, 10, 1, told)
    assert terms.told * terms.noise <= 2.0 ** (terms.flood_bits - KAPPA - 4)
    message, masks = drawn(told), drawn(told)
    ciphers = encrypted(secret, terms, message)
    body, mask = cipher._hidden(zero, zip(ciphers, terms.cut(drawn(1)), strict=True), masks, terms, os.urandom)
    known = lowered(total([body, inverse(times(forward(mask), secret._key))[:, :told]]), 10)
    noise = centred(phase(secret, total([body, _negative(raised(known))]), mask))
    width = 1 << terms.flood_bits
    assert kstest([value / width for value in noise], "uniform", (-0.5, 1.0)).pvalue > 1e-6  # no seed: secrets


def test_answers_are_rerandomised(pair: tuple[Secret, Cipher]) -> None:
    """a' is not x a, and not twice the same: whoever knows a learns nothing from it."""
    secret, zero = pair
    terms = ProductTerms(10, 10, 1, 2 * COUNT)
    message, masks, one = drawn(), drawn(), np.zeros((10, 1), dtype=np.uint16)
    one[0] = 1
    (known,) = encrypted(secret, terms, message)
    found = []
    for _ in range(2):
        data = answer(zero, [(known, terms.cut(one)[0])], masks, terms, os.urandom)
        found.append(WideRing(11).from_bytes(data[22 * COUNT :], DEGREE))
    bare = lowered(inverse(known.mask), 11)
    for left, right in ((found[0], bare), (found[1], bare), (found[0], found[1])):
        top = (WideRing(11).subtract(left, right)[-1].astype(float) + 0.5) / 65536
        assert kstest(top, "uniform").pvalue > 1e-6


def test_what_rerandomises_has_an_error_of_its_own(pair: tuple[Secret, Cipher]) -> None:
    """Without e1, (a' - x a) / a0 would be v, with coefficients from -1 to 1."""
    secret, zero = pair
    terms = ProductTerms(10, 10, 1, 2 * COUNT)
    (known,), factor = encrypted(secret, terms, drawn()), terms.cut(drawn(1))
    _, mask = cipher._hidden(zero, [(known, factor[0])], drawn(), terms, os.urandom)
    p = PRIMES[0]
    left = total([forward(mask), _negative(times(known.mask, factor[0]))])
    quotient = np.zeros((len(PRIMES), DEGREE), dtype=np.uint64)
    quotient[0] = [
        value * pow(a0, -1, p) % p for value, a0 in zip(left[0].tolist(), zero.mask[0].tolist(), strict=True)
    ]
    assert np.isin(inverse(quotient)[0], [0, 1, p - 1]).mean() < 0.01


def test_encryptions_of_the_same_differ_and_bytes_are_what_they_are(pair: tuple[Secret, Cipher]) -> None:
    secret, _ = pair
    message = drawn()
    assert len(secret.encrypt(b"a", message)) == cipher.CIPHER_BYTES
    assert secret.encrypt(b"a", message) != secret.encrypt(b"b", message)


def test_errors_and_secrets_are_as_the_standard_has_them() -> None:
    rng = np.random.default_rng(5)
    errors = np.concatenate([cipher._errors(rng.bytes) for _ in range(20)])
    assert abs(errors).max() <= 21
    assert abs(errors.mean()) < 0.03
    assert 3.2 < errors.std() < 3.28
    ternary = np.bincount(cipher._ternary(rng.bytes) + 1, minlength=3)
    assert (abs(ternary - DEGREE / 3) < 6 * (DEGREE * 2 / 9) ** 0.5).all()


def test_more_room_takes_more_parts() -> None:
    tight = ProductTerms(14, 14, DEGREE, 26_000)
    assert not tight.fits
    assert ProductTerms(14, 14, DEGREE, 26_000, 2).fits
