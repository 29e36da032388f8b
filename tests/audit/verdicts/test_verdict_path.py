"""From values to verdicts in exact small cases: fast enough to run against every mutant of the verdict path.

Each expectation is written out by hand, by enumeration or by SciPy; nothing here needs a compiled kernel.
"""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, binomtest, hypergeom, norm

from ksdp.audit.plan import CONTROLS, NULL_CONTROLS
from ksdp.audit.proofs import _exchanged, certify
from ksdp.audit.results.summarise import bound_summary, void_where_contradicted
from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.testing import canary_arms, compare_arms, judge_controls, shuffled_log10_p
from ksdp.audit.verdicts.certificates import STAKES, certified_bound, pair_advantage
from ksdp.audit.verdicts.control_outcome import Controls
from ksdp.audit.verdicts.controls import judge_canaries
from ksdp.audit.verdicts.decide import decide, flagged_by
from ksdp.audit.verdicts.effects import Attack, best_threshold, epsilon_lower_bound, measure_effect, tpr_at_fpr
from ksdp.audit.verdicts.laws import ArmTests, ks_table
from ksdp.audit.verdicts.looks import (
    InterimVerdicts,
    Look,
    LookScope,
    after_certificate,
    after_fresh,
    after_look,
    for_fresh_runs,
    open_documents,
)
from ksdp.audit.verdicts.margins import (
    attack_above_log10_p,
    band_width,
    distance_band,
    hoeffding_log10_p,
    largest_log10_tail,
    log10_above,
    log10_below,
    over_log10_p,
)
from ksdp.audit.verdicts.multiplicity import adjust, bonferroni, strictest_log10_p, weighted_minimum
from ksdp.audit.verdicts.power import critical_distance, detectable_distance, sensitive_distance, smallest_margin
from ksdp.audit.verdicts.tails import tail_sizes, tail_table
from ksdp.audit.verdicts.ties import tied_table

FWER = DecisionSpec(margin=0.3, error="fwer")
ANY_LEAK = DecisionSpec(margin=0, error="fwer")


def arms(distance: list[list[float]], p: list[list[float]], each: int = 100_000) -> ArmTests:
    table = np.array(distance, dtype=float)
    sizes = np.full(table.shape, each)
    return ArmTests(sizes, sizes.copy(), table, np.log10(np.array(p)), np.zeros(table.shape))


# Several tests, several documents


def test_corrections_by_hand() -> None:
    p = np.log10([0.01, 0.04, 0.03, 0.5])
    assert 10 ** adjust(p, "fwer") == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert 10 ** adjust(p[::-1], "fwer") == pytest.approx([0.5, 0.09, 0.09, 0.04])
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4
    assert 10 ** adjust(p, "fdr") == pytest.approx(
        [0.04 * harmonic, 0.16 / 3 * harmonic, 0.16 / 3 * harmonic, 1.0]
    )
    assert 10 ** bonferroni(np.log10([[0.01, 0.5, 0.2], [0.9, 0.8, 0.7]])) == pytest.approx([0.03, 1.0])
    both = weighted_minimum(np.log10([0.04, 0.5, 0.9]), np.log10([0.5, 0.001, 0.9]))
    assert 10**both == pytest.approx([0.05, 0.005, 1.0])


def test_a_test_is_of_the_distance_and_of_the_tails() -> None:
    rng = np.random.default_rng(11)
    bits = rng.random((3, 120)) < 0.4
    values = {"a": rng.normal(size=bits.shape) + bits, "b": rng.integers(0, 3, bits.shape).astype(float)}
    tests = compare_arms(values, bits)
    for column, array in enumerate(values.values()):
        table, tail = ks_table(array, bits), tail_table(array, bits).log10_p
        distance = tied_table(array, bits, table)
        expected = np.minimum(np.minimum(10**distance / 0.8, 10**tail / 0.2), 1)
        assert 10 ** tests.log10_p[:, column] == pytest.approx(expected)
        assert tests.log10_tail[:, column] == pytest.approx(tail)
        assert tests.n_with[:, column].tolist() == bits.sum(axis=1).tolist()
        assert tests.n_without[:, column].tolist() == (~bits).sum(axis=1).tolist()
        assert tests.distance[:, column].tolist() == table.distance.tolist()


def test_bands_are_as_wide_as_both_sides_together_need() -> None:
    """Measured less true: 2.4 exp(-2 N t^2), where that is below a fifth; true less measured: Hoeffding's."""
    m, n = 40, 300
    for level, least in ((0.01, 3.4 / 0.01), (0.9, 12)):
        width = math.sqrt(math.log(least) * (m + n) / (2 * m * n))
        assert band_width(np.array([m]), np.array([n]), level)[0] == pytest.approx(width)
    width = band_width(np.array([m]), np.array([n]), 0.01)[0]
    low, high = distance_band(np.array([0.5, 0.9]), np.array([40, 0]), np.array([300, 300]), 0.01)
    assert low.tolist() == pytest.approx([0.5 - width, 0])
    assert high.tolist() == pytest.approx([0.5 + width, 1])


# Above the margin, below it


def slow_grid(d: float, m: int, n: int, gap: float) -> float:
    """The largest P(A / m - B / n <= d) over a grid of rates, A at a cell's lower end and B at its upper one."""
    m, n = sorted((m, n))
    deviation = 0.5 * math.sqrt(1 / m + 1 / n)
    step = max(1, int(n * deviation / 16))
    d = math.ceil(d * n / step - 1e-9) * step / n
    ends = np.linspace(max(0, -gap), min(1, 1 - gap), math.ceil((1 - abs(gap)) / (deviation / 16)) + 1)
    a = np.arange(m + 1)
    wanted = np.ceil(n * (a / m - d) - 1e-9)[:, None]
    chance = binom.pmf(a[:, None], m, np.clip(ends[:-1] + gap, 0, 1)) * binom.sf(wanted - 1, n, ends[1:])
    largest = float(chance.sum(axis=0).max())
    return min(largest, math.exp(-2 * m * n / (m + n) * max(gap - d, 0) ** 2)) if largest < 0.2 else 1.0


