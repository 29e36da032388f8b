"""Above the margin, below it: p-values against integrals, brute force and simulation."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.margins import (
    attack_above_log10_p,
    band_width,
    largest_log10_tail,
    log10_above,
    log10_below,
    over_log10_p,
)

RULE = DecisionSpec(margin=0.25)


def arms(distance: list[float], m: int, n: int) -> ArmTests:
    table = np.array(distance)[:, None]
    held, free = np.full(table.shape, m), np.full(table.shape, n)
    nothing = np.zeros(table.shape)
    return ArmTests(held, free, table, nothing, nothing)


def flat_tail(m: int, n: int, gap: float, distance: float) -> float:
    """P(sup (F_m - G_n) >= distance) for the pair of laws that is worst for "above", by counting lattice paths."""

    @functools.cache
    def reached(i: int, j: int, last: int) -> float:
        if i / m - j / n >= distance - 1e-12:
            return 1.0
        left = m - i + last - j
        if left == 0:
            return 0.0
        right = (m - i) * reached(i + 1, j, last) if i < m else 0.0
        return (right + ((last - j) * reached(i, j + 1, last) if j < last else 0.0)) / left

    outside = itertools.product(range(m + 1), range(n + 1))
    return sum(binom.pmf(a, m, gap) * binom.pmf(b, n, gap) * reached(a, 0, n - b) for a, b in outside)


def outcomes(runs: int, chances: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Measured distribution functions of every outcome of some runs, and their chances."""
    places = itertools.product(range(runs + 1), repeat=len(chances))
    counts = np.array([k for k in places if sum(k) == runs])
    return counts.cumsum(axis=1) / runs, multinomial.pmf(counts, runs, chances)


@pytest.mark.parametrize(
    ("held", "free"),
    [
        ([0.3, 0.4, 0.3, 0.0], [0.0, 0.4, 0.3, 0.3]),
        ([0.25] * 4, [0.1, 0.25, 0.4, 0.25]),
        ([0.5, 0.0, 0.2, 0.3], [0.3, 0.2, 0.0, 0.5]),
        ([0.4, 0.1, 0.1, 0.4], [0.1, 0.4, 0.4, 0.1]),
        ([0.7, 0.3, 0.0, 0.0], [0.3, 0.7, 0.0, 0.0]),
    ],
)
def test_no_pair_of_laws_is_measured_further_apart_than_the_flat_one(held: list[float], free: list[float]) -> None:
    m, n = 4, 6
    gap = float(np.abs(np.cumsum(held) - np.cumsum(free)).max())
    (upto_held, of_held), (upto_free, of_free) = outcomes(m, held), outcomes(n, free)
    apart = np.abs(upto_held[:, None] - upto_free[None]).max(axis=2)
    chance = of_held[:, None] * of_free[None]
    for distance in np.unique(apart.round(12)):
        true = chance[apart >= distance - 1e-9].sum()
        assert true <= flat_tail(m, n, gap, distance) + flat_tail(n, m, gap, distance) + 1e-9


@pytest.mark.parametrize(("m", "n"), [(6, 6), (7, 12), (3, 15)])
@pytest.mark.parametrize("gap", [0.0, 0.05, 0.2])
def test_the_bound_holds_for_the_flat_pair(m: int, n: int, gap: float) -> None:
    at = sorted({abs(i / m - j / n) for i in range(m + 1) for j in range(n + 1)})
    p = 10 ** over_log10_p(np.array(at) - gap, np.full(len(at), m), np.full(len(at), n))
    assert p.min() < 0.2
    for distance, bound in zip(at, p, strict=True):
        assert bound == 1 or bound >= flat_tail(m, n, gap, distance) + flat_tail(n, m, gap, distance)


def test_p_values_move_with_the_distance_and_stay_finite() -> None:
    measured = np.linspace(0, 1, 60)
    tested = arms(list(measured), 3000, 9000)
    above, below = log10_above(tested, RULE)[:, 0], log10_below(tested, RULE)[:, 0]
    assert (np.diff(above) <= 1e-12).all()
    assert (np.diff(below) >= -1e-12).all()
    assert np.isfinite(above).all()
    assert np.isfinite(below).all()
    assert (above[measured <= 0.25] == 0).all()
    assert (below[measured >= 0.25] == 0).all()


