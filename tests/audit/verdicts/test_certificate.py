"""Bounds on every attack: what they are made of, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from ksdp.audit.verdicts.certificates import certified_bound, knows_all_others, pair_advantage


@pytest.mark.parametrize("distance", [0.1, 0.507, 2.0, 5.0])
def test_a_pair_is_half_the_area_between_two_normals(distance: float) -> None:
    area = quad(lambda t: abs(norm.pdf(t) - norm.pdf(t - distance)), -12, 12 + distance, limit=200)[0] / 2
    assert pair_advantage(distance) == pytest.approx(area, abs=1e-7)
    assert knows_all_others(distance) == pytest.approx(area, abs=1e-7)
    assert knows_all_others(None) == 1.0


def wealth(found: np.ndarray, mean: float) -> float:
    """Of betting that values stay below a mean, in plain products."""
    stakes = [2.0**-k for k in range(1, 8)] + [1 - 2.0**-k for k in range(2, 11)]
    return float(np.mean([np.prod([1 + c * (mean - x) / (1 - mean) for x in found]) for c in stakes]))


def test_the_bound_is_where_betting_against_the_mean_has_won_enough() -> None:
    rng = np.random.default_rng(1)
    alike, near_zero = rng.uniform(0.3, 0.31, 400), np.where(rng.random(400) < 0.01, 0.05, 0.0)
    found = certified_bound(np.stack([alike, near_zero, np.ones(400)]), 0.04, 5)
    for values, bound in zip((alike, near_zero), found, strict=False):
        by_hand = brentq(lambda m, v=values: np.log(wealth(v, m)) - np.log(5 / 0.04), values.mean(), 0.9)
        assert bound == pytest.approx(by_hand, abs=1e-8)
        assert values.mean() < bound < values.mean() + 0.03
    assert found[2] == 1.0


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
