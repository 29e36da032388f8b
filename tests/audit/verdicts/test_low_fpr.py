"""True positives at 1 % false ones: levels by simulation, ties by brute force, and every way to be clear."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.privacy.spent import Promise
from ksdp.audit.plan import proved_before_runs
from ksdp.audit.specs.models import DecisionSpec, Spec, parse_spec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.looks import Look, after_certificate, after_look
from ksdp.audit.verdicts.low_fpr import LowFpr
from ksdp.audit.verdicts.power import runs_for_limit, sensitive_distance, smallest_limit

LIMIT = 0.05
RULE = DecisionSpec(margin=0.2, margin_at_low_fpr=LIMIT)
FREE = RULE.model_copy(update={"margin_at_low_fpr": None})
LOW = LowFpr(LIMIT, 1e-4, 1e-4)


def laws(rng: np.random.Generator, shape: tuple[int, int]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Values with and without a document, whose true positives at 1 % false ones are just the limit."""
    normal, uniform, chance = rng.normal(size=(2, *shape)), rng.random(shape), rng.random(shape)
    certain = np.where(chance < (LIMIT - 0.01) / 0.99, 9.0, normal[0])
    return {
        "certain": (certain, normal[1]),
        "low": (-certain, normal[1]),
        "just inside": (np.where(chance < LIMIT, 0.9901, 0.5), uniform),
        "much just outside": (np.where(chance < LIMIT, 2.0, 0.9899), uniform),
        "tied": ((chance < LIMIT).astype(float), (uniform < 0.01).astype(float)),
        "tied with many": (np.where(chance < LIMIT, 2.0, chance > 0.5), 1.0 * (uniform < 0.3) + (uniform < 0.01)),
    }


LAWS = tuple(laws(np.random.default_rng(), (1, 1)))


@pytest.mark.parametrize("share", [0.5, pytest.param(0.1, marks=pytest.mark.validity)])
@pytest.mark.parametrize("law", LAWS)
def test_at_the_limit_neither_side_is_proved_more_often_than_its_p_says(law: str, share: float) -> None:
    rng = np.random.default_rng(3)
    bits = rng.random((1000, 2400)) < share
    held, free = laws(rng, bits.shape)[law]
    for found in LOW.log10_p(np.where(bits, held, free), bits):
        for level in (0.01, 0.05, 0.2):
            most = 1000 * level + 4 * math.sqrt(1000 * level)
            assert (found <= math.log10(level)).sum() <= most


def leak(rng: np.random.Generator, bits: np.ndarray, chance: float) -> np.ndarray:
    """Certain in some runs, absent in the others."""
    return np.where(bits & (rng.random(bits.shape) < chance), 9.0, rng.normal(size=bits.shape))


def test_a_leak_of_some_runs_is_found_on_either_side_and_no_leak_is_cleared() -> None:
    rng = np.random.default_rng(4)
    bits = rng.random((12, 4000)) < 0.5
    for sign in (1, -1):
        for chance, said in ((0.0, "clear"), (0.13, "sensitive")):
            values = {"leak": sign * leak(rng, bits, chance), "noise": rng.normal(size=bits.shape)}
            tests = compare_arms(values, bits, LowFpr.of(RULE, 0.05, 40))
            assert (decide(tests, FREE).verdict == "clear").all()
            assert (decide(tests, RULE).verdict == said).all()


def by_hand(values: np.ndarray, held: np.ndarray, low: LowFpr) -> tuple[float, float]:
    """p of both sides, run by run."""
    m, n = int(held.sum()), int((~held).sum())
    chances = [beta.cdf(0.01, k, n + 1 - k) for k in range(1, n + 1)]
    inside = next((k for k in range(n) if chances[k] <= low.wrong_below), None)
    outside = max((k for k in range(n) if 1 - chances[k] <= low.wrong_above), default=None)
    order = np.random.default_rng(0x7_1E5).random(len(values))
    counts = {"below": 0, "above": 0}
    for sign in (1, -1):
        runs = sorted(range(len(values)), key=lambda r: (-sign * values[r], order[r]))
        free = [place for place, r in enumerate(runs) if not held[r]]
        if inside is not None:
            counts["below"] = max(counts["below"], sum(held[r] for r in runs[: free[inside]]))
        if outside is not None:
            edge = sign * values[runs[free[outside]]]
            counts["above"] = max(counts["above"], sum(held & (sign * values > edge)))
    below = 1.0 if inside is None else chances[inside] + binom.cdf(counts["below"], m, low.limit)
    above = 1.0 if outside is None else 2 * (1 - chances[outside] + binom.sf(counts["above"] - 1, m, low.limit))
    return min(below, 1.0), min(above, 1.0)


