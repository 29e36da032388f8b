"""Critical distances against a plain scan of the law, power against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

from ksdp.audit.verdicts.laws import ks_distances, log10_p
from ksdp.audit.verdicts.power import continuous_critical, critical_distance, event_power, first_true, shift_power


@pytest.mark.parametrize(("m", "n"), [(12, 12), (9, 15), (7, 40), (30, 31)])
@pytest.mark.parametrize("wanted", [-0.7, -1.3, -2.5])
def test_critical_distance_is_the_first_that_is_rare_enough(m: int, n: int, wanted: float) -> None:
    possible = sorted({abs(i * n - j * m) for i in range(m + 1) for j in range(n + 1)})
    scan = next(h for h in possible if log10_p(np.array([h]), np.array([m]), np.array([n]))[0] <= wanted)
    ours = round(critical_distance(m, n, wanted) * m * n)
    assert next(h for h in possible if h >= ours) == scan  # no attainable distance lies between
    assert critical_distance(n, m, wanted) == critical_distance(m, n, wanted)


def test_asymptotic_above_the_exact_arms_joins_on() -> None:
    below, above = critical_distance(1500, 1501, -6.0), critical_distance(1501, 1502, -6.0)
    assert above == pytest.approx(below, rel=0.01)


def test_no_distance_is_enough_for_small_arms() -> None:
    assert critical_distance(5, 5, -3.0) == math.inf
    assert critical_distance(0, 50, -1.0) == math.inf
    assert continuous_critical(5, 5, -3.0) == math.inf
    assert shift_power(0.9, 5, 5, -3.0) == 0.0
    assert event_power(0.9, 5, 5, -3.0) == 0.0


@pytest.mark.parametrize("edge", [1, 2, 17, 100, 999, 1000])
@pytest.mark.parametrize("near", [1, 16, 120, 1000, 5000])
def test_first_true(edge: int, near: int) -> None:
    assert first_true(lambda k: k >= edge, near, 1000) == edge


def test_without_a_leak_the_power_is_the_attained_level() -> None:
    """Two-sided level, of which a positive shift crosses one side."""
    for m, n in [(100, 100), (80, 300)]:
        h = round(critical_distance(m, n, -2.0) * m * n)
        attained = 10 ** float(log10_p(np.array([h]), np.array([m]), np.array([n]))[0])
        assert shift_power(0.0, m, n, -2.0) == pytest.approx(attained / 2, rel=0.03)


@pytest.mark.parametrize(("m", "n", "wanted", "advantage"), [(100, 100, -1.3, 0.19), (60, 400, -4.0, 0.35)])
def test_shift_power_agrees_with_simulation(m: int, n: int, wanted: float, advantage: float) -> None:
    rng = np.random.default_rng(5)
    inclusion = np.zeros((4000, m + n), dtype=bool)
    inclusion[:, :m] = True
    values = rng.normal(size=inclusion.shape) + 2 * ndtri((1 + advantage) / 2) * inclusion
    found = (ks_distances(values, inclusion) >= round(critical_distance(m, n, wanted) * m * n)).mean()
    assert shift_power(advantage, m, n, wanted) == pytest.approx(found, abs=0.03 + 3 * 0.5 / math.sqrt(4000))


@pytest.mark.parametrize(("m", "n", "advantage"), [(200, 200, 0.3), (100, 800, 0.35)])
def test_event_power_is_the_worst_of_all_events(m: int, n: int, advantage: float) -> None:
    wanted = -3.0
    critical = critical_distance(m, n, wanted)
    exact = []
    for rarer in np.linspace(0, 1 - advantage, 15):
        without = np.arange(n + 1)
        needed = np.ceil((critical + without / n) * m - 1e-9)
        exact.append((binom.pmf(without, n, rarer) * binom.sf(needed - 1, m, rarer + advantage)).sum())
    forecast = event_power(advantage, m, n, wanted)
    assert forecast == pytest.approx(min(exact), abs=0.04)
    assert forecast < shift_power(advantage, m, n, wanted)
