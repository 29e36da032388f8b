"""Topics of all parties' rows, on shares of these rows: the sweeps of PD-NMF, of which T alone is opened.

The numerics are those of `audit.mechanisms.factorisation.nmf_sweep` (`weighted_nmf` for observed entries), in the
same order: for every topic W_t, then T_t. Numbers are relative: X' = X / s with |X'| <= 1, s^2 what all parties'
squares may add up to; T' = T / tau and W' = W tau / s with tau^4 = s^2 delta / beta, so that both regularisers
become rho = sqrt(beta delta) / s. Then

    |W'_t| <= |X' T'_t| / (|T'_t|^2 + rho) <= 1 / (2 sqrt(rho)) = reach, and |T'_t| too,

whatever the rows are, and every denominator is from rho to reach^2 + rho. From these follow the sizes that are
said of every product (`sizes`): nothing can wrap. A sign that is wrong for a number within three units of zero
changes what is kept of it by as much, no more.

**Observed entries only** (weighted). The pattern Omega of what is observed is shared as the ratings are. A
residual is never formed: what it is multiplied with is

    sum over Omega of R_t T_t    = X T_t - sum_{u != t} W_u (Omega (T_u T_t)),
    sum over Omega of T_t^2      = Omega (T_t T_t),

and for T the same with the transposes, where T_u T_t and W_u W_t are products entry by entry. So rows and columns
have denominators of their own, and a topic takes a reciprocal for each of them. All bounds hold, as with |X'_i|
the length of a row W'_it <= |X'_i| x / (x^2 + rho) <= |X'_i| reach, x^2 = Omega_i (T_t T_t); so no column of W' is
longer than reach, no row of T' either, and no sum over Omega above reach^2.

**Topics on the unit simplex** (no regularisers). T_t = max(n - theta, 0) / D with n = max(W_t^T R_t, 0), D =
|W_t|^2 and the one theta for which it adds up to 1. It is found as Michelot (1986) does: from all entries, theta
<- theta + (e - D) / c, with c entries above theta whose excess adds up to e; it climbs to the root through nested
sets, and is there when c repeats. Nobody sees c, so that a fixed number of steps is done (`PASSES`; corpora need
up to six). A topic on the simplex has a length from 1 / sqrt(d) to 1, so that no column of W' = W / s is longer
than |X' T_t| / |T_t|^2 <= sqrt(d), and no sum that T_t is made of above sqrt(d) + (k - 1) d. So a topic whose
theta was not reached, or whose D is below what a reciprocal reaches (some d 2^-24), stays as it was; and one bit
is opened at the end, before T: that this has happened to no topic in any sweep. Where it has, nothing else is
opened. What nobody uses (D below 2^-37) stays as it was, as it does in the clear.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.mechanisms.privacy.noise import FRACTION_BITS
from ksdp.protocols.shares.arithmetic import FRACTION, Local, SharedArithmetic, fixed, product, reals
from ksdp.protocols.shares.field import MOST_INNER, PRIME, Integers, Residues, modular_product
from ksdp.protocols.shares.matrices import reciprocal
from ksdp.protocols.shares.sizes import (
    KEPT,
    ROW_BITS,
    SCALE_FRACTION,
    SCALE_GROWTH,
    SIGNED,
    AnySizes,
    SimplexSizes,
)


@dataclass(frozen=True, eq=False)
class SharedRows:
    """A party's shares of a matrix with a row for each document of all parties."""

    residues: Residues
    """Shape (22, rows, features); `field.left_residues`."""

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self.residues.shape[1])

    def times(self, right: Integers) -> Integers:
        """The product with a matrix of shape (features, k)."""
        return modular_product(self.residues, right)

    def transposed_times(self, right: Integers) -> Integers:
        """Product of the transpose with a matrix of shape (rows, k), a part of the rows at a time."""
        product = np.zeros((self.residues.shape[2], right.shape[1]), dtype=object)
        for first in range(0, len(right), MOST_INNER):
            part = slice(first, first + MOST_INNER)
            product = (product + modular_product(self.residues[:, part].transpose(0, 2, 1), right[part])) % PRIME
        return product


class _TopicSteps:
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
        change, coarse = await shares.rounded(
            Local(number % PRIME, most, fraction - KEPT), Local(number % PRIME, most, fraction - SIGNED)
        )
        below = await shares.negative(coarse, SIGNED + sizes.terms_bits)
        (quotient,) = await shares.rounded(
            Local(
                change * inverse,
                KEPT + sizes.terms_bits + SCALE_FRACTION + SCALE_GROWTH,
                SCALE_FRACTION + sizes.scale_bits,
            )
        )
        (kept,) = await shares.rounded(Local((1 - below) * quotient, KEPT + sizes.reach_bits, 0))
        return kept


class _FullFit(_TopicSteps):
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
                numerators = (fits[:, t] << KEPT) - weights[:, others] @ gram[others, t]
                numerators = numerators - (self.gamma >> (ROW_BITS - KEPT))
                weights[:, t] = await self.kept(numerators, 2 * KEPT, inverse[t : t + 1])
                topics[t], gram[t] = await self.topic(t, topics, weights)
                gram[:, t] = gram[t]
        return topics

    async def topic(self, t: int, topics: Integers, weights: Integers) -> tuple[Integers, Integers]:
        """T'_t, and its products with all topics."""
        shares, sizes = self.shares, self.sizes
        others = [u for u in range(sizes.rank) if u != t]
        (overlaps,) = await shares.rounded(Local((weights.T @ weights[:, t]) % PRIME, self.square, KEPT))
        numerators = self.rows.transposed_times(weights[:, t : t + 1])[:, 0] - self.alpha
        numerators = numerators - ((overlaps[others] @ topics[others]) << (ROW_BITS - KEPT))
        topic = await self.best(numerators, overlaps[t : t + 1], topics[t])
        changed = topics.copy()
        changed[t] = topic
        (gram,) = await shares.rounded(Local((changed @ topic) % PRIME, self.square, KEPT))
        return topic, gram

    async def best(self, numerators: Integers, square: Integers, before: Integers) -> Integers:
        """T'_t from its sums."""
        return await self.kept(numerators, ROW_BITS + KEPT, await self.inverse(square))


