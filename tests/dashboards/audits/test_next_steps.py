from __future__ import annotations

from dataclasses import replace

from ksdp.audit.results.parts import VerdictCounts
from ksdp.dashboards.audits.sentences import next_steps

from ...summaries import example


def test_a_few_sensitive_documents_are_decided_about_and_the_rest_audited_again() -> None:
    first, second = next_steps(example())
    assert "Decide about the 1 sensitive document:" in first
    assert "ksdp clear" in first
    assert "3 undecided documents for safe" in second
    runs = f"{example().runs:,} runs prove neither. About 1,234 would decide half of them"
    assert runs in next_steps(example(), 1234.0)[1]


def test_where_most_are_sensitive_the_setting_is_at_fault() -> None:
    (only,) = next_steps(example(verdicts=VerdictCounts(5, 0, 0)))
    assert only.startswith("Do not run it like this. With 5 of 5 documents given away")


def test_what_nobody_looks_at_is_named_and_what_is_clear_can_be_signed() -> None:
    unread = next_steps(example(verdicts=VerdictCounts(0, 0, 5), unread=("sigma",)))
    assert len(unread) == 1
    assert "no statistic looks at sigma: add one that does" in unread[0]
    (sign,) = next_steps(example(verdicts=VerdictCounts(0, 5, 0)))
    assert sign.startswith("Sign what may be used")
    assert next_steps(example(verdicts=VerdictCounts(0, 4, 0))) == [], "the fifth has no verdict that is known"


def test_a_void_audit_decides_nothing() -> None:
    about = example()
    void = replace(about, valid=False, controls=replace(about.controls, reason="a canary was not found"))
    assert next_steps(void)[0].startswith("Use no verdict")
