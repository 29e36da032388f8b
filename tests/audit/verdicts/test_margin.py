"""Above the margin, below it: p-values against integrals, brute force and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from ksdp.audit.spec import DecisionSpec
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.audit.verdicts.ks import ks_table
from ksdp.audit.verdicts.margin import (
    attack_above_log10_p,
    log10_above,
    log10_below,
    sum_of_suprema_log10_p,
)

RULE = DecisionSpec(margin=0.25)


def arms(distance: list[float], m: int, n: int, *, learned: bool = False) -> ArmTests:
    table = np.array(distance)[:, None]
    held, free = np.full(table.shape, m), np.full(table.shape, n)
    nothing = np.zeros(table.shape)
    return ArmTests(held, free, table, nothing, nothing, learned=np.full(table.shape, learned))


def tail_of_the_sum(t: float, m: int, n: int) -> float:
    """2 P(X + Y >= t) by numerical integration."""
    x0, y0 = math.sqrt(math.log(2) / (2 * m)), math.sqrt(math.log(2) / (2 * n))

    def second(y: float) -> float:
        return 1.0 if y <= y0 else math.exp(-2 * n * y * y)

    inside = quad(lambda x: 4 * m * x * math.exp(-2 * m * x * x) * second(t - x), x0, t - y0)[0]
    return min(1.0, 2 * (0.5 * second(t - x0) + inside + math.exp(-2 * m * (t - y0) ** 2)))


@pytest.mark.parametrize(("t", "m", "n"), [(0.12, 900, 700), (0.3, 50, 60), (0.05, 5000, 4000), (0.2, 200, 6500)])
def test_the_closed_form_is_the_integral(t: float, m: int, n: int) -> None:
    got = sum_of_suprema_log10_p(np.array([t]), np.array([m]), np.array([n]))[0]
    assert got == pytest.approx(math.log10(tail_of_the_sum(t, m, n)), abs=1e-6)


def test_p_values_move_with_the_distance_and_stay_finite() -> None:
    measured = np.linspace(0, 1, 60)
    tested = arms(list(measured), 3000, 9000)
    above, below = log10_above(tested, RULE)[:, 0], log10_below(tested, RULE)[:, 0]
    assert (np.diff(above) <= 1e-12).all()
    assert (np.diff(below) >= -1e-12).all()
    assert np.isfinite(above).all()
    assert np.isfinite(below).all()
    assert (above[measured <= 0.25] == 0).all()
    assert (below[measured >= 0.25] == 0).all()


def test_small_arms_by_brute_force() -> None:
    """Every outcome of two-valued statistics at the margin: the level holds exactly, at every level."""
    m, n, margin = 9, 12, 0.25
    rule = DecisionSpec(margin=margin)
    counts = list(itertools.product(range(m + 1), range(n + 1)))
    tested = arms([abs(a / m - b / n) for a, b in counts], m, n)
    above, below = 10 ** log10_above(tested, rule)[:, 0], 10 ** log10_below(tested, rule)[:, 0]
    for rate in np.linspace(0, 1 - margin, 16):
        chance = np.array([binom.pmf(a, m, rate + margin) * binom.pmf(b, n, rate) for a, b in counts])
        for p in (above, below):
            for level in (0.01, 0.05, 0.1, 0.3, 0.6):
                assert chance[p <= level].sum() <= level + 1e-12


def test_an_attack_on_fresh_runs_by_brute_force() -> None:
    m, n, margin = 11, 8, 0.3
    counts = list(itertools.product(range(m + 1), range(n + 1)))
    p = np.array([10 ** attack_above_log10_p(a, m, b, n, margin) for a, b in counts])
    assert p.min() < 0.05
    for rate in np.linspace(0, 1 - margin, 16):
        chance = np.array([binom.pmf(a, m, rate + margin) * binom.pmf(b, n, rate) for a, b in counts])
        for level in (0.01, 0.05, 0.1, 0.3):
            assert chance[p <= level].sum() <= level + 1e-12
    assert attack_above_log10_p(160, 200, 200, 2000, 0.3) < attack_above_log10_p(140, 200, 200, 2000, 0.3)


def test_learned_columns_have_hoeffdings_bound() -> None:
    tested = arms([0.05, 0.45], 300, 900, learned=True)
    effective = 300 * 900 / 1200
    wanted = -2 * effective * 0.2**2 / math.log(10)
    assert log10_below(tested, RULE)[0, 0] == pytest.approx(wanted)
    assert log10_above(tested, RULE)[1, 0] == pytest.approx(wanted)
    assert log10_below(tested, RULE)[1, 0] == log10_above(tested, RULE)[0, 0] == 0


def test_margin_zero_asks_for_any_leak() -> None:
    rng = np.random.default_rng(3)
    bits = rng.random((1, 600)) < 0.5
    table = ks_table(rng.normal(size=(1, 600)) + 0.5 * bits, bits)
    cells = [np.asarray(part)[:, None] for part in (table.n_with, table.n_without, table.distance, table.log10_p)]
    tested = ArmTests(*cells, np.zeros((1, 1)))
    rule = DecisionSpec(margin=0)
    assert log10_above(tested, rule) == pytest.approx(tested.log10_p)
    assert log10_below(tested, rule)[0, 0] == 0


@pytest.mark.parametrize("stopping", ["planned", "anytime"])
def test_an_empty_arm_proves_nothing(stopping: str) -> None:
    rule = DecisionSpec(margin=0.25, stopping=stopping)
    tested = arms([math.nan], 0, 900)
    assert log10_above(tested, rule)[0, 0] == log10_below(tested, rule)[0, 0] == 0


def test_at_any_moment_costs_more() -> None:
    always = DecisionSpec(margin=0.25, stopping="anytime")
    tested = arms([0.02, 0.6], 2000, 2000)
    assert log10_below(tested, RULE)[0, 0] < log10_below(tested, always)[0, 0] < -1
    assert log10_above(tested, RULE)[1, 0] < log10_above(tested, always)[1, 0] < -1
