"""What is said of a fault that a check found: one line, and what mends it."""

from __future__ import annotations

from ksdp.flows.runs.check_words import Finding

__all__ = ["one_line"]


def one_line(finding: Finding, said: str) -> None:
    assert said in finding.said
    assert "\n" not in finding.said
    assert finding.mend
    assert "{" not in finding.mend
