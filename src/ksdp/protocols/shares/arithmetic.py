"""Fixed-point arithmetic on shares: a product and its rounding in one round; signs in eight.

A share of degree 1 times one of degree 1 has degree 2, which three parties can open together. To open v + r in
place of v hides v; from c = v + r everybody has shares of v / 2^s as (c >> s) - [r >> s] (Damgard and Nielsen's
product, Catrina and Saxena's truncation). v is below 2^bits in absolute value, r a sum of three numbers that are
uniform up to 2^(bits + `HIDING`), of which a party knows two: what is opened is within 2^-(`HIDING` - 1)
(statistical distance, per number) of what depends on nothing. A sharing of zero of degree 2 hides the degrees in
between. Both come from MPyC's pseudorandom secret sharing, without messages. The result is off by less than three
units of its last place: r mod 2^s is a sum of three such numbers. Nothing wraps while bits + `HIDING` + 3 < 224.

**Signs** by bits that the three parties hold in pairs. x is opened behind a mask, C = x + r_0 + r_1 + r_2 + a
constant; every r_m is known to the two parties other than m. So x = A_0 + A_1 + A_2 modulo 2^64 with A_m known to
the same two, and the sign is the highest bit of that sum. It comes from an adder on words whose bits are held the
same way: a word is the XOR of three parts, part m known to all but party m. XOR and shifts are local; for an AND
everybody computes the terms that it knows, hides them behind a sharing of zero and tells one other party (Araki,
Furukawa, Lindell, Nof and Ohara 2016, semi-honest, honest majority). What a party is told is uniform given all
that it knows. Eight rounds and 112 bytes a number.

**Lengths.** Shares of a product fit whatever one party sends, so that a lie decides every comparison.
`check_lengths` takes bits that are claimed in this way, and proves them: most - |row|^2 - sum of 2^i b_i and
every b_i^2 - b_i, each times a secret that nobody knows, add up to nothing. What is left is opened times one more
secret, as a share of degree 1: of a wrong claim it is uniform. No square wraps unnoticed, as what is opened behind
a mask must be of its size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from hashlib import blake2b, shake_128
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import ProtocolError
from ksdp.audit.numeric.array_types import Words as WordVector
from ksdp.protocols.shares.engine import COMPUTING, FIELD
from ksdp.protocols.shares.field import (
    BYTES,
    PRIME,
    WORDS,
    Integers,
    Words,
    fits_line,
    integers_of,
    left_residues,
    low_words,
    lowered,
    masked,
    modular_product,
    words_of,
)
from ksdp.protocols.sums.masks import counter_mode, keystream

_WIDTH = 64
Pair = tuple[WordVector, WordVector]
"""The two parts that a party holds: those of the parties after it, and after that."""


class PairedBits:
    """One party's side of computations on words whose bits are held in pairs.

    Parameters
    ----------
    runtime : mpyc.runtime.Runtime
        Its keys make sharings of zero, its connections carry what is told.
    """

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        me = runtime.pid
        self.after, self.before = (me + 1) % COMPUTING, (me + 2) % COMPUTING

    async def total(self, parts: Pair) -> Pair:
        """A_0 + A_1 + A_2 modulo 2^64."""
        first, other = parts
        # A_0 + A_1 + A_2 is their XOR and twice their majority; two parts know each product in it.
        carry = await self._reshared(first & other)
        carry = (carry[0] << np.uint64(1), carry[1] << np.uint64(1))
        generate = await self._both(parts, carry)
        all_carry = propagate = (first ^ carry[0], other ^ carry[1])
        for level in range(6):
            step = np.uint64(1 << level)
            doubled = [np.concatenate([part, part]) for part in propagate]
            right = [np.concatenate([g << step, p << step]) for g, p in zip(generate, propagate, strict=True)]
            both = await self._both((doubled[0], doubled[1]), (right[0], right[1]))
            half = len(first)
            generate = (generate[0] ^ both[0][:half], generate[1] ^ both[1][:half])
            propagate = (both[0][half:], both[1][half:])
        return all_carry[0] ^ (generate[0] << np.uint64(1)), all_carry[1] ^ (generate[1] << np.uint64(1))

    async def _both(self, first: Pair, second: Pair) -> Pair:
        return await self._reshared((first[0] & second[0]) ^ (first[0] & second[1]) ^ (first[1] & second[0]))

    async def _reshared(self, mine: WordVector) -> Pair:
        runtime = self._runtime
        unique = runtime._prss_uci()
        hidden = mine.copy()
        for key in runtime._prss_keys.values():
            hidden ^= np.frombuffer(shake_128(key + unique).digest(8 * len(mine)), dtype="<u8")
        runtime._program_counter[0] += 1
        runtime._send_message(self.after, hidden.astype("<u8").tobytes())
        (arrived,) = await runtime.gather([runtime._receive_message(self.before)])
        if len(arrived) != 8 * len(mine):
            raise ProtocolError(f"{runtime.names[self.before]} sent bits of another length.")
        # What a party computes is the part of the one before it: it and the one after it know it.
        return np.frombuffer(arrived, dtype="<u8").astype(np.uint64), hidden


_SIXTH = pow(6, -1, PRIME)
_FEW = 1_000
"""Multiplications up to which Python's integers are faster than residues."""

