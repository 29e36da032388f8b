"""What the demo says of its two audits."""

from __future__ import annotations

from dataclasses import replace

from ksdp.flows.audits.demo import demo_specs, demo_words

from ...summaries import example


def test_the_settings_differ_in_what_a_run_opens_alone() -> None:
    every, final = demo_specs()
    assert [spec.mechanism.parameters["opens"] for spec in (every, final)] == ["every round", "final"]
    keys = ("seed", "corpus", "statistics", "design", "decision", "store")
    assert [getattr(every, key) for key in keys] == [getattr(final, key) for key in keys]


def test_words_have_every_verdict_each_report_and_what_makes_it_safe() -> None:
    first = replace(example(), report="/store/first.html")
    second = replace(example(), report="/store/second.html")
    safe = replace(second.verdicts, sensitive=0, clear=second.verdicts.clear + second.verdicts.sensitive)
    said = demo_words([first, replace(second, verdicts=safe)])
    for word in ("sensitive", "clear", "undecided", "/store/first.html", "/store/second.html"):
        assert word in said
    assert "What makes this run safer" in said
    assert "What makes it safe" in said
    still = replace(second, verdicts=replace(second.verdicts, sensitive=3))
    assert "What makes this run safer" not in demo_words([first, still])
