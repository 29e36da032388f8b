"""Numbers modulo one prime of 224 bits: as words, as residues, and as shares of large matrices.

**Words**: seven of 32 bits, for masks, openings and their rounding. A sum of a few numbers goes word by word into
signed 64-bit words; `folded` carries, and what is above 2^224 comes back as `GAP` times as much, since 2^224 =
`GAP` modulo the prime.

**Residues**, for products of matrices by BLAS, exactly. MPyC keeps a share as a Python integer, and a product of d
x d with d x b takes d^2 b of its multiplications. A product of two numbers below 2^224, and a sum of 2^13 of them,
is below 2^461: its residues modulo 22 small primes whose product is above 2^461.9 say it (Chinese remainder
theorem). Residues are at most 2^20 in absolute value, so that such a sum of their products is at most 2^53, exact
in float64: 22 multiplications in place of 140 of limbs. With y_i = r_i (M / m_i)^-1 modulo m_i the sum of y_i /
m_i is by a whole number more than the number over M, which is below 0.51; float64 knows it to 1e-14, and so which
whole number it is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.randomness import RandomBytes

GAP = 0x23D
"""2^224 less the prime."""
PRIME = 2**224 - GAP
"""The largest prime below 2^224 that is 3 modulo 4."""
WORDS = 7
Words = NDArray[np.uint32]
"""Shape (n, 7), the lowest first; below the prime, unless said otherwise."""
_Accumulated = NDArray[np.int64]
Integers = NDArray[Any]
"""Python integers in [0, PRIME)."""
Residues = NDArray[np.float32]
"""First axis: modulo each of the small primes."""
BYTES = 28
_PART = 1 << 18

_BASE = 0xFFFFFFFF
_TOP = 0x100000000 - GAP
_TIMES = 6 - pow(PRIME % 6, -1, 6)
"""So many primes make a number that is 1 modulo 6 divisible by 6."""


def low_words(numbers: Words) -> NDArray[np.uint64]:
    """The numbers modulo 2^64."""
    return numbers[:, 0].astype(np.uint64) | numbers[:, 1].astype(np.uint64) << np.uint64(32)


@njit(cache=True, nogil=True)
def folded(sums: _Accumulated) -> None:
    """Words of a number below the prime, of signed words below 2^60; in place."""
    carry = np.int64(0)
    while True:
        for at in range(WORDS):
            carry += sums[at]
            sums[at] = carry & _BASE
            carry >>= 32
        if carry == 0:
            break
        carry *= GAP
    if sums[0] >= _TOP:
        for at in range(1, WORDS):
            if sums[at] != _BASE:
                return
        sums[0] -= _TOP
        for at in range(1, WORDS):
            sums[at] = 0


@njit(cache=True, nogil=True)
def _sixth(number: _Accumulated) -> None:
    rest = np.int64(0)
    for at in range(WORDS):
        rest += number[at] if at == 0 else 4 * number[at]  # 2^32 = 4 modulo 6
    rest %= 6
    times = (rest * _TIMES) % 6
    carry = -times * np.int64(GAP)
    for at in range(WORDS):
        carry += number[at]
        number[at] = carry & _BASE
        carry >>= 32
    remainder = carry + times
    for step in range(WORDS):
        at = WORDS - 1 - step
        remainder = (remainder << 32) | number[at]
        number[at] = remainder // 6
        remainder %= 6


@njit(cache=True, nogil=True)
def _shifted(number: Words, shift: int, at: int) -> np.int64:
    first, rest = at + shift // 32, shift % 32
    low = np.int64(number[first]) if first < WORDS else np.int64(0)
    high = np.int64(number[first + 1]) if first + 1 < WORDS else np.int64(0)
    return ((low | (high << 32)) >> rest) & _BASE if rest else low


@njit(cache=True, nogil=True)
def masked(
    values: Words,
    drawn: NDArray[np.uint32],
    zeros: NDArray[np.uint32],
    factors: _Accumulated,
    place: int,
    shift: int,
    offset: Words,
) -> tuple[Words, Words]:
    """Numbers behind masks, and what is taken off again once they are opened and shifted."""
    n = len(values)
    words, tops = np.empty((n, WORDS), dtype=np.uint32), np.empty((n, WORDS), dtype=np.uint32)
    sums = np.empty(WORDS, dtype=np.int64)
    for i in range(n):
        for at in range(WORDS):
            sums[at] = 0
            for key in range(2):
                sums[at] += factors[key] * (np.int64(drawn[key, i, at]) + place * np.int64(zeros[key, i, at]))
        folded(sums)
        _sixth(sums)
        for at in range(WORDS):
            sums[at] += np.int64(values[i, at]) + np.int64(offset[at])
        folded(sums)
        for at in range(WORDS):
            words[i, at] = sums[at]
            sums[at] = 0
            for key in range(2):
                sums[at] += factors[key] * _shifted(drawn[key, i], shift, at)
        folded(sums)
        _sixth(sums)
        for at in range(WORDS):
            sums[at] += _shifted(offset, shift, at)
        folded(sums)
        for at in range(WORDS):
            tops[i, at] = sums[at]
    return words, tops


@njit(cache=True, nogil=True)
def lowered(first: Words, second: Words, third: Words, shift: int, tops: Words, most: int) -> tuple[Words, bool]:
    """Combine three shares of degree 2, over 2^shift and rounded down, less `tops`; all must be below 2^most."""
    n = len(first)
    words = np.empty((n, WORDS), dtype=np.uint32)
    sums, word = np.empty(WORDS, dtype=np.int64), np.empty(WORDS, dtype=np.uint32)
    fits = True
    for i in range(n):
        for at in range(WORDS):
            sums[at] = 3 * (np.int64(first[i, at]) - np.int64(second[i, at])) + np.int64(third[i, at])
        folded(sums)
        for at in range(WORDS):
            word[at] = sums[at]
        for at in range(WORDS):
            fits &= _shifted(word, most, at) == 0
            sums[at] = _shifted(word, shift, at) - np.int64(tops[i, at])
        folded(sums)
        for at in range(WORDS):
            words[i, at] = sums[at]
    return words, fits


@njit(cache=True, nogil=True)
def fits_line(first: Words, second: Words, third: Words) -> bool:
    """Whether three shares are of degree 1, all of them."""
    sums = np.empty(WORDS, dtype=np.int64)
    for i in range(len(first)):
        for at in range(WORDS):
            sums[at] = np.int64(first[i, at]) - 2 * np.int64(second[i, at]) + np.int64(third[i, at])
        folded(sums)
        for at in range(WORDS):
            if sums[at] != 0:
                return False
    return True


MOST_INNER = 1 << 13
"""Terms of a product of matrices."""
_MOST_MODULUS = 1 << 21


def _primes(count: int) -> tuple[int, ...]:
    primes = list[int]()
    number = _MOST_MODULUS - 1
    while len(primes) < count:
        if all(number % by for by in range(3, math.isqrt(number) + 1, 2)):
            primes.append(number)
        number -= 2
    return tuple(primes)


MODULI = 22
_SMALL_PRIMES = _primes(MODULI)
_WHOLE = math.prod(_SMALL_PRIMES)


def _halves(number: int) -> list[float]:
    return [float((number >> 16 * at) & 0xFFFF) for at in range(_HALVES)]


_HALVES = 2 * WORDS
_MODULI = np.array(_SMALL_PRIMES, dtype=np.float64)
_OVER = 1.0 / _MODULI
_POWERS = np.array([[pow(2, 16 * at, m) for m in _SMALL_PRIMES] for at in range(_HALVES)], dtype=np.float64)
_INVERSES = np.array([pow(_WHOLE // m, -1, m) for m in _SMALL_PRIMES], dtype=np.float64)
_PARTS = np.array([_halves(_WHOLE // m % PRIME) for m in _SMALL_PRIMES], dtype=np.float64)
_WRAP = np.array(_halves(_WHOLE % PRIME), dtype=np.float64)


@njit(cache=True, nogil=True)
def residues(numbers: Words) -> NDArray[np.float32]:
    """Nearest to zero, shape (22, n), of numbers as words, shape (n, 7)."""
    out = np.empty((_MODULI.size, len(numbers)), dtype=np.float32)
    sums = np.empty(_MODULI.size)
    for i in range(len(numbers)):
        sums[:] = 0.0
        for at in range(WORDS):
            low, high = np.float64(numbers[i, at] & 0xFFFF), np.float64(numbers[i, at] >> 16)
            for which in range(_MODULI.size):
                sums[which] += low * _POWERS[2 * at, which] + high * _POWERS[2 * at + 1, which]  # below 2^41
        for which in range(_MODULI.size):
            out[which, i] = sums[which] - np.rint(sums[which] * _OVER[which]) * _MODULI[which]
    return out


@njit(cache=True, nogil=True)
def _of_residues(sums: NDArray[np.float64]) -> Words:
    """Words of the numbers modulo the prime, shape (n, 7), of exact sums of products, shape (22, n)."""
    out = np.empty((sums.shape[1], WORDS), dtype=np.uint32)
    halves, words = np.empty(_HALVES), np.empty(WORDS, dtype=np.int64)
    parts = np.empty(_MODULI.size)
    for i in range(sums.shape[1]):
        for which in range(_MODULI.size):
            rest = sums[which, i] - np.rint(sums[which, i] * _OVER[which]) * _MODULI[which]
            rest *= _INVERSES[which]
            parts[which] = rest - np.rint(rest * _OVER[which]) * _MODULI[which]
        over = 0.25  # far from a whole number on both sides
        halves[:] = 0.0
        for which in range(_MODULI.size):
            over += parts[which] * _OVER[which]
            for at in range(_HALVES):
                halves[at] += parts[which] * _PARTS[which, at]
        quotient = np.floor(over)
        for at in range(_HALVES):
            halves[at] -= quotient * _WRAP[at]
        for at in range(WORDS):
            words[at] = np.int64(halves[2 * at]) + (np.int64(halves[2 * at + 1]) << 16)
        folded(words)
        for at in range(WORDS):
            out[i, at] = words[at]
    return out


def words_of(values: Integers) -> NDArray[np.uint32]:
    """Numbers below the prime as `words`, shape (n, 7)."""
    data = b"".join([value.to_bytes(BYTES, "little") for value in values.ravel().tolist()])
    return np.frombuffer(data, dtype="<u4").reshape(-1, WORDS).astype(np.uint32, copy=False)


def integers_of(words: NDArray[np.uint32], shape: tuple[int, ...]) -> Integers:
    """From words of numbers below the prime."""
    data, out = words.astype("<u4", copy=False).tobytes(), np.empty(len(words), dtype=object)
    out[:] = [int.from_bytes(data[at : at + BYTES], "little") for at in range(0, len(data), BYTES)]
    return out.reshape(shape)


def left_residues(values: Integers) -> Residues:
    """Return the residues of a left factor of a product, shape (22, ...)."""
    out: Residues = residues(words_of(values)).reshape(-1, *values.shape)
    return out


def modular_product(multiplier: Residues, integers: Integers) -> Integers:
    """The matrix product modulo the prime, of a left factor as residues; stacks of matrices, as `numpy.matmul`."""
    inner, columns = integers.shape[-2:]
    if inner > MOST_INNER:
        raise InputError(f"products on shares have at most {MOST_INNER} terms; got {inner}.")
    factors = left_residues(integers).astype(np.float64)
    if integers.ndim > 2:
        sums = np.matmul(multiplier.astype(np.float64), factors)
    else:
        sums = np.zeros((len(multiplier), multiplier.shape[1], columns))
        for product, part, factor in zip(sums, multiplier, factors, strict=True):
            _add_product(product, part, factor)
    return integers_of(_of_residues(sums.reshape(len(sums), -1)), sums.shape[1:])


def _add_product(out: NDArray[np.float64], multiplier: NDArray[np.float32], factor: NDArray[np.float64]) -> None:
    """In parts that stay in the cache while they are float64; along the axis that is apart in memory."""
    rows, inner = multiplier.shape
    if multiplier.strides[0] >= multiplier.strides[1]:
        step = max(1, _PART // inner)
        for first in range(0, rows, step):
            at = slice(first, first + step)
            out[at] = multiplier[at].astype(np.float64) @ factor
    else:
        step = max(1, _PART // rows)
        for first in range(0, inner, step):
            at = slice(first, first + step)
            out += multiplier[:, at].astype(np.float64) @ factor[at]


@njit(cache=True, nogil=True)
def _folded(sums: _Accumulated) -> Words:
    out = np.empty(sums.shape, dtype=np.uint32)
    for i in range(len(sums)):
        folded(sums[i])
        for at in range(WORDS):
            out[i, at] = sums[i, at]
    return out


def split(values: NDArray[np.int64], random_bytes: RandomBytes) -> list[bytes]:
    """Shamir shares of degree 1 at places 1, 2 and 3: any two say all, one alone nothing."""
    slope = _of_bytes(random_bytes(BYTES * len(values)))
    line = np.zeros_like(slope)
    line[:, 0], line[:, 1] = values & _BASE, values >> 32
    return [_folded(line + place * slope).astype("<u4", copy=False).tobytes() for place in (1, 2, 3)]


def _of_bytes(data: bytes) -> _Accumulated:
    return np.frombuffer(data, dtype="<u4").reshape(-1, WORDS).astype(np.int64)


def added(shares: list[bytes]) -> Words:
    """The sum of such messages, entry by entry."""
    return np.asarray(_folded(np.sum([_of_bytes(share) for share in shares], axis=0)))


def symmetric_residues(upper: Words, size: int) -> Residues:
    """Return the residues of a symmetric matrix whose upper triangle is given, row by row."""
    triangles = residues(upper)
    out = np.empty((len(triangles), size, size), dtype=np.float32)
    rows, columns = np.triu_indices(size)
    for matrix, part in zip(out, triangles, strict=True):
        matrix[rows, columns] = matrix[columns, rows] = part
    return out
