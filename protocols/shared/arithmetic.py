"""Fixed-point arithmetic on shares: a product and its rounding in one round.

A share of degree 1 times one of degree 1 has degree 2, which three parties can open together. To open v + r in
place of v hides v; from c = v + r everybody has shares of v / 2^s as (c >> s) - [r >> s] (Damgard and Nielsen's
product, Catrina and Saxena's truncation). v is below 2^bits in absolute value, r a sum of three numbers that are
uniform up to 2^(bits + `HIDING`), of which a party knows two: what is opened is within 2^-(`HIDING` - 1)
(statistical distance, per number) of what depends on nothing. A sharing of zero of degree 2 hides the degrees in
between. Both come from MPyC's pseudorandom secret sharing, without messages.

The result is off by less than three units of its last place: r mod 2^s is a sum of three such numbers. Nothing
wraps while bits + `HIDING` + 3 < 224.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mpyc import thresha
from numpy.typing import NDArray

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.shared.bits import WIDTH, Pair, PairedBits, low_words
from ksdp.protocols.shared.engine import COMPUTING, FIELD
from ksdp.protocols.shared.field import (
    BYTES,
    PRIME,
    Integers,
    integers,
    left_limbs,
    modular_product,
    of_integers,
)

__all__ = ["FRACTION", "HIDING", "Local", "Shares", "fixed", "product", "reals"]

_FEW = 30_000
"""Multiplications up to which Python's integers are faster than limbs."""

FRACTION = 64
"""Fraction bits of what is kept on shares, unless said otherwise."""
HIDING = 64


@dataclass(frozen=True, eq=False)
class Local:
    """A product that every party has computed from its shares, degree 2, before it is opened behind a mask."""

    value: Integers
    bits: int
    """The true value is below 2^this in absolute value."""
    shift: int = FRACTION
    """Bits that are cut off."""


def fixed(array: NDArray[np.float64], fraction: int = FRACTION) -> Integers:
    """Public numbers as integers modulo the prime, exactly; of at most 2^50 with 53 bits."""
    mantissa, exponent = np.frexp(np.asarray(array, dtype=np.float64))
    whole = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
    places = exponent.astype(np.int64) - 53 + fraction
    up = np.maximum(places, 0).astype(object)
    down = np.maximum(-places, 0).astype(object)
    return np.asarray(((whole << up) >> down) % PRIME)


