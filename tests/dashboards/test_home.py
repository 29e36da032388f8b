"""What needs somebody today: each cause once, and a green light only for a signature that stands."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from ksdp.audit.screening.clearance import attempt_of, question_of
from ksdp.dashboards.home import HomePage, QuestionRow, read_home_page
from ksdp.storage.audits.ledger import record_attempt
from ksdp.storage.findings import read_spec, read_verdicts
from ksdp.storage.reviews.decisions import Decision, Policy, Proposal, append, write_policy
from ksdp.storage.schedules.schedule_files import append_run, note_failure, read_runs
from ksdp.storage.store import Store

from ..clearances import signed_copy

NOW = datetime(2026, 11, 12, 9, 0, tzinfo=UTC)


def needs(page: HomePage, of: str) -> list[str]:
    return [f"{one.light}: {one.words}" for one in page.needs if of in one.about]


def row(page: HomePage, audit: str = "svd-09") -> QuestionRow:
    return next(one for one in page.questions if one.pending.brief.audit == audit)


def one_question(store: Store) -> None:
    """All of PD-SVD in one row, as the ledger has it where audits were really run."""
    for name in (f"svd-{number:02d}" for number in range(1, 10)):
        spec = read_spec(store.audit(name))
        asked = {"question": question_of(spec, "sha256:aa", 60), "given": spec, "name": spec.hash}
        record_attempt(store, attempt_of(spec, name, "2026-11-08T02:30:07+00:00", 400, 1, **asked))


def clear_documents(store: Store) -> tuple[str, ...]:
    """Clear in the newest audit, and in none of the others proved to be given away."""
    tables = {name: read_verdicts(store.audit(name)).to_pandas() for name in store.audits() if "svd" in name}
    proved = {one for rows in tables.values() for one in rows[rows.verdict == "sensitive"].document}
    newest = tables["svd-09"]
    return tuple(sorted({*newest[newest.verdict == "clear"].document} - proved))


def decide(store: Store, document: str, decision: Decision = Decision.EXCLUDE, audit: str = "svd-09") -> None:
    append(store, [Proposal(audit, document, decision, "because", "Ada", None)], NOW)


def test_audits_of_a_question_are_one_row_with_their_trend(own_store: Store) -> None:
    one_question(own_store)
    page = read_home_page(own_store, NOW)
    assert {one.pending.brief.audit for one in page.questions} == {"svd-09", "nmf-01"}
    shown = row(page)
    assert shown.audits == 9
    assert (shown.light, shown.margin) == ("act", 0.55)
    sensitive = sum(
        name == "sensitive" for name in read_verdicts(own_store.audit("svd-09"))["verdict"].to_pylist()
    )
    assert f"nobody has decided: {sensitive} document" in shown.words
    assert shown.spark.count("mark void") == 1  # the third


@pytest.mark.parametrize(("days", "light"), [(90, "fine"), (10, "look"), (-1, "act")])
def test_a_light_is_green_only_while_a_signature_stands(own_store: Store, days: int, light: str) -> None:
    one_question(own_store)
    times = {"created": NOW - timedelta(days=2), "expires": NOW + timedelta(days=days)}
    signed_copy(own_store, audits=("svd-09",), documents=clear_documents(own_store), **times)
    assert row(read_home_page(own_store, NOW)).light == light
    assert all(one.light != "fine" for one in read_home_page(own_store, NOW).needs)


def test_an_exclusion_after_the_signature_and_a_newer_audit_are_named(own_store: Store) -> None:
    listed = clear_documents(own_store)
    times = {"created": NOW - timedelta(days=2), "expires": NOW + timedelta(days=90)}
    signed_copy(own_store, audits=("svd-09",), documents=listed, **times)
    decide(own_store, listed[0])
    page = read_home_page(own_store, NOW)
    assert "Excluded or proved since it was signed: 1 document. Sign again." in row(page).words
    one_question(own_store)
    signed_copy(own_store, audits=("svd-08",), documents=listed, **(times | {"created": NOW}))
    assert any("sign again" in one for one in needs(read_home_page(own_store, NOW), "PD-SVD"))


def test_second_persons_and_schedules_are_waited_for(own_store: Store) -> None:
    write_policy(own_store, Policy(four_eyes=True))
    decide(own_store, "mail-00007")
    assert any("A second person must confirm" in one for one in needs(read_home_page(own_store, NOW), "PD-SVD"))
    (turned,) = needs(read_home_page(own_store, NOW), "nightly")
    assert turned == "act: 1 document became sensitive in the last run."
    late = needs(read_home_page(own_store, NOW + timedelta(days=5)), "nightly")
    assert any("No run came since 12 Nov" in one for one in late)
    note_failure(own_store, "nightly-mail", NOW, "no space")
    assert any(
        "failed at 12 Nov 2026, 09:00 UTC: no space" in one
        for one in needs(read_home_page(own_store, NOW), "nightly")
    )
    note_failure(own_store, "nightly-mail", NOW, None)
    last = read_runs(own_store, "nightly-mail")[-1]
    changes = {"outcome": "void", "reason": "a planted leak was missed", "became_sensitive": 0}
    append_run(own_store, "nightly-mail", last.model_copy(update=changes | {"appetite_missed": ("margin",)}))
    said = needs(read_home_page(own_store, NOW), "nightly")
    assert [one.startswith("act") for one in said] == [True, True]


def test_what_is_overdue_needs_its_owner_until_it_is_decided(own_store: Store) -> None:
    one_question(own_store)
    rows = read_verdicts(own_store.audit("nmf-01")).to_pandas()
    sensitive = rows[rows.verdict == "sensitive"].document.tolist()
    for audit, name, owner, due in (
        ("nmf-01", sensitive[0], "Ben", "2026-11-10"),
        ("nmf-01", sensitive[1], "Cem", "2026-11-11"),
        ("nmf-01", sensitive[2], "Dan", "2026-11-12"),
        ("nmf-01", sensitive[3], "Eve", ""),
        ("svd-09", clear_documents(own_store)[0], "Eve", "2026-11-01"),
    ):
        append(own_store, [Proposal(audit, name, Decision.ASSIGN, "", "Ada", None, owner, due)], NOW)
    (late,) = (one for one in read_home_page(own_store, NOW).needs if one.event == "ksdp.finding.overdue")
    assert (late.light, late.words) == ("act", "Overdue since 10 Nov 2026: 2 documents, of Ben, Cem.")
    assert late.subject.startswith("ksdp.question.")
    assert "show=assigned" in late.href
    decide(own_store, sensitive[0], audit="nmf-01")
    assert "Overdue since 11 Nov 2026: 1 document, of Cem." in str(read_home_page(own_store, NOW).needs)
    decide(own_store, sensitive[1], Decision.ACCEPT, "nmf-01")
    assert "Overdue" not in str(read_home_page(own_store, NOW).needs)


def test_damage_and_a_review_that_is_due_are_named(own_store: Store) -> None:
    file = own_store.audit("svd-02") / "audit.json"
    told = json.loads(file.read_text())
    file.write_text("{")
    copy = signed_copy(own_store, created=NOW, expires=NOW + timedelta(days=1))
    read_home_page(own_store, NOW)  # what was read before is read again once it differs
    (own_store.root / "clearances" / f"{copy}.json").write_text("{}")
    page = read_home_page(own_store, NOW)
    said = needs(page, "this store")
    assert len(said) == 2
    assert all("damaged" in one and "ksdp check" in one for one in said)
    assert not any("nothing is signed" in row.words for row in page.questions)
    file.write_text(json.dumps(told))
