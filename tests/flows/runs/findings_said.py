"""What is said of a fault that a check found: one line, and what mends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ksdp.flows.runs.check import Finding

__all__ = ["of_cases", "one_line", "only_one"]


def one_line(finding: Finding, said: str) -> None:
    assert said in finding.said
    assert "\n" not in finding.said
    assert finding.mend
    assert "{" not in finding.mend


def of_cases(cases: Sequence[tuple[str, Any, str, str]]) -> pytest.MarkDecorator:
    """A test of every case: its name, what plants a fault, the fault's code, and what is said of it."""
    names = ("plant", "code", "said")
    return pytest.mark.parametrize(names, [case[1:] for case in cases], ids=[case[0] for case in cases])


def only_one(findings: Sequence[Finding], code: str, said: str) -> None:
    """Nothing is wrong but this, and it is said in one line."""
    wrong = [finding for finding in findings if not finding.fine]
    assert [finding.code for finding in wrong] == [code]
    one_line(wrong[0], said)
