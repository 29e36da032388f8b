"""SECURITY.md says what nodes that deviate can do; every row names the tests of it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_claim_about_deviations_has_a_test() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    section = text.split("## What parties that deviate can do\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("|")][2:]
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"def (test_\w+)\(", code))
    assert len(rows) > 15
    for protocol, deviation, *_, tests in rows:
        named = re.findall(r"`(test_\w+)`", tests)
        assert named, (protocol, deviation)
        assert set(named) <= there, set(named) - there
