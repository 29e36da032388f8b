"""Numbers modulo the prime as seven words of 32 bits: masks, openings and their rounding, compiled.

A sum of a few numbers goes word by word into signed 64-bit words; `folded` carries, and what is above 2^224 comes
back as `GAP` times as much, since 2^224 = `GAP` modulo the prime.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

GAP = 0x23D
"""2^224 less the prime."""
WORDS = 7
Words = NDArray[np.uint32]
"""Shape (n, 7), the lowest first; below the prime, unless said otherwise."""
Accumulated = NDArray[np.int64]

_BASE = 0xFFFFFFFF
_TOP = 0x100000000 - GAP
_TIMES = 6 - pow((2**224 - GAP) % 6, -1, 6)
"""So many primes make a number that is 1 modulo 6 divisible by 6."""


def low_words(numbers: Words) -> NDArray[np.uint64]:
    """The numbers modulo 2^64."""
    return numbers[:, 0].astype(np.uint64) | numbers[:, 1].astype(np.uint64) << np.uint64(32)


@njit(cache=True, nogil=True)
def folded(sums: Accumulated) -> None:
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
def _sixth(number: Accumulated) -> None:
    """A sixth modulo the prime, of words below it; in place."""
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
    left = carry + times
    for step in range(WORDS):
        at = WORDS - 1 - step
        left = (left << 32) | number[at]
        number[at] = left // 6
        left %= 6


@njit(cache=True, nogil=True)
def _shifted(number: Words, shift: int, at: int) -> np.int64:
    """Word `at` of the number over 2^shift."""
    first, rest = at + shift // 32, shift % 32
    low = np.int64(number[first]) if first < WORDS else np.int64(0)
    high = np.int64(number[first + 1]) if first + 1 < WORDS else np.int64(0)
    return ((low | (high << 32)) >> rest) & _BASE if rest else low


@njit(cache=True, nogil=True)
def masked(
    values: Words,
    drawn: NDArray[np.uint32],
    zeros: NDArray[np.uint32],
    factors: Accumulated,
    place: int,
    shift: int,
    offset: Words,
) -> tuple[Words, Words]:
    """Numbers behind masks, and what is taken off again once they are opened and shifted.

    Parameters
    ----------
    drawn : shape (2, n, 7)
        Summands of the masks, one for each key.
    zeros : shape (2, n, 7)
        Summands of the sharings of zero.
    factors : shape (2,)
        Six times the share at this place of what a key draws.
    place : int
        1, 2 or 3.
    offset : shape (7,)
        Added, so that nothing is negative.
    """
    n = len(values)
    found, tops = np.empty((n, WORDS), dtype=np.uint32), np.empty((n, WORDS), dtype=np.uint32)
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
            found[i, at] = sums[at]
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
    return found, tops


@njit(cache=True, nogil=True)
def lowered(first: Words, second: Words, third: Words, shift: int, tops: Words) -> Words:
    """What three shares of degree 2 say, over 2^shift and rounded down, less `tops`."""
    n = len(first)
    found = np.empty((n, WORDS), dtype=np.uint32)
    sums, whole = np.empty(WORDS, dtype=np.int64), np.empty(WORDS, dtype=np.uint32)
    for i in range(n):
        for at in range(WORDS):
            sums[at] = 3 * (np.int64(first[i, at]) - np.int64(second[i, at])) + np.int64(third[i, at])
        folded(sums)
        for at in range(WORDS):
            whole[at] = sums[at]
        for at in range(WORDS):
            sums[at] = _shifted(whole, shift, at) - np.int64(tops[i, at])
        folded(sums)
        for at in range(WORDS):
            found[i, at] = sums[at]
    return found


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
