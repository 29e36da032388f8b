"""Distances and p-values of all documents against SciPy's, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from ksdp.audit.verdicts.laws import ks_distances, ks_table


def table_of(seed: int, documents: int, runs: int, share: float, decimals: int | None, dtype: str = "float32"):
    rng = np.random.default_rng(seed)
    inclusion = rng.random((documents, runs)) < share
    values = rng.normal(size=(documents, runs)) + rng.uniform(0, 2, size=(documents, 1)) * inclusion
    if decimals is not None:
        values = values.round(decimals)
    return values.astype(dtype), inclusion


@pytest.mark.parametrize("share", [0.03, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equals_scipy_without_ties(share: float, dtype: str) -> None:
    values, inclusion = table_of(1, 30, 900, share, None, dtype)
    table = ks_table(values, inclusion)
    for row in range(len(values)):
        result = ks_2samp(values[row][inclusion[row]], values[row][~inclusion[row]], method="exact")
        assert table.distance[row] == pytest.approx(result.statistic, abs=1e-12)
        assert table.log10_p[row] == pytest.approx(np.log10(result.pvalue), abs=1e-9)


@given(st.integers(0, 10_000), st.integers(0, 1), st.floats(0.1, 0.9))
@settings(max_examples=60, deadline=None)
def test_distance_equals_scipy_with_ties(seed: int, decimals: int, share: float) -> None:
    values, inclusion = table_of(seed, 4, 60, share, decimals)
    h = ks_distances(values, inclusion)
    for row in range(len(values)):
        with_, without = values[row][inclusion[row]], values[row][~inclusion[row]]
        if len(with_) and len(without):
            result = ks_2samp(with_, without)
            assert h[row] / (len(with_) * len(without)) == pytest.approx(result.statistic, abs=1e-12)


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_monotone_maps_and_swapped_arms_change_nothing(seed: int) -> None:
    values, inclusion = table_of(seed, 3, 80, 0.4, 1, "float64")
    h = ks_distances(values, inclusion)
    assert (ks_distances(np.exp(values), inclusion) == h).all()
    assert (ks_distances(-values, inclusion) == h).all()
    assert (ks_distances(values, ~inclusion) == h).all()


def test_ties_make_p_conservative() -> None:
    """On coin flips that ignore inclusion, p <= a happens with probability at most a."""
    rng = np.random.default_rng(3)
    values = (rng.random((4000, 100)) < 0.3).astype(np.float32)
    inclusion = rng.random((4000, 100)) < 0.5
    p = 10 ** ks_table(values, inclusion).log10_p
    for level in (0.01, 0.05, 0.2):
        assert (p <= level).mean() <= level + 3 * np.sqrt(level / len(p))


def test_an_empty_arm_says_nothing() -> None:
    table = ks_table(np.ones((1, 5), np.float32), np.zeros((1, 5), bool))
    assert np.isnan(table.distance[0])
    assert table.log10_p[0] == 0.0


def test_refuses_nan_and_wrong_shapes() -> None:
    inclusion = np.array([[True, False]])
    with pytest.raises(ValueError, match="must not hold NaN"):
        ks_distances(np.array([[np.nan, 1.0]]), inclusion)
    with pytest.raises(ValueError, match="must have the same shape"):
        ks_distances(np.ones((1, 3)), inclusion)
