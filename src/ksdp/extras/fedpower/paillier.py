"""Paillier's additively homomorphic encryption over GMP, and many small integers packed into one plaintext.

With n = p q and g = 1 + n, an encryption of m is (1 + m n) r^n mod n^2. Whoever has the public key can add
(multiply ciphertexts), multiply by a known number (raise to it) and re-randomise (multiply by an encryption of
0); only who has p and q can decrypt. Whole numbers below n / 2 in size; negative ones are n - |m|.

**Speed.** Decryption by the Chinese remainder theorem. A base that many numbers are raised to gets a table
(`FixedBase`), so that one power costs bits / 6 products. Encryptions of 0 are powers h^a of one random n-th
power h for random a of |n| / 2 bits (Damgard, Jurik & Nielsen 2010, section 4.2); this needs, beyond Paillier's
own assumption, that such powers look like random n-th powers.

**Not protected against**: GMP's powers and Python's integers take time that depends on their operands, secrets
included. A decryption tells the key holder the plaintext and no more; a ciphertext that was made with a *known*
randomness hides nothing from who knows it, so whoever multiplies by a secret must re-randomise before it sends.

Sources: Paillier (1999), https://doi.org/10.1007/3-540-48910-X_16; Damgard, Jurik & Nielsen (2010),
https://doi.org/10.1007/s10207-010-0119-9.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError

KEY_BITS = 3072
"""Bits of n: 128 bits of security (NIST SP 800-57)."""
_WINDOW = 6
_LEAST_BITS = 256
"""Bits of keys made for tests; nobody is protected by fewer than 2048."""


class FixedBase:
    """Powers of one base by a table: base^e for e of up to `bits` bits in bits / 6 products.

    Parameters
    ----------
    bits : int
        Of the largest exponent.
    """

    __slots__ = ("_bits", "_modulus", "_table")

    def __init__(self, base: int, modulus: int, bits: int) -> None:
        self._bits, self._modulus = bits, mpz(modulus)
        self._table: list[list[mpz]] = []
        step = mpz(base)
        for _ in range(-(-bits // _WINDOW)):
            row = [mpz(1)]
            for _ in range((1 << _WINDOW) - 1):
                row.append(row[-1] * step % self._modulus)
            self._table.append(row)
            step = row[-1] * step % self._modulus

    def power(self, exponent: int) -> mpz:
        """base^exponent mod modulus."""
        if exponent < 0 or exponent.bit_length() > self._bits:
            raise InputError(f"an exponent must be at least 0 and have at most {self._bits} bits.")
        out, row, mask = mpz(1), 0, (1 << _WINDOW) - 1
        digits = exponent.to_bytes(-(-self._bits // 24) * 3, "little")
        # Three bytes hold four digits of six bits: no shifting of long numbers.
        for start in range(0, len(digits), 3):
            four = int.from_bytes(digits[start : start + 3], "little")
            for _ in range(4):
                digit = four & mask
                if digit:
                    out = out * self._table[row][digit] % self._modulus
                four >>= _WINDOW
                row += 1
        return out


@dataclass(frozen=True)
class PublicKey:
    """n; who has it can encrypt, add, multiply by known numbers and re-randomise."""

    n: int

    def __post_init__(self) -> None:
        if self.n.bit_length() < _LEAST_BITS or self.n % 2 == 0:
            raise InputError(f"`n` must be odd and have at least {_LEAST_BITS} bits; got {self.n.bit_length()}.")

    @property
    def bits(self) -> int:
        """Bits of n."""
        return self.n.bit_length()

    @property
    def width(self) -> int:
        """Bytes of a ciphertext."""
        return -(-2 * self.bits // 8)

    @cached_property
    def square(self) -> mpz:
        """n^2, the modulus of ciphertexts."""
        return mpz(self.n) ** 2

    @cached_property
    def _zeros(self) -> FixedBase:
        """Table of powers of a random n-th power, which this holder of the key drew for itself."""
        return FixedBase(
            int(gmpy2.powmod(self._unit(), self.n, self.square)), int(self.square), (self.bits + 1) // 2
        )

    def _unit(self) -> mpz:
        while True:
            r = mpz(1 + secrets.randbelow(self.n - 1))
            if gmpy2.gcd(r, self.n) == 1:  # otherwise n is factored; 2^-1500
                return r

    def zero(self) -> mpz:
        """A fresh encryption of 0."""
        return self._zeros.power(1 + secrets.randbelow((1 << (self.bits + 1) // 2) - 1))

    def encrypt(self, message: int) -> mpz:
        """Encrypt a whole number below n / 2 in size."""
        if 2 * abs(message) >= self.n:
            raise InputError("a message must be below n / 2 in size.")
        return (1 + message % self.n * mpz(self.n)) * self.zero() % self.square

    def rerandomise(self, ciphertext: mpz) -> mpz:
        """Another encryption of the same number, which nobody can link to the first without the key."""
        return ciphertext * self.zero() % self.square

    def check(self, ciphertext: int) -> mpz:
        """A number from outside as a ciphertext."""
        value = mpz(ciphertext)
        if not 0 < value < self.square or gmpy2.gcd(value, self.n) != 1:
            raise ProtocolError("something that is no ciphertext of this key arrived.")
        return value


@dataclass(frozen=True)
class PrivateKey:
    """p and q; never written down, and left out of `repr`."""

    p: int
    q: int

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.bits} bits)"

    @cached_property
    def public(self) -> PublicKey:
        """The half for everybody."""
        return PublicKey(self.p * self.q)

    @cached_property
    def _helpers(self) -> tuple[tuple[mpz, mpz, mpz], ...]:
        out = []
        for prime in (mpz(self.p), mpz(self.q)):
            power = gmpy2.powmod(1 + mpz(self.public.n), prime - 1, prime**2)
            out.append((prime, prime**2, gmpy2.invert((power - 1) // prime, prime)))
        return tuple(out)

    def decrypt(self, ciphertext: int) -> int:
        """The whole number, with its sign."""
        value = self.public.check(ciphertext)
        (p, _, _), (q, _, _) = self._helpers
        parts = [
            (gmpy2.powmod(value, prime - 1, square) - 1) // prime * helper % prime
            for prime, square, helper in self._helpers
        ]
        message = int(parts[1] + q * ((parts[0] - parts[1]) * gmpy2.invert(q, p) % p))
        return message if 2 * message < self.public.n else message - self.public.n


def generate(bits: int = KEY_BITS) -> PrivateKey:
    """Draw a key of exactly `bits` bits: two primes of half that, from the system's randomness."""
    if bits < _LEAST_BITS or bits % 2:
        raise InputError(f"`bits` must be even and at least {_LEAST_BITS}; got {bits}.")
    while True:
        p, q = _prime(bits // 2), _prime(bits // 2)
        # Different, and of equal length: then gcd(n, (p - 1)(q - 1)) = 1.
        if p != q and (p * q).bit_length() == bits:
            return PrivateKey(p, q)


def _prime(bits: int) -> int:
    while True:
        # The two top bits set, so that the product has its full length.
        candidate = secrets.randbits(bits) | (3 << bits - 2) | 1
        if gmpy2.is_prime(mpz(candidate), 40):
            return candidate


@dataclass(frozen=True)
class Slots:
    """How whole numbers lie in one plaintext.

    Parameters
    ----------
    key_bits : int
        Of n.
    bound : int
        Largest size of one number.
    terms : int
        The most numbers that are added up in one slot.

    Raises
    ------
    InputError
        If not even one slot fits.
    """

    key_bits: int
    bound: int
    terms: int

    def __post_init__(self) -> None:
        if self.bound < 1 or self.terms < 1:
            raise InputError("`bound` and `terms` must be at least 1.")
        if self.count < 1:
            raise InputError(
                f"a sum of {self.terms} numbers up to {self.bound} does not fit {self.key_bits} bits."
            )

    @cached_property
    def width(self) -> int:
        """Bits of a slot: for sums of either sign."""
        return (2 * self.bound * self.terms + 1).bit_length()

    @cached_property
    def count(self) -> int:
        """Slots in a plaintext; two bits are left free, so that it stays below n / 2."""
        return (self.key_bits - 2) // self.width

    def plaintexts(self, entries: int) -> int:
        """How many are needed."""
        return -(-entries // self.count)

    def pack(self, values: NDArray[np.int64]) -> list[int]:
        """Signed numbers to plaintexts: sum of v_k 2^(width k), which may be negative."""
        flat = [int(v) for v in np.asarray(values).ravel()]
        if any(abs(v) > self.bound for v in flat):
            raise InputError(f"every number must be at most {self.bound} in size.")
        out = []
        for start in range(0, len(flat), self.count):
            number = 0
            for value in reversed(flat[start : start + self.count]):
                number = (number << self.width) + value
            out.append(number)
        return out

    def unpack(self, plaintexts: Sequence[int], entries: int) -> NDArray[np.int64]:
        """Sums of packed numbers to signed numbers."""
        if len(plaintexts) != self.plaintexts(entries):
            raise ProtocolError(f"{self.plaintexts(entries)} plaintexts were due; got {len(plaintexts)}.")
        largest, mask = self.bound * self.terms, (1 << self.width) - 1
        # All slots shifted to non-negative numbers, so that none borrows from the next.
        shift = sum(largest << self.width * k for k in range(self.count))
        out: list[int] = []
        for plaintext in plaintexts:
            shifted = plaintext + shift
            if shifted < 0 or shifted >> self.width * self.count:
                raise ProtocolError("a packed sum is larger than the bounds allow.")
            out += [(shifted >> self.width * k & mask) - largest for k in range(self.count)]
        sums = np.array(out[:entries], dtype=np.int64)
        if any(out[entries:]) or (sums.size and int(np.abs(sums).max()) > largest):
            raise ProtocolError("a packed sum is larger than the bounds allow.")
        return sums
