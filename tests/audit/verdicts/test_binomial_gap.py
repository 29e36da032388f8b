"""The largest tail of a difference of two shares, beside a slow sum over all counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from ksdp.audit.verdicts.margins import hoeffding_log10_p, largest_log10_tail, spread


def exact(d: float, m: int, n: int, gap: float, rates: np.ndarray) -> float:
    """The largest over these rates, summed over every count of A."""
    a = np.arange(m + 1)
    wanted = np.ceil(n * (a / m - d) - 1e-9)
    return max(float((binom.pmf(a, m, r + gap) * binom.sf(wanted - 1, n, r)).sum()) for r in rates)


def slow(d: float, m: int, n: int, gap: float) -> float:
    return exact(d, m, n, gap, np.linspace(max(0, -gap), min(1, 1 - gap), 301))


def fast(d: list[float], m: int, n: int, gap: float) -> np.ndarray:
    return 10 ** largest_log10_tail(np.array(d), np.full(len(d), m), np.full(len(d), n), gap)


@pytest.mark.parametrize(
    ("m", "n", "gap"),
    [(60, 90, 0.2), (90, 60, 0.2), (20, 700, 0.3), (150, 150, -0.25), (7, 5, 0.6), (400, 300, 0.1)],
)
def test_never_below_the_supremum_and_close_to_it(m: int, n: int, gap: float) -> None:
    """It is between the supremum and that of a gap, and a distance, that are off by a grid's cell."""
    cell = float(spread(np.array(m), np.array(n))) / 16
    measured = [gap - z * 16 * cell for z in (0.5, 1.5, 2.5, 4.0)]
    for d, got in zip(measured, fast(measured, m, n, gap), strict=True):
        assert got >= slow(d, m, n, gap) * (1 - 1e-9)
        if got < 0.2:
            step = max(cell, 1 / max(m, n))
            assert got <= slow(d + step, m, n, gap - cell) * (1 + 1e-6) + 1e-10


def test_the_arms_and_the_signs_are_alike() -> None:
    """Failures counted for successes: the same chance."""
    d = np.linspace(-0.1, 0.15, 11)
    one = largest_log10_tail(d, np.full(11, 40), np.full(11, 95), 0.2)
    assert one == pytest.approx(largest_log10_tail(d, np.full(11, 95), np.full(11, 40), 0.2))


@settings(deadline=None, max_examples=25)
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
    got = fast(list(d), m, n, gap)
    assert (np.diff(got) >= -1e-15).all()
    assert (got <= 1).all()
    for at, p in zip(d, got, strict=True):
        assert p >= exact(float(at), m, n, gap, np.array([min(max(r, 0.0), 1.0)])) * (1 - 1e-9) - 1e-14


def test_deep_tails_are_hoeffdings() -> None:
    m, n = np.array([5000]), np.array([9000])
    deep = largest_log10_tail(np.array([0.1]), m, n, 0.3)
    assert deep == pytest.approx(hoeffding_log10_p(np.array([0.2]), m, n))
    assert deep[0] < -50


def test_empty_arms_say_nothing_and_a_gap_is_at_most_one() -> None:
    assert largest_log10_tail(np.array([0.0]), np.array([0]), np.array([9]), 0.5)[0] == 0
    with pytest.raises(ValueError, match="`gap` must be in"):
        largest_log10_tail(np.array([0.0]), np.array([1]), np.array([9]), 1.5)
