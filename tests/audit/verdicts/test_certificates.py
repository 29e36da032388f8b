"""Bounds on every attack: what they are made of, and what they refuse."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from ksdp.audit.verdicts.certificates import (
    certified_bound,
    knows_all_others,
    pair_advantage,
    told_by_count,
    told_by_independent_count,
)
from ksdp.audit.verdicts.effects import gaussian_epsilon_low, refutable_factor, spread_differs


@pytest.mark.parametrize("distance", [0.1, 0.507, 2.0, 5.0])
def test_a_pair_is_half_the_area_between_two_normals(distance: float) -> None:
    area = quad(lambda t: abs(norm.pdf(t) - norm.pdf(t - distance)), -12, 12 + distance, limit=200)[0] / 2
    assert pair_advantage(distance) == pytest.approx(area, abs=1e-7)
    assert knows_all_others(distance) == pytest.approx(area, abs=1e-7)
    assert knows_all_others(None) == 1.0


def test_the_bound_depends_on_the_pairs_and_not_on_their_order_or_on_the_other_documents() -> None:
    values = np.random.default_rng(2).beta(1, 9, (7, 50))
    found = certified_bound(values, 0.05, 7)
    np.testing.assert_allclose(certified_bound(values[:, ::-1], 0.05, 7), found)
    np.testing.assert_allclose(certified_bound(values[3:4], 0.05, 7), found[3:4])
    assert (certified_bound(values, 0.01, 7) > found).all()
    assert (certified_bound(values, 0.05, 70) > found).all()


def test_refusals() -> None:
    for call, message in (
        (lambda: certified_bound(np.zeros((2, 0)), 0.05, 2), "a pair"),
        (lambda: certified_bound(np.full((1, 5), 1.1), 0.05, 1), "in \\[0, 1\\]"),
        (lambda: certified_bound(np.full((1, 5), np.nan), 0.05, 1), "in \\[0, 1\\]"),
        (lambda: certified_bound(np.zeros((3, 5)), 0.05, 2), "at least 3"),
        (lambda: certified_bound(np.zeros((3, 5)), 1.0, 3), "`level`"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def samples(rng: np.random.Generator, mu: float, runs: int, factor: float = 1.0) -> np.ndarray:
    """Likelihood ratios of mu-GDP, whose noise is really a share of what it says."""
    return np.array([[1], [-1]]) * mu**2 / 2 + factor * mu * rng.normal(size=(2, runs))


@pytest.mark.parametrize(("mu", "runs"), [(0.3, 40), (0.3, 400), (2.0, 100)])
def test_the_bound_is_above_the_truth_as_seldom_as_it_says(mu: float, runs: int) -> None:
    rng = np.random.default_rng(1)
    truth = float(dp_accounting.get_epsilon_gaussian(1 / mu, 1e-5))
    above = np.mean([gaussian_epsilon_low(samples(rng, mu, runs), 0.8, 1e-5) > truth for _ in range(300)])
    # Exact, so neither more nor much less.
    assert 0.2 - 0.07 <= above <= 0.2 + 0.07


def test_the_promised_factor_is_refuted_nine_times_in_ten() -> None:
    rng = np.random.default_rng(2)
    sigma = float(dp_accounting.get_sigma_gaussian(1.0, 1e-5))
    factor = refutable_factor(1.0, 1e-5, 500, 0.95)
    assert factor is not None
    found = [gaussian_epsilon_low(samples(rng, 1 / sigma, 500, factor), 0.95, 1e-5) > 1 for _ in range(300)]
    assert 0.83 <= np.mean(found) <= 0.96
    assert refutable_factor(1.0, 1e-5, 20, 0.95) < factor < refutable_factor(1.0, 1e-5, 5000, 0.95)


def test_nothing_is_proved_where_nothing_differs_and_spreads_are_compared() -> None:
    rng = np.random.default_rng(3)
    assert gaussian_epsilon_low(np.zeros((2, 30)), 0.95, 1e-5) == 0
    assert gaussian_epsilon_low(-samples(rng, 1.0, 30), 0.95, 1e-5) == 0
    even = samples(rng, 1.0, 2000)
    assert not spread_differs(even)
    assert spread_differs(even * [[1.0], [1.3]])


def variation(held: Counter[int], left_out: Counter[int]) -> Fraction:
    """Between the laws of the number of copies in a run, by counting runs."""
    both = [Fraction(1, sum(arm.values())) for arm in (held, left_out)]
    return sum((abs(held[c] * both[0] - left_out[c] * both[1]) for c in {*held, *left_out}), Fraction(0)) / 2


@settings(deadline=None)
@given(st.data())
def test_the_bound_is_the_variation_over_all_databases(data: st.DataObject) -> None:
    documents = data.draw(st.integers(2, 9))
    copies, size = data.draw(st.integers(1, documents)), data.draw(st.integers(1, documents - 1))
    # Documents 0 to copies - 1 are the same; 0 is at stake.
    arms = Counter[int](), Counter[int]()
    for run in combinations(range(documents), size):
        arms[0 not in run][sum(one < copies for one in run)] += 1
    assert told_by_count(copies, documents, size) == pytest.approx(float(variation(*arms)), abs=1e-12)


@pytest.mark.parametrize("copies", [1, 2, 5])
@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(1, 2), Fraction(4, 5)])
def test_the_bound_of_independent_draws_is_the_variation_over_all_databases(copies: int, share: Fraction) -> None:
    others: dict[int, Fraction] = {}
    for run in product((0, 1), repeat=copies - 1):
        likely = np.prod([share if one else 1 - share for one in run], initial=Fraction(1))
        others[sum(run)] = others.get(sum(run), Fraction(0)) + likely
    truth = sum(abs(others.get(c - 1, Fraction(0)) - others.get(c, Fraction(0))) for c in range(copies + 1)) / 2
    assert told_by_independent_count(copies, float(share)) == pytest.approx(float(truth), abs=1e-12)


def test_many_copies_hide_each_other_and_one_document_is_not_hidden() -> None:
    bounds = [told_by_count(copies, 17_706, 531) for copies in (1, 2, 10, 100, 188, 800)]
    assert bounds[0] == pytest.approx(1.0, abs=1e-12)
    assert np.all(np.diff(bounds) < 0)
    assert bounds[4] < 0.2
    apart = [told_by_independent_count(copies, 0.03) for copies in (1, 2, 10, 100, 188, 800)]
    np.testing.assert_allclose(apart, bounds, atol=0.01)