def reals(values: Integers, fraction: int) -> NDArray[np.float64]:
    """From integers modulo the prime, signed."""
    signed = np.where(values > PRIME // 2, values - PRIME, values)
    return (signed / (1 << fraction)).astype(np.float64)


class Shares:
    """Arithmetic of one computing party; arrays are its shares, integers modulo the prime.

    Parameters
    ----------
    runtime : mpyc.runtime.Runtime
    """

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime

    async def rounded(self, *locals_: Local) -> list[Integers]:
        """Shares of value / 2^shift of each, all in one round."""
        masked, tops = [], []
        for each in locals_:
            if each.bits + HIDING + 3 >= PRIME.bit_length():
                raise ValueError(f"a product of {each.bits} bits would wrap behind its mask")
            low, high, zero = self._masks(each.value.size, each.bits + HIDING, each.shift)
            offset = 1 << (each.bits + 1)
            masked.append((each.value.ravel() + offset + low + (high << each.shift) + zero) % PRIME)
            tops.append(high + (offset >> each.shift))
        opened = await self._opened(np.concatenate(masked), threshold=2)
        found, at = [], 0
        for each, top in zip(locals_, tops, strict=True):
            part = opened[at : at + each.value.size]
            at += each.value.size
            found.append((((part >> each.shift) - top) % PRIME).reshape(each.value.shape))
        return found

    async def rounded_symmetric(self, *locals_: Local) -> list[Integers]:
        """The same of symmetric matrices, or stacks of them: half the numbers, and symmetric to the last bit."""
        upper = [np.triu_indices(each.value.shape[-1]) for each in locals_]
        halves = [replace(each, value=each.value[(..., *at)]) for each, at in zip(locals_, upper, strict=True)]
        found = []
        for each, (rows, columns), half in zip(locals_, upper, await self.rounded(*halves), strict=True):
            whole = np.empty_like(each.value)
            whole[..., rows, columns] = whole[..., columns, rows] = half
            found.append(whole)
        return found

    def _masks(self, entries: int, bits: int, shift: int) -> tuple[Integers, Integers, Integers]:
        """Shares of r mod 2^shift and r >> shift for three summands r below 2^bits, and of zero (degree 2).

        As MPyC makes them, from keys that two parties have each; a party lacks one key, hence one summand.
        """
        runtime = self._runtime
        unique = runtime._prss_uci()
        low = high = np.zeros(entries, dtype=object)
        for who, function in runtime.prfs(1 << bits).items():
            at = thresha._f_S_i(FIELD, COMPUTING, runtime.pid, who)
            drawn = function(unique, (entries,))
            low, high = low + (drawn & ((1 << shift) - 1)) * at, high + (drawn >> shift) * at
        return low, high, self._zero(entries)

    def _zero(self, entries: int) -> Integers:
        runtime = self._runtime
        unique, zero = runtime._prss_uci(), np.zeros(entries, dtype=object)
        for who, function in runtime.prfs(1 << PRIME.bit_length()).items():  # 2^-214 from uniform modulo the prime
            at = thresha._f_S_i(FIELD, COMPUTING, runtime.pid, who)
            zero = zero + function(unique, (entries,)) * (at * (runtime.pid + 1))
        return zero

    async def opened(self, share: Integers) -> Integers:
        """What everybody learns, of a share of degree 1."""
        return (await self._opened(share.ravel() % PRIME, threshold=1)).reshape(share.shape)

    async def opened_product(self, share: Integers) -> Integers:
        """What everybody learns, of a product of two shares."""
        return (await self._opened((share.ravel() + self._zero(share.size)) % PRIME, threshold=2)).reshape(
            share.shape
        )

    async def _opened(self, share: Integers, *, threshold: int) -> Integers:
        """Every party sends its share to the others; of degree 1 the third must fit the line through two."""
        runtime = self._runtime
        runtime._program_counter[0] += 1
        peers = [at for at in range(COMPUTING) if at != runtime.pid]
        data = of_integers(share).tobytes()
        for peer in peers:
            runtime._send_message(peer, data)
        arrived = await runtime.gather([runtime._receive_message(peer) for peer in peers])
        parts: list[Any] = [share] * COMPUTING
        for peer, theirs in zip(peers, arrived, strict=True):
            if len(theirs) != len(data):
                raise ValueError("a share of another length")
            parts[peer] = integers(np.frombuffer(theirs, dtype=np.uint8).reshape(-1, BYTES), share.shape)
        first, second, third = parts
        if threshold == 1 and ((first - 2 * second + third) % PRIME).any():
            raise ProtocolError("The shares of what is opened are not those of one number: somebody deviates.")
        return np.asarray((3 * (first - second) + third) % PRIME)

    async def negative(self, share: Integers, bits: int) -> Integers:
        """1 where a number is below zero, else 0 (whole numbers); of numbers below 2^bits in absolute value.

        Words of 64 bits do (`bits`), in 13 rounds; MPyC's comparison where they are too short.
        """
        if bits >= WIDTH - 1:
            kind = self._runtime.SecInt(bits + 1, p=PRIME)
            found = self._runtime.np_sgn(kind.array(FIELD.array(share.ravel() % PRIME, check=False)), LT=True)
            return np.asarray((await self._runtime.gather(found)).value).reshape(share.shape)
        parts = await self._in_pairs(share.ravel(), bits)
        first, second, third = self._each(await PairedBits(self._runtime).negative(parts))
        for other in (second, third):  # XOR of whole numbers: a + b - 2 a b
            (both,) = await self.rounded(Local(first * other, 2, 0))
            first = (first + other - 2 * both) % PRIME
        return first.reshape(share.shape)

    async def _in_pairs(self, share: Integers, bits: int) -> Pair:
        """A_m of the two other parties: numbers known in pairs that add up to the shared ones, modulo 2^64."""
        runtime = self._runtime
        unique, masked = runtime._prss_uci(), share + (1 << bits)
        drawn = {}
        for who, function in runtime.prfs(1 << (bits + HIDING)).items():
            (lacks,) = set(range(COMPUTING)) - set(who)
            drawn[lacks] = function(unique, share.shape)
            masked = masked + drawn[lacks] * thresha._f_S_i(FIELD, COMPUTING, runtime.pid, who)
        opened = await self._opened(masked % PRIME, threshold=1)
        parts = {lacks: np.uint64(0) - low_words(numbers) for lacks, numbers in drawn.items()}
        if 0 in parts:
            parts[0] = parts[0] + low_words(opened - (1 << bits))
        after, before = ((runtime.pid + step) % COMPUTING for step in (1, 2))
        return parts[after], parts[before]

    def _each(self, bits: Pair) -> list[Integers]:
        """Shares of degree 1 of all three parts of bits held in pairs; zero at the party that lacks the part."""
        runtime, found = self._runtime, [np.zeros(len(bits[0]), dtype=object) for _ in range(COMPUTING)]
        for step, part in zip((1, 2), bits, strict=True):
            lacks = (runtime.pid + step) % COMPUTING
            who = tuple(place for place in range(COMPUTING) if place != lacks)
            found[lacks] = part.astype(object) * thresha._f_S_i(FIELD, COMPUTING, runtime.pid, who)
        return found


def product(left: Integers, right: Integers) -> Integers:
    """The matrix product of shares, degree 2; stacks as `numpy.matmul`."""
    if left.size * right.shape[-1] <= _FEW:
        return np.asarray(np.matmul(left, right) % PRIME)
    return modular_product(left_limbs(left), right)
