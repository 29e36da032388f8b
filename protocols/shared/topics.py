"""Topics of all parties' rows, on shares of these rows: the sweeps of PD-NMF, of which T alone is opened.

The numerics are those of `audit.mechanisms.factorisation.nmf_sweep`, in the same order: for every topic W_t, then
T_t. Numbers are relative: X' = X / s with |X'| <= 1, s^2 what all parties' squares may add up to; T' = T / tau and
W' = W tau / s with tau^4 = s^2 delta / beta, so that both regularisers become rho = sqrt(beta delta) / s. Then

    |W'_t| <= |X' T'_t| / (|T'_t|^2 + rho) <= 1 / (2 sqrt(rho)) = reach, and |T'_t| too,

whatever the rows are, and every denominator is from rho to reach^2 + rho. From these follow the sizes that are
said of every product (`Sizes`): nothing can wrap. Without both regularisers there is no such bound, and the
simplex projection that stands in their place needs ten times as many comparisons.

A sign that is wrong for a number within three units of zero changes what is kept of it by as much, no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.protocols.shared.arithmetic import Local, Shares, fixed, product, reals
from ksdp.protocols.shared.field import PRIME, Integers
from ksdp.protocols.shared.observed_topics import ObservedFit
from ksdp.protocols.shared.topic_sizes import KEPT, ROW_BITS, Sizes
from ksdp.protocols.shared.topic_steps import SharedRows, TopicSteps

__all__ = ["Sweeps", "topics_of"]


@dataclass(frozen=True)
class Sweeps:
    """What is computed; public, agreed."""

    sizes: Sizes
    sweeps: int
    """Of the rows."""
    before: int = 0
    """Of the parties' own topics, where these make the start."""


async def topics_of(
    runtime: Any,
    rows: SharedRows,
    start: NDArray[np.float64],
    wanted: Sweeps,
    models: SharedRows | None = None,
    pattern: SharedRows | None = None,
) -> NDArray[np.float64]:
    """One computing party's side: the topics that everybody learns, shape (k, d).

    Parameters
    ----------
    rows
        X' at `ROW_BITS`.
    start : shape (k, d)
        Public.
    models
        The parties' own topics, weighted; T is first fitted to them for `before` sweeps.
    pattern
        1 for an entry that is observed, 0 where it is missing; without it all are observed.
    """
    shares, sizes = Shares(runtime), wanted.sizes
    topics = fixed(start / sizes.tau, KEPT)
    if models is not None:
        topics = await _Fit(shares, models, sizes).swept(topics, wanted.before)
    if pattern is None:
        topics = await _Fit(shares, rows, sizes).swept(topics, wanted.sweeps)
    else:
        topics = await ObservedFit(shares, rows, pattern, sizes).swept(topics, wanted.sweeps)
    return reals(await shares.opened(topics), KEPT) * sizes.tau


class _Fit(TopicSteps):
    """Sweeps over some rows."""

    def __init__(self, shares: Shares, rows: SharedRows, sizes: Sizes) -> None:
        super().__init__(shares, sizes)
        self._rows = rows

    async def swept(self, topics: Integers, sweeps: int) -> Integers:
        """T' after so many sweeps, W' from zero."""
        shares, sizes = self.shares, self.sizes
        weights = np.zeros((self._rows.count, sizes.rank), dtype=object)
        for _ in range(sweeps):
            columns = np.ascontiguousarray(topics.T)
            fits, gram = await shares.rounded(
                Local(self._rows.times(columns), ROW_BITS + KEPT + sizes.reach_bits, ROW_BITS),
                Local(product(topics, columns), self.square, KEPT),
            )
            # T_t does not change before W_t has used it.
            inverse = await self.inverse(np.diagonal(gram).copy())
            for t in range(sizes.rank):
                others = [u for u in range(sizes.rank) if u != t]
                left = (fits[:, t] << KEPT) - weights[:, others] @ gram[others, t]
                left = left - (self.gamma >> (ROW_BITS - KEPT))
                weights[:, t] = await self.kept(left, 2 * KEPT, inverse[t : t + 1])
                topics[t], gram[t] = await self._topic(t, topics, weights)
                gram[:, t] = gram[t]
        return topics

    async def _topic(self, t: int, topics: Integers, weights: Integers) -> tuple[Integers, Integers]:
        """T'_t, and its products with all topics."""
        shares, sizes = self.shares, self.sizes
        others = [u for u in range(sizes.rank) if u != t]
        (overlaps,) = await shares.rounded(Local((weights.T @ weights[:, t]) % PRIME, self.square, KEPT))
        inverse = await self.inverse(overlaps[t : t + 1])
        left = self._rows.transposed_times(weights[:, t : t + 1])[:, 0] - self.alpha
        left = left - ((overlaps[others] @ topics[others]) << (ROW_BITS - KEPT))
        topic = await self.kept(left, ROW_BITS + KEPT, inverse)
        changed = topics.copy()
        changed[t] = topic
        (gram,) = await shares.rounded(Local((changed @ topic) % PRIME, self.square, KEPT))
        return topic, gram
