from dataclasses import replace

import pytest

from ksdp.audit.results.parts import AbsenceSummary, VerdictCounts
from ksdp.dashboards.audits.sentences import next_steps, why_sensitive
from ksdp.storage.learning import GainAndAdvice

from ...summaries import example


def test_it_says_why_documents_are_sensitive_and_ends_in_advice_or_what_that_found() -> None:
    about = example()
    first, second = next_steps(about, spec="mail.toml")
    assert first.startswith("Do not run it as it stands: 1 of 5 documents are given away; most are found because ")
    assert "“ksdp advise mail.toml” looks for a setting within the margin" in first
    assert "3 undecided documents for safe" in second
    outlook = {"remedy": "A draw costs +0.0100.", "seconds": 12.3}
    (told, _) = next_steps(about, learning=GainAndAdvice(None, None, False, outlook), spec="mail.toml")
    assert "A draw costs +0.0100. “ksdp advise mail.toml” looks for " in told
    assert "It takes about 12 CPU seconds" in told
    found = {
        "best": None,
        "sentences": ["Not reachable.", "It takes 9."],
        "gain": {"sentences": ["Joining gains."]},
    }
    (told, _) = next_steps(about, learning=GainAndAdvice(None, found, False))
    assert told.endswith("“ksdp advise” found: Not reachable. Joining gains. It takes 9.")
    commands = [{"command": "ksdp keys me"}, {"command": "ksdp clear mail.advised.toml"}]
    (told, _) = next_steps(about, learning=GainAndAdvice(None, found | {"best": 1, "commands": commands}, False))
    assert told.endswith("Next: “ksdp clear mail.advised.toml”"), "never back to where it came from"


def test_why_is_said_in_words_by_the_statistic_that_finds_most() -> None:
    about = example()
    row = next(iter(about.statistics.values()))
    for name, words in (
        ("missing-weight", "a zero in the release"),
        ("linear-basis", "as equations"),
        ("row-space-energy", "far from the rest"),
    ):
        statistics = {"w-max": replace(row, sensitive=1), name: replace(row, sensitive=2)}
        assert words in why_sensitive(replace(about, statistics=statistics))
    nobody = replace(about, statistics={"w-max": replace(row, sensitive=0)})
    assert why_sensitive(nobody).startswith("only several")
    absence = AbsenceSummary(documents=1, median_bound=0.5, largest_bound=0.5)
    assert why_sensitive(replace(about, absence=absence)).endswith(
        "a zero in the release shows it, before any run"
    )


def test_the_runs_that_would_decide_are_in_the_unit_of_the_key() -> None:
    about = example()
    wanted = about.design.with_runs(1234.0)
    step = next_steps(about, 1234.0)[1]
    assert f"Set “with_runs = {wanted}” in the specification: the audit goes on from here, and about 1,234" in step
    share = min(about.design.share, 1 - about.design.share)
    assert wanted == pytest.approx(1234 * share, rel=0.15, abs=1)


def test_where_few_stand_out_they_may_be_decided_about() -> None:
    few = example(verdicts=VerdictCounts(1, 29, 0), documents=30)
    assert "Or decide about the 1 sensitive document:" in next_steps(few)[1]
    assert len(next_steps(example(verdicts=VerdictCounts(5, 0, 0)))) == 1


def test_what_nobody_looks_at_is_named_and_what_is_clear_can_be_signed() -> None:
    (unread,) = next_steps(example(verdicts=VerdictCounts(0, 0, 5), unread=("sigma",)))
    assert "nobody can be clear, however many runs there are: nothing tests sigma." in unread
    (sign,) = next_steps(example(verdicts=VerdictCounts(0, 5, 0)))
    assert sign.startswith("Sign what may be used")
    assert next_steps(example(verdicts=VerdictCounts(0, 4, 0))) == [], "the fifth has no verdict that is known"


def test_a_void_audit_decides_nothing() -> None:
    about = example()
    void = replace(about, valid=False, controls=replace(about.controls, reason="a canary was not found"))
    assert next_steps(void)[0].startswith("Use no verdict")
