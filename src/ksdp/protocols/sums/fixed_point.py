"""Reals as numbers modulo 2^64, so that sums are exact and masks hide them.

A value x becomes rint(x 2^f) modulo 2^64; negative values take the upper half. Sums of at most `parties` values
of size at most `bound` stay below 2^63 in size, which is checked when the coding is made, not when it is too
late: a sum that could wrap is never taken.

Error of a decoded sum s against the exact sum of the reals: at most parties * 2^-(f+1) from rounding each value,
plus 2^-53 |s| from writing the result as float64. Values that are multiples of 2^-f are summed exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.wire import pack, pack_number

_CHUNK = 1 << 15
"""Entries coded at a time: what one pass writes is still in the cache for the next."""
_MAX_FRACTION_BITS = 62


@dataclass(frozen=True)
class FixedPoint:
    """How reals are written as 64-bit numbers, agreed by all parties.

    Parameters
    ----------
    fraction_bits : int
        f, 0 to 62: values are rounded to multiples of 2^-f.
    bound : float
        The largest size of one party's value, in the units of the values.
    parties : int
        The largest number of values in one sum.

    Raises
    ------
    InputError
        If a sum of `parties` values of size `bound` could reach 2^63 / 2^f.

    Examples
    --------
    >>> coding = FixedPoint(fraction_bits=31, bound=1.0, parties=3)
    >>> a, b = coding.encode([0.5, -1.0]), coding.encode([0.25, -0.5])
    >>> coding.decode(a + b)
    array([ 0.75, -1.5 ])
    """

    fraction_bits: int
    bound: float
    parties: int

    def __post_init__(self) -> None:
        if not 0 <= self.fraction_bits <= _MAX_FRACTION_BITS:
            raise InputError(f"`fraction_bits` must be 0 to {_MAX_FRACTION_BITS}; got {self.fraction_bits}.")
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise InputError(f"`bound` must be positive and finite; got {self.bound}.")
        if self.parties < 1:
            raise InputError(f"`parties` must be at least 1; got {self.parties}.")
        if self.parties * self._largest >= 1 << 63:
            raise InputError(
                f"A sum of {self.parties} values up to {self.bound:g} with {self.fraction_bits} fraction bits "
                f"needs {(self.parties * self._largest).bit_length() + 1} bits; there are 64. Scale the values "
                "down, or ask for fewer fraction bits."
            )

    @property
    def _largest(self) -> int:
        """Size of the largest code; Python's integers, so that nothing wraps while checking for wraps."""
        numerator, denominator = self.bound.as_integer_ratio()
        return -(-(numerator << self.fraction_bits) // denominator)

    @property
    def error(self) -> float:
        """Largest rounding error of a sum of `parties` values, before it is written as float64."""
        return self.parties * 2.0 ** -(self.fraction_bits + 1)

    def encode(self, values: ArrayLike) -> NDArray[np.uint64]:
        """Codes of one party's values, of the same shape."""
        reals = np.asarray(values, dtype=np.float64, order="C")
        codes = np.empty(reals.shape, dtype="<u8")
        flat, out = reals.reshape(-1), codes.reshape(-1).view("<i8")
        scale = 2.0**self.fraction_bits
        scratch = np.empty(min(_CHUNK, flat.size))
        for start in range(0, flat.size, _CHUNK):
            part = flat[start : start + _CHUNK]
            work = scratch[: part.size]
            # A NaN makes both comparisons false. Min and max, not abs: one pass less.
            if not (part.min() >= -self.bound and part.max() <= self.bound):
                raise InputError(
                    f"Every value must be finite and at most {self.bound:g} in size (`bound`); one in entries "
                    f"{start} to {start + part.size - 1} is not."
                )
            np.multiply(part, scale, out=work)  # a power of two: exact
            np.rint(work, out=work)
            # In range: below 2^63 by the check above.
            np.copyto(out[start : start + _CHUNK], work, casting="unsafe")
        return codes

    def decode(self, total: NDArray[np.uint64], parties: int | None = None) -> NDArray[np.float64]:
        """The reals that a sum of codes stands for, of the same shape."""
        signed = np.asarray(total, dtype="<u8", order="C").view("<i8")
        count = self.parties if parties is None else parties
        if not 0 <= count <= self.parties:
            raise InputError(f"`parties` must be 0 to {self.parties}; got {count}.")
        limit = count * self._largest
        if signed.size and not (int(signed.min()) >= -limit and int(signed.max()) <= limit):
            raise ProtocolError(
                f"The sum has an entry larger than {count} values up to {self.bound:g} can give: the run is void."
            )
        return np.asarray(signed * 2.0**-self.fraction_bits, dtype=np.float64)

    def to_bytes(self) -> bytes:
        """Return bytes that parties compare to know that they mean the same."""
        bound = self.bound.hex().encode()
        return pack("fixed-point", pack_number(self.fraction_bits), bound, pack_number(self.parties))