@pytest.mark.parametrize(("m", "n", "gap"), [(9, 12, 0.45), (40, 23, 0.4), (6, 300, 0.7), (25, 20, -0.3)])
def test_below_is_the_largest_binomial_tail_over_the_unknown_rate(m: int, n: int, gap: float) -> None:
    measured = [gap - 1e-9, *(gap - z * 0.5 * math.sqrt(1 / m + 1 / n) for z in (0.7, 1.3, 2.1, 3.2))]
    got = 10 ** largest_log10_tail(np.array(measured), np.full(5, m), np.full(5, n), gap)
    bound = [math.exp(-2 * m * n / (m + n) * (gap - d) ** 2) for d in measured]
    slow = [min(slow_grid(d, m, n, gap), b) for d, b in zip(measured, bound, strict=True)]
    assert got == pytest.approx(slow, rel=1e-6)
    assert (got <= np.array(bound) * (1 + 1e-9)).all()
    # No rate has a larger chance.
    a = np.arange(m + 1)
    for d, p in zip(measured, got, strict=True):
        wanted = np.ceil(n * (a / m - d) - 1e-9)
        for r in np.linspace(max(0, -gap), min(1, 1 - gap), 21):
            exact = float((binom.pmf(a, m, r + gap) * binom.sf(wanted - 1, n, r)).sum())
            assert p >= min(exact, 0.2) * (1 - 1e-9)


def test_far_tails_are_hoeffdings() -> None:
    sizes = np.array([4000, 0]), np.array([6000, 50])
    got = largest_log10_tail(np.array([0.1, 0.1]), *sizes, 0.3)
    assert got == pytest.approx([-2 * 2400 * 0.04 / math.log(10), 0])
    assert hoeffding_log10_p(np.array([-0.2, 0.2]), np.full(2, 300), np.full(2, 900)) == pytest.approx(
        [0, -2 * 225 * 0.04 / math.log(10)]
    )


def test_an_attack_in_fresh_runs_has_the_worst_false_positive_rate() -> None:
    got = [10 ** attack_above_log10_p(hits, 20, alarms, 33, 0.3) for hits, alarms in ((18, 8), (15, 4), (5, 20))]
    slow = [slow_grid(alarms / 33 - hits / 20, 33, 20, -0.3) for hits, alarms in ((18, 8), (15, 4), (5, 20))]
    assert got == pytest.approx(slow, rel=1e-6)
    assert got[1] < 0.05 < got[2] == 1


@pytest.mark.parametrize(("m", "n"), [(900, 700), (50, 60), (200, 6500)])
def test_above_is_the_bound_of_the_flat_pair(m: int, n: int) -> None:
    deviation = math.sqrt(1 / m + 1 / n)
    t = [z * deviation for z in (-1.5, -1.0, 0.3, 1.0, 1.2, 1.7, 2.4, 3.3)]
    got = 10 ** over_log10_p(np.array(t), np.full(8, m), np.full(8, n))
    # 2.4 exp(-2 z^2) is above a fifth up to z = 1.115.
    assert got == pytest.approx([1] * 4 + [2.4 * math.exp(-2 * z**2) for z in (1.2, 1.7, 2.4, 3.3)])
    assert over_log10_p(np.array([0.9]), np.array([0]), np.array([9]))[0] == 0


def test_the_margin_is_what_is_asked_for() -> None:
    tested = arms([[0.1, 0.75, 0.3, np.nan]], [[0.5, 0.25, 1, 0.1]], each=30)
    above, below = 10 ** log10_above(tested, FWER)[0], 10 ** log10_below(tested, FWER)[0]
    assert above == pytest.approx([1, 2.4 * math.exp(-2 * 15 * 0.45**2), 1, 1])
    assert below == pytest.approx([slow_grid(0.1, 30, 30, 0.3), 1, 1, 1], rel=1e-6)
    assert below[0] < 0.2
    assert 10 ** log10_above(tested, ANY_LEAK)[0] == pytest.approx([0.5, 0.25, 1, 1])
    assert (log10_below(tested, ANY_LEAK) == 0).all()


# Verdicts


def test_clear_asks_every_statistic() -> None:
    """One statistic at the margin is enough to keep a document from being clear; one above makes it sensitive."""
    tested = arms([[0.05, 0.3], [0.05, 0.06], [0.3, 0.05], [0.05, 0.6]], [[1, 1]] * 4)
    assert decide(tested, FWER).verdict.tolist() == ["undecided", "clear", "undecided", "sensitive"]
    assert decide(tested, ANY_LEAK).verdict.tolist() == ["undecided"] * 4


def test_the_corrected_p_is_compared_with_the_level() -> None:
    tested = arms([[0.5, 0.5]] * 4, [[0.0062, 1], [0.0063, 1], [0.5, 1], [1, 1]])
    decisions = decide(tested, ANY_LEAK)
    # 0.0062 x 2 statistics x 4 documents = 0.0496, and 0.0063 x 2 x 3 = 0.0378 follows it.
    assert decisions.verdict.tolist()[:2] == ["sensitive", "sensitive"]
    assert 10 ** decisions.log10_adjusted[0] == pytest.approx(0.0496)
    assert decisions.detected.tolist() == [True, True, False, False]
    assert decide(tested, ANY_LEAK, level=0.0495).verdict.tolist() == ["undecided"] * 4
    assert decide(tested, ANY_LEAK, among=5).verdict[0] == "undecided"
    assert not decide(tested, ANY_LEAK, among=5).detected[0]


def test_bands_hold_over_documents_and_statistics() -> None:
    tested = arms([[0.1, 0.2], [0.3, 0.1]], [[1, 1], [1, 1]], each=500)
    decisions = decide(tested, ANY_LEAK, level=0.04, among=5)
    width = band_width(np.array([500]), np.array([500]), 0.04 / 10)[0]
    np.testing.assert_allclose(decisions.band_high, tested.distance + width)
    np.testing.assert_allclose(decisions.band_low, np.maximum(tested.distance - width, 0))


def test_an_empty_arm_is_never_cleared() -> None:
    empty = ArmTests(np.array([[0]]), np.array([[50]]), np.array([[np.nan]]), np.zeros((1, 1)), np.zeros((1, 1)))
    decisions = decide(empty, DecisionSpec(margin=0.9))
    assert decisions.verdict[0] == "undecided"
    assert (decisions.band_low[0, 0], decisions.band_high[0, 0]) == (0, 1)
    assert decisions.runs_to_decide[0] == np.inf


