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

import numpy as np

from ksdp.protocols.shared.arithmetic import FRACTION, Local, SharedArithmetic, fixed
from ksdp.protocols.shared.field import PRIME, Integers
from ksdp.protocols.shared.full_topics import FullFit
from ksdp.protocols.shared.matrices import reciprocal
from ksdp.protocols.shared.steps import SCALE_FRACTION, SCALE_GROWTH
from ksdp.protocols.shared.topic_sizes import KEPT, ROW_BITS, SIGNED, SimplexSizes
from ksdp.protocols.shared.topic_steps import SharedRows

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

    sizes: SimplexSizes

    def __init__(self, shares: SharedArithmetic, rows: SharedRows, sizes: SimplexSizes) -> None:
        super().__init__(shares, rows, sizes)
        self.faults: Integers = np.zeros(1, dtype=object)

    async def best(self, left: Integers, square: Integers, before: Integers) -> Integers:
        """T_t from its sums (`FullFit.best`)."""
        shares, sizes = self.shares, self.sizes
        (numbers,) = await shares.rounded(Local(left % PRIME, ROW_BITS + KEPT + sizes.sums_bits, ROW_BITS))
        above = await self._above(numbers)
        (numbers,) = await shares.rounded(Local(above * numbers, sizes.over_bits, 0))
        share = int(fixed(np.array([1.0 / sizes.features]), _PUBLIC)[0])
        (theta,) = await shares.rounded(
            Local((numbers.sum() - square) * share, KEPT + _PUBLIC + sizes.sums_bits + 2, _PUBLIC)
        )
        for _ in range(PASSES):
            above = await self._above(numbers - theta)
            count = above.sum(keepdims=True) % PRIME
            (excess,) = await shares.rounded(
                Local((above * (numbers - theta)).sum(keepdims=True), sizes.over_bits + sizes.count_bits, 0)
            )
            inverse = await reciprocal(shares, count * (1 << (FRACTION - sizes.count_bits)) % PRIME)
            (step,) = await shares.rounded(
                Local((excess - square) * inverse, sizes.step_bits, SCALE_FRACTION + sizes.count_bits)
            )
            theta = (theta + step) % PRIME
        return await self._settled(numbers - theta, square, before, count)

    async def _above(self, over: Integers) -> Integers:
        """1 where a number is not below zero, else 0."""
        bits = self.sizes.over_bits
        (coarse,) = await self.shares.rounded(Local(over % PRIME, bits, KEPT - SIGNED))
        return np.asarray((1 - await self.shares.negative(coarse, bits - KEPT + SIGNED)) % PRIME)

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
        shares, bits, d_bits = self.shares, self.sizes.over_bits, self.sizes.count_bits + 1
        above = await self._above(over)
        parts, unit = await shares.rounded(
            Local(above * over, bits, 0), Local(square, KEPT + d_bits, KEPT - SIGNED)
        )
        asked = np.concatenate([above.sum(keepdims=True) - count, unit - _UNUSED]) % PRIME
        fewer, unused = await shares.negative(asked, SIGNED + d_bits)
        (parts,) = await shares.rounded(Local((1 - fewer) * parts, bits, 0))
        inverse = await reciprocal(shares, square * (1 << (FRACTION - KEPT - d_bits)) % PRIME)
        (topic,) = await shares.rounded(
            Local(parts * inverse, bits + SCALE_FRACTION + SCALE_GROWTH, SCALE_FRACTION + d_bits)
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