@settings(max_examples=60)
@given(st.data())
def test_ties_are_counted_as_by_hand(data: st.DataObject) -> None:
    runs = data.draw(st.integers(2, 40))
    values = np.array(data.draw(st.lists(st.integers(-2, 2), min_size=runs, max_size=runs)), dtype=float)
    held = np.array(data.draw(st.lists(st.booleans(), min_size=runs, max_size=runs)))
    low = LowFpr(0.3, data.draw(st.sampled_from([0.3, 0.01, 1e-60])), data.draw(st.sampled_from([0.9, 0.7, 1e-9])))
    below, above = low.log10_p(values[None], held[None])
    wanted = by_hand(values, held, low) if 0 < held.sum() < runs else (1.0, 1.0)
    assert 10 ** below[0] == pytest.approx(wanted[0])
    assert 10 ** above[0] == pytest.approx(wanted[1])
    for same in (3 * values - 7, -values):
        again = low.log10_p(same[None], held[None])
        assert (again[0][0], again[1][0]) == (below[0], above[0])


def test_a_leak_is_counted_as_by_hand() -> None:
    rng = np.random.default_rng(6)
    held = rng.random(1500) < 0.5
    values, low = leak(rng, held, 0.33), LowFpr(0.3, 0.1, 0.1)
    below, above = low.log10_p(values[None], held[None])
    wanted = by_hand(values, held, low)
    assert 0.1 < wanted[1] < 0.5
    assert (10 ** below[0], 10 ** above[0]) == pytest.approx(wanted)


def arms(low_below: list[list[float]], low_above: list[list[float]], distance: float = 0.05) -> ArmTests:
    shape = np.array(low_below).shape
    sizes, none = np.full(shape, 3000), np.zeros(shape)
    given = {"log10_low_below": np.log10(low_below), "log10_low_above": np.log10(low_above)}
    return ArmTests(sizes, sizes.copy(), np.full(shape, distance), none, none, **given)


def test_every_statistic_must_be_below_and_one_above_is_enough() -> None:
    below = [[1e-6, 1e-6], [1e-6, 0.9], [0.9, 0.9], [1e-3, 1e-6]]
    above = [[1.0, 1.0], [1.0, 1.0], [1e-9, 1.0], [1.0, 1.0]]
    found = decide(arms(below, above), RULE)
    assert found.verdict.tolist() == ["clear", "undecided", "sensitive", "clear"]
    assert found.log10_p_below == pytest.approx([-6, math.log10(0.9), math.log10(0.9), -3])
    # A fifth of the level, and two statistics.
    assert found.log10_p_above[2] == pytest.approx(-9 + math.log10(5 * 2))
    assert decide(arms(below, above), FREE).verdict.tolist() == ["clear"] * 4
    assert np.isinf(found.runs_to_decide[1])
    some = decide(arms([[0.2, 1e-6]], [[1.0, 1.0]]), RULE).runs_to_decide[0]
    assert 6000 < some < 60_000
    near = decide(arms(below, above, 0.2), RULE)
    assert near.verdict.tolist() == ["undecided", "undecided", "sensitive", "undecided"], "nor is one alone clear"
    over = decide(arms(below, above, 0.5), RULE)
    assert over.verdict.tolist() == ["sensitive"] * 4, "the advantage alone is enough"
    sizes = np.array([900]), np.array([2000])
    assert sensitive_distance(*sizes, 9, 2, RULE) > sensitive_distance(*sizes, 9, 2, FREE)


def test_who_was_not_tested_at_low_rates_is_not_clear() -> None:
    """Tests that know nothing of the limit, alone or beside others."""
    rng = np.random.default_rng(5)
    bits = rng.random((6, 4000)) < 0.5
    values = [rng.normal(size=bits.shape) for _ in range(2)]
    plain = compare_arms({str(k): v for k, v in enumerate(values)}, bits)
    tested = compare_arms({str(k): v for k, v in enumerate(values)}, bits, LowFpr.of(RULE, 0.05, 6))
    for tests, said in ((tested, "clear"), (plain, "undecided"), (ArmTests.beside([tested, plain]), "undecided")):
        assert (decide(tests, RULE).verdict == said).all()
        looked = after_look(None, tests, 0, Look(4000, 0.05), RULE, [])
        assert (looked.decisions.verdict == said).all()
        assert (looked.decisions.log10_p_below == 0).all() == (said == "undecided")


