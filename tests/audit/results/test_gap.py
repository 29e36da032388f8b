"""The widest gap of two curves, against SciPy's distance and a reading at every value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from ksdp.audit.verdicts.laws import widest_gap

ARM = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30)


@pytest.mark.filterwarnings("ignore::RuntimeWarning:scipy")  # about its p-value, which is not used
@settings(max_examples=80, deadline=None)
@given(ARM, ARM)
def test_it_is_the_distance_and_lies_where_it_says(one: list[float], other: list[float]) -> None:
    gap = widest_gap(np.array(one), np.array(other))
    assert gap is not None
    assert gap.distance == pytest.approx(ks_2samp(one, other, method="asymp").statistic, abs=1e-12)
    assert gap.share_with == sum(value <= gap.place for value in one) / len(one)
    assert gap.share_without == sum(value <= gap.place for value in other) / len(other)


def test_an_empty_arm_has_none() -> None:
    assert widest_gap(np.array([]), np.array([1.0])) is None
    assert widest_gap(np.array([1.0]), np.array([])) is None