def test_small_arms_by_brute_force() -> None:
    """Every outcome of two-valued statistics at the margin: the level holds exactly, at every level."""
    m, n, margin = 9, 12, 0.25
    rule = DecisionSpec(margin=margin)
    counts = list(itertools.product(range(m + 1), range(n + 1)))
    tested = arms([abs(a / m - b / n) for a, b in counts], m, n)
    above, below = 10 ** log10_above(tested, rule)[:, 0], 10 ** log10_below(tested, rule)[:, 0]
    for rate in np.linspace(0, 1 - margin, 16):
        chance = np.array([binom.pmf(a, m, rate + margin) * binom.pmf(b, n, rate) for a, b in counts])
        for p in (above, below):
            for level in (0.01, 0.05, 0.1, 0.3, 0.6):
                assert chance[p <= level].sum() <= level + 1e-12


def test_an_attack_on_fresh_runs_by_brute_force() -> None:
    m, n, margin = 11, 8, 0.3
    counts = list(itertools.product(range(m + 1), range(n + 1)))
    p = np.array([10 ** attack_above_log10_p(a, m, b, n, margin) for a, b in counts])
    assert p.min() < 0.05
    for rate in np.linspace(0, 1 - margin, 16):
        chance = np.array([binom.pmf(a, m, rate + margin) * binom.pmf(b, n, rate) for a, b in counts])
        for level in (0.01, 0.05, 0.1, 0.3):
            assert chance[p <= level].sum() <= level + 1e-12
    assert attack_above_log10_p(160, 200, 200, 2000, 0.3) < attack_above_log10_p(140, 200, 200, 2000, 0.3)


def exact(d: float, m: int, n: int, gap: float, rates: np.ndarray) -> float:
    """The largest over these rates, summed over every count of A."""
    a = np.arange(m + 1)
    wanted = np.ceil(n * (a / m - d) - 1e-9)
    return max(float((binom.pmf(a, m, r + gap) * binom.sf(wanted - 1, n, r)).sum()) for r in rates)


def test_the_arms_and_the_signs_are_alike() -> None:
    """Failures counted for successes: the same chance."""
    d = np.linspace(-0.1, 0.15, 11)
    one = largest_log10_tail(d, np.full(11, 40), np.full(11, 95), 0.2)
    assert one == pytest.approx(largest_log10_tail(d, np.full(11, 95), np.full(11, 40), 0.2))


@settings(deadline=None, max_examples=10)
@given(
    m=st.integers(1, 80),
    n=st.integers(1, 80),
    gap=st.floats(-0.9, 1.0).map(lambda gap: round(gap, 12)),  # SciPy's own sum overflows at 1e-308
    rate=st.floats(0, 1).map(lambda rate: round(rate, 12)),
    seed=st.integers(0, 2**32),
)
def test_any_rate_is_below_it_and_it_grows(m: int, n: int, gap: float, rate: float, seed: int) -> None:
    r = max(0.0, -gap) + rate * (min(1.0, 1 - gap) - max(0.0, -gap))
    d = np.sort(np.random.default_rng(seed).uniform(-1, 1, 6))
    got = 10 ** largest_log10_tail(d, np.full(6, m), np.full(6, n), gap)
    assert (np.diff(got) >= -1e-15).all()
    assert (got <= 1).all()
    for at, p in zip(d, got, strict=True):
        assert p >= exact(float(at), m, n, gap, np.array([min(max(r, 0.0), 1.0)])) * (1 - 1e-9) - 1e-14


def test_empty_arms_say_nothing_and_a_gap_is_at_most_one() -> None:
    assert largest_log10_tail(np.array([0.0]), np.array([0]), np.array([9]), 0.5)[0] == 0
    with pytest.raises(ValueError, match="`gap` must be in"):
        largest_log10_tail(np.array([0.0]), np.array([1]), np.array([9]), 1.5)


def test_refuses_a_level_outside_the_open_interval() -> None:
    with pytest.raises(ValueError, match=r"`level` must be in \(0, 1\)"):
        band_width(np.array([5]), np.array([5]), 1.0)
