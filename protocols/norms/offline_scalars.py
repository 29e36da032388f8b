"""Products of the scalar masks of a normed sum, by oblivious transfer: lambda_k lambda_k', beta_k lambda_k mu_k, P
lambda, then beta_k^2 lambda_k times the shares of lambda_k^2. The receiver's choices are the bits of its lambda.
"""

from __future__ import annotations

import numpy as np

from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.offline_shares import OfflineShares
from ksdp.protocols.norms.ot_extension import Bytes, ReceiverRows, SenderRows
from ksdp.protocols.norms.ot_products import bits_of_int, scalars_receive, scalars_send
from ksdp.protocols.norms.own_masks import OwnMasks

_SQUARE, _CROSS, _CUBE = range(3)
"""Slots: products of the same choice bits."""


class ScalarTransfers:
    """Which transfers of a pair are for what, from the first on, and how long the messages are.

    Parameters
    ----------
    parameters : NormedSumParameters
        Of the sum.
    """

    def __init__(self, parameters: NormedSumParameters) -> None:
        self.ring, self.steps = parameters.scalar_ring, len(parameters.steps)
        self.bits = parameters.t_mask_bits - parameters.t_shift
        """Of a lambda."""
        self.transfers = (self.steps + 1) * self.bits
        self.first_bytes = self._announced(2 * self.steps + 1)
        """Of the first announcement."""
        self.second_bytes = self._announced(self.steps)

    def choices(self, own: OwnMasks) -> Bytes:
        """A receiver's."""
        return np.concatenate([bits_of_int(own.t_part(k), self.bits) for k in range(self.steps + 1)])

    def send_first(self, shares: OfflineShares, rows: SenderRows) -> bytes:
        """All but the cubes, to one peer."""
        lambdas = [*shares.lam[:-1], shares.own.factor]
        squares, one = scalars_send(self.ring, rows, self.bits, _SQUARE, lambdas)
        crosses, other = scalars_send(self.ring, rows, self.bits, _CROSS, shares.crossed)
        shares.first(squares, crosses)
        return one + other

    def receive_first(self, shares: OfflineShares, rows: ReceiverRows, announced: bytes) -> None:
        """The same, from one peer."""
        n, end = self.steps, self._announced(self.steps + 1)
        squares = scalars_receive(self.ring, rows, self.bits, _SQUARE, n + 1, announced[:end])
        crosses = scalars_receive(self.ring, rows, self.bits, _CROSS, n, announced[end:])
        shares.first(squares, crosses)

    def send_second(self, shares: OfflineShares, rows: SenderRows, factors: list[int]) -> bytes:
        """The cubes, to one peer."""
        cubes, announced = scalars_send(self.ring, rows, self.bits, _CUBE, factors)
        shares.second(cubes)
        return announced

    def receive_second(self, shares: OfflineShares, rows: ReceiverRows, announced: bytes) -> None:
        """The same, from one peer."""
        shares.second(scalars_receive(self.ring, rows, self.bits, _CUBE, self.steps, announced))

    def _announced(self, count: int) -> int:
        """Bytes for products with `count` lambdas."""
        return count * self.bits * self.ring.width