def test_a_bound_of_every_attack_must_leave_room_for_the_false_positives() -> None:
    first = after_look(None, arms([[1.0]] * 3, [[1.0]] * 3), 0, Look(6000, 0.05), RULE, [])
    bound = np.array([0.039, 0.041, 0.2])
    assert after_certificate(first, bound, RULE).decisions.verdict.tolist() == ["clear", "undecided", "undecided"]
    assert after_certificate(first, bound, FREE).decisions.verdict.tolist() == ["clear"] * 3
    loose = DecisionSpec(margin=0.02, margin_at_low_fpr=0.5)
    assert after_certificate(first, bound, loose).decisions.verdict.tolist() == ["undecided"] * 3
    spec = parse_spec(BASE | {"decision": {"margin": 0.2, "margin_at_low_fpr": LIMIT}})
    for small, proved in ((0.039, True), (0.041, False)):
        assert proved_before_runs(Promise(small, "nobody", every_size=True), spec) == proved


BASE = {"corpus": {"path": "x.npz"}, "mechanism": {"name": "pd-svd"}}


def drawn(share: float, low: float) -> Spec:
    tables = {"path": "x.npz", "levers": {"drawn": share}}
    return parse_spec(BASE | {"corpus": tables, "decision": {"margin": 0.2, "margin_at_low_fpr": low}})


def test_a_limit_of_what_is_held_is_larger_within_a_run_of_a_secret_draw() -> None:
    """Of what is held: drawn T + (1 - drawn) 1 % true positives, for T within a run."""
    for share, low in ((0.5, 0.05), (0.1, 0.08)):
        within = drawn(share, low).decision_in_run.margin_at_low_fpr
        assert share * within + (1 - share) * 0.01 == pytest.approx(low)
        rule, bound = drawn(share, low).decision_in_run, (low - 0.01) / share
        assert (rule.accepts(bound - 1e-9), rule.accepts(bound + 1e-9)) == (True, False)
        assert not drawn(share, low).proved_by_draw
    assert drawn(0.04, 0.05).decision_in_run.margin_at_low_fpr is None, "1 within a run is no limit"
    assert drawn(0.03, 0.05).proved_by_draw
    assert "(true positives at 1 % false ones: 0.05) is 0.4 (" in str(drawn(0.5, 0.05).draw_sentence)


def test_the_key_is_a_part_of_the_spec_where_it_is_set() -> None:
    asked = [BASE | {"decision": {"margin_at_low_fpr": low}} for low in (None, 0.05, 0.1)]
    specs = [parse_spec(tables) for tables in asked]
    assert specs[0].hash == parse_spec(BASE).hash
    assert len({spec.hash for spec in specs}) == len({spec.series for spec in specs}) == 3
    assert [Spec.model_validate(spec.model_dump(mode="json")) for spec in specs] == specs
    for wrong in ({"margin_at_low_fpr": 0.01}, {"margin_at_low_fpr": 1}, {"margin": 0, "margin_at_low_fpr": 0.1}):
        with pytest.raises(SpecError, match="margin_at_low_fpr"):
            parse_spec(BASE | {"decision": wrong})


def test_the_forecast_is_what_simulation_gives() -> None:
    low = LowFpr.of(RULE, 0.05, 200)
    assert low is not None
    assert LowFpr.of(FREE, 0.05, 200) is None
    runs = runs_for_limit(0.5, 200, 2, RULE, low)
    assert smallest_limit(runs // 2, runs // 2, 200, 2, RULE, low) == pytest.approx(LIMIT, abs=0.003)
    rng = np.random.default_rng(6)
    bits = rng.random((200, runs)) < 0.5
    values = {name: rng.normal(size=bits.shape) for name in "ab"}
    assert 0.7 < (decide(compare_arms(values, bits, low), RULE).verdict == "clear").mean() <= 1
    assert low.least_limit(40, 2, 0.05) == 1, "no threshold of two runs surely has so many false positives"
    assert low.least_limit(100, 1000, 0.05) == pytest.approx(1 - 0.05**0.01, rel=0.01)
    assert low.least_limit(0, 1000, 0.05) == low.least_limit(100, 1000, 1e-9) == 1
