"""Functions of small matrices on shares: orthonormal factor, reciprocal, projector on the leading eigenvectors.

All numbers of a step are at most 1 in spectral norm, by what is public (`steps`); the sizes given to
`arithmetic.Local` follow from that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ksdp.protocols.shared.arithmetic import FRACTION, Local, SharedArithmetic, product
from ksdp.protocols.shared.field import PRIME, Integers
from ksdp.protocols.shared.steps import (
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
SMALLEST_SINGULAR = 2.0**-11
"""Promised of the singular values of a block to orthonormalise; smaller ones stay shorter than 1."""
FACTOR_GROWTH = growth_bits(cubic_steps(SMALLEST_SINGULAR))
"""2^this is no less than an inverse root, of whatever it is taken."""
RESOLUTION = 2.0**-18
"""Eigenvalues of a matrix of trace 1 closer than this to a threshold are on neither side."""
HALVINGS = 16
_WIDE = FRACTION + COEFFICIENT_BITS
_COUNT_FRACTION, _COUNT_BITS = 24, 32
_WHOLE = 1 << 4
"""How far from a whole number the rank of a projector may be, in units of 2^-24."""


def _polynomial(step: tuple[int, int], square: Integers) -> Integers:
    """a I - b S at `_WIDE` fraction bits, for a stack of S."""
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


async def inverse_root(shares: SharedArithmetic, gram: Integers) -> Integers:
    """Z with Z^T G Z = I, at `FACTOR_FRACTION`; of G = Y^T Y with singular values of Y up to 1."""
    # All are polynomials of one matrix: symmetric.
    size = len(gram)
    root = np.zeros((size, size), dtype=object)
    np.fill_diagonal(root, 1 << FACTOR_FRACTION)
    for step in cubic_steps(SMALLEST_SINGULAR):
        factor = _polynomial(step, gram)
        half, root = await shares.rounded_symmetric(
            Local(product(factor, gram), _WIDE + FRACTION + 2, _WIDE),
            Local(product(root, factor), _WIDE + FACTOR_FRACTION + FACTOR_GROWTH, _WIDE),
        )
        (gram,) = await shares.rounded_symmetric(Local(product(half, factor), _WIDE + FRACTION + 2, _WIDE))
    return root


async def _sign(shares: SharedArithmetic, matrix: Integers) -> Integers:
    """The matrix sign function of a stack of symmetric matrices of norm at most 1."""
    for step in cubic_steps(RESOLUTION):
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
    found: Integers
    """1 where the threshold parts as many eigenvalues as wanted, 0 where two are too close (whole numbers)."""


async def leading(shares: SharedArithmetic, matrix: Integers, wanted: tuple[int, ...]) -> Leading:
    """Projectors on the leading 1, 2, ... eigenvectors, for every number wanted.

    Half of I + sign(B - s I), s halving its way to where the trace says that as many eigenvalues are above as
    wanted; it stays there. Nobody learns the way.

    Parameters
    ----------
    matrix : shares, shape (n, n)
        Symmetric, positive, of trace at most 1; so the i-th eigenvalue is at most 1 / i.
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
