"""Many small integers packed into one plaintext of an additively homomorphic encryption.

Several whole numbers of a stated size travel in one plaintext, each in a slot wide enough for the
sum of so many (`Slots`). A multiplication by 0 or 1, and additions, act on all slots at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError


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
        """Signed numbers to plaintexts: sum of v_k 2^(width k), which may be negative.

        Raises
        ------
        InputError
            If one is larger than `bound`.
        """
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
        """Sums of packed numbers to signed numbers.

        Raises
        ------
        ProtocolError
            If something does not fit: somebody did not keep the bound.
        """
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
