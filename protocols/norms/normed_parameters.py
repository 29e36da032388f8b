"""What the parties of a normed sum agree on, and every width that follows from it.

Scales. Entries are integers X = x 2^f; S is their sum over the parties, x = ||S||^2 < 2^B with B = 2 (f + e). The
iteration works on t = x / 2^B in [0, 1] and y = sqrt(t_k 2^B / x), both with F fraction bits:

    g_k = alpha_k - beta_k t_k,    t_{k+1} = t_k g_k^2,    y_{k+1} = y_k g_k

and ends with t = 1, y = 2^(f + e) / ||S||. For t in [lo, 1] the best two public constants are those with max t
g^2 = 1 and equal ends: r = alpha / beta = 1 + sqrt(lo) + lo, beta = sqrt(27 / (4 r^3)). The lower end grows by
almost 6.75 a step (Newton's 3/2 - t/2: by 2.25), near 1 they become Newton's. They are rounded to 20 bits so that
t stays at most 1; that costs no accuracy, for any g serves as long as t and y use the same.

Widths. With kappa' = kappa + 9 a mask is 2^kappa' times wider than what it hides, so that fewer than 128 openings
together are within 2^-(kappa + 2) of telling nothing. `y_bits` makes the error of y vanish against the noise of
the output: d (error / width of the noise) is at most 2^-(kappa + 4). F covers the smallest norm that is promised.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod, sqrt

from ksdp.audit.errors import InputError
from ksdp.protocols.norms.wide_ring import WideRing

KAPPA = 40
"""All that a run opens is within 2^-40 (statistical distance) of what the result alone tells."""
MAC_BITS = 48
"""Of a party's key of the MACs: it takes a false share for a true one with probability 2^-48 (`authenticated`)."""
_OPENING = KAPPA + 9
_CONSTANT_BITS = 20
_VERSION = b"ksdp-normed-sum-3"
_MAX_DIMENSION = 1 << 20
"""Products of two 16-bit limbs, summed over d entries, must stay below 2^53."""


@dataclass(frozen=True)
class Step:
    """Constants of one step, as integers with 20 fraction bits: g = alpha - beta t."""

    alpha: int
    beta: int


