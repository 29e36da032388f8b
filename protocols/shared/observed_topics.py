"""Sweeps over observed entries only, on shares: weighted PD-NMF.

The numerics are those of `audit.mechanisms.factorisation.weighted_nmf`, in the same order. The pattern Omega of
what is observed is shared as the ratings are. A residual is never formed: what it is multiplied with is

    sum over Omega of R_t T_t    = X T_t - sum_{u != t} W_u (Omega (T_u T_t)),
    sum over Omega of T_t^2      = Omega (T_t T_t),

and for T the same with the transposes, where T_u T_t and W_u W_t are products entry by entry. So rows and columns
have denominators of their own, and a topic takes a reciprocal for each of them where one of full rows takes two.

Numbers are relative as there (`topics`), and all bounds hold: with |X'_i| the length of a row,
W'_it <= |X'_i| x / (x^2 + rho) <= |X'_i| reach, x^2 = Omega_i (T_t T_t); so no column of W' is longer than reach,
no row of T' either, and no sum over Omega above reach^2.
"""

from __future__ import annotations

import numpy as np

from ksdp.protocols.shared.arithmetic import Local, SharedArithmetic
from ksdp.protocols.shared.field import PRIME, Integers
from ksdp.protocols.shared.topic_sizes import KEPT, ROW_BITS, AnySizes
from ksdp.protocols.shared.topic_steps import SharedRows, TopicSteps


class ObservedFit(TopicSteps):
    """Sweeps over the observed entries of some rows.

    Parameters
    ----------
    rows
        X', zero where nothing is observed.
    pattern
        1 where an entry is observed, whole numbers.
    """

    def __init__(self, shares: SharedArithmetic, rows: SharedRows, pattern: SharedRows, sizes: AnySizes) -> None:
        super().__init__(shares, sizes)
        self._rows, self._pattern = rows, pattern

    async def swept(self, topics: Integers, sweeps: int) -> Integers:
        """T' after so many sweeps, W' from zero."""
        topics = topics.copy()
        weights = np.zeros((self.sizes.rank, self._rows.count), dtype=object)
        for _ in range(sweeps):
            for t in range(self.sizes.rank):
                (pairs,) = await self.shares.rounded(Local(topics * topics[t] % PRIME, self.square, KEPT))
                fits = self._rows.times(topics[t][:, None])[:, 0]
                sums = self._pattern.times(np.ascontiguousarray(pairs.T))
                weights[t] = await self._best(t, weights, fits - self.gamma, sums)
                (pairs,) = await self.shares.rounded(Local(weights * weights[t] % PRIME, self.square, KEPT))
                fits = self._rows.transposed_times(weights[t][:, None])[:, 0]
                sums = self._pattern.transposed_times(np.ascontiguousarray(pairs.T))
                topics[t] = await self._best(t, topics, fits - self.alpha, sums)
        return topics

    async def _best(self, t: int, parts: Integers, fits: Integers, sums: Integers) -> Integers:
        """Row t of W' (or of T') at the minimum, the others as they are.

        Parameters
        ----------
        parts : shape (k, n)
            All rows.
        fits : shape (n,)
            Products with X', less a regulariser, of degree 2.
        sums : shape (n, k)
            Over Omega, of degree 2.
        """
        (sums,) = await self.shares.rounded(Local(sums, KEPT + 2 * self.sizes.reach_bits, 0))
        inverse = await self.inverse(sums[:, t])
        others = [u for u in range(self.sizes.rank) if u != t]
        held = (parts[others].T * sums[:, others]).sum(axis=1) if others else 0
        return await self.kept(fits - (held << (ROW_BITS - KEPT)), ROW_BITS + KEPT, inverse)
