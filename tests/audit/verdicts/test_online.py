"""LORD++ against the published recursion written out, spending against its sum."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.specs.models import CertificateSpec, parse_spec
from ksdp.audit.verdicts.online import (
    LevelBudget,
    OnlineState,
    advance,
    audit_seed,
    level_now,
    next_spec,
    open_budget,
    read_budget,
    spent_level,
    start,
)


def reference_levels(p: list[float], level: float, wealth: float) -> list[float]:
    """Forward: every rejection adds its whole future to the levels to come."""
    gamma = np.arange(1, 200_001) ** -1.6
    gamma /= gamma.sum() + 200_000**-0.6 / 0.6  # the integral of what is cut off
    levels = wealth * gamma[: len(p)]
    rejected = 0
    for t, value in enumerate(p):
        if value <= levels[t]:
            levels[t + 1 :] += (level - wealth if rejected == 0 else level) * gamma[: len(p) - t - 1]
            rejected += 1
    return list(levels)


@given(st.lists(st.sampled_from([0.0, 1e-4, 0.003, 0.02, 0.6]), min_size=1, max_size=60), st.floats(0.1, 1.0))
@settings(deadline=None)
def test_levels_follow_the_recursion(p: list[float], part: float) -> None:
    state = start(0.1, 0.1 * part)
    levels = []
    for value in p:
        levels.append(level_now(state))
        state = advance(state, value)
    assert levels == pytest.approx(reference_levels(p, 0.1, 0.1 * part), rel=1e-4)
    assert state.tests == len(p)
    assert len(state.rejections) == sum(v <= a for v, a in zip(p, levels, strict=True))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
@settings(deadline=None)
def test_levels_never_promise_more_than_the_rejections_allow(p: list[float]) -> None:
    """What proves LORD++: the sum of all levels so far is at most level * max(1, rejections)."""
    state, total = start(0.05), 0.0
    for value in p:
        total += level_now(state)
        state = advance(state, value * 0.02)
        assert total <= 0.05 * max(1, len(state.rejections)) + 1e-12


def test_spending_adds_up_to_the_level() -> None:
    total = sum(spent_level(0.05, t) for t in range(1, 20_001))
    assert total < 0.05
    assert total + 0.05 * 20_000**-0.6 / 0.6 / 2.2857657 == pytest.approx(0.05, rel=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: start(1.0), "`level` must be in (0, 1); got 1.0."),
        (lambda: start(0.05, 0.06), "`wealth` must be in (0, `level`]; got 0.06."),
        (lambda: OnlineState(0.05, 0.02, 3, (4,)), "`rejections` must ascend from 1"),
        (lambda: OnlineState(0.05, 0.02, 3, (2, 2)), "`rejections` must ascend from 1"),
        (lambda: advance(start(), 1.5), "`p` must be in [0, 1]; got 1.5."),
        (lambda: spent_level(0.05, 0), "`audit` must be at least 1; got 0."),
        (lambda: spent_level(0.0, 1), "`level` must be in (0, 1); got 0.0."),
    ],
)
def test_refusals(call, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


SPEC = parse_spec({"seed": 7, "corpus": {"path": "demo"}, "mechanism": {"name": "pd-svd", "rank": 3}})
FOUND = st.lists(st.booleans(), max_size=12)
KINDS = st.sampled_from(["lord", "spending"])


def spent(budget: LevelBudget, past: list[bool]) -> LevelBudget:
    for found in past:
        budget = budget.spend(found)
    return budget


@settings(max_examples=30)
@given(KINDS, FOUND)
def test_what_is_left_is_what_later_audits_would_spend(kind: str, past: list[bool]) -> None:
    budget = spent(open_budget(kind, 0.05), past)  # type: ignore[arg-type]
    left, quiet, total = budget.left, budget, 0.0
    for _ in range(80):
        total += quiet.next_level
        quiet = quiet.spend(False)
    assert total < left
    assert total + quiet.left == pytest.approx(left, rel=1e-9)


@given(KINDS, FOUND)
def test_a_budget_survives_json(kind: str, past: list[bool]) -> None:
    budget = spent(open_budget(kind, 0.1), past)  # type: ignore[arg-type]
    assert read_budget(json.loads(json.dumps(budget.as_dict()))) == budget


def test_a_discovery_earns_level_back_and_a_void_audit_does_not() -> None:
    before = open_budget("lord", 0.05)
    assert before.spend(True).left > before.left > before.spend(False).left


def test_a_budget_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="must be lord or spending"):
        read_budget({"kind": "all"} | {"level": 0.05, "wealth": 0.02, "tests": 0, "rejections": []})


def test_the_next_spec_has_the_level_the_documents_and_fresh_runs() -> None:
    first = open_budget("lord", 0.05)
    second = first.spend(False)
    made = next_spec(SPEC, second, ("a", "b"))
    assert made.decision.level == second.next_level
    assert made.decision.for_clear == second.next_clear_level
    assert made.design.documents == ("a", "b")
    assert made.seed != SPEC.seed
    assert parse_spec(made.model_dump(mode="json")) == made
    assert next_spec(SPEC, first, None).seed == SPEC.seed
    assert next_spec(SPEC, first, None).design == SPEC.design
    assert next_spec(SPEC, open_budget("spending", 0.05).spend(False), None).seed == SPEC.seed


def test_levels_of_clear_add_up_to_the_level_whatever_is_found() -> None:
    budget, discoveries, clear = open_budget("lord", 0.05), 0.0, 0.0
    for number in range(365):
        discoveries += budget.next_level
        clear += budget.next_clear_level
        budget = budget.spend(number % 3 == 0)
    assert discoveries > 1
    assert clear < 0.05


def test_certificates_of_a_schedule_have_a_tenth_of_the_level_of_clear() -> None:
    budget, certified = open_budget("lord", 0.05), SPEC.model_copy(update={"certificate": CertificateSpec()})
    for number in range(9):
        made = next_spec(certified, budget, None)
        assert made.certificate_level == budget.next_clear_level / 10
        assert made.series == certified.series != SPEC.series
        budget = budget.spend(number % 3 == 0)


def test_every_audit_has_a_seed_of_its_own_that_json_keeps() -> None:
    seeds = [audit_seed(3, number) for number in range(1, 200)]
    assert len(set(seeds)) == len(seeds)
    assert max(seeds) < 2**53
    assert np.array_equal(seeds, [audit_seed(3, number) for number in range(1, 200)])
