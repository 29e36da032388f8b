"""A proof that Paillier's n is well formed: that gcd(n, phi(n)) = 1, so that a ciphertext has one plaintext.

Who made n shows n-th roots of numbers that follow from n by a hash. n has no prime factor below 6,370; if taking
n-th powers modulo n were no permutation, a random number would have a root with a chance of 1 / 6,370 at most, and
eleven of them with one of 2^-138. Nothing about p and q is told beyond that: roots of random numbers are random
numbers, which everybody can make together with their powers. It says nothing about who made n; it may be repeated.

At 3,072 bits it has 4.2 kB, and takes as long as eleven powers to make and to check.

Source: Goldberg, Reyzin, Sagga & Baldimtsi (2019), Efficient Noninteractive Certification of RSA Moduli and
Beyond, https://eprint.iacr.org/2018/057, section 3.2 with e = n.
"""

from __future__ import annotations

import hashlib

import gmpy2
from gmpy2 import mpz

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.one_noise.paillier import PrivateKey

_LEAST_FACTOR = 6370
_ROOTS = 11
_SMALL = gmpy2.primorial(_LEAST_FACTOR)
"""Product of all primes up to there."""


def _challenges(n: int) -> list[mpz]:
    width = (n.bit_length() + 7) // 8
    out = []
    for number in range(_ROOTS):
        seed = b"ksdp-paillier-modulus-1" + number.to_bytes(1, "big") + n.to_bytes(width, "big")
        out.append(mpz(int.from_bytes(hashlib.shake_256(seed).digest(width + 16), "big")) % n)
    return out


def prove_modulus(key: PrivateKey) -> bytes:
    """The proof for a key of one's own: eleven numbers below n."""
    n, phi = mpz(key.public.n), mpz(key.p - 1) * (key.q - 1)
    root = gmpy2.invert(n, phi)
    width = (key.public.bits + 7) // 8
    return b"".join(int(gmpy2.powmod(rho, root, n)).to_bytes(width, "big") for rho in _challenges(int(n)))


def check_modulus(n: int, proof: bytes) -> None:
    """Refuse an n that is not well formed, or whose proof is none.

    Raises
    ------
    ProtocolError
        If the proof does not hold.
    """
    width = (n.bit_length() + 7) // 8
    if len(proof) != _ROOTS * width or gmpy2.gcd(n, _SMALL) != 1 or gmpy2.is_prime(mpz(n)):
        raise ProtocolError("a Paillier key that is not well formed arrived.")
    for at, rho in enumerate(_challenges(n)):
        sigma = int.from_bytes(proof[at * width : (at + 1) * width], "big")
        if not 0 < sigma < n or gmpy2.powmod(sigma, n, n) != rho:
            raise ProtocolError("a Paillier key that is not proved to be well formed arrived.")
