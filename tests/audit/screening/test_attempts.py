"""Attempts are counted whatever was changed."""

from typing import Any

import pytest

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.screening.clearance import (
    Attempt,
    AuditQuestion,
    attempt_of,
    count_attempts,
    list_attempt,
    question_of,
)
from ksdp.audit.specs.models import Spec

TABLES: dict[str, Any] = {
    "seed": 1,
    "corpus": {"path": "demo"},
    "mechanism": {"name": "pd-svd", "rank": 3},
    "decision": {"level": 0.05, "margin": 0.2},
}


def spec_with(**changes: Any) -> Spec:
    return Spec.model_validate(TABLES | changes)


def attempt(spec: Spec, audit: str, given: Spec | None = None, name: str | None = None) -> Attempt:
    at = "2026-01-01T00:00:00+00:00"
    return attempt_of(spec, audit, at, 400, 1, question=question_of(spec, "c", 90), given=given or spec, name=name)


def at_part(spec: Spec, number: int) -> Spec:
    return Spec.model_validate(spec.tables_at_level(lambda level: level / 2**number))


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 2},
        {"decision": {"level": 0.05, "margin": 0.3}},
        {"decision": {"level": 0.01, "margin": 0.2}},
        {"statistics": {"families": ["paper-svd"]}},
        {"design": {"with_runs": 300}},
        {"design": {"looks": "end"}},
    ],
)
def test_any_change_is_an_attempt_at_the_same_question(changes: dict[str, Any]) -> None:
    first, second = attempt(spec_with(), "a"), attempt(spec_with(**changes), "b")
    assert first.question == second.question
    assert count_attempts([first, second]).attempts == 2


@pytest.mark.parametrize(
    "changes", [{"mechanism": {"name": "pd-svd", "rank": 4}}, {"parties": {"honest": 0.2}}, {"seed": 1}]
)
def test_another_mechanism_or_other_parties_are_another_question(changes: dict[str, Any]) -> None:
    same = changes == {"seed": 1}
    assert (question_of(spec_with(), "c", 90) == question_of(spec_with(**changes), "c", 90)) is same
    assert question_of(spec_with(), "c", 90).content != question_of(spec_with(), "d", 90).content


@pytest.mark.parametrize(
    "mechanism",
    [
        {"rank": 3, "solver": "limit"},
        {"rank": 3, "opens": "every round", "iterations": PDSVD().iterations, "tolerance": PDSVD().tolerance},
        {"name": "ksdp.audit.mechanisms.factorisation.pd_svd:PDSVD", "rank": 3},
    ],
)
def test_a_default_spelt_out_is_the_same_question(mechanism: dict[str, Any]) -> None:
    spelt = spec_with(mechanism={"name": "pd-svd"} | mechanism)
    assert spelt.hash != spec_with().hash
    assert question_of(spelt, "c", 90) == question_of(spec_with(), "c", 90)


def test_a_whole_number_spelt_with_a_point_is_no_question_at_all() -> None:
    with pytest.raises(SpecError, match="whole number"):
        question_of(spec_with(mechanism={"name": "pd-svd", "rank": 3.0}), "c", 90)


def test_the_parameters_of_what_noise_is_put_on_count_as_they_are() -> None:
    def noisy(**parameters: Any) -> AuditQuestion:
        asked = {"name": "noisy", "mechanism": "pd-svd", "noise": 1, "parameters": parameters}
        return question_of(spec_with(mechanism=asked), "c", 90)

    assert noisy() == noisy(rank=PDSVD().rank) != noisy(rank=PDSVD().rank + 1)


def test_the_audits_of_a_list_are_one_attempt() -> None:
    asked = spec_with()
    rounds = [attempt(at_part(asked, n), f"round-{n}", given=asked) for n in (1, 2)]
    counted = count_attempts(rounds)
    assert (counted.attempts, counted.audits, counted.seeds) == (1, 2, 1)
    # It could have gone on: the level of all its rounds is spent.
    assert counted.level == pytest.approx(0.05)
    assert "once" in counted.sentence()


def test_levels_of_attempts_add_up_and_stop_at_one() -> None:
    three = [attempt(spec_with(seed=seed), str(seed)) for seed in (1, 2, 3)]
    assert count_attempts(three).level == pytest.approx(0.15)
    assert "3 times" in count_attempts(three).sentence()
    assert count_attempts([attempt(spec_with(seed=n), str(n)) for n in range(30)]).level == 1.0


@pytest.mark.parametrize(
    ("certificate", "decision", "level"),
    [({"pairs": 9}, {}, 0.055), ({"pairs": 9}, {"clear_level": 0.01}, 0.011), (None, {"clear_level": 0.01}, 0.01)],
)
def test_the_level_is_that_of_clear_and_of_its_certificates(
    certificate: dict[str, Any] | None, decision: dict[str, Any], level: float
) -> None:
    asked = spec_with(certificate=certificate, decision=TABLES["decision"] | decision)
    counted = count_attempts([attempt(asked, "a")])
    assert counted.level == pytest.approx(level)
    # All audits of a list together hold no more.
    rounds = [attempt(at_part(asked, n), str(n), asked, list_attempt("a")) for n in (1, 2, 3, 4)]
    assert sum(one.level for one in rounds) == pytest.approx(level * 15 / 16)
    assert count_attempts(rounds).level == pytest.approx(level)
    assert all(one.part for one in rounds)


def test_an_audit_and_the_audits_of_its_list_hold_their_sum() -> None:
    asked = spec_with()
    rounds = [attempt(at_part(asked, n), str(n), asked, list_attempt("alone")) for n in (1, 2, 3)]
    counted = count_attempts([attempt(asked, "alone"), *rounds])
    assert counted.attempts == 2
    assert counted.level == pytest.approx(0.1)
    assert "2 times" in counted.sentence()


def test_parts_of_the_corpus_and_rows_are_one_question() -> None:
    asked = spec_with(parties={"honest": 0.2, "coalition": 0.1})
    question = question_of(asked, "c", 90)
    assert question.content == question_of(spec_with(parties={"honest": 18, "coalition": 9}), "c", 90).content
    assert not question.same(question_of(spec_with(parties={"honest": 17, "coalition": 9}), "c", 90))


def test_a_file_that_grows_is_asked_the_same() -> None:
    asked = spec_with(parties={"honest": 0.2, "coalition": 0.1}, corpus={"path": "data/mail.csv"})
    grown = question_of(asked, "grown", 91)
    assert question_of(asked, "c", 90).same(grown)
    assert question_of(asked, "c", 90).content != grown.content
    assert grown.same(question_of(spec_with(parties=asked.parties, corpus={"path": "other"}), "grown", 91))
    assert not grown.same(question_of(spec_with(parties=asked.parties, corpus={"path": "other"}), "c", 91))
    people = spec_with(parties=asked.parties, corpus=asked.corpus, design={"unit": "group"})
    assert not grown.same(question_of(people, "grown", 91))