class _ObservedFit(_TopicSteps):
    """Sweeps over the observed entries of some rows."""

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
        """Row t of W' (or of T') at the minimum, the others as they are; `fits` and `sums` are of degree 2."""
        (sums,) = await self.shares.rounded(Local(sums, KEPT + 2 * self.sizes.reach_bits, 0))
        inverse = await self.inverse(sums[:, t])
        others = [u for u in range(self.sizes.rank) if u != t]
        fitted = (parts[others].T * sums[:, others]).sum(axis=1) if others else 0
        return await self.kept(fits - (fitted << (ROW_BITS - KEPT)), ROW_BITS + KEPT, inverse)


PASSES = 9
_UNUSED = 1 << (SIGNED - 37)
_SHORT = 16
"""-log2 of what the entries of a topic may lack."""
_PUBLIC = 40
"""Fraction bits of 1 / d."""


class _SimplexFit(_FullFit):
    """Sweeps over some rows, with topics on the simplex."""

    sizes: SimplexSizes

    def __init__(self, shares: SharedArithmetic, rows: SharedRows, sizes: SimplexSizes) -> None:
        super().__init__(shares, rows, sizes)
        self.faults: Integers = np.zeros(1, dtype=object)

    async def best(self, numerators: Integers, square: Integers, before: Integers) -> Integers:
        """T_t from its sums (`_FullFit.best`)."""
        shares, sizes = self.shares, self.sizes
        (numbers,) = await shares.rounded(Local(numerators % PRIME, ROW_BITS + KEPT + sizes.sums_bits, ROW_BITS))
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
        bits = self.sizes.over_bits
        (coarse,) = await self.shares.rounded(Local(over % PRIME, bits, KEPT - SIGNED))
        return np.asarray((1 - await self.shares.negative(coarse, bits - KEPT + SIGNED)) % PRIME)

    async def _settled(self, over: Integers, square: Integers, before: Integers, count: Integers) -> Integers:
        """max(n - theta, 0) / D, or the topic as it was; `count` were above the theta before."""
        shares, bits, d_bits = self.shares, self.sizes.over_bits, self.sizes.count_bits + 1
        above = await self._above(over)
        parts, unit = await shares.rounded(
            Local(above * over, bits, 0), Local(square, KEPT + d_bits, KEPT - SIGNED)
        )
        questions = np.concatenate([above.sum(keepdims=True) - count, unit - _UNUSED]) % PRIME
        fewer, unused = await shares.negative(questions, SIGNED + d_bits)
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


_FAULT_BITS = 32
_TAU = 40
"""Fraction bits of tau."""


class NotProjected(Exception):
    """The opened bit says so."""


@dataclass(frozen=True)
class Sweeps:
    """Parameters of the sweeps; public, agreed."""

    sizes: AnySizes
    sweeps: int
    before: int = 0
    """Sweeps over the parties' own topics, if these make the start."""


async def topics_of(
    runtime: Any,
    rows: SharedRows,
    start: NDArray[np.float64],
    wanted: Sweeps,
    models: SharedRows | None = None,
    pattern: SharedRows | None = None,
    noise: Integers | None = None,
) -> NDArray[np.float64]:
    """One computing party's side: the topics that everybody learns, shape (k, d)."""
    shares, sizes = SharedArithmetic(runtime), wanted.sizes
    topics = fixed(start / sizes.tau, KEPT)
    fits: list[_FullFit | _ObservedFit] = []
    if models is not None:
        fits.append(_full_fit(shares, models, sizes))
        topics = await fits[-1].swept(topics, wanted.before)
    if pattern is None:
        fits.append(_full_fit(shares, rows, sizes))
    else:
        fits.append(_ObservedFit(shares, rows, pattern, sizes))
    topics = await fits[-1].swept(topics, wanted.sweeps)
    await _check_thresholds(shares, [fit for fit in fits if isinstance(fit, _SimplexFit)])
    if noise is None:
        return reals(await shares.opened(topics), KEPT) * sizes.tau
    size = max(0, math.ceil(math.log2(sizes.tau)))
    scaled = topics * fixed(np.array([sizes.tau]), _TAU)[0] % PRIME
    (grid,) = await shares.rounded(
        Local(scaled, KEPT + sizes.reach_bits + _TAU + size + 1, KEPT + _TAU - FRACTION_BITS)
    )
    most = math.ceil((sizes.longest * 2.0**FRACTION_BITS) ** 2)
    await shares.check_lengths(grid, most, most.bit_length())
    # On the grid of the noise before it is added: nothing below a step of it is opened.
    return reals(await shares.opened((grid + noise) % PRIME), FRACTION_BITS)


def _full_fit(shares: SharedArithmetic, rows: SharedRows, sizes: AnySizes) -> _FullFit:
    if isinstance(sizes, SimplexSizes):
        return _SimplexFit(shares, rows, sizes)
    return _FullFit(shares, rows, sizes)


async def _check_thresholds(shares: SharedArithmetic, fits: list[_SimplexFit]) -> None:
    if fits:
        faults = np.sum([fit.faults for fit in fits], axis=0)
        if (await shares.opened(await shares.negative(-faults % PRIME, _FAULT_BITS)))[0] != 0:
            raise NotProjected
