"""A well formed modulus is proved so; one that is not cannot be."""

from __future__ import annotations

import gmpy2
import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.one_noise.modulus_proof import _challenges, check_modulus, prove_modulus
from ksdp.protocols.one_noise.paillier import PrivateKey, generate

KEY = generate(512)


def test_a_proof_holds_for_its_modulus_alone() -> None:
    proof = prove_modulus(KEY)
    check_modulus(KEY.public.n, proof)
    with pytest.raises(ProtocolError):
        check_modulus(generate(512).public.n, proof)


@pytest.mark.parametrize("bit", [0, 7, 511, 512, 2000, 5631])
def test_a_changed_bit_is_refused(bit: int) -> None:
    proof = bytearray(prove_modulus(KEY))
    proof[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ProtocolError):
        check_modulus(KEY.public.n, bytes(proof))


def test_other_lengths_are_refused() -> None:
    proof = prove_modulus(KEY)
    for other in (b"", proof[:-1], proof + b"\0"):
        with pytest.raises(ProtocolError, match="not well formed"):
            check_modulus(KEY.public.n, other)


def test_a_modulus_whose_powers_are_no_permutation_has_no_roots_to_show() -> None:
    """p divides q - 1: a ciphertext would have several plaintexts. Nearly no number has an n-th root then."""
    p = int(gmpy2.next_prime(1 << 255))
    k = 2
    while not gmpy2.is_prime(k * p + 1):
        k += 2
    n = p * (k * p + 1)
    # Of the numbers modulo q, one in p is a p-th power.
    q = k * p + 1
    assert not any(gmpy2.powmod(rho % q, (q - 1) // p, q) == 1 for rho in _challenges(n))
    for forged in (bytes(11 * ((n.bit_length() + 7) // 8)), prove_modulus(KEY)):
        with pytest.raises(ProtocolError):
            check_modulus(n, forged)


def test_a_prime_a_square_and_small_factors_are_refused() -> None:
    p = int(gmpy2.next_prime(1 << 511))
    width = 64
    with pytest.raises(ProtocolError):
        check_modulus(p, b"".join(int(gmpy2.powmod(rho, gmpy2.invert(p, p - 1), p)).to_bytes(width, "big")
                                  for rho in _challenges(p)))  # fmt: skip
    half = int(gmpy2.next_prime(1 << 255))
    with pytest.raises(ProtocolError):
        check_modulus(half * half, bytes(11 * 64))
    small = PrivateKey(5, int(gmpy2.next_prime(1 << 509)))
    with pytest.raises(ProtocolError, match="not well formed"):
        check_modulus(small.public.n, prove_modulus(small))
