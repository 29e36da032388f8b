"""Sweeps whose topics are projected on the unit simplex, on shares: PD-NMF without regularisers.

T_t = max(n - theta, 0) / D with n = max(W_t^T R_t, 0), D = |W_t|^2 and the one theta for which it adds up to 1. It
is found as Michelot (1986) does: from all entries, theta <- theta + (e - D) / c, with c entries above theta whose
excess adds up to e; it climbs to the root through nested sets, and is there when c repeats. Nobody sees c, so that
a fixed number of steps is done (`PASSES`; corpora need up to six).

Bounds. A topic on the simplex has a length from 1 / sqrt(d) to 1, so that no column of W' = W / s is longer than
|X' T_t| / |T_t|^2 <= sqrt(d), and no sum that T_t is made of above sqrt(d) + (k - 1) d. So a topic whose theta was
not reached, or whose D is below what a reciprocal reaches (some d 2^-24), stays as it was; and one bit is opened
at the end, before T: that this has happened to no topic in any sweep. Where it has, nothing else is opened. What
nobody uses (D below 2^-37) stays as it was, as it does in the clear.
"""

from __future__ import annotations

import math

import numpy as np

from ksdp.protocols.shared.arithmetic import FRACTION, Local, Shares, fixed
from ksdp.protocols.shared.field import PRIME, Integers
from ksdp.protocols.shared.full_topics import FullFit
from ksdp.protocols.shared.matrices import SCALE_FRACTION, SCALE_GROWTH, reciprocal
from ksdp.protocols.shared.topic_sizes import KEPT, ROW_BITS, SIGNED, SimplexSizes
from ksdp.protocols.shared.topic_steps import SharedRows

__all__ = ["PASSES", "SimplexFit"]

PASSES = 9
"""Steps of theta."""
_UNUSED = 1 << (SIGNED - 37)
_SHORT = 16
"""-log2 of what the entries of a topic may lack."""
_PUBLIC = 40
"""Fraction bits of 1 / d."""


class SimplexFit(FullFit):
    """Sweeps over some rows, with topics on the simplex.

    Attributes
    ----------
    faults
        Share of how often a threshold was not reached; whole number.
    """

    def __init__(self, shares: Shares, rows: SharedRows, sizes: SimplexSizes) -> None:
        super().__init__(shares, rows, sizes)
        self.faults: Integers = np.zeros(1, dtype=object)
        self._features, self._most = sizes.features, sizes.sums_bits
        self._count_bits = math.ceil(math.log2(sizes.features))
        self._over_bits = KEPT + sizes.sums_bits + 1

    async def best(self, left: Integers, square: Integers, before: Integers) -> Integers:
        """T_t from its sums (`FullFit.best`)."""
        shares = self.shares
        (numbers,) = await shares.rounded(Local(left % PRIME, ROW_BITS + KEPT + self._most, ROW_BITS))
        above = await self._above(numbers)
        (numbers,) = await shares.rounded(Local(above * numbers, self._over_bits, 0))
        share = int(fixed(np.array([1.0 / self._features]), _PUBLIC)[0])
        (theta,) = await shares.rounded(
            Local((numbers.sum() - square) * share, KEPT + _PUBLIC + self._most + 2, _PUBLIC)
        )
        for _ in range(PASSES):
            above = await self._above(numbers - theta)
            count = above.sum(keepdims=True) % PRIME
            (excess,) = await shares.rounded(
                Local((above * (numbers - theta)).sum(keepdims=True), self._over_bits + self._count_bits, 0)
            )
            inverse = await reciprocal(shares, count * (1 << (FRACTION - self._count_bits)) % PRIME)
            most = self._over_bits + self._count_bits + 1 + SCALE_FRACTION + SCALE_GROWTH
            (step,) = await shares.rounded(
                Local((excess - square) * inverse, most, SCALE_FRACTION + self._count_bits)
            )
            theta = (theta + step) % PRIME
        return await self._settled(numbers - theta, square, before, count)

    async def _above(self, over: Integers) -> Integers:
        """1 where a number is not below zero, else 0."""
        (coarse,) = await self.shares.rounded(Local(over % PRIME, self._over_bits, KEPT - SIGNED))
        return np.asarray((1 - await self.shares.negative(coarse, self._over_bits - KEPT + SIGNED)) % PRIME)

    async def _settled(self, over: Integers, square: Integers, before: Integers, count: Integers) -> Integers:
        """max(over, 0) / D, or the topic as it was.

        Parameters
        ----------
        over : shape (d,)
            n - theta.
        square : shape (1,)
            D.
        count : shape (1,)
            How many were above the theta before.
        """
        shares, d_bits = self.shares, self._count_bits + 1
        above = await self._above(over)
        parts, unit = await shares.rounded(
            Local(above * over, self._over_bits, 0), Local(square, KEPT + d_bits, KEPT - SIGNED)
        )
        asked = np.concatenate([above.sum(keepdims=True) - count, unit - _UNUSED]) % PRIME
        fewer, unused = await shares.negative(asked, SIGNED + d_bits)
        (parts,) = await shares.rounded(Local((1 - fewer) * parts, self._over_bits, 0))
        inverse = await reciprocal(shares, square * (1 << (FRACTION - KEPT - d_bits)) % PRIME)
        (topic,) = await shares.rounded(
            Local(parts * inverse, self._over_bits + SCALE_FRACTION + SCALE_GROWTH, SCALE_FRACTION + d_bits)
        )
        lacks = (topic.sum(keepdims=True) - (1 << KEPT) + (1 << (KEPT - _SHORT))) % PRIME
        (lacks,) = await shares.rounded(Local(lacks, KEPT + 2, KEPT - SIGNED))
        (short,) = await shares.negative(lacks, SIGNED + 2)
        used = (1 - unused) % PRIME
        moves, fault = await shares.rounded(_one(used * (1 - short)), _one(used * short))
        (moved,) = await shares.rounded(Local(moves * (topic - before), KEPT + 2, 0))
        self.faults = (self.faults + fault) % PRIME
        return np.asarray((before + moved) % PRIME)


def _one(product: int) -> Local:
    return Local(np.array([product % PRIME], dtype=object), 2, 0)
