"""Noise against the exact discrete Laplace law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.discrete_laplace import Sampler, Simulated, Vetted, _opendp, law, log_law, reach


def fits(drawn: np.ndarray, expected: np.ndarray, wide: int) -> float:
    """p-value of the draws against probabilities of -wide..wide; what is further out counts as one."""
    inside = np.bincount((drawn + wide)[np.abs(drawn) <= wide], minlength=2 * wide + 1)
    counts = np.append(inside, len(drawn) - inside.sum())
    shares = np.append(expected, 1 - expected.sum())
    return float(chisquare(counts, shares * len(drawn)).pvalue)


@pytest.mark.parametrize("scale", [0.4, 1.0, 7.3])
@pytest.mark.parametrize("sampler", [Vetted(), Simulated(np.random.default_rng(3))], ids=["vetted", "simulated"])
def test_draws_follow_the_law(sampler: Sampler, scale: float) -> None:
    wide = int(3 * scale) + 1
    drawn = sampler.draw(scale, 20_000)
    assert drawn.dtype == np.int64
    assert fits(drawn, law(scale, np.arange(-wide, wide + 1)), wide) > 1e-5


@pytest.mark.parametrize("sampler", [Vetted(), Simulated(np.random.default_rng(4))], ids=["vetted", "simulated"])
def test_sums_follow_the_convolution(sampler: Sampler) -> None:
    alone = law(1.5, np.arange(-60, 61))
    three = np.convolve(np.convolve(alone, alone), alone)[180 - 10 : 180 + 11]
    assert fits(sampler.draw(1.5, 20_000, parties=3), three, 10) > 1e-5


@pytest.mark.parametrize("parties", [1, 2, 3, 7])
@pytest.mark.parametrize("scale", [0.3, 1.5, 12.0])
def test_the_law_of_a_sum_is_the_convolution(scale: float, parties: int) -> None:
    wide = int(40 * scale) + 5
    alone = law(scale, np.arange(-wide, wide + 1))
    slow = alone
    for _ in range(parties - 1):
        slow = np.convolve(slow, alone)
    middle, far = len(slow) // 2, int(10 * scale)  # further out the slow one has lost its digits
    quick = log_law(scale, np.arange(-far, far + 1), parties)
    np.testing.assert_allclose(quick, np.log(slow[middle - far : middle + far + 1]), atol=1e-9)


def test_the_law_of_a_sum_holds_for_very_much_noise() -> None:
    """As an integral: a sum of three laws of scale 10^7 has a density; steps of 10^4 are fine enough."""
    numbers = np.arange(-(10**9), 10**9, 10**4)
    densities = np.exp(log_law(1e7, numbers, 3))
    assert densities.sum() * 1e4 == pytest.approx(1.0, abs=1e-6)
    assert (densities * (numbers / 1e7) ** 2).sum() * 1e4 == pytest.approx(3 * 2.0, rel=1e-4)


def test_the_law_is_a_law_and_epsilon_private() -> None:
    near = law(5.0, np.arange(-500, 501))
    assert near.sum() == pytest.approx(1.0, abs=1e-12)
    variance = float((near * np.arange(-500, 501) ** 2).sum())
    q = np.exp(-1 / 5.0)
    assert variance == pytest.approx(2 * q / (1 - q) ** 2)
    ratio = np.abs(np.log(near[3:-3] / law(5.0, np.arange(-497, 498) + 3)))
    assert ratio.max() == pytest.approx(3 / 5.0)  # a shift of 3 costs 3 / scale


def test_opendp_grants_the_epsilon_that_we_claim() -> None:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    assert dp.m.make_laplace(*space, scale=16 / 0.25).map(16) == pytest.approx(0.25)


def test_no_noise_for_scale_zero_or_nobody() -> None:
    for sampler in (Vetted(), Simulated(np.random.default_rng(0))):
        assert sampler.draw(0.0, 5).tolist() == [0] * 5
        assert sampler.draw(2.0, 5, parties=0).tolist() == [0] * 5


def test_reach_is_passed_as_rarely_as_it_says() -> None:
    drawn = Simulated(np.random.default_rng(5)).draw(50.0, 200_000, parties=2)
    limit = reach(50.0, 1, 2, chance=1e-3)
    assert (np.abs(drawn) > limit).mean() <= 1e-3
    assert reach(50.0, 1000, 2) > limit
    assert reach(0.0, 10, 2) == 0


def test_every_sampler_says_which_it_is() -> None:
    assert "OpenDP" in Vetted().label
    assert "simulation" in Simulated(np.random.default_rng(0)).label


@pytest.mark.parametrize("scale", [-1.0, np.nan, np.inf])
def test_refused(scale: float) -> None:
    with pytest.raises(InputError, match="scale"):
        Vetted().draw(scale, 1)
