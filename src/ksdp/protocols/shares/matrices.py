"""Functions of small matrices on shares: mean, orthonormal factor, reciprocal, projector on leading eigenvectors.

All numbers of a step are at most 1 in spectral norm, by what is public (`sizes`); the sizes given to
`arithmetic.Local` follow from that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.protocols.shares.arithmetic import FRACTION, Local, SharedArithmetic, product, reals
from ksdp.protocols.shares.field import PRIME, Integers
from ksdp.protocols.shares.sizes import (
    COEFFICIENT_BITS,
    SCALE_FRACTION,
    SCALE_GROWTH,
    SMALLEST_SCALE,
    cubic_steps,
    growth_bits,
    quadratic_steps,
)

FACTOR_FRACTION = 48
"""Fraction bits of an inverse root."""
_SMALLEST_SINGULAR = 2.0**-11
"""Promised of the singular values of a block to orthonormalise; smaller ones stay shorter than 1."""
FACTOR_GROWTH = growth_bits(cubic_steps(_SMALLEST_SINGULAR))
"""2^this is no less than an inverse root, of whatever it is taken."""
_RESOLUTION = 2.0**-18
"""Eigenvalues of a matrix of trace 1 closer than this to a threshold are on neither side."""
HALVINGS = 16
_WIDE = FRACTION + COEFFICIENT_BITS
_COUNT_FRACTION, _COUNT_BITS = 24, 32
_WHOLE = 1 << 4
"""How far from a whole number the rank of a projector may be, in units of 2^-24."""


def _polynomial(step: tuple[int, int], square: Integers) -> Integers:
    eye = np.zeros(square.shape[-2:], dtype=object)
    np.fill_diagonal(eye, step[0] << FRACTION)
    return np.asarray((eye - step[1] * square) % PRIME)


async def reciprocal(shares: SharedArithmetic, value: Integers) -> Integers:
    """1 / z at `SCALE_FRACTION`, to 1e-8, for z in [2^-24, 1] at `FRACTION`; less than that for smaller ones."""
    close, inverse = value, np.full(value.shape, 1 << SCALE_FRACTION, dtype=object)
    for a, b in quadratic_steps(SMALLEST_SCALE):
        factor = ((a << FRACTION) - b * close) % PRIME
        close, inverse = await shares.rounded(
            Local(close * factor, _WIDE + FRACTION + 2, _WIDE),
            Local(inverse * factor, _WIDE + SCALE_FRACTION + SCALE_GROWTH, _WIDE),
        )
    return inverse


async def inverse_root(shares: SharedArithmetic, gram: Integers, least: float = _SMALLEST_SINGULAR) -> Integers:
    """Z with Z^T G Z = I, at `FACTOR_FRACTION`; of G = Y^T Y with singular values of Y from `least` to 1."""
    # All are polynomials of one matrix: symmetric.
    size = len(gram)
    root = np.zeros((size, size), dtype=object)
    np.fill_diagonal(root, 1 << FACTOR_FRACTION)
    steps = cubic_steps(least)
    growth = growth_bits(steps)
    for step in steps:
        factor = _polynomial(step, gram)
        half, root = await shares.rounded_symmetric(
            Local(product(factor, gram), _WIDE + FRACTION + 2, _WIDE),
            Local(product(root, factor), _WIDE + FACTOR_FRACTION + growth, _WIDE),
        )
        (gram,) = await shares.rounded_symmetric(Local(product(half, factor), _WIDE + FRACTION + 2, _WIDE))
    return root


async def _sign(shares: SharedArithmetic, matrix: Integers) -> Integers:
    """The matrix sign function of a stack of symmetric matrices of norm at most 1."""
    for step in cubic_steps(_RESOLUTION):
        (square,) = await shares.rounded_symmetric(Local(product(matrix, matrix), 2 * FRACTION + 2, FRACTION))
        (matrix,) = await shares.rounded_symmetric(
            Local(product(matrix, _polynomial(step, square)), _WIDE + FRACTION + 2, _WIDE)
        )
    return matrix


@dataclass(frozen=True, eq=False)
class Leading:
    """Projectors on leading eigenvectors, as shares."""

    projectors: Integers
    """Stack; at `FRACTION`."""
    thresholds: Integers
    """One for each, between the eigenvalues that it parts; at `FRACTION`."""
    separated: Integers
    """1 where the threshold parts as many eigenvalues as wanted, 0 where two are too close (whole numbers)."""


async def leading(shares: SharedArithmetic, matrix: Integers, wanted: tuple[int, ...]) -> Leading:
    """Projectors on the leading 1, 2, ... eigenvectors, for every number wanted.

    Half of I + sign(B - s I), s halving its way to where the trace says that as many eigenvalues are above as
    wanted; it stays there. Nobody learns the way.
    """
    size = len(matrix)
    ranks = np.array(wanted, dtype=object)
    thresholds = np.array([(1 << FRACTION) // (2 * rank) for rank in wanted], dtype=object)
    steps = thresholds // 2
    diagonal = np.arange(size)
    for halving in range(HALVINGS + 1):
        shifted = np.repeat(matrix[None], len(wanted), axis=0)
        shifted[:, diagonal, diagonal] = (shifted[:, diagonal, diagonal] - thresholds[:, None]) % PRIME
        signs = await _sign(shares, shifted)
        trace = signs[:, diagonal, diagonal].sum(axis=1) % PRIME
        cut = FRACTION - _COUNT_FRACTION
        (count,) = await shares.rounded(Local(trace, FRACTION + 8, cut))
        over = (count - ((2 * ranks - size) << _COUNT_FRACTION)) % PRIME
        bounds = np.stack([(over + _WHOLE) % PRIME, (_WHOLE - over) % PRIME])
        few, many = await shares.negative(bounds, _COUNT_BITS)
        if halving < HALVINGS:
            thresholds = (thresholds + steps * (many - few)) % PRIME
            steps = steps // 2
    eye = np.zeros((size, size), dtype=object)
    np.fill_diagonal(eye, 1 << FRACTION)
    (projectors,) = await shares.rounded_symmetric(Local((signs + eye) % PRIME, FRACTION + 3, 1))
    return Leading(projectors, thresholds, (1 - few - many) % PRIME)


SUM_BITS = 32
"""Fraction bits of what is entered."""
MOST_ROWS = 1 << 17
"""Most rows of one party; 64 parties have at most 2^23, and `reciprocal` reaches to 2^-24."""
_OUT = 40


async def mean_of(runtime: Any, entered: Integers, parties: int, largest: float) -> dict[str, NDArray[np.float64]]:
    """One computing party's side."""
    shares = SharedArithmetic(runtime)
    most = (parties * MOST_ROWS - 1).bit_length()
    inverse = await reciprocal(shares, entered[-1:] * (1 << (FRACTION - SUM_BITS - most)) % PRIME)
    bits = SUM_BITS + math.ceil(math.log2(largest)) + SCALE_FRACTION + SCALE_GROWTH + 1
    (mean,) = await shares.rounded(Local(entered[:-1] * inverse, bits, SUM_BITS + SCALE_FRACTION + most - _OUT))
    return {"mean": reals(await shares.opened(mean), _OUT)}


