"""Additive shares in a small prime field, as PEM's clients send them to its servers.

A vector v becomes m vectors: m - 1 uniform ones and v minus their sum, modulo a prime. Any m - 1 of them are
uniform and independent of v; all m add up to v exactly. Numbers are signed: v in (-p/2, p/2) is v modulo p.

Only sums are taken, so no product ever leaves 64 bits. The two primes are the largest below 2^32 and 2^64: a word
is rejected, and drawn again, with probability 2^-30 and 2^-58, where reducing it would be biased.

Source: PEM, section 4.2, step 1 ("a 32- or 64-bit prime").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.array_types import Words
from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import RandomBytes, os_random

PRIMES = {32: 2**32 - 5, 64: 2**64 - 59}
"""Bits of an entry to the prime."""

Signed = NDArray[np.int64]


@dataclass(frozen=True)
class PrimeField:
    """Integers modulo the largest prime of so many bits.

    Parameters
    ----------
    bits : {64, 32}
        Of an entry on the wire. 32 halves the traffic; sums and noise together must then stay below 2^31.

    Examples
    --------
    >>> field = PrimeField(32)
    >>> shares = field.share(np.array([5, -7]), 3)
    >>> field.decode(field.total(shares, 2))
    array([ 5, -7])
    """

    bits: int = 64

    def __post_init__(self) -> None:
        if self.bits not in PRIMES:
            raise InputError(f"`bits` must be 32 or 64; got {self.bits}.")

    @property
    def prime(self) -> int:
        """The modulus."""
        return PRIMES[self.bits]

    @property
    def largest(self) -> int:
        """Size of the largest signed number: (p - 1) / 2."""
        return (self.prime - 1) // 2

    def encode(self, values: NDArray[np.integer]) -> Words:
        """Signed integers modulo p, of the same shape.

        Raises
        ------
        InputError
            If one is not an integer or larger than `largest` in size.
        """
        signed = np.asarray(values)
        if signed.dtype.kind != "i":
            raise InputError(f"Only signed integers can be shared; got {signed.dtype}.")
        if signed.size and not (-self.largest <= int(signed.min()) and int(signed.max()) <= self.largest):
            raise InputError(f"Every value must be at most {self.largest} in size; one is not.")
        words = signed.astype(np.int64).view(np.uint64)
        # A negative int64 read as uint64 is v + 2^64; v + p is smaller by 2^64 - p.
        return np.where(signed < 0, words - np.uint64(2**64 - self.prime), words)

    def decode(self, words: Words) -> Signed:
        """The signed integers that field elements stand for, of the same shape."""
        negative = words > np.uint64(self.largest)
        return np.where(negative, words + np.uint64(2**64 - self.prime), words).view(np.int64)

    def add(self, a: Words, b: Words) -> Words:
        """a + b modulo p, entry by entry."""
        total = a + b
        gap, prime = np.uint64(2**64 - self.prime), np.uint64(self.prime)
        if self.bits == 64:  # the sum of two may pass 2^64, and is then smaller than either
            total = np.where(total < a, total + gap, total)
        return np.where(total >= prime, total - prime, total)

    def negate(self, a: Words) -> Words:
        """-a modulo p, entry by entry."""
        return np.where(a == 0, a, np.uint64(self.prime) - a)

    def total(self, rows: Iterable[Words], entries: int) -> Words:
        """The sum of vectors of field elements, modulo p, shape (entries,); of none: zeros.

        The running sum is kept modulo 2^64, and how often it wrapped is counted: each time it lost 2^64, which is
        2^64 - p modulo p. Below 2^32 vectors no count overflows.
        """
        result, wraps = np.zeros(entries, dtype=np.uint64), np.zeros(entries, dtype=np.uint32)
        wrapped = np.empty(entries, dtype=bool)
        for row in rows:
            result += row
            np.less(result, row, out=wrapped)
            wraps += wrapped
        prime, gap = np.uint64(self.prime), np.uint64(2**64 % self.prime)
        return self.add(result % prime, wraps.astype(np.uint64) * gap % prime)

    def uniform(self, entries: int, random: RandomBytes = os_random) -> Words:
        """Uniform field elements, by rejection.

        Parameters
        ----------
        random : callable
            Secret bytes; the operating system's unless a test injects another source.
        """
        width = self.bits // 8
        words = np.frombuffer(random(width * entries), dtype=f"<u{width}").astype(np.uint64)
        while (again := np.flatnonzero(words >= np.uint64(self.prime))).size:
            words[again] = np.frombuffer(random(width * again.size), dtype=f"<u{width}")
        return words

    def share(self, values: NDArray[np.integer], servers: int, random: RandomBytes = os_random) -> Words:
        """Split a vector into one share a server, shape (servers, entries).

        Parameters
        ----------
        values : array of int, shape (entries,)
        servers : int
            m, at least 2.
        random : callable
            Secret bytes.

        Raises
        ------
        InputError
            If there are fewer than two servers or a value does not fit.
        """
        if servers < 2:
            raise InputError(f"`servers` must be at least 2, or one sees everything; got {servers}.")
        encoded = self.encode(values)
        drawn = self.uniform((servers - 1) * encoded.size, random).reshape(servers - 1, encoded.size)
        last = self.add(encoded, self.negate(self.total(drawn, encoded.size)))
        return np.vstack((drawn, last))

    def to_bytes(self, words: Words) -> bytes:
        """Entries as they travel: 4 or 8 bytes each, little-endian."""
        return words.astype(f"<u{self.bits // 8}").tobytes()

    def from_bytes(self, data: bytes, entries: int) -> Words:
        """What `to_bytes` wrote.

        Raises
        ------
        ProtocolError
            If it is of another length or not of this field.
        """
        width = self.bits // 8
        if len(data) != width * entries:
            raise ProtocolError(f"A vector of {entries} entries has {width * entries} bytes; got {len(data)}.")
        words = np.frombuffer(data, dtype=f"<u{width}").astype(np.uint64)
        if words.size and words.max() >= np.uint64(self.prime):
            raise ProtocolError("A vector holds a number that is not in the field.")
        return words
