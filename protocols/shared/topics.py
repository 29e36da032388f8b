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

from ksdp.protocols.shared.arithmetic import FRACTION, Local, Shares, fixed, product, reals
from ksdp.protocols.shared.field import MOST_INNER, PRIME, Integers, Residues, modular_product
from ksdp.protocols.shared.matrices import SCALE_FRACTION, SCALE_GROWTH, reciprocal
from ksdp.protocols.shared.topic_sizes import KEPT, ROW_BITS, SIGNED, Sizes

__all__ = ["SharedRows", "Sweeps", "topics_of"]


@dataclass(frozen=True, eq=False)
class SharedRows:
    """A party's shares of all parties' X'."""

    residues: Residues
    """Shape (22, rows, features); `field.left_residues` at `ROW_BITS`."""

    def times(self, right: Integers) -> Integers:
        """X' T'^T, shape (rows, k)."""
        return modular_product(self.residues, right)

    def transposed_times(self, right: Integers) -> Integers:
        """X'^T W', a part of the rows at a time."""
        found = np.zeros((self.residues.shape[2], right.shape[1]), dtype=object)
        for first in range(0, len(right), MOST_INNER):
            part = slice(first, first + MOST_INNER)
            found = (found + modular_product(self.residues[:, part].transpose(0, 2, 1), right[part])) % PRIME
        return found


@dataclass(frozen=True)
class Sweeps:
    """What is computed; public, agreed."""

    sizes: Sizes
    sweeps: int
    """Of the rows."""
    before: int = 0
    """Of the parties' own topics, where these make the start."""


async def topics_of(
    runtime: Any, rows: SharedRows, start: NDArray[np.float64], wanted: Sweeps, models: SharedRows | None = None
) -> NDArray[np.float64]:
    """One computing party's side: the topics that everybody learns, shape (k, d).

    Parameters
    ----------
    start : shape (k, d)
        Public.
    models
        The parties' own topics, weighted; T is first fitted to them for `before` sweeps.
    """
    shares, sizes = Shares(runtime), wanted.sizes
    topics = fixed(start / sizes.tau, KEPT)
    if models is not None:
        topics = await _Fit(shares, models, sizes).swept(topics, wanted.before)
    topics = await _Fit(shares, rows, sizes).swept(topics, wanted.sweeps)
    return reals(await shares.opened(topics), KEPT) * sizes.tau


class _Fit:
    """Sweeps over some rows."""

    def __init__(self, shares: Shares, rows: SharedRows, sizes: Sizes) -> None:
        self._shares, self._rows, self._sizes = shares, rows, sizes
        self._rho = int(fixed(np.array([sizes.rho]), KEPT)[0])

    async def swept(self, topics: Integers, sweeps: int) -> Integers:
        """T' after so many sweeps, W' from zero."""
        shares, sizes = self._shares, self._sizes
        weights = np.zeros((self._rows.residues.shape[1], sizes.rank), dtype=object)
        square = 2 * KEPT + 2 * sizes.reach_bits
        for _ in range(sweeps):
            columns = np.ascontiguousarray(topics.T)
            fits, gram = await shares.rounded(
                Local(self._rows.times(columns), ROW_BITS + KEPT + sizes.reach_bits, ROW_BITS),
                Local(product(topics, columns), square, KEPT),
            )
            # T_t does not change before W_t has used it.
            inverse = await self._inverse(np.diagonal(gram).copy())
            for t in range(sizes.rank):
                others = [u for u in range(sizes.rank) if u != t]
                number = int(fixed(np.array([sizes.fixed_gamma]), 2 * KEPT)[0])
                left = (fits[:, t] << KEPT) - weights[:, others] @ gram[others, t] - number
                weights[:, t] = await self._kept(left, 2 * KEPT, inverse[t : t + 1])
                topics[t], gram[t] = await self._topic(t, topics, weights)
                gram[:, t] = gram[t]
        return topics

    async def _topic(self, t: int, topics: Integers, weights: Integers) -> tuple[Integers, Integers]:
        """T'_t, and its products with all topics."""
        shares, sizes = self._shares, self._sizes
        others = [u for u in range(sizes.rank) if u != t]
        square = 2 * KEPT + 2 * sizes.reach_bits
        (overlaps,) = await shares.rounded(Local((weights.T @ weights[:, t]) % PRIME, square, KEPT))
        inverse = await self._inverse(overlaps[t : t + 1])
        number = int(fixed(np.array([sizes.fixed_alpha]), ROW_BITS + KEPT)[0])
        left = self._rows.transposed_times(weights[:, t : t + 1])[:, 0] - number
        left = left - ((overlaps[others] @ topics[others]) << (ROW_BITS - KEPT))
        topic = await self._kept(left, ROW_BITS + KEPT, inverse)
        changed = topics.copy()
        changed[t] = topic
        (gram,) = await shares.rounded(Local((changed @ topic) % PRIME, square, KEPT))
        return topic, gram

    async def _inverse(self, squares: Integers) -> Integers:
        """2^scale_bits / (number + rho), at `SCALE_FRACTION`."""
        part = (squares + self._rho) % PRIME
        return await reciprocal(self._shares, part * (1 << (FRACTION - KEPT - self._sizes.scale_bits)) % PRIME)

    async def _kept(self, number: Integers, fraction: int, inverse: Integers) -> Integers:
        """max(number, 0) times the inverse."""
        shares, sizes = self._shares, self._sizes
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
