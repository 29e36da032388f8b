"""Vectors of integers modulo 2^(16 L), for L up to a few dozen: wider than any machine word.

An entry is L limbs of 16 bits, the lowest first; a vector is a uint16 array of shape (L, d), so a row holds one
limb of every entry. Three things follow. The bytes of the array are the message. Products of two limbs, summed
over up to 2^21 entries, stay below 2^53, so inner products and multiples are matrix products in float64, exact to
the last bit. And all else is integer arithmetic on rows with one carry at the end.

>>> ring = WideRing(limbs=10)
>>> a = ring.from_int64(np.array([3, -4]))
>>> ring.dot(a, a)
25
>>> ring.signed(ring.multiply(-2, a))
[-6, 8]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LIMB_BITS = 16
Limbs = NDArray[np.uint16]
"""Shape (L, d)."""


def carry(accumulated: NDArray[np.int64]) -> Limbs:
    """Rows of accumulated limbs, each below 2^62 in size, as limbs; what is carried past the last is dropped.

    Parameters
    ----------
    accumulated : array of shape (L, d)
        Signed; overwritten.
    """
    limbs = np.empty(accumulated.shape, dtype=np.uint16)
    for row in range(len(accumulated)):
        limbs[row] = accumulated[row]  # keeps the low 16 bits
        if row + 1 < len(accumulated):
            accumulated[row] >>= LIMB_BITS  # towards minus infinity: right for negative sums, too
            accumulated[row + 1] += accumulated[row]
    return limbs


@dataclass(frozen=True)
class WideRing:
    """Integers modulo 2^(16 L).

    Parameters
    ----------
    limbs : int
        L.
    """

    limbs: int

    @classmethod
    def of_bits(cls, bits: int) -> WideRing:
        """The smallest ring with at least so many bits."""
        return cls(-(-bits // LIMB_BITS))

    @property
    def bits(self) -> int:
        """The modulus is 2 to this power."""
        return LIMB_BITS * self.limbs

    @property
    def modulus(self) -> int:
        """2 to the power `bits`."""
        return 1 << self.bits

    @property
    def width(self) -> int:
        """Bytes of an entry."""
        return 2 * self.limbs

    def centred(self, value: int) -> int:
        """The representative of a residue that is nearest to zero."""
        value %= self.modulus
        return value - self.modulus if value >> (self.bits - 1) else value

    def from_int64(self, values: NDArray[np.int64]) -> Limbs:
        """Signed 64-bit integers of shape (d,) as residues."""
        limbs = np.empty((self.limbs, len(values)), dtype=np.uint16)
        for row in range(self.limbs):
            limbs[row] = values >> min(LIMB_BITS * row, 63)
        return limbs

    def from_ints(self, values: Iterable[int]) -> Limbs:
        """Integers of any size as residues."""
        data = b"".join((value % self.modulus).to_bytes(self.width, "little") for value in values)
        return np.ascontiguousarray(np.frombuffer(data, dtype="<u2").reshape(-1, self.limbs).T)

    def widened(self, values: Limbs) -> Limbs:
        """Residues of a narrower ring, from 0 to its modulus less one, as the same numbers of this one."""
        out = np.zeros((self.limbs, values.shape[1]), dtype=np.uint16)
        out[: len(values)] = values
        return out

    def ints(self, values: Limbs) -> list[int]:
        """Residues as integers from 0 to the modulus less one."""
        data, width = np.ascontiguousarray(values.T).astype("<u2", copy=False).tobytes(), 2 * len(values)
        return [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]

    def signed(self, values: Limbs) -> list[int]:
        """Residues as the integers nearest to zero."""
        return [self.centred(value) for value in self.ints(values)]

    def to_bytes(self, values: Limbs) -> bytes:
        """As they travel: all lowest limbs first, little-endian."""
        return values.astype("<u2", copy=False).tobytes()

    def from_bytes(self, data: bytes, length: int) -> Limbs:
        """What `to_bytes` wrote, or the same number of random bytes as uniform residues."""
        return np.frombuffer(data, dtype="<u2").reshape(self.limbs, length).astype(np.uint16, copy=False)

    def add(self, *terms: Limbs) -> Limbs:
        """Sum of vectors."""
        return self.combine(terms, ())

    def subtract(self, left: Limbs, right: Limbs) -> Limbs:
        """Difference of vectors."""
        return self.combine((left,), (right,))

    def combine(self, plus: Iterable[Limbs], minus: Iterable[Limbs]) -> Limbs:
        """Sum of some vectors less the sum of others, with one carry for all."""
        total: NDArray[np.int64] | None = None
        for term in plus:
            total = term.astype(np.int64) if total is None else np.add(total, term, out=total)
        for term in minus:
            total = -term.astype(np.int64) if total is None else np.subtract(total, term, out=total)
        assert total is not None
        return carry(total)

    def shifted(self, values: Limbs, bits: int) -> NDArray[np.int64]:
        """Residues, as the integers nearest to zero, over 2^bits and rounded down; they must fit 47 bits."""
        first, rest = divmod(bits, LIMB_BITS)
        quotient = np.where(values[-1] >> (LIMB_BITS - 1), np.int64(-1), np.int64(0))
        for row in range(min(first + 4, self.limbs) - 1, first - 1, -1):
            quotient = (quotient << LIMB_BITS) | values[row]
        shifted: NDArray[np.int64] = quotient >> rest
        return shifted

    def multiply(self, factor: int, values: Limbs) -> Limbs:
        """An integer times a vector."""
        digits = self._digits(factor)
        toeplitz = np.zeros((self.limbs, self.limbs))
        for row in range(self.limbs):
            toeplitz[row, : row + 1] = digits[row::-1]
        return carry((toeplitz @ values.astype(np.float64)).astype(np.int64))

    def dot(self, left: Limbs, right: Limbs) -> int:
        """Inner product of two vectors, from 0 to the modulus less one."""
        products = (left.astype(np.float64) @ right.astype(np.float64).T).astype(np.int64)
        total = 0
        for i in range(self.limbs):
            for j in range(self.limbs - i):
                total += int(products[i, j]) << (LIMB_BITS * (i + j))
        return total % self.modulus

    def _digits(self, value: int) -> NDArray[np.float64]:
        data = (value % self.modulus).to_bytes(self.width, "little")
        return np.frombuffer(data, dtype="<u2").astype(np.float64)