def test_a_later_look_counts_everybody_and_keeps_what_was_said() -> None:
    first = arms([[0.9, 0.1], [0.1, 0.5], [0.05, 0.02]], [[1e-9, 1], [0.5, 0.9], [0.5, 0.5]], each=1000)
    interim = after_look(None, first, 0, Look(2000, 0.01), ANY_LEAK, [1])
    assert interim.decisions.verdict.tolist() == ["sensitive", "undecided", "undecided"]
    assert open_documents(interim).tolist() == [1, 2]
    # 0.005 x 2 statistics x 3 documents of the audit, 0.03, is below the look's 0.04; for one of two it is not.
    for p, verdict in ((0.0066, "sensitive"), (0.0067, "undecided")):
        tests = arms([[0.1, 0.5], [0.05, 0.02]], [[1, p], [1, 1]])
        later = after_look(interim, tests, 1, Look(4000, 0.04), ANY_LEAK, [1])
        assert later.decisions.verdict.tolist() == ["sensitive", verdict, "undecided"]
        assert later.look.tolist() == [0, 1, 1]
        assert 10 ** later.decisions.log10_adjusted[1] == pytest.approx(p * 6 * 0.05 / 0.04)
        assert later.alone[:2].tolist() == [[True, False], [False, True]]
        assert later.paper.tolist() == [False, True, False]
        assert later.tests.n_with[:, 0].tolist() == [1000, 100_000, 100_000]


# Verdicts about a margin: attacks fixed beforehand, whose p is exp(-2 N (D - margin)^2) on either side


def attacks(asked: list[list[float]], p: list[list[float]] | None = None, each: int = 2000) -> ArmTests:
    """Tests with these p-values of "at least the margin" of 0.3; negative: of "at most the margin"."""
    signed = np.array(asked)
    distance = 0.3 - np.sign(signed) * np.sqrt(-np.log(np.abs(signed)) / each)
    return arms(distance.tolist(), p or np.ones(signed.shape).tolist(), each)


