"""Bounds on every attack: what they are made of, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from ksdp.audit.verdicts.certificate import certified_bound, knows_all_others, pair_advantage


@pytest.mark.parametrize("distance", [0.1, 0.507, 2.0, 5.0])
def test_a_pair_is_half_the_area_between_two_normals(distance: float) -> None:
    area = quad(lambda t: abs(norm.pdf(t) - norm.pdf(t - distance)), -12, 12 + distance, limit=200)[0] / 2
    assert pair_advantage(distance) == pytest.approx(area, abs=1e-7)
    assert knows_all_others(distance) == pytest.approx(area, abs=1e-7)
    assert knows_all_others(None) == 1.0


def test_the_bound_is_the_smaller_of_two_by_hand() -> None:
    rng = np.random.default_rng(1)
    alike, near_zero = rng.uniform(0.3, 0.31, 400), np.where(rng.random(400) < 0.01, 0.05, 0.0)
    found = certified_bound(np.stack([alike, near_zero]), 0.04, 5)
    each = 0.04 / 5 / 2
    spread = np.sqrt(2 * alike.var(ddof=1) * np.log(2 / each) / 400)
    assert found[0] == pytest.approx(alike.mean() + spread + 7 * np.log(2 / each) / (3 * 399))

    def short(u: float) -> float:
        m = near_zero.mean()
        return m * np.log(m / u) + (1 - m) * np.log((1 - m) / (1 - u)) - np.log(1 / each) / 400

    assert found[1] == pytest.approx(brentq(short, near_zero.mean() + 1e-12, 1 - 1e-9), abs=1e-9)
    assert (found > [alike.mean(), near_zero.mean()]).all()
    assert certified_bound(np.ones((1, 50)), 0.05, 1)[0] == 1.0


def test_refusals() -> None:
    for call, message in (
        (lambda: certified_bound(np.zeros((2, 1)), 0.05, 2), "two pairs"),
        (lambda: certified_bound(np.full((1, 5), 1.1), 0.05, 1), "in \\[0, 1\\]"),
        (lambda: certified_bound(np.full((1, 5), np.nan), 0.05, 1), "in \\[0, 1\\]"),
        (lambda: certified_bound(np.zeros((3, 5)), 0.05, 2), "at least 3"),
        (lambda: certified_bound(np.zeros((3, 5)), 1.0, 3), "`level`"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
