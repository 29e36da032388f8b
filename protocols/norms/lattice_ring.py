"""Polynomials modulo X^16384 + 1 and modulo q, q a product of 14 primes of 30 bits.

A polynomial is an array of shape (14, 16384): its coefficients modulo every prime, or its values at the roots of
X^16384 + 1 (`forward`), where polynomials are multiplied entry by entry. A number modulo q that is known to a
power of two 2^(16 L) only is L limbs of 16 bits (`wide_ring`), and so is what travels: `raised` takes x to
round(q x / 2^(16 L)) modulo q, `lowered` takes v to round(2^(16 L) v / q) modulo 2^(16 L). Both are one matrix
product in float64, whose sums stay below 2^53 and are exact.

Raising. With r the residue of q x modulo 2^(16 L) that is nearest to zero, round(q x / 2^(16 L)) = (q x - r) /
2^(16 L), and modulo a prime, which divides q, that is -r / 2^(16 L).

Lowering. With y_i = v (q / p_i)^-1 modulo p_i, v is the sum of y_i q / p_i modulo q, so that 2^(16 L) v / q is the
sum of y_i 2^(16 L) / p_i modulo 2^(16 L). The fractions are kept to 64 bits more: it is off by less than 2^-30.

Source: Longa & Naehrig, Speeding up the number theoretic transform for faster ideal lattice-based cryptography,
https://eprint.iacr.org/2016/504 (transforms modulo X^N + 1); Harvey, Faster arithmetic for number-theoretic
transforms, 2014 (Shoup's products by known factors); Bajard et al., A full RNS variant of FV like somewhat
homomorphic encryption schemes, https://eprint.iacr.org/2016/510 (residues).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from math import prod

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.protocols.norms.ot_extension import keystream
from ksdp.protocols.norms.wide_ring import LIMB_BITS, Limbs, WideRing, carry

DEGREE = 1 << 14
"""N."""
PRIMES = (
    *(1073643521, 1073479681, 1073184769, 1073053697, 1072857089, 1072496641, 1071513601),
    *(1071415297, 1071087617, 1070727169, 1070432257, 1069219841, 1068564481, 1068466177),
)
"""The largest 14 below 2^30 that are 1 modulo 2 N."""
MODULUS = prod(PRIMES)
"""q, a little below 2^420."""
Residues = NDArray[np.uint64]
"""Shape (14, N), or fewer columns; (14, 1) is a constant."""
_COLUMN = np.array(PRIMES, dtype=np.uint64)[:, None]
_GUARD = 4
"""Limbs to which fractions are kept."""
_WORD = np.uint64(32)


def _powers(bases: Iterable[int]) -> Residues:
    """The first N powers of a number modulo every prime, in bit-reversed order."""
    step, powers = _column(bases), np.ones((len(PRIMES), 1), dtype=np.uint64)
    while powers.shape[1] < DEGREE:
        powers, step = np.concatenate([powers, powers * step % _COLUMN], axis=1), step * step % _COLUMN
    order = [int(f"{i:014b}"[::-1], 2) for i in range(DEGREE)]
    reversed_powers: Residues = powers[:, order]
    return reversed_powers


@cache
def _tables() -> tuple[Residues, Residues, Residues, Residues]:
    """Powers of a 2 N-th root of unity and of its inverse, each with floor(2^32 power / prime), by which products
    are reduced.
    """
    roots = []
    for p in PRIMES:
        # x^((p - 1) / 2 N) has order 2 N just if its N-th power is -1.
        candidates = (pow(x, (p - 1) // (2 * DEGREE), p) for x in range(2, p))
        roots.append(next(w for w in candidates if pow(w, DEGREE, p) == p - 1))
    ahead, back = _powers(roots), _powers(pow(w, -1, p) for w, p in zip(roots, PRIMES, strict=True))
    return ahead, (ahead << _WORD) // _COLUMN, back, (back << _WORD) // _COLUMN


@njit(cache=True, nogil=True)
def _turned(y: np.uint64, w: np.uint64, ratio: np.uint64, p: np.uint64) -> np.uint64:
    """y w modulo p, in [0, p)."""
    y = y * w - ((y * ratio) >> np.uint64(32)) * p
    return min(y, y - p)  # what is below zero is far above p


@njit(cache=True, nogil=True)
def _forward(values: Residues, roots: Residues, ratios: Residues, primes: Residues) -> None:
    for i in range(values.shape[0]):
        p, size, groups = primes[i, 0], values.shape[1], 1
        while size > 1:
            size //= 2
            for g in range(groups):
                w, ratio = roots[i, groups + g], ratios[i, groups + g]
                pair = values[i, 2 * g * size : 2 * (g + 1) * size]
                low, high = pair[:size], pair[size:]
                for j in range(size):
                    x, y = low[j], _turned(high[j], w, ratio, p)
                    added, rest = x + y, x - y
                    low[j] = min(added, added - p)
                    high[j] = min(rest, rest + p)
            groups *= 2


@njit(cache=True, nogil=True)
def _inverse(values: Residues, roots: Residues, ratios: Residues, primes: Residues) -> None:
    for i in range(values.shape[0]):
        p, size, groups = primes[i, 0], 1, values.shape[1]
        while groups > 1:
            groups //= 2
            for g in range(groups):
                w, ratio = roots[i, groups + g], ratios[i, groups + g]
                pair = values[i, 2 * g * size : 2 * (g + 1) * size]
                low, high = pair[:size], pair[size:]
                for j in range(size):
                    x, y = low[j], high[j]
                    added, rest = x + y, x - y
                    low[j] = min(added, added - p)
                    high[j] = _turned(min(rest, rest + p), w, ratio, p)
            size *= 2


@njit(cache=True, nogil=True)
def _times(left: Residues, right: Residues, primes: Residues) -> Residues:
    """The quotient from float64 is off by one at most."""
    product, constant = np.empty_like(left), right.shape[1] == 1
    for i in range(left.shape[0]):
        p, inverse_of_p, factor, ends = primes[i, 0], 1.0 / primes[i, 0], right[i, 0], product[i]
        row = left[i]
        other = right[i] if not constant else row
        for j in range(left.shape[1]):
            value = row[j] * (factor if constant else other[j])
            value -= np.uint64(np.float64(value) * inverse_of_p) * p
            value = min(value, value + p)
            ends[j] = min(value, value - p)
    return product


@njit(cache=True, nogil=True)
def _reduced(values: NDArray[np.float64], more: Residues, primes: Residues) -> Residues:
    """Whole numbers below 2^53 and a row that is added to each, modulo every prime."""
    residues = np.empty(values.shape, dtype=np.uint64)
    for i in range(values.shape[0]):
        p, inverse_of_p, row, ends = primes[i, 0], 1.0 / primes[i, 0], values[i], residues[i]
        for j in range(values.shape[1]):
            quotient = np.uint64(row[j] * inverse_of_p)
            value = np.uint64(row[j]) + more[j] - quotient * p
            value = min(value, value + p)
            ends[j] = min(value, value - p)
    return residues


def forward(coefficients: Residues) -> Residues:
    """Values at the roots; fewer than N coefficients are those of the lowest powers."""
    values = np.zeros((len(PRIMES), DEGREE), dtype=np.uint64)
    values[:, : coefficients.shape[1]] = coefficients
    ahead, ratios, _, _ = _tables()
    _forward(values, ahead, ratios, _COLUMN)
    return values


def inverse(values: Residues) -> Residues:
    """Coefficients."""
    coefficients = values.copy()
    _, _, back, ratios = _tables()
    _inverse(coefficients, back, ratios, _COLUMN)
    return times(coefficients, _column(pow(DEGREE, -1, p) for p in PRIMES))


def times(left: Residues, right: Residues) -> Residues:
    """Entry by entry, or all by a constant."""
    product: Residues = _times(left, right, _COLUMN)
    return product


def total(terms: Sequence[Residues]) -> Residues:
    """Sum; shorter ones are of the lowest powers."""
    longest, *others = sorted(terms, key=lambda term: -term.shape[1])
    result = longest.copy()
    for term in others:
        result[:, : term.shape[1]] += term
    return times(result, constants(1))


def shifted(coefficients: Residues, by: int) -> Residues:
    """An integer added to every coefficient."""
    moved: Residues = (coefficients + constants(by)) % _COLUMN
    return moved


def small(values: NDArray[np.int64]) -> Residues:
    """Small signed coefficients, shape (n,)."""
    residues: Residues = (values % _COLUMN.astype(np.int64)).astype(np.uint64)
    return residues


def constants(value: int) -> Residues:
    """An integer, shape (14, 1)."""
    return _column(value % p for p in PRIMES)


def integers(limbs: Limbs) -> Residues:
    """Coefficients from 0 to 2^(16 L) - 1, shape (L, n)."""
    weights = [[pow(2, LIMB_BITS * row, p) for row in range(len(limbs))] for p in PRIMES]
    return _product(weights, limbs, np.zeros(limbs.shape[1], dtype=np.uint64))


def raised(limbs: Limbs) -> Residues:
    """round(q x / 2^(16 L)) modulo q, for x of shape (L, n)."""
    ring = WideRing(len(limbs))
    rest = ring.multiply(MODULUS, limbs)
    weights = [[-pow(2, LIMB_BITS * row - ring.bits, p) % p for row in range(len(limbs))] for p in PRIMES]
    return _product(weights, rest, (rest[-1] >> (LIMB_BITS - 1)).astype(np.uint64))


def lowered(coefficients: Residues, limbs: int) -> Limbs:
    """round(2^(16 L) v / q) modulo 2^(16 L), of shape (L, n)."""
    fractions = WideRing(limbs + _GUARD).from_ints((1 << LIMB_BITS * (limbs + _GUARD)) // p for p in PRIMES)
    parts = times(coefficients, _column(pow(MODULUS // p, -1, p) for p in PRIMES))
    total = (fractions.astype(np.float64) @ parts.astype(np.float64)).astype(np.int64)
    total[_GUARD - 1] += 1 << (LIMB_BITS - 1)
    return carry(total)[_GUARD:]


def uniform(label: bytes) -> Residues:
    """Public residues that nobody chose: AES-128-CTR under the hash of a label, 128 bits each modulo the prime.

    Every residue is within 2^-98 of uniform, for AES as an ideal cipher and the hash as a random oracle.
    """
    stream = keystream(hashlib.sha256(b"ksdp lattice 1" + label).digest()[:16], 16 * len(PRIMES) * DEGREE)
    words = stream.view("<u8").reshape(2, len(PRIMES), DEGREE)
    high = times(words[0] % _COLUMN, _column(pow(2, 64, p) for p in PRIMES))
    residues: Residues = (high + words[1] % _COLUMN) % _COLUMN
    return residues


def _product(weights: list[list[int]], limbs: Limbs, more: Residues) -> Residues:
    """Residues below 2^30 times limbs, up to 2^6 of them: below 2^53; and a row more."""
    product = np.array(weights, dtype=np.float64) @ limbs.astype(np.float64)
    residues: Residues = _reduced(product, more, _COLUMN)
    return residues


def _column(values: Iterable[int]) -> Residues:
    column: Residues = np.array(list(values), dtype=np.uint64)[:, None]
    return column
