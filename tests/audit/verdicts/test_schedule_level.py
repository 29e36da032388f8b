"""The level of repeated audits against slow sums, and what the next audit's spec says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.reviewing import question
from ksdp.audit.spec.models import CertificateSpec, parse_spec
from ksdp.audit.verdicts.online import LevelBudget, audit_seed, next_spec, open_budget, read_budget

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


def test_spending_holds_the_level_whatever_is_found() -> None:
    budget, total = open_budget("spending", 0.05), 0.0
    for _ in range(300):
        total += budget.next_level
        budget = budget.spend(True)
    assert total < 0.05


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


def test_certificates_of_a_schedule_have_one_level_together() -> None:
    budget, levels = open_budget("lord", 0.05), []
    named = SPEC.model_copy(update={"certificate": CertificateSpec(level=0.01)})
    usual = SPEC.model_copy(update={"certificate": CertificateSpec()})
    for number in range(365):
        made = next_spec(named, budget, None)
        levels.append(made.certificate_level)
        assert next_spec(usual, budget, None).certificate_level == budget.next_clear_level / 10
        assert question(made) == question(named)
        budget = budget.spend(number % 3 == 0)
    assert 0.009 < sum(levels) < 0.01
    assert question(named) == question(usual) != question(SPEC)


def test_every_audit_has_a_seed_of_its_own_that_json_keeps() -> None:
    seeds = [audit_seed(3, number) for number in range(1, 200)]
    assert len(set(seeds)) == len(seeds)
    assert max(seeds) < 2**53
    assert np.array_equal(seeds, [audit_seed(3, number) for number in range(1, 200)])
