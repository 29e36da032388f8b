"""A risk appetite: every criterion is listed, and what is void or unread is never a pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.results.appetite import Appetite, AppetiteRecord, AuditedDocuments, appetite_record, check_spec
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.models import parse_spec, validated

from ...summaries import SPEC, example

CLEAR = example(corpus_about=replace(example().corpus_about, documents=6))


def asked(**more: Any) -> Appetite:
    return validated(Appetite, {"margin": 0.2, "level": 0.05} | more, "appetite")


def documents(verdicts: str = "cccccc", **changes: Any) -> AuditedDocuments:
    """Six of two parties, by the first letters of their verdicts; the bounds are 0.0 to 0.5."""
    words = {"s": "sensitive", "c": "clear", "u": "undecided", "a": "accepted", "o": "out"}
    values: dict[str, Any] = {
        "verdict": np.array([words[one] for one in verdicts], "U9"),
        "certified": np.array([True] * 3 + [False] * 3),
        "bound": np.arange(6) / 10,
        "labels": {"parties": np.array(["ada"] * 3 + ["bob"] * 3)},
        "not_allowed": 0,
    }
    return AuditedDocuments(**values | changes)


def held(appetite: Appetite, found: AuditedDocuments, summary: Summary = CLEAR) -> AppetiteRecord:
    return appetite_record(appetite, [(summary, [summary], found)])


def missed(record: AppetiteRecord) -> set[str]:
    return {one.name for one in record.missed}


def test_every_criterion_is_listed_also_where_it_is_met() -> None:
    record = held(asked(), documents())
    names = ["controls", "coverage", "margin", "level", "documents", "sensitive", "undecided", "accepted"]
    assert [one.name for one in record.criteria] == names
    told = record.to_json()
    assert told["met"]
    assert told["hash"] == held(asked(), documents()).to_json()["hash"]
    assert told["hash"] != held(asked(level=0.06), documents()).to_json()["hash"]


@pytest.mark.parametrize(
    ("verdicts", "more", "names"),
    [
        ("sccccc", {}, {"sensitive"}),
        ("sccccc", {"most_sensitive": 1 / 6}, set()),
        ("ssoccc", {"most_sensitive": 1 / 3}, {"sensitive"}),  # 2 of 5: who is out counts for nobody
        ("ccccuu", {}, {"undecided"}),
        ("ccccuu", {"most_undecided": 0.4}, set()),
        ("aacccc", {}, set()),
        ("oooooo", {}, set()),
        ("cccccc", {"proof": "every attack"}, {"proof"}),
        ("cccooo", {"proof": "every attack"}, set()),
    ],
)
def test_shares_are_of_those_who_may_enter(verdicts: str, more: dict[str, Any], names: set[str]) -> None:
    assert missed(held(asked(**more), documents(verdicts))) == names


@pytest.mark.parametrize(
    ("verdicts", "own", "names"),
    [
        ("cccsss", {"margin": 0.5}, set()),  # its own limit, whatever the verdicts
        ("cccccc", {"margin": 0.4}, {"party bob"}),
        ("ccccca", {"margin": 0.4}, set()),
        ("ccccco", {"margin": 0.4}, set()),
        ("cccccc", {"margin": 0.4, "most_above": 0.34}, set()),
    ],
)
def test_a_party_of_its_own_has_bounds_of_its_own(verdicts: str, own: dict[str, float], names: set[str]) -> None:
    spec = SPEC.model_copy(update={"corpus": SPEC.corpus.model_copy(update={"party": "house"})})
    record = held(asked(parties={"bob": own}), documents(verdicts), replace(CLEAR, spec=spec))
    assert missed(record) == names


def test_where_everybody_has_limits_of_their_own_it_says_so() -> None:
    asks = asked(proof="every attack", parties={"ada": {"margin": 0.3}, "bob": {"margin": 0.6}})
    found = {one.name: one.found for one in held(asks, documents()).criteria}
    assert {found[name] for name in ("sensitive", "undecided", "proof")} == {"nobody without limits of their own"}


def test_a_party_that_is_not_known_is_no_pass() -> None:
    assert missed(held(asked(parties={"cyd": {"margin": 1}}), documents())) == {"parties", "party cyd"}


@pytest.mark.parametrize(
    ("change", "names"),
    [({"valid": False}, {"controls", "sensitive", "undecided", "accepted"}), ({"unread": ("V",)}, {"coverage"})],
)
def test_void_or_unread_is_no_pass(change: dict[str, Any], names: set[str]) -> None:
    record = held(asked(), documents(), replace(CLEAR, **change))
    assert missed(record) == names
    assert all(one.remedy for one in record.missed)


def test_whom_nobody_allowed_to_accept_is_named() -> None:
    assert missed(held(asked(may_override=["Ada"]), documents(not_allowed=2))) == {"accepted"}
    assert asked(may_override=["Ada  Lovelace"]).allows(["bob", "ada lovelace"])
    assert not asked().allows(["Ada"])


def test_two_audits_of_one_run_are_one_record_whichever_is_first() -> None:
    other = replace(CLEAR, audit="two", opens="final")
    appetite = asked(opens=["every round", "final"])
    pairs = [(one, [one], documents()) for one in (CLEAR, other)]
    record = appetite_record(appetite, pairs)
    assert not record.missed
    assert {one.audit for one in record.criteria} == {"one", "two", ""}
    assert record == appetite_record(appetite, pairs[::-1])
    assert missed(appetite_record(appetite, pairs[:1])) == {"opens"}
    with pytest.raises(InputError, match=r"audits one and two are of two runs \(another corpus\)"):
        appetite_record(appetite, [pairs[0], (replace(other, corpus="sha256:aa"), [other], documents())])


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"decision": {"margin": 0.3}}, "set `decision.margin = 0.2`"),
        ({"decision": {"level": 0.1}}, "set `decision.level = 0.05`"),
        ({"certificate": {"pairs": 20}}, "asked at most 0.05, found 0.055"),
        ({"design": {"documents": 5}}, "leave `design.documents` out"),
        ({}, "set `decision.margin_at_low_fpr = 0.1`"),
        ({}, "set `corpus.group`"),
    ],
)
def test_a_spec_that_cannot_meet_it_is_refused(tables: dict[str, Any], said: str) -> None:
    spec = parse_spec({"corpus": {"path": "a.csv"}, "mechanism": {"name": "pd-svd"}} | tables)
    appetite = asked(margin_at_low_fpr=0.1, groups={"ann": {"margin": 0.1}})
    with pytest.raises(SpecError, match=said):
        check_spec(appetite, spec)
    if not tables:
        check_spec(asked(), spec)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"most_sensitiv": 0.1}, "did you mean `most_sensitive`"),
        ({"parties": {"ada": {"marginn": 0.1}}}, "marginn"),
        ({"level": 1.5}, "must be below 1"),
        ({"margin": 0}, "must be above 0"),
    ],
)
def test_what_is_not_an_appetite_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        asked(**wrong)


def test_an_audit_that_decides_nothing_meets_nothing() -> None:
    """One whose statistics were named after looking, and one in which leaks were planted."""
    leak = {"document": "m1", "kind": "number", "array": "V", "places": [0], "amounts": [1.0]}
    for changed, found in (
        ({"statistics": {"explored": True}}, "its statistics were explored"),
        ({"planted": [leak]}, "leaks were planted in it"),
    ):
        record = held(asked(), documents(), replace(CLEAR, spec=parse_spec(SPEC.tables() | changed)))
        assert [one.found for one in record.missed] == [found]
