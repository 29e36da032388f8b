"""Corrections against SciPy's and against step-by-step definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from ksdp.audit.verdicts.multiplicity import adjust, bonferroni, strictest_log10_p, weighted_minimum

p_values = st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=40)


@given(p_values)
@settings(deadline=None)
def test_false_discovery_rates_equal_scipy(p: list[float]) -> None:
    ours = 10 ** adjust(np.log10(p), "fdr")
    assert ours == pytest.approx(false_discovery_control(p, method="by"), rel=1e-9)


@given(p_values, st.floats(0.001, 0.3))
@settings(deadline=None)
def test_holm_rejects_what_stepping_down_rejects(p: list[float], level: float) -> None:
    rejected = set()
    for step, row in enumerate(np.argsort(p, kind="stable")):
        if p[row] * (len(p) - step) > level * (1 + 1e-9):
            break
        rejected.add(int(row))
    ours = adjust(np.log10(p), "fwer")
    sure = {int(r) for r in np.flatnonzero(ours <= np.log10(level) - 1e-9)}
    assert sure <= rejected <= {int(r) for r in np.flatnonzero(ours <= np.log10(level) + 1e-6)}


def test_survives_numbers_that_floats_cannot_hold() -> None:
    adjusted = adjust(np.array([-1000.0, -2.0, -0.1]), "fdr")
    assert adjusted[0] < -999
    assert bonferroni(np.array([[-500.0, -1.0]]))[0] == pytest.approx(-500 + np.log10(2))


def test_the_strictest_p_is_enough_for_a_lone_document() -> None:
    for error in ("fdr", "fwer"):
        bar = strictest_log10_p(0.05, 1000, 6, error)
        lone = np.zeros(1000)
        lone[3] = bar + np.log10(6)
        assert adjust(lone, error)[3] <= np.log10(0.05) + 1e-12


def test_refuses_an_unknown_error_rate() -> None:
    with pytest.raises(ValueError, match="must be fdr or fwer"):
        adjust(np.zeros(2), "sidak")


def test_weighted_minimum_holds_its_level_whatever_the_dependence() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(40_000)
    for other in (p, 1 - p, rng.random(40_000)):
        joined = 10 ** weighted_minimum(np.log10(p), np.log10(other))
        assert (joined <= 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 / 40_000)