FRACTION = 64
"""Fraction bits of what is kept on shares, unless said otherwise."""
HIDING = 64
_ANY = 32 * WORDS
"""Bits of a number that may be any modulo the prime: such a product is exact, its mask uniform."""
_CUT = 44


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
    integers = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
    places = exponent.astype(np.int64) - 53 + fraction
    up = np.maximum(places, 0).astype(object)
    down = np.maximum(-places, 0).astype(object)
    return np.asarray(((integers << up) >> down) % PRIME)


def reals(values: Integers, fraction: int) -> NDArray[np.float64]:
    """From integers modulo the prime, signed."""
    signed = np.where(values > PRIME // 2, values - PRIME, values)
    return (signed / (1 << fraction)).astype(np.float64)


class SharedArithmetic:
    """Arithmetic of one computing party; arrays are its shares, integers modulo the prime.

    Parameters
    ----------
    runtime : mpyc.runtime.Runtime
        Of this party, connected to the others.
    """

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        keys = {who: key for who, key in sorted(runtime._prss_keys.items()) if len(who) == COMPUTING - 1}
        # Another purpose, another key: MPyC hashes with its own.
        self._ciphers = [counter_mode(shake_128(key + b"ksdp masks").digest(16)) for key in keys.values()]
        self._heard = blake2b(digest_size=BYTES)
        self._lacked = [next(iter(set(range(COMPUTING)) - set(who))) for who in keys]
        # A share of what a key draws is it times a line through 1 at 0 and 0 at the party that lacks the key.
        me = runtime.pid
        self._factors = np.array([(lacks - me) * (6 // (lacks + 1)) for lacks in self._lacked], dtype=np.int64)

    async def rounded(self, *locals_: Local) -> list[Integers]:
        """Shares of value / 2^shift of each, all in one round."""
        hidden, tops, most = [], [], []
        for each in locals_:
            bits, offset = (_ANY, 0) if each.bits == _ANY else (each.bits + HIDING, 1 << (each.bits + 1))
            if bits + 3 >= PRIME.bit_length() and bits != _ANY:
                raise ValueError(f"a product of {each.bits} bits would wrap behind its mask")
            behind, top = masked(
                words_of(each.value % PRIME),
                *self._drawn(each.value.size, bits, _ANY),  # 2^-214 from uniform modulo the prime
                self._factors,
                self._runtime.pid + 1,
                each.shift,
                words_of(np.array([offset], dtype=object))[0],
            )
            hidden.append(behind)
            tops.append(top)
            most.append(bits + 2)
        parts, shares, at = await self._exchanged(np.concatenate(hidden)), [], 0
        for each, top, bits in zip(locals_, tops, most, strict=True):
            first, second, third = (part[at : at + len(top)] for part in parts)
            at += len(top)
            numbers, fits = lowered(first, second, third, each.shift, top, bits)
            if not fits:
                raise ProtocolError(
                    f"A number on shares is larger than any can be: {self._others()} deviates, or a party has "
                    "entered rows beyond `precision.bound`."
                )
            shares.append(integers_of(numbers, each.value.shape))
        return shares

    def _others(self) -> str:
        return " or ".join(name for at, name in enumerate(self._runtime.names) if at != self._runtime.pid)

    async def rounded_symmetric(self, *locals_: Local) -> list[Integers]:
        """The same of symmetric matrices, or stacks of them: half the numbers, and symmetric to the last bit."""
        upper = [np.triu_indices(each.value.shape[-1]) for each in locals_]
        halves = [replace(each, value=each.value[(..., *at)]) for each, at in zip(locals_, upper, strict=True)]
        rounded = []
        for each, (rows, columns), half in zip(locals_, upper, await self.rounded(*halves), strict=True):
            matrix = np.empty_like(each.value)
            matrix[..., rows, columns] = matrix[..., columns, rows] = half
            rounded.append(matrix)
        return rounded

    def _drawn(self, entries: int, *bits: int) -> list[NDArray[np.uint32]]:
        """Numbers below 2^bits, shape (2, entries, 7), from keys of two parties each: two of three summands."""
        unique = int.from_bytes(self._runtime._prss_uci(), "little")
        streams = [keystream(cipher, len(bits) * BYTES * entries, unique) for cipher in self._ciphers]
        words = np.stack([stream.view("<u4").reshape(len(bits), -1, WORDS) for stream in streams], axis=1)
        drawn = [*words.astype(np.uint32, copy=False)]
        for numbers, most in zip(drawn, bits, strict=True):
            full_words, rest = divmod(most, 32)
            if full_words < WORDS:
                numbers[..., full_words] &= np.uint32((1 << rest) - 1)
                numbers[..., full_words + 1 :] = 0
        return drawn

    async def opened(self, share: Integers) -> Integers:
        """Open a share of degree 1 to everybody."""
        return integers_of(await self._opened_words(words_of(share % PRIME)), share.shape)

    async def _opened_words(self, share: Words) -> Words:
        """The same as `opened`, as words."""
        parts = await self._exchanged(share)
        if not fits_line(*parts):
            raise ProtocolError(f"The shares of an opened value do not fit: {self._others()} deviates.")
        opened: Words = lowered(*parts, 0, np.zeros_like(share), _ANY)[0]
        return opened

    async def _exchanged(self, share: Words) -> list[Words]:
        runtime = self._runtime
        runtime._program_counter[0] += 1
        peers = [at for at in range(COMPUTING) if at != runtime.pid]
        data = share.astype("<u4", copy=False).tobytes()
        for peer in peers:
            runtime._send_message(peer, data)
        arrived = await runtime.gather([runtime._receive_message(peer) for peer in peers])
        parts = [share] * COMPUTING
        for peer, theirs in zip(peers, arrived, strict=True):
            if len(theirs) != len(data):
                raise ProtocolError(f"{runtime.names[peer]} sent shares of another length.")
            parts[peer] = np.frombuffer(theirs, dtype="<u4").astype(np.uint32, copy=False).reshape(-1, WORDS)
        for part in parts:
            self._heard.update(part.tobytes())
        return parts

    async def negative(self, share: Integers, bits: int) -> Integers:
        """1 where a number is below zero, else 0 (whole numbers); of numbers below 2^bits in absolute value."""
        if bits >= _WIDTH - 1:
            kind = self._runtime.SecInt(bits + 1, p=PRIME)
            signs = self._runtime.np_sgn(kind.array(FIELD.array(share.ravel() % PRIME, check=False)), LT=True)
            return np.asarray((await self._runtime.gather(signs)).value).reshape(share.shape)
        return (await self._bits(share.ravel(), bits, slice(_WIDTH - 1, None))).reshape(share.shape)

    async def _bits(self, share: Integers, bits: int, places: slice) -> Integers:
        """Some of the 64 lowest bits of numbers below 2^bits in absolute value, number by number."""
        words = await PairedBits(self._runtime).total(await self._in_pairs(share, bits))
        shifts = np.arange(_WIDTH, dtype=np.uint64)[places]
        first_bits, other = (((word[:, None] >> shifts) & np.uint64(1)).ravel() for word in words)
        first, second, third = self._each((first_bits, other))
        for other in (second, third):  # XOR of whole numbers: a + b - 2 a b
            (both,) = await self.rounded(Local(first * other, 2, 0))
            first = (first + other - 2 * both) % PRIME
        return first.reshape(len(share), -1)

    def _secret(self, shape: tuple[int, ...]) -> Integers:
        """Shares of numbers that nobody knows."""
        (drawn,) = self._drawn(math.prod(shape), _ANY)
        nothing = np.zeros_like(drawn)
        return integers_of(masked(nothing[0], drawn, nothing, self._factors, 0, 0, nothing[0, 0])[1], shape)

    async def check_lengths(self, rows: Integers, most: int, bits: int) -> None:
        """Open whether every row's squared length is from most - 2^bits to `most`; end the run where not."""
        heard = np.frombuffer(self._heard.digest(), dtype="<u4").reshape(1, WORDS)
        if any((theirs != heard).any() for theirs in await self._exchanged(heard)):
            raise ProtocolError(f"{self._others()} deviates: they were sent different shares.")
        rest, size = most - (rows * rows).sum(axis=1), max(bits, most.bit_length()) + 1
        low, high = await self.rounded(Local(rest, size, 0), Local(rest, size, _CUT))
        high = high - 3
        low = low - (high << _CUT)
        fine = await self._bits(low % PRIME, _CUT + 3, slice(_CUT + 2))
        coarse = await self._bits(high % PRIME, size - _CUT + 1, slice(bits - _CUT))
        claimed = np.hstack([fine, coarse])
        weights = np.array([1 << at for at in (*range(_CUT + 2), *range(_CUT, bits))], dtype=object)
        # Both vanish: most - |row|^2 - sum of 2^i b_i, and b_i^2 - b_i of each bit.
        secret = self._secret((len(rows), 1 + len(weights)))
        (tied,) = await self.rounded(Local(np.hstack([secret[:, :1] * rows, secret[:, 1:] * claimed]), _ANY, 0))
        terms = secret[:, 0] * (most - claimed @ weights) - (tied[:, : rows.shape[1]] * rows).sum(axis=1)
        terms = terms + (tied[:, rows.shape[1] :] * (claimed - 1)).sum(axis=1)
        (difference,) = await self.rounded(Local(terms.sum(keepdims=True), _ANY, 0))
        (difference,) = await self.rounded(Local(difference * self._secret((1,)), _ANY, 0))
        if (await self.opened(difference))[0] != 0:
            raise ProtocolError(
                f"What was to be opened is not as long as it can be, and nothing but this was opened: "
                f"{self._others()} deviates, or a party has entered rows beyond `precision.bound`."
            )

    async def _in_pairs(self, share: Integers, bits: int) -> Pair:
        """A_m of the two other parties: numbers known in pairs that add up to the shared ones, modulo 2^64."""
        runtime = self._runtime
        (drawn,) = self._drawn(share.size, bits + HIDING)
        nothing = np.zeros_like(drawn)
        offset = words_of(np.array([1 << bits], dtype=object))[0]
        hidden, _ = masked(words_of(share % PRIME), drawn, nothing, self._factors, 1, 0, offset)
        opened = await self._opened_words(hidden)
        parts = {lacks: np.uint64(0) - low_words(part) for lacks, part in zip(self._lacked, drawn, strict=True)}
        if 0 in parts:
            parts[0] = parts[0] + low_words(opened) - np.uint64(1 << bits)
        after, before = ((runtime.pid + step) % COMPUTING for step in (1, 2))
        return parts[after], parts[before]

    def _each(self, bits: Pair) -> list[Integers]:
        """Shares of degree 1 of all three parts of bits held in pairs; zero at the party that lacks the part."""
        runtime, bits_out = self._runtime, [np.zeros(len(bits[0]), dtype=object) for _ in range(COMPUTING)]
        for step, part in zip((1, 2), bits, strict=True):
            lacks = (runtime.pid + step) % COMPUTING
            factor = int(self._factors[self._lacked.index(lacks)])
            bits_out[lacks] = part.astype(object) * (factor * _SIXTH % PRIME)
        return bits_out


def product(first: Integers, second: Integers) -> Integers:
    """The matrix product of shares, degree 2; stacks as `numpy.matmul`."""
    if first.size * second.shape[-1] <= _FEW:
        return np.asarray(np.matmul(first, second) % PRIME)
    return modular_product(left_residues(first), second)
