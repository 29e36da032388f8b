"""Public sizes of the arithmetic on shares: polynomials, and how large numbers can be (checked beforehand).

Iterated, a polynomial takes an unknown number of a known range to 1. Newton's iterations for 1 / sqrt(g) and 1 / z
grow a small number by 1.5 and 2 a step. With coefficients that are best for the range that is left (equal ends, a
maximum of 1) they grow it by 2.6 and 4, and never leave [0, 1]: what is smaller than was promised only comes less
close to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties

COEFFICIENT_BITS = 20
_CLOSE = 2.0**-50
"""The last step leaves less than this to 1."""

_LEAST_END = 2.0**-14
"""Least image of 1, which rounding of coefficients must not lose: a smaller range is treated as this one."""


@lru_cache
def _steps(least: float, power: int) -> tuple[tuple[int, int], ...]:
    """(a, b) in units of 2^-20 of x -> x (a - b x^power) for x from `least` to 1."""
    # With a = b (1 + l + ... + l^power) both ends go to a - b; with b as below the maximum is 1.
    steps, low = [], least
    while 1.0 - low > _CLOSE:
        spread = sum(max(low, _LEAST_END) ** at for at in range(power + 1))
        beta = 4.0 / spread**2 if power == 1 else 1.5 / (spread * math.sqrt(spread / 3.0))
        alpha = beta * spread
        if 1.0 - low < 2.0**-12:
            alpha, beta = 1.0 + 1.0 / power, 1.0 / power  # the limit; no rounding
        steps.append((math.floor(alpha * 2**COEFFICIENT_BITS), math.ceil(beta * 2**COEFFICIENT_BITS)))
        alpha, beta = (number / 2**COEFFICIENT_BITS for number in steps[-1])
        low = min(low * (alpha - beta * low**power), alpha - beta)
    return tuple(steps)


def cubic_steps(least: float) -> tuple[tuple[int, int], ...]:
    """Coefficients of the steps x -> x (a - b x^2)."""
    return _steps(least, 2)


def quadratic_steps(least: float) -> tuple[tuple[int, int], ...]:
    """Coefficients of the steps t -> t (a - b t)."""
    return _steps(least, 1)


def growth_bits(steps: tuple[tuple[int, int], ...]) -> int:
    """2^this is no less than all steps multiply a number by, at 0, where they do so most."""
    return math.ceil(sum(math.log2(a / 2**COEFFICIENT_BITS) for a, _ in steps))


SCALE_FRACTION = 40
"""Fraction bits of a reciprocal."""
SMALLEST_SCALE = 2.0**-24
"""Promised of what a reciprocal is taken of."""
SCALE_GROWTH = growth_bits(quadratic_steps(SMALLEST_SCALE))
"""2^this is no less than a reciprocal, of whatever it is taken; 2^24 where the promise is kept."""

ROW_BITS = 60
"""Fraction bits of X'."""
KEPT = 50
"""Fraction bits of W' and T', and of products of them."""
SIGNED = 40
"""Fraction bits of what a sign is taken of: a word has no room for more."""
_LEAST_RHO = 2.0**-12
_SIGN_BITS = 62
_ROUNDING = 1e-3
_LONGEST = 2.0**22
"""Lengths are checked in words (`arithmetic.check_lengths`)."""

_PRODUCT_BITS = 156
"""No product may have more (`arithmetic`)."""


