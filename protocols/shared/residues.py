"""Products of matrices modulo the prime by BLAS, through residues modulo 22 small primes.

A product of two numbers below 2^224, and a sum of 2^13 of them, is below 2^461: its residues modulo primes whose
product is above 2^461.9 say it (Chinese remainder theorem). Residues are at most 2^20 in absolute value, so that
such a sum of their products is at most 2^53, exact in float64: 22 multiplications in place of 140 of limbs.

With y_i = r_i (M / m_i)^-1 modulo m_i the sum of y_i / m_i is by a whole number more than the number over M, which
is below 0.51; float64 knows it to 1e-14, and so which whole number it is.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.protocols.shared.words import GAP, WORDS, Words, folded

MOST_TERMS = 1 << 13
_MOST = 1 << 21


def _primes(count: int) -> tuple[int, ...]:
    """The largest below 2^21."""
    primes = list[int]()
    number = _MOST - 1
    while len(primes) < count:
        if all(number % by for by in range(3, math.isqrt(number) + 1, 2)):
            primes.append(number)
        number -= 2
    return tuple(primes)


MODULI = _primes(22)
_WHOLE = math.prod(MODULI)
_PRIME = 2**224 - GAP


def _halves(number: int) -> list[float]:
    return [float((number >> 16 * at) & 0xFFFF) for at in range(_HALVES)]


_HALVES = 2 * WORDS
_MODULI = np.array(MODULI, dtype=np.float64)
_OVER = 1.0 / _MODULI
_POWERS = np.array([[pow(2, 16 * at, m) for m in MODULI] for at in range(_HALVES)], dtype=np.float64)
_INVERSES = np.array([pow(_WHOLE // m, -1, m) for m in MODULI], dtype=np.float64)
_PARTS = np.array([_halves(_WHOLE // m % _PRIME) for m in MODULI], dtype=np.float64)
_WRAP = np.array(_halves(_WHOLE % _PRIME), dtype=np.float64)


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
def of_residues(sums: NDArray[np.float64]) -> Words:
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
        whole = np.floor(over)
        for at in range(_HALVES):
            halves[at] -= whole * _WRAP[at]
        for at in range(WORDS):
            words[at] = np.int64(halves[2 * at]) + (np.int64(halves[2 * at + 1]) << 16)
        folded(words)
        for at in range(WORDS):
            out[i, at] = words[at]
    return out