NORM_BITS = 60
"""No row of all parties' sum is longer than 2^this on shares."""
UNIT_FRACTION = 36
"""Fraction bits of rows of length 1."""
_LOWEST = 2
"""4^this is the least square that has a direction, in units of 2^60."""
_BUCKETS = np.array([4**at for at in range(_LOWEST, 30)], dtype=object)
_SCALES = np.array([2 ** (29 - at) for at in range(_LOWEST, 30)], dtype=object)
_LEAST_ROOT = 0.2
SHORTEST = 2.0 ** (_LOWEST + 30 - NORM_BITS)
"""A row shorter than this, relative to the longest that parties may enter, has no direction (to a fifth)."""


async def normed_rows(runtime: Any, rows: Integers) -> dict[str, NDArray[np.float64]]:
    """NormedSecSum, one computing party's side: `unit_rows`, opened."""
    shares = SharedArithmetic(runtime)
    return {"rows": reals(await shares.opened(await unit_rows(shares, rows)), UNIT_FRACTION)}


async def unit_rows(shares: SharedArithmetic, rows: Integers) -> Integers:
    """Every row divided by its length, at `UNIT_FRACTION`; zeros for one that is too short.

    S is a row, Q = <S, S> below 2^121. Comparisons of Q with powers of 4 give, on shares, the power of two t with
    which Q t^2 / 2^122 lies in [1/20, 11/40], where `inverse_root` has its accuracy whatever the length; then
    S t / sqrt(Q t^2) follows: to 2^-34, and what rounding of the entered numbers adds.
    """
    squares = (rows * rows).sum(axis=1) % PRIME
    fine, coarse = await shares.rounded(
        Local(squares, 2 * NORM_BITS + 1, 0), Local(squares, 2 * NORM_BITS + 1, NORM_BITS)
    )
    below = await shares.negative((coarse[:, None] - _BUCKETS) % PRIME, NORM_BITS + 2)
    reached = (1 - below) % PRIME
    scale = reached @ np.diff(_SCALES, prepend=0) % PRIME
    square = reached @ np.diff(_SCALES**2, prepend=0) % PRIME
    (scaled,) = await shares.rounded(Local(fine * square, 2 * NORM_BITS + 2, 2 * NORM_BITS + 2 - FRACTION))
    roots = np.diagonal(await inverse_root(shares, np.diag(scaled), _LEAST_ROOT))
    growth = growth_bits(cubic_steps(_LEAST_ROOT))
    (factor,) = await shares.rounded(Local(scale * roots, 30 + FACTOR_FRACTION + growth, 0))
    bits = NORM_BITS + 1 + FACTOR_FRACTION  # S t / sqrt(Q t^2 / 2^122) at `FACTOR_FRACTION`
    (unit,) = await shares.rounded(Local(rows * factor[:, None], bits + 1, bits - UNIT_FRACTION))
    return unit