@dataclass(frozen=True)
class NormedSumParameters:
    """Public terms of a normed sum.

    Parameters
    ----------
    parties : int
        M, at least 2.
    dimension : int
        d, the length of the vectors, at most 2^20.
    fraction_bits : int
        f, of the inputs and of the result; the paper's are 10, 20 and 31.
    integer_bits : int
        e: every party's vector must have a norm of at most 2^e / M, so that ||s|| is at most 2^e. May be negative.
    floor_bits : int, optional
        Sums with ||s|| < 2^-floor_bits may be refused, without having been opened. At most f, where only a sum
        that is zero on the grid is refused; smaller values save rounds. The default is the smaller of f and 20.

    Examples
    --------
    >>> parameters = NormedSumParameters(parties=2, dimension=100)
    >>> parameters.rounds, parameters.ring.bits
    (38, 160)
    """

    parties: int
    dimension: int
    fraction_bits: int = 31
    integer_bits: int = 16
    floor_bits: int | None = None

    def __post_init__(self) -> None:
        f, e = self.fraction_bits, self.integer_bits
        _within("parties", self.parties, 2, 64)
        _within("dimension", self.dimension, 1, _MAX_DIMENSION)
        _within("fraction_bits", f, 8, 40)
        _within("integer_bits", e, -f // 2, 60 - f)
        if self.floor_bits is None:
            object.__setattr__(self, "floor_bits", max(min(f, 20), 1 - e))
        _within("floor_bits", self.floor, 1 - e, f)

    @property
    def floor(self) -> int:
        """`floor_bits` as an integer."""
        assert self.floor_bits is not None
        return self.floor_bits

    @property
    def party_bits(self) -> int:
        """ceil(log2(M + 1))."""
        return self.parties.bit_length()

    @property
    def square_bits(self) -> int:
        """B: ||S||^2 is at most 2^B."""
        return 2 * (self.fraction_bits + self.integer_bits)

    @property
    def y_bits(self) -> int:
        """Fraction bits of y when it multiplies the vector."""
        return self.fraction_bits + KAPPA + (self.dimension - 1).bit_length() + 2 * self.party_bits + 6

    @property
    def factor_bits(self) -> int:
        """Every party's part of the factor that hides 1 - t is in [2^this, 2^(this + 1))."""
        return _OPENING + self.y_bits + 1

    @property
    def scalar_bits(self) -> int:
        """F, fraction bits of t and y."""
        range_bits = 2 * (self.floor + self.integer_bits)
        return max(
            self.y_bits + range_bits + self.party_bits + 5,
            self.factor_bits + 2 * self.party_bits + 6,
            self.square_bits,
        )

    @property
    def noise_bits(self) -> int:
        """Every party's noise in the result is uniform in [0, 2^this): below 2^-(f + 1) / M as a real number."""
        return self.y_bits + self.integer_bits - 1 - self.party_bits

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Constants of all steps: enough that t is within 2^-(factor_bits + party_bits + 2) of 1 at the end."""
        lo = Fraction(1, 1 << 2 * (self.floor + self.integer_bits))
        goal = Fraction(1, 1 << (self.factor_bits + self.party_bits + 2))
        steps = []
        while 1 - lo > goal:
            step = _constants(float(lo))
            steps.append(step)
            lo = _rounded_down(min(_image(step, lo), _image(step, Fraction(1))), self.scalar_bits)
        return tuple(steps)

    @cached_property
    def growth_bits(self) -> int:
        """y stays below 2 to this power whatever the inputs are, for no g exceeds its alpha."""
        return prod(step.alpha for step in self.steps).bit_length() - _CONSTANT_BITS * len(self.steps) + 1

    @property
    def square_mask_bits(self) -> int:
        """Of a party's mask of ||S||^2."""
        return self.square_bits + _OPENING

    @property
    def t_shift(self) -> int:
        """Bits cut off after t g^2."""
        return 2 * (self.scalar_bits + _CONSTANT_BITS)

    @property
    def y_shift(self) -> int:
        """Bits cut off after y g."""
        return self.scalar_bits + _CONSTANT_BITS

    @property
    def t_mask_bits(self) -> int:
        """Of a party's mask of t g^2 before the cut."""
        return self.scalar_bits + self.t_shift + 1 + _OPENING

    @property
    def y_mask_bits(self) -> int:
        """Of a party's mask of y g before the cut."""
        return self.scalar_bits + self.y_shift + self.growth_bits + _OPENING

    @property
    def check_mask_bits(self) -> int:
        """Of a party's mask in the test that t reached 1."""
        return self.scalar_bits + _OPENING

    @cached_property
    def ring(self) -> WideRing:
        """The ring of the vectors: room for the masked ||S||^2 and for the result with its noise."""
        masked_square = self.square_mask_bits + self.party_bits + 1
        result = self.y_bits + self.fraction_bits + self.integer_bits + 3
        return WideRing.of_bits(max(masked_square, result))

    @cached_property
    def scalar_ring(self) -> WideRing:
        """The ring of t, y and their products: no masked value wraps in it."""
        widest = max(self.t_mask_bits, self.y_mask_bits, self.check_mask_bits + self.factor_bits)
        return WideRing.of_bits(widest + self.party_bits + 2)

    @cached_property
    def checked_ring(self) -> WideRing:
        """Of shares and MACs of the vectors: MAC_BITS more."""
        return WideRing.of_bits(self.ring.bits + MAC_BITS)

    @cached_property
    def checked_scalar_ring(self) -> WideRing:
        """The same of the scalars."""
        return WideRing.of_bits(self.scalar_ring.bits + MAC_BITS)

    @property
    def rounds(self) -> int:
        """Of the online phase: inputs, their hash, square, steps, test, result."""
        return len(self.steps) + 5

    @property
    def error_bound(self) -> float:
        """No entry of the result is further from that of S / ||S|| than this, S being the sum *on the grid*.

        Noise below 2^-(f + 2) in size, rounding to the grid 2^-(f + 1), everything else below 2^-(f + KAPPA).
        """
        return 2.0**-self.fraction_bits

    def error_bound_at(self, norm: float) -> float:
        """The same against s / ||s|| of the real vectors, for a sum of this norm.

        Rounding the inputs moves s by at most M sqrt(d) 2^-(f + 1) in norm and s / ||s|| by at most twice that
        over ||s||.
        """
        return 2.0**-self.fraction_bits * (1.0 + self.parties * sqrt(self.dimension) / norm)

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that two parties share only if they agree on all of this."""
        fields = (self.parties, self.dimension, self.fraction_bits, self.integer_bits, self.floor)
        return hashlib.sha256(_VERSION + repr((fields, self.steps)).encode()).digest()


def _within(name: str, value: int, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"`{name}` must be a whole number from {least} to {most}; got {value!r}.")


def _constants(lo: float) -> Step:
    """Those for t in [lo, 1], rounded so that t g^2 does not exceed 1."""
    one = 1 << _CONSTANT_BITS
    if lo > 0.9:
        return Step(3 * one // 2, one // 2)
    root = sqrt(max(lo, 2.0**-16))  # smaller ends differ from this one by less than the rounding
    r = 1 + root + root * root
    beta = round(sqrt(6.75 / (r * r * r)) * one)
    # 4 alpha^3 <= 27 beta, on integers
    limit = 27 * beta * one * one
    alpha = round(r * beta)
    while 4 * alpha**3 > limit:
        alpha -= 1
    while 4 * (alpha + 1) ** 3 <= limit:
        alpha += 1
    return Step(alpha, beta)


def _image(step: Step, t: Fraction) -> Fraction:
    one = 1 << _CONSTANT_BITS
    return t * ((step.alpha - step.beta * t) / one) ** 2


def _rounded_down(value: Fraction, bits: int) -> Fraction:
    return Fraction((value.numerator << bits) // value.denominator, 1 << bits)
