"""Sweeps over fully observed rows, on shares; with regularisers, or with topics on the simplex.

The numerics are those of `audit.mechanisms.factorisation.nmf_sweep`, in the same order.
"""

from __future__ import annotations

import numpy as np

from ksdp.protocols.shared.arithmetic import Local, SharedArithmetic, product
from ksdp.protocols.shared.field import PRIME, Integers
from ksdp.protocols.shared.topic_sizes import KEPT, ROW_BITS, AnySizes
from ksdp.protocols.shared.topic_steps import SharedRows, TopicSteps


class FullFit(TopicSteps):
    """Sweeps over some rows."""

    def __init__(self, shares: SharedArithmetic, rows: SharedRows, sizes: AnySizes) -> None:
        super().__init__(shares, sizes)
        self.rows = rows

    async def swept(self, topics: Integers, sweeps: int) -> Integers:
        """T' after so many sweeps, W' from zero."""
        shares, sizes = self.shares, self.sizes
        weights = np.zeros((self.rows.count, sizes.rank), dtype=object)
        for _ in range(sweeps):
            columns = np.ascontiguousarray(topics.T)
            fits, gram = await shares.rounded(
                Local(self.rows.times(columns), ROW_BITS + KEPT + sizes.reach_bits, ROW_BITS),
                Local(product(topics, columns), self.square, KEPT),
            )
            # T_t does not change before W_t has used it.
            inverse = await self.inverse(np.diagonal(gram).copy())
            for t in range(sizes.rank):
                others = [u for u in range(sizes.rank) if u != t]
                left = (fits[:, t] << KEPT) - weights[:, others] @ gram[others, t]
                left = left - (self.gamma >> (ROW_BITS - KEPT))
                weights[:, t] = await self.kept(left, 2 * KEPT, inverse[t : t + 1])
                topics[t], gram[t] = await self.topic(t, topics, weights)
                gram[:, t] = gram[t]
        return topics

    async def topic(self, t: int, topics: Integers, weights: Integers) -> tuple[Integers, Integers]:
        """T'_t, and its products with all topics."""
        shares, sizes = self.shares, self.sizes
        others = [u for u in range(sizes.rank) if u != t]
        (overlaps,) = await shares.rounded(Local((weights.T @ weights[:, t]) % PRIME, self.square, KEPT))
        left = self.rows.transposed_times(weights[:, t : t + 1])[:, 0] - self.alpha
        left = left - ((overlaps[others] @ topics[others]) << (ROW_BITS - KEPT))
        topic = await self.best(left, overlaps[t : t + 1], topics[t])
        changed = topics.copy()
        changed[t] = topic
        (gram,) = await shares.rounded(Local((changed @ topic) % PRIME, self.square, KEPT))
        return topic, gram

    async def best(self, left: Integers, square: Integers, before: Integers) -> Integers:
        """T'_t from its sums.

        Parameters
        ----------
        left : shape (d,)
            W'_t^T R_t at `ROW_BITS` + `KEPT`, of degree 2.
        square : shape (1,)
            |W'_t|^2.
        before : shape (d,)
            The topic as it was.
        """
        return await self.kept(left, ROW_BITS + KEPT, await self.inverse(square))
