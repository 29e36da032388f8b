"""Two normal samples: the bound covers, and the power it promises is the power it has."""

from __future__ import annotations

import dp_accounting
import numpy as np
import pytest

from ksdp.audit.verdicts.effects import gaussian_epsilon_low, refutable_factor, spread_differs


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
