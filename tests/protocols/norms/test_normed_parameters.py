"""The iteration and the widths."""

from __future__ import annotations

from fractions import Fraction
from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import InputError
from ksdp.protocols.norms.normed_parameters import KAPPA, NormedSumParameters

MANY = [
    NormedSumParameters(m, d, f, e, floor)
    for m, d, f, e, floor in [
        (2, 1, 10, 0, 1),
        (2, 100, 31, 16, None),
        (5, 10_000, 31, 16, 31),
        (5, 10_000, 20, 0, 4),
        (64, 1 << 20, 40, 20, 40),
        (3, 10, 8, -4, 8),
    ]
]
ONE = 1 << 20


def iterate(parameters: NormedSumParameters, t: float) -> tuple[float, float]:
    y = 1.0
    for step in parameters.steps:
        g = (step.alpha - step.beta * t) / ONE
        t, y = t * g * g, y * g
    return t, y


@pytest.mark.parametrize("parameters", MANY)
def test_the_iteration_ends_at_one_from_everywhere(parameters: NormedSumParameters) -> None:
    lo = 2.0 ** (-2 * (parameters.floor + parameters.integer_bits))
    for i in range(200):
        start = lo ** (i / 199)
        t, y = iterate(parameters, start)
        assert t == pytest.approx(1, abs=1e-12)
        assert y == pytest.approx(start**-0.5, rel=1e-12)


@pytest.mark.parametrize("parameters", MANY)
def test_t_never_exceeds_one_and_y_never_its_room(parameters: NormedSumParameters) -> None:
    for step in parameters.steps:
        assert 4 * step.alpha**3 <= 27 * step.beta * ONE * ONE  # the maximum of t g^2, exactly
        assert 0 < step.beta < step.alpha < 3 * ONE
        assert 3 * step.beta >= step.alpha  # its place is not beyond 1
    assert sum(log2(step.alpha / ONE) for step in parameters.steps) < parameters.growth_bits
    # a refused sum is at most this much further along than the floor promises
    assert parameters.growth_bits - parameters.floor - parameters.integer_bits <= 6


def test_the_end_is_as_close_as_the_test_needs() -> None:
    parameters = NormedSumParameters(2, 100, 20, 4)
    low = Fraction(1, 1 << 2 * (parameters.floor + 4))
    for step in parameters.steps:
        candidates = [t * ((step.alpha - step.beta * t) / ONE) ** 2 for t in (low, Fraction(1))]
        low = Fraction(int(min(candidates) * 2**400), 2**400)
    assert 1 - low <= Fraction(1, 1 << (parameters.factor_bits + parameters.party_bits + 2))


def test_it_needs_about_half_of_newtons_steps() -> None:
    parameters = NormedSumParameters(2, 100)
    t, newton = 2.0**-72, 0
    while 1 - t > 1e-12:
        t, newton = t * (1.5 - 0.5 * t) ** 2, newton + 1
    assert len(parameters.steps) < 0.6 * newton


@pytest.mark.parametrize("parameters", MANY)
def test_no_masked_value_wraps_and_every_mask_hides(parameters: NormedSumParameters) -> None:
    p, slack = parameters, KAPPA + 9
    m = p.parties
    assert m << p.square_mask_bits < p.ring.modulus - (1 << p.square_bits)
    widest = max(p.t_mask_bits, p.y_mask_bits, p.check_mask_bits)
    assert (m + 1) << widest < p.scalar_ring.modulus
    one = p.scalar_bits
    assert p.t_mask_bits - slack >= one + 2 * (one + 20)  # t g^2 <= 1
    assert p.y_mask_bits - slack >= p.growth_bits + one + one + 20
    assert 2 * len(p.steps) + 2 < 128
    # an accepted sum: P (1 - t) against its mask; t within the goal of 1 and some units of rounding
    product = m * 2.0 ** (p.factor_bits + 1) * (2.0 ** -(p.factor_bits + p.party_bits + 2) + (m + 1) * 2.0**-one)
    assert product * 2.0**one <= 2.0 ** (p.check_mask_bits - slack)
    # a sum that is accepted though t is not 1: how far it can be off
    assert 2.0 ** (slack + 1 - p.factor_bits) <= 2.0**-p.y_bits
    # the error of y against one party's noise, over all entries
    error = 2 * (m + 1) * 2.0**-p.y_bits
    noise = 2.0 ** (p.noise_bits - p.y_bits - p.integer_bits - p.fraction_bits)
    assert error / noise * p.dimension <= 2.0 ** -(KAPPA + 2)
    assert m * noise <= 2.0 ** -(p.fraction_bits + 1)
    # the opened result fits, with its sign
    assert p.y_bits + p.integer_bits + p.fraction_bits + 1 < p.ring.bits - 1


@given(st.integers(2, 6), st.integers(1, 5000), st.integers(8, 40), st.integers(-4, 16))
@settings(max_examples=30, deadline=None)
def test_terms_that_differ_have_different_digests(parties: int, dimension: int, f: int, e: int) -> None:
    one = NormedSumParameters(parties, dimension, f, e)
    assert one.digest == NormedSumParameters(parties, dimension, f, e, one.floor).digest
    assert one.digest != NormedSumParameters(parties + 1, dimension, f, e).digest
    assert one.digest != NormedSumParameters(parties, dimension + 1, f, e).digest
    assert one.digest != NormedSumParameters(parties, dimension, f, e + 1, one.floor).digest


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((1, 5), "`parties`"),
        ((2, 0), "`dimension`"),
        ((2, 5, 7), "`fraction_bits`"),
        ((2, 5, 31, 30), "`integer_bits`"),
        ((2, 5, 31, 16, 32), "`floor_bits`"),
        ((2, 5, 31, -4, 3), "`floor_bits`"),
        ((2, 5.0), "`dimension`"),
    ],
)
def test_terms_out_of_range_are_refused(values: tuple[int, ...], named: str) -> None:
    with pytest.raises(InputError, match=named):
        NormedSumParameters(*values)