@dataclass(frozen=True)
class SimplexSizes:
    """Public sizes of a factorisation without regularisers, whose topics are on the unit simplex."""

    rank: int
    features: int

    tau: ClassVar[float] = 1.0
    reach: ClassVar[float] = 1.0
    """No row of T is longer."""
    longest: ClassVar[float] = 1.0 + _ROUNDING
    rho: ClassVar[float] = 0.0
    fixed_alpha: ClassVar[float] = 0.0
    fixed_gamma: ClassVar[float] = 0.0
    scale_bits: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.step_bits > _PRODUCT_BITS:
            raise InputError(
                f"`rank` is too large for topics on the simplex of {self.features} features; set `beta` and "
                "`delta`."
            )

    @property
    def reach_bits(self) -> int:
        """2^this is above the length of a column of W', and what rounding adds to it."""
        return math.ceil(math.log2(self.features) / 2.0) + 1

    @property
    def terms_bits(self) -> int:
        """2^this is above every number that W is made of."""
        return math.ceil(math.log2(1.0 + (self.rank - 1) * math.sqrt(self.features))) + 1

    @property
    def sums_bits(self) -> int:
        """2^this is above every sum that T is made of, and the threshold."""
        return math.ceil(math.log2(math.sqrt(self.features) + (self.rank - 1) * self.features + 2.0)) + 1

    @property
    def count_bits(self) -> int:
        """2^this is at least every number of entries."""
        return math.ceil(math.log2(self.features))

    @property
    def over_bits(self) -> int:
        """2^this is above every such sum less a threshold, as it is kept."""
        return KEPT + self.sums_bits + 1

    @property
    def step_bits(self) -> int:
        """2^this is above every step of a threshold before its rounding: what must fit."""
        return self.over_bits + self.count_bits + 1 + SCALE_FRACTION + SCALE_GROWTH


@dataclass(frozen=True)
class TopicSizes:
    """How the numbers of a factorisation are written; public.

    Raises
    ------
    InputError
        If the regularisers are so small beside the bound that numbers would not fit.
    """

    rank: int
    penalties: Penalties
    largest: float
    """Bound of the sum of squares of all parties' entries: s^2."""

    def __post_init__(self) -> None:
        alpha, _, gamma, _ = self.penalties
        if self.rho < _LEAST_RHO:
            least = _LEAST_RHO**2 * self.largest
            raise InputError(
                f"`beta` times `delta` must be at least {least:.3g} in a run that opens its final output alone, "
                f"or `precision.bound` smaller; got {self.penalties[1] * self.penalties[3]:.3g}."
            )
        if max(self.rho, self.fixed_alpha, self.fixed_gamma) > 1.0:
            raise InputError(
                "`alpha`, `beta`, `gamma` and `delta` must be smaller, or `precision.bound` larger: nothing would "
                f"be left of data of that size; got {alpha:g}, {self.penalties[1]:g}, {gamma:g} and "
                f"{self.penalties[3]:g}."
            )
        if 1.0 / self.tau > self.reach:
            raise InputError("`beta` must be smaller beside `delta`: the start would be out of reach.")
        if SIGNED + self.terms_bits > _SIGN_BITS or self.longest > _LONGEST:
            raise InputError("`rank` or `precision.bound` is too large for regularisers this small.")

    @property
    def tau(self) -> float:
        """T = tau T'."""
        _, beta, _, delta = self.penalties
        return float((self.largest * delta / beta) ** 0.25)

    @property
    def rho(self) -> float:
        """Both quadratic regularisers."""
        _, beta, _, delta = self.penalties
        return math.sqrt(beta * delta / self.largest)

    @property
    def fixed_alpha(self) -> float:
        """Fixed-point regulariser of |T'|."""
        return self.penalties[0] * self.tau / self.largest

    @property
    def fixed_gamma(self) -> float:
        """Fixed-point regulariser of |W'|; W = (s / tau) W'."""
        return self.penalties[2] / (self.tau * math.sqrt(self.largest))

    @property
    def reach(self) -> float:
        """No column of W' and no row of T' is longer."""
        return 0.5 / math.sqrt(self.rho)

    @property
    def longest(self) -> float:
        """No row of T is longer."""
        return self.tau * self.reach * (1.0 + _ROUNDING)

    @property
    def reach_bits(self) -> int:
        """2^this is above `reach`, and what rounding adds to it."""
        return math.ceil(math.log2(self.reach)) + 1

    @property
    def scale_bits(self) -> int:
        """2^this is above every denominator."""
        return math.ceil(math.log2(self.reach**2 + 2.0 * self.rho))

    @property
    def terms_bits(self) -> int:
        """2^this is above every number whose sign decides: |X' T'| <= reach, (k - 1) reach^3, a regulariser."""
        return math.ceil(math.log2(self.reach + (self.rank - 1) * self.reach**3 + 1.0)) + 1


AnySizes = TopicSizes | SimplexSizes


def sizes_of(rank: int, features: int, penalties: Penalties, largest: float) -> AnySizes:
    """Without regularisers, topics are on the simplex."""
    return TopicSizes(rank, penalties, largest) if any(penalties) else SimplexSizes(rank, features)
