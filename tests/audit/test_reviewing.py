"""What may follow what, for one person and for two."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.errors import InputError
from ksdp.audit.reviewing import (
    LONGEST_REASON,
    NOTES,
    Decision,
    Entry,
    Proposal,
    StaleDecision,
    State,
    Status,
    assignment,
    check_proposal,
    fold,
    same_person,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def written(number: int, decision: str, who: str, audit: str = "a", document: str = "7") -> Entry:
    about = (audit, "sha256:c", "data/mail.csv", "document", document)
    return Entry(number, *about, Decision(decision), "why", who, NOW, number - 1, "", str(number))


def state(*lines: str, four_eyes: bool = True, **more: str) -> State:
    entries = [written(number, *line.split()) for number, line in enumerate(lines, 1)]
    return fold(entries, "a", "7", four_eyes=four_eyes, **more)


@pytest.mark.parametrize(
    ("lines", "four_eyes", "status", "decision", "waiting"),
    [
        ((), True, "open", None, None),
        (("accept Ana",), False, "decided", "accept", None),
        (("accept Ana",), True, "waiting", None, "accept"),
        (("accept Ana", "confirm Ben"), True, "decided", "accept", None),
        (("accept Ana", "confirm Ana"), True, "waiting", None, "accept"),
        (("accept Ana", "exclude Ben"), True, "waiting", None, "exclude"),
        (("accept Ana", "exclude Ben"), False, "decided", "exclude", None),
        (("accept Ana", "withdraw Ben"), True, "open", None, None),
        (("accept Ana", "withdraw Ben"), False, "open", None, None),
        (("exclude Ana", "confirm Ben", "withdraw Ana"), True, "waiting", "exclude", "withdraw"),
        (("exclude Ana", "confirm Ben", "withdraw Ana", "confirm Ben"), True, "open", None, None),
        (("exclude Ana", "confirm Ben", "withdraw Ana", "withdraw Ben"), True, "decided", "exclude", None),
        (("exclude Ana", "confirm Ben", "accept Ana"), True, "decided", "exclude", None),
        (("exclude Ana", "accept Ben"), True, "waiting", None, "exclude"),
        (("exclude Ana", "confirm Ben", "more-runs Cem"), True, "decided", "exclude", None),
        (("exclude Ana", "accept Ana"), False, "decided", "exclude", None),
        (("exclude Ana", "withdraw Ana", "accept Ana"), False, "decided", "accept", None),
        (("accept Ana", "more-runs Ben"), True, "decided", "more-runs", None),
        (("confirm Ben",), True, "open", None, None),
    ],
)
def test_what_holds_after_these_entries(
    lines: tuple[str, ...], four_eyes: bool, status: str, decision: str | None, waiting: str | None
) -> None:
    found = state(*lines, four_eyes=four_eyes)
    assert (found.status, found.decision) == (status, decision)
    assert (found.waiting.decision if found.waiting else None) == waiting
    assert found.version == len(lines)
    assert (found.confirmed is not None) == (four_eyes and found.decision in {"accept", "exclude"})


DECISIONS = [decision for decision in Decision if decision not in NOTES]
lines = st.lists(
    st.tuples(st.sampled_from(DECISIONS), st.sampled_from(["Ana", "ana", "Ben"])).map(" ".join), max_size=8
)


@given(lines)
def test_nothing_enters_a_run_by_one_person_where_two_are_asked_for(taken: list[str]) -> None:
    found = state(*taken)
    if found.decision is Decision.ACCEPT:
        assert found.decided is not None
        assert found.confirmed is not None
        assert not same_person(found.decided.reviewer, found.confirmed.reviewer)


@given(lines, st.integers(0, 9), st.sampled_from(DECISIONS))
def test_only_the_present_version_can_be_answered(taken: list[str], saw: int, decision: Decision) -> None:
    present = state(*taken)
    proposal = Proposal("a", "7", decision, "why", "Cem", saw)
    if saw < len(taken):
        with pytest.raises(StaleDecision) as refused:
            check_proposal(proposal, present, four_eyes=True)
        assert refused.value.newer == present.newest
    else:
        try:
            check_proposal(proposal, present, four_eyes=True)
        except StaleDecision:
            pytest.fail("it was not stale")
        except InputError:
            assert decision in {Decision.CONFIRM, Decision.WITHDRAW} or present.exclusion is not None


everything = st.lists(
    st.tuples(st.sampled_from(list(Decision)), st.sampled_from(["Ana", "Ben"]), st.sampled_from("ab")), max_size=12
)


@given(everything, st.booleans())
def test_a_note_decides_nothing_and_is_no_second_person(
    taken: list[tuple[Decision, str, str]], four_eyes: bool
) -> None:
    """The state of a document is that without its notes, to the last field, whoever writes them and wherever."""
    entries = [written(number, kind, who, audit) for number, (kind, who, audit) in enumerate(taken, 1)]
    without = [entry for entry in entries if entry.decision not in NOTES]
    assert fold(entries, "a", "7", four_eyes=four_eyes) == fold(without, "a", "7", four_eyes=four_eyes)


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        ("", None),
        ("assign Ana a", 1),
        ("assign Ana z", None),
        ("assign Ana a|assign Ben b|comment Cem a", 2),
        ("assign Ana a|accept Ben b", None),
        ("assign Ana a|accept Ben z", 1),
        ("assign Ana a|exclude Ben z", None),
        ("assign Ana a|more-runs Ben a|withdraw Ben a", 1),
        ("exclude Ben a|assign Ana a|confirm Ana b", None),
        ("exclude Ben a|assign Ana a|confirm Ana z", 2),
    ],
)
def test_an_assignment_stands_until_it_is_answered(lines: str, number: int | None) -> None:
    """In the audits `a` and `b`, which ask the same; `z` asks something else."""
    entries = [written(place, *line.split()) for place, line in enumerate(filter(None, lines.split("|")), start=1)]
    found = assignment(entries, {"a", "b"})
    assert (found.number if found else None) == number


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"owner": " "}, "`owner` must say something"),
        ({"owner": "Ben\x1b"}, "`owner` must not hold control"),
        ({"due": "20261231"}, "must be a day as in 2026-12-31; got '20261231'"),
        ({"due": "soon"}, "must be a day"),
        ({"decision": Decision.COMMENT, "reason": "why"}, "go with the decision `assign`"),
        ({"decision": Decision.ACCEPT, "reason": "why", "owner": ""}, "go with the decision `assign`"),
        ({"decision": Decision.COMMENT, "owner": "", "due": "", "reason": ""}, "`reason` must say"),
    ],
)
def test_a_note_says_who_and_until_when(change: dict, message: str) -> None:
    values = {"decision": Decision.ASSIGN, "reason": "", "owner": "Ben", "due": "2026-12-31"}
    check_proposal(Proposal("a", "7", reviewer="Ana", **values), state(), four_eyes=True)
    with pytest.raises(InputError, match=message):
        check_proposal(Proposal("a", "7", reviewer="Ana", **values | change), state(), four_eyes=True)


def test_a_newer_audit_supersedes_what_is_shown_still() -> None:
    old = state("accept Ana", "confirm Ben", superseded_by="b")
    assert (old.status, old.decision) == (Status.SUPERSEDED, "accept")
    with pytest.raises(StaleDecision, match="audited again in b"):
        check_proposal(Proposal("a", "7", Decision.EXCLUDE, "why", "Cem"), old, four_eyes=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reason": " \n"}, "`reason` must say"),
        ({"reason": "x" * (LONGEST_REASON + 1)}, "at most 2000 characters; got 2001"),
        ({"reason": "a\x1b[2J"}, "`reason` must not hold control"),
        ({"reviewer": ""}, "`reviewer` must say"),
        ({"reviewer": "Ana\nBen"}, "`reviewer` must not hold control"),
        ({"decision": Decision.CONFIRM, "reviewer": "ana "}, "another must confirm"),
        ({"decision": Decision.CONFIRM, "saw": None}, "must name the entry"),
    ],
)
def test_refused_with_its_reason(change: dict, message: str) -> None:
    values = {"audit": "a", "document": "7", "decision": Decision.ACCEPT, "reason": "why", "reviewer": "Ben"}
    check_proposal(Proposal(**values, saw=1), state("accept Ana"), four_eyes=True)
    with pytest.raises(InputError, match=message):
        check_proposal(Proposal(**values | {"saw": 1} | change), state("accept Ana"), four_eyes=True)


@pytest.mark.parametrize(
    ("decision", "four_eyes", "message"),
    [("confirm", True, "nothing waits"), ("confirm", False, "no second person"), ("withdraw", True, "nothing to")],
)
def test_there_must_be_something_to_answer(decision: str, four_eyes: bool, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_proposal(Proposal("a", "7", Decision(decision), "why", "Ben", 0), state(), four_eyes=four_eyes)


@pytest.mark.parametrize(
    ("lines", "four_eyes", "out", "decision"),
    [
        ("exclude Ana a", False, True, "exclude"),
        ("exclude Ana a|accept Ben b", False, True, "exclude"),
        ("accept Ben b|exclude Ana a", False, True, "exclude"),
        ("exclude Ana a|withdraw Ben b", False, False, None),
        ("exclude Ana a|withdraw Ben b|accept Ben b", False, False, "accept"),
        ("accept Ana a|withdraw Ana a", False, False, None),
        ("accept Ben b|accept Ana a|withdraw Ana a", False, False, "accept"),
        ("exclude Ana a", True, True, None),
        ("exclude Ana a|confirm Ben b", True, True, "exclude"),
        ("exclude Ana a|confirm Ben b|withdraw Ben b", True, True, "exclude"),
        ("exclude Ana a|confirm Ben b|withdraw Ben b|confirm Ana c", True, False, None),
        ("exclude Ana -", False, True, "exclude"),
    ],
)
def test_an_exclusion_holds_in_every_audit_until_it_is_withdrawn(
    lines: str, four_eyes: bool, out: bool, decision: str | None
) -> None:
    entries = []
    for number, line in enumerate(lines.split("|"), 1):
        kind, who, audit = line.split()
        entries.append(written(number, kind, who, audit.strip("-")))
    found = fold(entries, "b", "7", four_eyes=four_eyes)
    assert (found.exclusion is not None, found.decision) == (out, decision)
    if out:
        for wanted in (Decision.ACCEPT, Decision.MORE_RUNS):
            with pytest.raises(InputError, match=r"is excluded, .*by Ana on 2026-03-01: why\. Withdraw"):
                check_proposal(Proposal("b", "7", wanted, "why", "Cem"), found, four_eyes=four_eyes)


def test_names_are_compared_as_people_read_them() -> None:
    assert same_person("Zoe\u0308 B.", "zoë  b.")
    assert not same_person("Zoe B.", "Zoë B.")