@pytest.fixture
def exponential(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both bounds as `attacks` has them, so that a test can ask for p: what is tested is what follows."""

    def below(measured: Any, n_with: Any, n_without: Any, gap: float) -> Any:
        return hoeffding_log10_p(gap - measured, n_with, n_without)

    monkeypatch.setattr("ksdp.audit.verdicts.margins.largest_log10_tail", below)
    monkeypatch.setattr("ksdp.audit.verdicts.margins.over_log10_p", hoeffding_log10_p)


def said(tests: ArmTests, rule: DecisionSpec = FWER, **more: object) -> list[str]:
    return decide(tests, rule, **more).verdict.tolist()  # type: ignore[arg-type]


@pytest.mark.usefixtures("exponential")
def test_the_largest_p_over_statistics_counts_for_clear_and_the_smallest_for_sensitive() -> None:
    decisions = decide(attacks([[0.001, 0.049]]), FWER)
    assert decisions.verdict[0] == "clear"
    assert 10 ** decisions.log10_p_below[0] == pytest.approx(0.049)
    assert 10 ** decisions.log10_adjusted_below[0] == pytest.approx(0.049)
    assert 10 ** decisions.log10_below[0] == pytest.approx([0.001, 0.049])
    assert said(attacks([[0.001, 0.051]])) == said(attacks([[0.051, 0.001]])) == ["undecided"]
    decisions = decide(attacks([[0.001, -0.024]]), FWER)
    assert decisions.verdict[0] == "sensitive"
    assert not decisions.detected[0]
    assert 10 ** decisions.log10_above[0] == pytest.approx([1, 0.024])
    assert 10 ** decisions.log10_p_above[0] == pytest.approx(0.048)
    assert 10 ** decisions.log10_p_below[0] == pytest.approx(1)
    assert said(attacks([[0.001, -0.026]])) == ["undecided"]
    # Detected and clear: a trace, and less than the margin.
    decisions = decide(attacks([[0.001]], [[1e-9]]), FWER)
    assert decisions.detected[0]
    assert decisions.verdict[0] == "clear"


@pytest.mark.usefixtures("exponential")
def test_each_question_is_corrected_over_documents() -> None:
    assert said(attacks([[0.024], [0.04], [-0.1]]), among=2 + 1) == ["undecided"] * 3
    assert said(attacks([[0.016], [0.024], [-0.1]])) == ["clear", "clear", "undecided"]
    assert said(attacks([[-0.016], [-0.024], [0.1]])) == ["sensitive", "sensitive", "undecided"]
    assert said(attacks([[-0.017], [-0.024], [0.1]])) == ["undecided"] * 3
    assert said(attacks([[0.016]]), among=3) == ["clear"]
    assert said(attacks([[0.016]]), among=4) == ["undecided"]
    assert said(attacks([[-0.016]]), among=4) == ["undecided"]


@pytest.mark.usefixtures("exponential")
def test_levels_of_looks_and_of_clear() -> None:
    assert said(attacks([[0.019], [-1e-9]]), level=0.02) == ["undecided", "sensitive"]
    assert said(attacks([[0.009], [-0.009]]), level=0.02) == ["clear", "sensitive"]
    assert said(attacks([[0.011], [-1e-9]]), level=0.02) == ["undecided", "sensitive"]
    assert said(attacks([[0.5], [-0.011]]), level=0.02) == ["undecided"] * 2
    apart = DecisionSpec(margin=0.3, error="fwer", level=0.05, clear_level=0.02)
    assert said(attacks([[0.009]]), apart, level=0.025) == ["clear"]
    assert said(attacks([[0.011]]), apart, level=0.025) == ["undecided"]
    assert said(attacks([[0.019]]), apart) == ["clear"]
    assert said(attacks([[-0.024]]), apart, level=0.025) == ["sensitive"]
    tested = attacks([[0.5, 0.5]], each=500)
    width = band_width(np.array([500]), np.array([500]), 0.01 / 2)[0]
    assert decide(tested, apart, level=0.025).band_high == pytest.approx(tested.distance + width)


@pytest.mark.usefixtures("exponential")
def test_fresh_runs_take_half_of_the_level_of_sensitive_alone() -> None:
    for p, verdict in ((-0.024, "sensitive"), (-0.026, "undecided"), (0.049, "clear")):
        assert said(attacks([[p]]), fresh=True) == [verdict]
    assert 10 ** decide(attacks([[-0.026]]), FWER, fresh=True).log10_adjusted_above[0] == pytest.approx(0.052)
    # With margin 0 there are none.
    assert said(arms([[0.5]], [[0.04]]), ANY_LEAK, fresh=True) == ["sensitive"]


def test_at_the_level_is_enough() -> None:
    decisions = decide(arms([[0.5]], [[0.05]]), ANY_LEAK)
    assert decisions.detected[0]
    assert decisions.verdict[0] == "sensitive"
    flat = ArmTests(*(np.array([[x]]) for x in (9, 9, 0.5, math.log10(0.05), 0.0)))
    assert flagged_by(flat, ANY_LEAK, 0.05, 1).all()


def test_the_strongest_statistic_has_the_smallest_p_and_then_the_largest_distance() -> None:
    table = [[0.1, 0.2, 0.4], [0.2, 0.1, 0.1], [0.1, 0.1, 0.1], [0.1, 0.3, 0.2]]
    tests = arms(table, [[0.1, 0.1, 0.5], [0.5, 0.5, 0.1], [0.1, 0.1, 0.1], [1, 1, 1]], each=30)
    assert decide(tests, ANY_LEAK).strongest.tolist() == [1, 2, 0, 1]


@pytest.mark.usefixtures("exponential")
def test_columns_alone_are_corrected_over_themselves_and_all_documents() -> None:
    tests = attacks([[-0.004, 0.5], [0.001, 0.5]], [[1, 1], [0.004, 1]])
    assert flagged_by(tests.columns([0]), FWER, 0.05, 10).tolist() == [False, True]
    assert flagged_by(tests, FWER, 0.05, 10).tolist() == [False, False]
    assert flagged_by(tests.columns([0]), FWER, 0.05, 10, above=True).tolist() == [True, False]
    assert flagged_by(tests, FWER, 0.05, 10, above=True).tolist() == [False, False]
    assert flagged_by(tests.columns([0]), FWER, 0.05, 13, above=True).tolist() == [False, False]


# Forecasts


def test_the_distances_that_surely_suffice_by_hand() -> None:
    m, n = np.array([300, 0]), np.array([900, 50])
    for rule, penalty in ((FWER, 1.0), (DecisionSpec(margin=0.3), sum(1 / k for k in range(1, 8)))):
        p = 0.04 / (7 * 3 * penalty)
        expected = math.sqrt((math.log(2) - math.log(0.8 * p)) / (2 * 225))
        assert detectable_distance(m, n, 7, 3, rule, 0.04) == pytest.approx([expected, 1])
        over = sensitive_distance(m, n, 7, 3, rule, 0.04)
        assert over[1] == np.inf
        assert over[0] == pytest.approx(0.3 + math.sqrt(math.log(2.4 / p) / (2 * 225)))
        alone = sensitive_distance(m[:1], n[:1], 1, 1, rule, 0.4)
        assert alone[0] == pytest.approx(0.3 + math.sqrt(math.log(2.4 / 0.2) / (2 * 225)))
        zero = rule.model_copy(update={"margin": 0.0})
        assert sensitive_distance(m, n, 7, 3, zero, 0.04) == pytest.approx([expected, 1])


@pytest.mark.usefixtures("exponential")
def test_five_alike_are_clear_where_they_would_not_be_sensitive() -> None:
    """The fifth of five has 0.584 of the level for "clear", and 0.438 of it for "sensitive"."""
    harmonic, rule = sum(1 / k for k in range(1, 6)), DecisionSpec(margin=0.3)
    for asked, verdict in ((0.025, "clear"), (-0.025, "undecided"), (0.03, "undecided"), (-0.02, "sensitive")):
        decisions = decide(attacks([[asked]] * 5), rule)
        assert decisions.verdict.tolist() == [verdict] * 5
        if asked < 0:
            assert 10**decisions.log10_adjusted_above == pytest.approx([-asked * harmonic] * 5, rel=1e-6)
        else:
            reshaped = asked * 5 / (0.9 * 6 / 2 + 0.1 * 5 / harmonic)
            assert 10**decisions.log10_adjusted_below == pytest.approx([reshaped] * 5)


@pytest.mark.usefixtures("exponential")
def test_runs_to_decide_by_hand() -> None:
    """D without its noise, against the margin; what is added shrinks like one over the root of the runs."""
    each, effective = 60, 30
    harmonic = sum(1 / k for k in range(1, 6))
    second = 0.9 * (1 + 2) / 5 + 0.1 * 2 / harmonic  # of two that are clear, where the prior is mostly uniform
    for rule, room, share in ((FWER, 1, 1.0), (DecisionSpec(margin=0.3), 2, second)):
        apart = rule.model_copy(update={"clear_level": 0.02})
        tests = attacks([[1e-9] * 2, [-1e-9] * 2, [0.5] * 2, [0.5] * 2, [0.5] * 2], each=each)
        distance = tests.distance.copy()
        distance[2:] = [[0.05, 0.2], [0.5, 0.2], [0.31, 0.0]]
        tests = replace(tests, distance=distance)
        decisions = decide(tests, apart)
        assert decisions.verdict.tolist() == ["clear", "sensitive", *["undecided"] * 3]
        needed = decisions.runs_to_decide
        assert np.isnan(needed[:2]).all()
        noise = math.sqrt(math.log(8) / (2 * effective))
        under = (0.125 - norm.ppf(0.02 * share / 5)) * 0.5 * math.sqrt(2 / each)
        for place in (2, 4):
            top = distance[place].max()
            true = math.sqrt(max(top**2 - math.pi**2 / 12 / effective, 0))
            assert needed[place] == math.ceil(2 * each * ((under + noise) / (0.3 - true)) ** 2)
        over = sensitive_distance(np.array([each]), np.array([each]), 5, 2, apart, 0.05 * room)[0] - 0.3
        true = math.sqrt(0.25 - math.pi**2 / 12 / effective)
        assert needed[3] == math.ceil(2 * each * (over / (true - 0.3)) ** 2)


@pytest.mark.usefixtures("exponential")
def test_who_is_decided_makes_room_on_that_side_alone() -> None:
    each, effective = 60, 30
    tests = attacks([[1e-9], [1e-9], [0.4]], each=each)
    third = 0.9 * (1 + 3) / 2 + 0.1 * 3 / (1 + 1 / 2 + 1 / 3)  # of three that are clear
    under = (0.125 - norm.ppf(0.05 * third / 3)) * 0.5 * math.sqrt(2 / each)
    true = math.sqrt(tests.distance[2, 0] ** 2 - math.pi**2 / 12 / effective)
    needed = 2 * each * ((under + math.sqrt(math.log(4) / (2 * effective))) / (0.3 - true)) ** 2
    decisions = decide(tests, DecisionSpec(margin=0.3))
    assert decisions.verdict.tolist() == ["clear", "clear", "undecided"]
    assert decisions.runs_to_decide[2] == math.ceil(needed)


def test_the_smallest_margin_is_for_so_many_that_are_clear() -> None:
    """Forty of fifty, at the noise that the largest D stays below 8 times in 10."""
    share = 0.9 * 41 * 40 / 2 / 50 + 0.1 * 40 / sum(1 / k for k in range(1, 51))
    gap = (0.125 - norm.ppf(0.05 * share / 50)) * 0.5 * math.sqrt(1 / 60 + 1 / 180)
    found = smallest_margin(60, 180, 50, 1, DecisionSpec())
    assert found == pytest.approx(gap + critical_distance(60, 180, math.log10(0.2)), rel=1e-9)


# Looks at a margin


@pytest.mark.usefixtures("exponential")
def test_a_later_look_asks_for_the_margin_at_its_own_level_and_keeps_the_best() -> None:
    counted, sure = LookScope(10), [1, 1e-9]
    asked = [[-1e-9, 0.5], [1e-9, 1e-9], [-0.0008, 0.5], [0.002, 0.002]]
    first = attacks(asked, [[1, 1], [1, 1], sure, [1, 1]])
    interim = after_look(None, first, 0, Look(100, 0.01), FWER, [1], counted)
    assert interim.counted == counted
    assert interim.decisions.verdict.tolist() == ["sensitive", "clear", "undecided", "undecided"]
    assert interim.decisions.detected.tolist() == [False, False, True, False]
    assert interim.alone.tolist() == [[True, False], [False, False], [True, False], [False, False]]
    assert interim.paper.tolist() == [False, False, True, False]
    assert 10 ** interim.decisions.log10_adjusted[2] == pytest.approx(2e-8 * 5)
    assert 10 ** interim.decisions.log10_adjusted_above[2] == pytest.approx(0.0008 * 2 * 9 * 5, rel=1e-6)
    assert 10 ** interim.decisions.log10_p_below[3] == pytest.approx(0.01)
    assert 10 ** interim.decisions.log10_adjusted_below[3] == pytest.approx(0.002 * 9 * 5)
    assert open_documents(interim).tolist() == [2, 3]

    def later(above: float, below: float) -> InterimVerdicts:
        tests = attacks([[0.5, -above], [below, below]], each=4000)
        return after_look(interim, tests, 1, Look(400, 0.04), FWER, [1])

    assert later(0.0019, 0.0039).decisions.verdict.tolist() == ["sensitive", "clear", "sensitive", "clear"]
    assert later(0.0019, 0.0039).alone[2].tolist() == [True, True]
    assert later(0.0041, 0.0041).alone[2].tolist() == [True, False]
    found = attacks([[0.5, 0.5]] * 2, [[1, 1], [1e-9, 1]])
    found_late = after_look(interim, found, 1, Look(400, 0.04), FWER, [1]).decisions
    assert found_late.detected.tolist() == [False, False, True, True]
    after = later(0.0021, 0.0041)
    assert after.decisions.verdict.tolist() == ["sensitive", "clear", "undecided", "undecided"]
    assert after.look.tolist() == [0, 0, 1, 1]
    assert after.alone[:, 0].tolist() == [True, False, True, False]
    assert after.paper.tolist() == [False, False, True, False]
    assert after.decisions.detected.tolist() == [False, False, True, False]
    assert after.counted == counted
    assert 10 ** after.decisions.log10_adjusted[2] == pytest.approx(2e-8 * 5)
    assert 10 ** after.decisions.log10_p_below[3] == pytest.approx(0.0041 * 5 / 4)
    worse = later(0.5, 0.5)
    for name in ("log10_adjusted", "log10_adjusted_above", "log10_adjusted_below", "log10_p_below"):
        got, before = getattr(worse.decisions, name), getattr(interim.decisions, name)
        assert got == pytest.approx(before), name


@pytest.mark.usefixtures("exponential")
def test_where_something_announced_was_read_by_nobody_nothing_is_clear() -> None:
    asked = [[-1e-9], [1e-9], [0.1], [-0.1]]
    interim = after_look(None, attacks(asked), 0, Look(100, 0.05), FWER, [], LookScope(4, may_clear=False))
    decisions = interim.decisions
    assert decisions.verdict.tolist() == ["sensitive", "undecided", "undecided", "undecided"]
    assert interim.settled.tolist() == [False, True, False, False]
    assert open_documents(interim).tolist() == [2, 3]
    assert (decisions.log10_p_below == 0).all()
    assert (decisions.log10_adjusted_below == 0).all()
    assert np.isnan(decisions.runs_to_decide[0])
    assert np.isposinf(decisions.runs_to_decide[1:3]).all()
    assert np.isfinite(decisions.runs_to_decide[3])
    after = after_look(interim, attacks([[1e-9], [-0.1]]), 1, Look(200, 0.05), FWER, [])
    assert after.decisions.verdict.tolist() == ["sensitive", "undecided", "undecided", "undecided"]
    assert after.settled.tolist() == [False, True, True, False]
    assert open_documents(after).tolist() == [3]
    read = after_look(None, attacks(asked), 0, Look(100, 0.05), FWER, [])
    assert read.decisions.verdict.tolist() == ["sensitive", "clear", "undecided", "undecided"]
    assert not read.settled.any()
    assert np.isfinite(read.decisions.runs_to_decide[2:]).all()


@pytest.mark.usefixtures("exponential")
def test_fresh_runs_are_for_what_was_detected_above_the_margin_and_have_half_of_the_level() -> None:
    sure = [1, 1e-9]
    asked = [[0.5, -0.007], [-0.4, 0.3], [0.5, -0.4], [0.5, -1e-9], [0.5, -0.4]]
    tests = attacks(asked, [sure, sure, [1, 0.5], sure, sure])
    counted = LookScope(5, fresh=True)
    before = after_look(None, tests, 0, Look(100, 0.05), FWER, [], counted)
    assert before.decisions.verdict.tolist() == [*["undecided"] * 3, "sensitive", "undecided"]
    assert before.decisions.detected.tolist() == [True, True, False, True, True]
    assert for_fresh_runs(before, FWER).tolist() == [0, 4]
    assert len(for_fresh_runs(before, ANY_LEAK)) == 0
    assert len(for_fresh_runs(replace(before, counted=LookScope(5)), FWER)) == 0
    own = 10**before.decisions.log10_adjusted_above
    # At the second of five in Holm's order, over two statistics, for half of the level.
    assert own[0] == pytest.approx(0.007 * 2 * 4 * 2)
    for p, verdicts, adjusted in (
        ([0.012, 0.026], ["sensitive", "undecided"], [0.048, 0.052]),
        ([0.012, 0.0249], ["sensitive", "sensitive"], [0.048, 0.0498]),
        ([0.013, 0.5], ["undecided", "undecided"], [0.052, 1.0]),
        ([1.0, 1.0], ["undecided", "undecided"], [own[0], 1.0]),
    ):
        after = after_fresh(before, np.log10(np.array(p)), FWER).decisions
        assert after.verdict[[0, 4]].tolist() == verdicts
        assert after.verdict[1:4].tolist() == ["undecided", "undecided", "sensitive"]
        assert 10 ** after.log10_adjusted_above[[0, 4]] == pytest.approx(adjusted)
        assert np.isnan(after.runs_to_decide[[0, 4]]).tolist() == [v == "sensitive" for v in verdicts]
    late = after_look(before, attacks([[0.5, -0.004]] * 4), 1, Look(200, 0.05), FWER, [])
    assert late.decisions.verdict.tolist() == [*["undecided"] * 3, "sensitive", "undecided"]


# Certificates


def slow_bound(found: list[float], chance: float) -> float:
    """The mean against which the bets win 1 / chance, together."""

    def short(mean: float) -> float:
        won = [math.prod(1 + stake * (mean - x) / (1 - mean) for x in found) for stake in STAKES]
        return sum(won) / len(won) - 1 / chance

    return float(brentq(short, np.mean(found), 1 - 1e-12))


def test_a_certified_bound_is_the_mean_against_which_bets_win() -> None:
    apart = [0.0, 0.3, 1.7]
    assert pair_advantage(np.array(apart)) == pytest.approx([norm.cdf(x / 2) - norm.cdf(-x / 2) for x in apart])
    pairs = [[0.02, 0.1, 0.07, 0.0, 0.3] * 8, [0.5, 0.9, 1.0, 0.2, 0.4] * 8]
    got = certified_bound(np.array(pairs), 0.04, 5)
    assert got == pytest.approx([slow_bound(found, 0.04 / 5) for found in pairs], rel=1e-6)


def test_a_certificate_by_hand() -> None:
    rng = np.random.default_rng(12)
    pairs = np.array([[0.2], [0.5], [0.0]]) + 0.1 * rng.random((3, 60))
    bounds = certified_bound(pairs, 5e-6, 7)
    each, of_band = 400, 5e-6 / (7 * 2 * 3)
    width = band_width(np.array([each]), np.array([each]), of_band)[0]
    # The first document is measured just below what contradicts its bound, the second just above.
    distance = [[0.0, bounds[0] + width - 1e-6], [bounds[1] + width + 1e-6, 0.0], [0.1, 0.1]]
    tested = arms(distance, [[1, 1]] * 3, each)
    found = certify(pairs, 7, 0.03)
    assert found.level == 0.03
    assert found.advantage == pytest.approx(certified_bound(pairs, 0.03, 7))
    assert found.contradicted(tested, 7, 3).tolist() == [False, True, False]
    nothing = ArmTests(*(np.full((3, 2), x) for x in (0, 0, np.nan, 0.0, 0.0)))
    assert not found.contradicted(nothing, 7, 1).any()
    # Whoever is measured above a bound voids the audit; whoever is void already says why.
    sound = Controls(9, 0.5, 9, 1e-9, 9, 0.5, 0, 1.0, 0, None)
    said = bound_summary(found, after_look(None, tested, 0, Look(800, 0.05), FWER, []), FWER, 7, 3)
    assert (said.contradicted, said.pairs) == (1, 60)
    assert (said.median_knows_all, said.largest_knows_all) == (
        pytest.approx(np.median(pairs.mean(axis=1))), pytest.approx(pairs.mean(axis=1).max())
    )  # fmt: skip
    assert void_where_contradicted(sound, []) is sound
    assert void_where_contradicted(sound, [replace(said, contradicted=0)]) is sound
    void = void_where_contradicted(sound, [said])
    assert not void.valid
    assert void.reason.startswith("1 document ")
    worse = replace(sound, reason="other")
    assert void_where_contradicted(worse, [said]).reason == "other"


def test_pairs_exchange_one_unit() -> None:
    base, outside = np.array([2, 4, 7]), np.array([0, 1, 3])
    for seed in range(9):
        held, free = (_exchanged(base, outside, unit, np.random.default_rng(seed)).tolist() for unit in (4, 3))
        (put,) = set(held) - {2, 4, 7}
        (left,) = {2, 4, 7} - set(free)
        assert put == outside[np.random.default_rng(seed).integers(3)]
        assert left == base[np.random.default_rng(seed).integers(3)]
        assert held == sorted({2, 7, put})
        assert free == sorted({2, 4, 7, 3} - {left})


@pytest.mark.usefixtures("exponential")
def test_a_certificate_clears_all_but_what_is_proved_to_leak() -> None:
    tests = attacks([[-1e-9], [1e-9], [0.5], [0.5], [0.5]])
    before = after_look(None, tests, 0, Look(100, 0.05), FWER, [])
    assert before.decisions.verdict.tolist() == ["sensitive", "clear", *["undecided"] * 3]
    bound = np.array([0.1, 0.1, 0.3, 0.3 + 1e-9, 1.0])
    after = after_certificate(before, bound, FWER).decisions
    assert after.verdict.tolist() == ["sensitive", *["clear"] * 2, *["undecided"] * 2]
    assert after.proof.tolist() == ["", *["every attack"] * 2, "", ""]
    assert np.isnan(after.runs_to_decide).tolist() == [True, True, True, False, False]
    assert after_certificate(before, np.zeros(5), ANY_LEAK).decisions.verdict.tolist()[2:] == ["undecided"] * 3
    pairs = np.full((5, 4), 0.01)
    found = replace(certify(pairs, 5, 0.05), advantage=bound)
    said = bound_summary(found, before, FWER, 5, 1)
    assert (said.certified, said.sensitive, said.contradicted, said.pairs) == (3, 1, 0, 4)
    assert (said.median, said.largest, said.largest_certified) == (0.3, 1.0, 0.3)
    assert bound_summary(replace(found, advantage=np.zeros(5)), before, ANY_LEAK, 5, 1).certified == 0


# Distances, the law given ties, tails


def slow_distance(values: np.ndarray, bits: np.ndarray) -> float:
    held, free = values[bits], values[~bits]
    return max(abs((held <= t).mean() - (free <= t).mean()) for t in values)


@pytest.mark.parametrize("decimals", [0, 1, 9])
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_distance_is_the_largest_gap_of_the_two_arms(decimals: int, share: float) -> None:
    rng = np.random.default_rng(8)
    values = rng.normal(size=(12, 25)).round(decimals)
    bits = rng.random((12, 25)) < share
    values[:6] += bits[:6] * rng.choice([-1, 1], (6, 1))
    table = ks_table(values, bits)
    assert table.n_with.tolist() == bits.sum(axis=1).tolist()
    assert table.n_without.tolist() == (~bits).sum(axis=1).tolist()
    slow = [slow_distance(v, b) for v, b in zip(values, bits, strict=True)]
    np.testing.assert_allclose(table.distance, slow, atol=1e-12)


@pytest.mark.parametrize("held", [3, 6])
def test_p_given_ties_is_the_share_of_the_splits_that_reach_the_distance(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ksdp.audit.verdicts.ties._WORTH", 0.0)
    rng = np.random.default_rng(9)
    for seed in range(6):
        values = rng.integers(0, 3 + seed, 9).astype(float)
        bits = np.zeros(9, dtype=bool)
        bits[np.argsort(values + rng.random(9), kind="stable")[-held:]] = True
        table = ks_table(values[None], bits[None])
        got = 10 ** tied_table(values[None], bits[None], table)[0]
        splits = [np.isin(np.arange(9), some) for some in itertools.combinations(range(9), held)]
        slow = np.mean([slow_distance(values, s) >= table.distance[0] - 1e-12 for s in splits])
        assert got == pytest.approx(min(slow, 10 ** table.log10_p[0]), rel=1e-9)


def slow_tail(values: np.ndarray, bits: np.ndarray) -> float:
    """Twice the smaller side of Fisher's test of each tail, Bonferroni over the tails; no ties."""
    order, runs, found = np.argsort(values), len(values), []
    for size in tail_sizes(runs):
        for tail in (order[:size], order[-size:]):
            inside = int(bits[tail].sum())
            law = hypergeom(runs, int(bits.sum()), int(size))
            found.append(2 * min(law.sf(inside - 1), law.cdf(inside)))
    return min(1.0, min(found) * len(found))


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_tails_are_fishers_test_of_the_extremes(share: float) -> None:
    rng = np.random.default_rng(10)
    bits = rng.random((6, 200)) < share
    values = rng.normal(size=bits.shape)
    values[0] += 9 * (bits[0] & (rng.random(200) < 0.1))
    values[1] -= 9 * (bits[1] & (rng.random(200) < 0.1))
    values[2] += 9 * (~bits[2] & (rng.random(200) < 0.1))
    assert tail_sizes(200).tolist() == [3, 4, 10]
    table = tail_table(values, bits)
    slow = [slow_tail(v, b) for v, b in zip(values, bits, strict=True)]
    np.testing.assert_allclose(10 ** np.minimum(table.log10_p, 0.0), slow, rtol=1e-8)
    assert table.highest[:2].tolist() == [True, False]


def test_a_tail_never_splits_a_tie() -> None:
    values = np.concatenate([np.zeros(92), np.ones(8)])[None]
    bits = np.zeros((1, 100), dtype=bool)
    bits[0, 88:] = True
    # Of three and five wanted, whole blocks of eight remain: one tail. It holds eight of twelve.
    expected = 2 * hypergeom(100, 12, 8).sf(7)
    assert 10 ** tail_table(values, bits).log10_p[0] == pytest.approx(expected, rel=1e-9)


# Columns tested together


def test_the_strictest_p_of_both_corrections() -> None:
    assert 10 ** strictest_log10_p(0.05, 10, 4, "fwer") == pytest.approx(0.05 / 40)
    assert 10 ** strictest_log10_p(0.05, 10, 4, "fdr") == pytest.approx(
        0.05 / 40 / sum(1 / k for k in range(1, 11))
    )


def test_canaries_are_asked_of_what_the_rule_can_see() -> None:
    few = arms([[1.0]], [[0.5]], each=3)
    assert judge_canaries([few], FWER, [0.05]).reason is None
    high = FWER.model_copy(update={"margin": 0.98})
    found = judge_canaries([arms([[1.0]], [[1e-30]], each=100)], high, [0.05])
    assert (found.reason, found.count, found.sensitive) == (None, 1, 0)
    missed = arms([[1.0]], [[0.03]], each=100)
    assert judge_canaries([missed], FWER, [0.05]).reason is None
    assert "not detected" in str(judge_canaries([missed], FWER, [0.02]).reason)
    assert judge_canaries([missed, missed], FWER, [0.05, 0.05]).count == 2


# Controls and canaries


def controls_of(seed: int = 12, runs: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    bits = rng.random((CONTROLS, runs)) < 0.4
    values = rng.normal(size=bits.shape)
    values[NULL_CONTROLS:] += 3.29 * bits[NULL_CONTROLS:]
    return values, bits


def test_controls_come_out_or_the_audit_is_void() -> None:
    values, bits = controls_of()
    sound = compare_arms({"a": values, "b": values}, bits)
    judged = judge_controls([sound, sound], [np.zeros((3, 2))])
    assert judged.valid
    assert (judged.null, judged.planted, judged.shuffled) == (2 * NULL_CONTROLS, 2 * (CONTROLS - NULL_CONTROLS), 6)
    leaking = values.copy()
    leaking[5] += 3.0 * bits[5]
    found = judge_controls([sound, compare_arms({"a": values, "b": leaking}, bits)], [np.zeros((3, 2))])
    assert "null control" in str(found.reason)
    missed = values.copy()
    missed[-1] = np.random.default_rng(1).normal(size=bits.shape[1])
    found = judge_controls([compare_arms({"a": missed, "b": values}, bits), sound], [np.zeros((3, 2))])
    assert "planted leak" in str(found.reason)
    dealt = np.zeros((3, 2))
    dealt[1, 1] = -7
    assert "dealt at random" in str(judge_controls([sound], [np.zeros((2, 2)), dealt]).reason)
    for off, valid in ((0.01, True), (-0.01, False)):
        dealt[1, 1] = math.log10(1e-5 / 10) + off
        assert judge_controls([sound], [np.zeros((2, 2)), dealt]).valid is valid


def test_the_control_level_counts_every_control() -> None:
    values, bits = controls_of()
    sound = compare_arms({"a": values}, bits)
    level = math.log10(1e-5 / NULL_CONTROLS)
    for off, valid in ((0.01, True), (-0.01, False)):
        log10_p = sound.log10_p.copy()
        log10_p[:NULL_CONTROLS] = 0.0
        log10_p[3] = level + off
        made = ArmTests(sound.n_with, sound.n_without, sound.distance, log10_p, sound.log10_tail)
        assert judge_controls([made], []).valid is valid


def test_shuffled_bits_are_those_of_other_runs() -> None:
    values, bits = controls_of()
    order = np.random.default_rng(4).permutation(bits.shape[1])
    found = shuffled_log10_p({"a": values}, bits, order)
    dealt = bits[:, order]
    assert found[:, 0] == pytest.approx(tied_table(values, dealt, ks_table(values, dealt)))


def test_canaries_void_the_audit_as_soon_as_one_bit_is_wrong() -> None:
    rng = np.random.default_rng(5)
    bits = rng.random((9, 90)) < 0.4
    values = rng.normal(size=bits.shape) + 16 * bits
    sound = compare_arms({"c": values}, bits)
    found = judge_canaries([sound, sound[:2]], FWER, [0.02, 0.03])
    assert (found.reason, found.count, found.sensitive, found.smallest_distance) == (None, 11, 11, 1.0)
    wrong = bits.copy()
    wrong[4, 2] ^= True
    found = judge_canaries([sound, compare_arms({"c": values}, wrong)], FWER, [0.02, 0.03])
    assert "the bits of 1 of 18" in str(found.reason)
    assert found.smallest_distance < 1
    # D knows no direction, so that negated bits would give 1.
    negated = bits.copy()
    negated[[1, 6]] = ~bits[[1, 6]]
    found = judge_canaries([canary_arms(values, negated)], FWER, [0.05])
    assert "the bits of 2 of 9" in str(found.reason)
    assert found.smallest_distance == 0
    assert canary_arms(values, ~bits).log10_p.max() == canary_arms(values, ~bits).log10_tail.max() == 0
    same, plain = canary_arms(values, bits), compare_arms({"c": values}, bits)
    for name in ("n_with", "n_without", "distance", "log10_p", "log10_tail"):
        np.testing.assert_array_equal(getattr(same, name), getattr(plain, name))
    lower = np.where(np.arange(90) < 60, -40.0, -60.0)[None, :]
    assert canary_arms(lower, np.arange(90)[None, :] < 60).distance[0, 0] == 1
    assert np.isnan(canary_arms(values[:1], np.ones((1, 90), dtype=bool)).distance[0, 0])
    values, ctl = controls_of()
    assert not judge_controls([compare_arms({"a": values}, ctl)], [], canaries=found).valid
    empty = compare_arms({"c": values[:1]}, np.zeros((1, values.shape[1]), dtype=bool))
    assert judge_canaries([empty], FWER, [0.05]).count == 0
    blind = ArmTests(sound.n_with, sound.n_without, sound.distance, np.zeros((9, 1)), sound.log10_tail)
    assert "not called sensitive" in str(judge_canaries([blind], FWER, [0.05]).reason)


# Fresh runs


def test_the_attack_is_the_best_threshold_of_the_runs_that_chose_it() -> None:
    assert best_threshold(np.array([3.0, 4.0]), np.array([1.0, 2.0, 3.5])) == Attack(2.0, above=True)
    assert best_threshold(np.array([1.0, 2.0]), np.array([2.5, 4.0, 1.5])) == Attack(2.0, above=False)
    # Tied across the arms: those at the threshold are below it, in both arms.
    assert best_threshold(np.array([2.0, 2.0, 3.0]), np.array([2.0, 1.0, 1.0])) == Attack(1.0, above=True)
    assert Attack(2.0, above=True).hits(np.array([1.0, 2.0, 3.0])).tolist() == [False, False, True]
    assert Attack(2.0, above=False).hits(np.array([1.0, 2.0, 3.0])).tolist() == [True, True, False]


def test_what_fresh_runs_measure_by_hand() -> None:
    rng = np.random.default_rng(21)
    held, free = rng.normal(1.5, 1, 3000).round(2), rng.normal(0, 1, 4000).round(2)
    found = measure_effect(7, "s", Attack(0.5, above=True), held, free, 0.1, 0.2)
    hits, alarms = int((held > 0.5).sum()), int((free > 0.5).sum())
    tpr, fpr = (binomtest(k, n).proportion_ci(0.95, "exact") for k, n in ((hits, 3000), (alarms, 4000)))
    assert (found.row, found.column, found.n_with, found.n_without) == (7, "s", 3000, 4000)
    assert found.advantage == pytest.approx(hits / 3000 - alarms / 4000)
    assert found.advantage_low == pytest.approx(tpr.low - fpr.high)
    assert found.advantage_high == pytest.approx(tpr.high - fpr.low)
    assert found.log10_p_above == attack_above_log10_p(hits, 3000, alarms, 4000, 0.2)
    values, bits = np.concatenate([held, free])[None, :], np.arange(7000)[None, :] < 3000
    table = ks_table(values, bits)
    low, high = distance_band(table.distance, table.n_with, table.n_without, 0.1)
    assert (found.distance, found.log10_p) == (table.distance[0], table.log10_p[0])
    assert (found.band_low, found.band_high) == (low[0], high[0])
    assert found.epsilon_low == epsilon_lower_bound(held, free, 0.9)
    rare, rarer = tpr_at_fpr(held, free, 0.01, 0.9), tpr_at_fpr(held, free, 0.001, 0.9)
    assert rare.tpr > rarer.tpr > rarer.tpr_low < rare.tpr_low
    assert (found.tpr_at_fpr_01, found.tpr_at_fpr_01_low) == (rare.tpr, rare.tpr_low)
    assert (found.tpr_at_fpr_001, found.tpr_at_fpr_001_low) == (rarer.tpr, rarer.tpr_low)
    few = measure_effect(7, "s", Attack(0.5, above=True), held[:900], free[:900], 0.1, 0.2)
    assert few.tpr_at_fpr_01 is not None
    assert few.tpr_at_fpr_001 is few.tpr_at_fpr_001_low is None
    none = measure_effect(7, "s", Attack(0.5, above=True), held[:20], free[:20], 0.1)
    assert none.tpr_at_fpr_01 is none.tpr_at_fpr_01_low is None
    assert none.log10_p_above == attack_above_log10_p(
        int((held[:20] > 0.5).sum()), 20, int((free[:20] > 0.5).sum()), 20, 0
    )
