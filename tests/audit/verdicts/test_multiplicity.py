"""Corrections against SciPy's and against step-by-step definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import false_discovery_control

from ksdp.audit.verdicts.multiplicity import (
    adjust,
    adjust_e,
    bonferroni,
    e_from_p,
    p_from_e,
    strictest_log10_p,
    weighted_minimum,
)

p_values = st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=40)


@given(p_values, st.sampled_from(["by", "bh"]))
@settings(deadline=None)
def test_false_discovery_rates_equal_scipy(p: list[float], procedure: str) -> None:
    ours = 10 ** adjust(np.log10(p), procedure)
    assert ours == pytest.approx(false_discovery_control(p, method=procedure), rel=1e-9)


@given(p_values, st.floats(0.001, 0.3))
@settings(deadline=None)
def test_holm_rejects_what_stepping_down_rejects(p: list[float], level: float) -> None:
    rejected = set()
    for step, row in enumerate(np.argsort(p, kind="stable")):
        if p[row] * (len(p) - step) > level * (1 + 1e-9):
            break
        rejected.add(int(row))
    ours = adjust(np.log10(p), "holm")
    sure = {int(r) for r in np.flatnonzero(ours <= np.log10(level) - 1e-9)}
    assert sure <= rejected <= {int(r) for r in np.flatnonzero(ours <= np.log10(level) + 1e-6)}


def test_survives_numbers_that_floats_cannot_hold() -> None:
    adjusted = adjust(np.array([-1000.0, -2.0, -0.1]), "by")
    assert adjusted[0] < -999
    assert bonferroni(np.array([[-500.0, -1.0]]))[0] == pytest.approx(-500 + np.log10(2))


def test_the_strictest_p_is_enough_for_a_lone_document() -> None:
    for procedure in ("by", "bh", "holm", "e-bh"):
        bar = strictest_log10_p(0.05, 1000, 6, procedure)
        lone = np.zeros(1000)
        lone[3] = bar + np.log10(6)
        assert adjust(lone, procedure)[3] <= np.log10(0.05) + 1e-12


def test_refuses_an_unknown_procedure() -> None:
    with pytest.raises(ValueError, match="must be one of by, bh, holm, e-bh"):
        adjust(np.zeros(2), "sidak")


def test_weighted_minimum_holds_its_level_whatever_the_dependence() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(40_000)
    for other in (p, 1 - p, rng.random(40_000)):
        joined = 10 ** weighted_minimum(np.log10(p), np.log10(other), 0.3)
        assert (joined <= 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 / 40_000)
    with pytest.raises(ValueError, match="`share` must be in"):
        weighted_minimum(np.zeros(1), np.zeros(1), 1.0)


@pytest.mark.parametrize("p", [1e-12, 1e-4, 0.03, 0.5, 0.99, 0.9995, 1.0])
def test_calibrator_is_the_integral_that_defines_it(p: float) -> None:
    integral = quad(lambda k: k * p ** (k - 1), 0, 1, epsabs=0, epsrel=1e-11, limit=400)[0]
    assert 10 ** e_from_p(np.log10([p]))[0] == pytest.approx(integral, rel=1e-6)


def test_calibrated_values_have_expectation_one() -> None:
    mean = quad(lambda x: float(np.exp(np.log(10) * e_from_p(np.array([-x / np.log(10)]))[0] - x)), 0, np.inf)[0]
    # The tail of the integral falls like 1 / x^2 only: what is left beyond 10^4 is 10^-4.
    assert mean == pytest.approx(1, abs=2e-3)
    assert np.isfinite(e_from_p(np.array([-5000.0]))[0])


@given(st.floats(-320, 0))
@settings(deadline=None)
def test_the_inverse_of_the_calibrator(log10_p: float) -> None:
    log10_e = float(e_from_p(np.array([log10_p]))[0])
    back = p_from_e(log10_e)
    assert back == pytest.approx(log10_p, rel=1e-11, abs=1e-9)
    assert e_from_p(np.array([back]))[0] >= log10_e
    assert p_from_e(-0.5) == 0.0


@given(p_values)
@settings(deadline=None)
def test_e_bh_on_p_values_is_calibration_then_e_bh(p: list[float]) -> None:
    log10_p = np.log10(p)
    assert adjust(log10_p, "e-bh").tolist() == adjust_e(e_from_p(log10_p)).tolist()
    assert (adjust(log10_p, "e-bh") >= adjust(log10_p, "bh") - 1e-12).all()


@pytest.mark.parametrize("level", [0.001, 0.05, 0.2])
@pytest.mark.parametrize("documents", [1, 7, 1000])
def test_the_strictest_p_of_e_bh_is_the_edge(level: float, documents: int) -> None:
    bar = strictest_log10_p(level, documents, 1, "e-bh")
    lone = np.zeros(documents)
    lone[0] = bar
    assert adjust(lone, "e-bh")[0] <= np.log10(level) + 1e-12
    lone[0] = bar + 1e-8
    assert adjust(lone, "e-bh")[0] > np.log10(level)


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=40), st.floats(0.001, 0.3))
@settings(deadline=None)
def test_e_bh_rejects_what_its_definition_rejects(e: list[float], level: float) -> None:
    ordered = np.sort(e)[::-1]
    largest = max([0, *(k for k in range(1, len(e) + 1) if k * ordered[k - 1] / len(e) * level >= 1)])
    rejected = int((adjust_e(np.log10(e)) <= np.log10(level) + 1e-12).sum())
    ties = int((np.array(e) >= ordered[largest - 1]).sum()) if largest else 0
    assert rejected in {largest, ties}


def test_evidence_of_two_audits_adds_up() -> None:
    rng = np.random.default_rng(2)
    p = np.concatenate([rng.random((2, 990)), np.full((2, 10), 1e-6)], axis=1)
    once = adjust_e(e_from_p(np.log10(p[0])))
    twice = adjust_e(e_from_p(np.log10(p)).sum(axis=0))
    assert (twice[-10:] <= np.log10(0.05)).all()
    assert (twice[:990] > np.log10(0.05)).all()
    assert twice[-1] < once[-1] - 2
