"""Who is listed, and whether the words say how many."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.reviewing import Decision, Entry, State, Status
from ksdp.audit.screening.clearance import Attempts, ListCounts, list_statement, select

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SAID = {d: Entry(1, "a", "c", "mail.csv", "document", "x", d, "why", "Ana", NOW, 0, "", "") for d in Decision}


def state(decided: str | None = None, waiting: str | None = None, earlier: str | None = None) -> State:
    def entry(name: str | None) -> Entry | None:
        return SAID[Decision(name)] if name else None

    return State("a", "x", Status.OPEN, 1, decided=entry(decided), waiting=entry(waiting), earlier=entry(earlier))


@pytest.mark.parametrize(
    ("verdict", "found", "place"),
    [
        ("clear", None, "proved"),
        ("clear", state("accept"), "proved"),
        ("clear", state("exclude"), "excluded"),
        ("clear", state("more-runs"), "left_open"),
        ("clear", state(earlier="accept"), "proved"),
        ("clear", state("exclude", waiting="withdraw"), "left_open"),
        ("sensitive", None, "left_open"),
        ("sensitive", state("accept"), "accepted"),
        ("sensitive", state(waiting="accept"), "left_open"),
        ("undecided", state("accept", waiting="withdraw"), "left_open"),
        ("undecided", state("exclude"), "excluded"),
        ("undecided", state(earlier="accept"), "left_open"),
    ],
)
def test_where_a_document_goes(verdict: str, found: State | None, place: str) -> None:
    chosen = select({"x": verdict}, {"x": found} if found else {})
    assert getattr(chosen, place) == ("x",)
    assert chosen.listed == (("x",) if place in {"proved", "accepted"} else ())
    assert chosen.waiting == (("x",) if found and found.waiting else ())


@pytest.mark.parametrize(
    ("found", "place"), [(None, "left_open"), (state("accept"), "accepted"), (state("exclude"), "excluded")]
)
def test_what_an_earlier_audit_proved_is_not_forgotten(found: State | None, place: str) -> None:
    states = {"x": replace(found or State("a", "x", Status.OPEN, 0), proved_by="before")}
    chosen = select({"x": "clear", "y": "clear"}, states)
    assert getattr(chosen, place) == ("x",)
    assert chosen.proved == ("y",)


names = st.sampled_from([None, "exclude", "accept", "more-runs"])
found_states = st.builds(state, names, st.sampled_from([None, "exclude", "accept", "withdraw"]), names)


verdicts = st.sampled_from(["sensitive", "clear", "undecided"])


@given(st.dictionaries(st.text(max_size=3), st.tuples(verdicts, found_states)))
def test_every_document_goes_to_one_place_and_none_enters_unproved_without_a_word(
    documents: dict[str, tuple[str, State]],
) -> None:
    chosen = select({k: v for k, (v, _) in documents.items()}, {k: s for k, (_, s) in documents.items()})
    assert sorted(chosen.listed + chosen.excluded + chosen.left_open) == sorted(documents)
    for name in chosen.listed:
        verdict, found = documents[name]
        assert verdict == "clear" or found.decision is Decision.ACCEPT
        assert found.decision is not Decision.EXCLUDE


ASKED = Attempts(attempts=1, audits=2, seeds=1, margins=(0.2,), statistics=1, looks=4, level=0.075)


COUNTS = ListCounts(proved=3, accepted=2, excluded=1, left_open=2, not_picked=0, left_out=4)


def test_the_statement_counts_and_does_not_praise() -> None:
    values = {"margin": 0.2, "attempts": ASKED, "rows": 30, "among": 900}
    said = list_statement(COUNTS, **values, four_eyes=True)
    for words in (
        "5 documents are listed. An audit of exactly these proved 3 of them clear",
        "is below 0.2, in databases of 30 documents drawn from 900",
        "so far: 2; their levels add up to 0.075",
        "2 are listed by decision alone",
        "7 documents are not listed: 1 excluded by decision, 2 left open, 4 left out after",
        "stands in the log under two names",
        "Tests say nothing of statistics that were not tried.",
        "nothing of adversaries who know other documents of the run.",
        "nothing of runs with fewer documents or parties",
        "does not prove differential privacy",
        "Where two parties open exact sums, each learns the other's input exactly.",
    ):
        assert words in said, words
    accepted = list_statement(ListCounts(0, 2, 0, 0, 0, 0), **values, four_eyes=True)
    assert "2 documents are listed, and no audit proved anything of them." in accepted
    assert "exactly these" not in accepted
    alone = list_statement(
        ListCounts(1, 0, 0, 0, 0, 0), **values, four_eyes=False, every_size=True, any_knowledge=True, sums=False
    )
    assert "exact sums" not in alone
    assert "does not prove differential privacy." in alone
    assert "other documents of the run" not in alone
    assert "Tests say" not in alone
    assert "fewer documents" not in alone
    assert "Every document of the audit is listed." in alone
    assert "one person each" in alone
    assert "holds for every part of the corpus" in alone
    assert "by decision alone" not in alone
