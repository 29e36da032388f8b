"""A risk appetite: every criterion is listed, and what is void or unread is never a pass."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ksdp.audit.errors import SpecError
from ksdp.audit.results.appetite import Appetite, AppetiteRecord, AuditedDocuments, appetite_record, check_spec
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.models import parse_spec, validated

from ...summaries import SPEC, example

CLEAR = example(corpus_about=replace(example().corpus_about, documents=6))


def asked(**more: Any) -> Appetite:
    return validated(Appetite, {"margin": 0.2, "level": 0.05} | more, "appetite")


def documents(verdicts: str = "cccccc", **changes: Any) -> AuditedDocuments:
    """Six, by the first letters of their verdicts; a proof is known of three."""
    words = {"s": "sensitive", "c": "clear", "u": "undecided", "a": "accepted", "o": "out"}
    values: dict[str, Any] = {
        "verdict": np.array([words[one] for one in verdicts], "U9"),
        "certified": np.array([True] * 3 + [False] * 3),
    }
    return AuditedDocuments(**values | changes)


def held(appetite: Appetite, found: AuditedDocuments, summary: Summary = CLEAR) -> AppetiteRecord:
    return appetite_record(appetite, summary, found)


def missed(record: AppetiteRecord) -> set[str]:
    return {one.name for one in record.missed}


def test_every_criterion_is_listed_also_where_it_is_met() -> None:
    record = held(asked(), documents())
    names = ["controls", "coverage", "margin", "level", "documents", "sensitive", "undecided"]
    assert [one.name for one in record.criteria] == names
    assert record.to_json()["met"]
    assert record.to_json()["appetite"] == asked().model_dump(mode="json")


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
    ("change", "names"),
    [({"valid": False}, {"controls", "sensitive", "undecided"}), ({"unread": ("V",)}, {"coverage"})],
)
def test_void_or_unread_is_no_pass(change: dict[str, Any], names: set[str]) -> None:
    record = held(asked(), documents(), replace(CLEAR, **change))
    assert missed(record) == names
    assert all(one.remedy for one in record.missed)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"decision": {"margin": 0.3}}, "set `decision.margin = 0.2`"),
        ({"decision": {"level": 0.1}}, "set `decision.level = 0.05`"),
        ({"certificate": {"pairs": 20}}, "asked at most 0.05, found 0.055"),
        ({"design": {"documents": 5}}, "leave `design.documents`"),
        ({"design": {"pool": 5}}, "`design.pool`, `parties.honest`"),
        ({"parties": {"honest": 0.5}}, "`parties.honest` and `parties.coalition` out"),
    ],
)
def test_a_spec_that_cannot_meet_it_is_refused(tables: dict[str, Any], said: str) -> None:
    spec = parse_spec({"corpus": {"path": "a.csv"}, "mechanism": {"name": "pd-svd"}} | tables)
    with pytest.raises(SpecError, match=said):
        check_spec(asked(), spec)
    check_spec(asked(), parse_spec({"corpus": {"path": "a.csv"}, "mechanism": {"name": "pd-svd"}}))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"most_sensitiv": 0.1}, "did you mean `most_sensitive`"),
        ({"parties": {"ada": {"margin": 0.1}}}, "parties"),
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
