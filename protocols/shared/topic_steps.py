"""The steps that sweeps over full rows and over observed entries share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ksdp.protocols.shared.arithmetic import FRACTION, Local, SharedArithmetic, fixed
from ksdp.protocols.shared.field import MOST_INNER, PRIME, Integers, Residues, modular_product
from ksdp.protocols.shared.matrices import reciprocal
from ksdp.protocols.shared.steps import SCALE_FRACTION, SCALE_GROWTH
from ksdp.protocols.shared.topic_sizes import KEPT, ROW_BITS, SIGNED, AnySizes


@dataclass(frozen=True, eq=False)
class SharedRows:
    """A party's shares of a matrix with a row for each document of all parties."""

    residues: Residues
    """Shape (22, rows, features); `field.left_residues`."""

    @property
    def count(self) -> int:
        """Of rows."""
        return int(self.residues.shape[1])

    def times(self, right: Integers) -> Integers:
        """The product with a matrix of shape (features, k)."""
        return modular_product(self.residues, right)

    def transposed_times(self, right: Integers) -> Integers:
        """That of the transpose with one of shape (rows, k), a part of the rows at a time."""
        found = np.zeros((self.residues.shape[2], right.shape[1]), dtype=object)
        for first in range(0, len(right), MOST_INNER):
            part = slice(first, first + MOST_INNER)
            found = (found + modular_product(self.residues[:, part].transpose(0, 2, 1), right[part])) % PRIME
        return found


class TopicSteps:
    """Steps of sweeps over some rows."""

    def __init__(self, shares: SharedArithmetic, sizes: AnySizes) -> None:
        self.shares, self.sizes = shares, sizes
        self.rho = int(fixed(np.array([sizes.rho]), KEPT)[0])
        self.gamma = int(fixed(np.array([sizes.fixed_gamma]), ROW_BITS + KEPT)[0])
        self.alpha = int(fixed(np.array([sizes.fixed_alpha]), ROW_BITS + KEPT)[0])

    @property
    def square(self) -> int:
        """2^this is above every product of two kept numbers, or of two columns of them."""
        return 2 * KEPT + 2 * self.sizes.reach_bits

    async def inverse(self, squares: Integers) -> Integers:
        """2^scale_bits / (number + rho) at `SCALE_FRACTION`, of each number."""
        part = (squares + self.rho) % PRIME
        return await reciprocal(self.shares, part * (1 << (FRACTION - KEPT - self.sizes.scale_bits)) % PRIME)

    async def kept(self, number: Integers, fraction: int, inverse: Integers) -> Integers:
        """max(number, 0) times the inverse."""
        shares, sizes = self.shares, self.sizes
        most = fraction + sizes.terms_bits
        left, coarse = await shares.rounded(
            Local(number % PRIME, most, fraction - KEPT), Local(number % PRIME, most, fraction - SIGNED)
        )
        below = await shares.negative(coarse, SIGNED + sizes.terms_bits)
        (quotient,) = await shares.rounded(
            Local(
                left * inverse,
                KEPT + sizes.terms_bits + SCALE_FRACTION + SCALE_GROWTH,
                SCALE_FRACTION + sizes.scale_bits,
            )
        )
        (kept,) = await shares.rounded(Local((1 - below) * quotient, KEPT + sizes.reach_bits, 0))
        return kept
