"""Public polynomials that, iterated, take an unknown number of a known range to 1.

Newton's iterations for 1 / sqrt(g) and 1 / z grow a small number by 1.5 and 2 a step. With coefficients that
are best for the range that is left (equal ends, a maximum of 1) they grow it by 2.6 and 4, and never leave [0, 1]:
what is smaller than was promised only comes less close to 1.
"""

from __future__ import annotations

import math
from functools import lru_cache

COEFFICIENT_BITS = 20
CLOSE = 2.0**-50
"""The last step leaves less than this to 1."""


_LEAST_END = 2.0**-14
"""What 1 goes to must not be lost in the rounding of coefficients: a smaller range is treated as this one."""


def _coded(alpha: float, beta: float) -> tuple[int, int]:
    """Of 2^-20, rounded so that no result is above 1."""
    return math.floor(alpha * 2**COEFFICIENT_BITS), math.ceil(beta * 2**COEFFICIENT_BITS)


@lru_cache
def cubic_steps(least: float) -> tuple[tuple[int, int], ...]:
    """(a, b) in units of 2^-20 of x -> x (a - b x^2) for x from `least` to 1.

    With b = 3 / (2 (1 + l + l^2) x*), x*^2 = (1 + l + l^2) / 3 and a = b (1 + l + l^2) both ends go to a - b,
    and the maximum, at x*, is 1.

    Examples
    --------
    >>> len(cubic_steps(2.0**-11))
    13
    """
    steps, low = [], least
    while 1.0 - low > CLOSE:
        end = max(low, _LEAST_END)
        spread = 1.0 + end + end * end
        beta = 1.5 / (spread * math.sqrt(spread / 3.0))
        alpha = beta * spread
        if 1.0 - low < 2.0**-12:
            alpha, beta = 1.5, 0.5  # the limit; no rounding
        steps.append(_coded(alpha, beta))
        alpha, beta = (number / 2**COEFFICIENT_BITS for number in steps[-1])
        low = min(low * (alpha - beta * low * low), alpha - beta)
    return tuple(steps)


@lru_cache
def quadratic_steps(least: float) -> tuple[tuple[int, int], ...]:
    """(a, b) in units of 2^-20 of t -> t (a - b t) for t from `least` to 1: a = 4 / (1 + l), b = a / (1 + l)."""
    steps, low = [], least
    while 1.0 - low > CLOSE:
        end = max(low, _LEAST_END)
        alpha = 4.0 / (1.0 + end)
        beta = alpha / (1.0 + end)
        if 1.0 - low < 2.0**-12:
            alpha, beta = 2.0, 1.0
        steps.append(_coded(alpha, beta))
        alpha, beta = (number / 2**COEFFICIENT_BITS for number in steps[-1])
        low = min(low * (alpha - beta * low), alpha - beta)
    return tuple(steps)


def growth_bits(steps: tuple[tuple[int, int], ...]) -> int:
    """2^this is no less than all steps multiply a number by, at 0, where they do so most.

    So much goes what was promised to be larger and is not: more than 1 / least.

    Examples
    --------
    >>> growth_bits(quadratic_steps(2.0**-24)), growth_bits(cubic_steps(2.0**-11))
    (30, 14)
    """
    return math.ceil(sum(math.log2(a / 2**COEFFICIENT_BITS) for a, _ in steps))


SCALE_FRACTION = 40
"""Fraction bits of a reciprocal."""
SMALLEST_SCALE = 2.0**-24
"""Promised of what a reciprocal is taken of."""
SCALE_GROWTH = growth_bits(quadratic_steps(SMALLEST_SCALE))
"""2^this is no less than a reciprocal, of whatever it is taken; 2^24 where the promise is kept."""
