"""Spending functions, looks, and the band for every moment."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from ksdp.audit.verdicts.bands import band_width
from ksdp.audit.verdicts.sequential import anytime_band_width, look_levels, spent

fractions = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=12, unique=True).map(sorted)


@given(fractions, st.floats(0.001, 0.5), st.sampled_from(["obrien-fleming", "pocock"]))
@settings(deadline=None)
def test_looks_spend_the_level_and_no_more(done: list[float], level: float, spending: str) -> None:
    levels = look_levels(done, level, spending)
    assert (levels >= 0).all()
    assert levels.sum() == pytest.approx(float(spent(done[-1], level, spending)))
    assert levels.sum() <= level * (1 + 1e-12)
    if done[-1] == 1.0:
        assert levels.sum() == pytest.approx(level)


def test_spending_functions_by_their_definitions() -> None:
    for t in (0.1, 0.5, 0.9, 1.0):
        assert spent(t, 0.05) == pytest.approx(2 - 2 * norm.cdf(norm.ppf(0.975) / math.sqrt(t)))
        assert spent(t, 0.05, "pocock") == pytest.approx(0.05 * math.log(1 + (math.e - 1) * t))
    assert spent(np.array([0.0, 0.0]), 0.05).tolist() == [0, 0]
    assert (spent(0.3, 0.05) < spent(0.3, 0.05, "pocock")).all()


def test_looking_keeps_the_level() -> None:
    """A hundred documents without a leak, five looks at a growing table."""
    from ksdp.audit.verdicts.ks import ks_table

    rng = np.random.default_rng(1)
    values, inclusion = rng.normal(size=(3000, 200)), rng.random((3000, 200)) < 0.4
    done = [0.2, 0.4, 0.6, 0.8, 1.0]
    for spending in ("obrien-fleming", "pocock"):
        rejected = np.zeros(3000, dtype=bool)
        for part, level in zip(done, look_levels(done, 0.2, spending), strict=True):
            runs = round(200 * part)
            rejected |= ks_table(values[:, :runs], inclusion[:, :runs]).log10_p <= math.log10(level)
        assert rejected.mean() <= 0.2 + 3 * math.sqrt(0.16 / 3000)


def test_band_is_the_published_one() -> None:
    n = np.array([100, 5000])
    each = [0.85 * math.sqrt((math.log(math.log(math.e * t / 32)) + 0.8 * math.log(1612 / 0.025)) / t) for t in n]
    assert anytime_band_width(n, n, 0.05) == pytest.approx(2 * np.array(each))
    assert (anytime_band_width(n, n, 0.05) > band_width(n, n, 0.05)).all()
    assert anytime_band_width(np.array([31]), np.array([500]), 0.05)[0] == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: look_levels([], 0.05), "`fractions` must ascend in (0, 1]."),
        (lambda: look_levels([0.5, 0.5], 0.05), "`fractions` must ascend in (0, 1]."),
        (lambda: look_levels([0.5, 1.1], 0.05), "`fractions` must ascend in (0, 1]."),
        (lambda: look_levels([1.0], 0.0), "`level` must be in (0, 1); got 0.0."),
        (lambda: spent(1.5, 0.05), "`fraction` must be in [0, 1]."),
        (lambda: spent(0.5, 0.05, "evenly"), "`spending` must be obrien-fleming or pocock; got 'evenly'."),
        (lambda: anytime_band_width(np.array([9]), np.array([9]), 2.0), "`level` must be in (0, 1); got 2.0."),
        (lambda: anytime_band_width(np.array([9]), np.array([9]), 0.1, 0), "`first` must be at least 1; got 0."),
    ],
)
def test_refusals(call, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
