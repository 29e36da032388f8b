"""One audit at a margin with sensitive, clear and detected documents, as its report and its pages tell it."""

import html
import re
from collections.abc import Callable
from pathlib import Path

from ksdp.storage.audits.history import read_summary
from ksdp.storage.findings import read_verdicts
from ksdp.storage.store import Store


def test_sensitive_clear_and_detected_are_told_apart(
    audited: tuple[Path, str], pages: Callable, ksdp: Callable
) -> None:
    folder, audit = audited
    opened = Store.open(folder / "store", create=False)
    summary, rows = read_summary(opened.audit(audit)), read_verdicts(opened.audit(audit)).to_pylist()
    assert summary.spec.decision.margin == 0.3
    kinds: dict[tuple[str, bool], list[str]] = {}
    for row in rows:
        kinds.setdefault((row["verdict"], row["detected"]), []).append(row["document"])
    # A trace may be clear, and a detected leak undecided; what is above the margin is detected, too.
    assert {("sensitive", True), ("clear", True), ("clear", False), ("undecided", True)} <= set(kinds)
    assert ("sensitive", False) not in kinds
    detected = sum(len(names) for (_, found), names in kinds.items() if found)
    assert summary.detected == detected
    counts = {kind: sum(row["verdict"] == kind for row in rows) for kind in ("sensitive", "clear", "undecided")}
    assert detected > counts["sensitive"] > 0
    assert summary.fresh.documents == detected

    dashboard = pages(folder / "store")
    report = (opened.audit(audit) / "report.html").read_text(encoding="utf-8")
    shown = re.sub(r"<(style|script|head)[^>]*>.*?</\1>|<[^>]+>", " ", report, flags=re.DOTALL)
    for said in (" ".join(html.unescape(shown).split()), dashboard.words(f"/audits/{audit}")):
        for kind, number in counts.items():
            assert f"{kind} {number} " in said
        assert f"For {detected} of 300, a leak of some size is proved." in said
        assert f"So the {detected} documents were measured again on" in said
        assert "flagged" not in said

    def page_of(verdict: str, found: bool) -> str:
        return str(dashboard.words(f"/audits/{audit}/document?id={kinds[verdict, found][0]}"))

    assert "clear . Proved to leak less than the margin of 0.3 that the owner accepts" in page_of("clear", True)
    assert "A leak is detected, less than the margin that the owner accepts: a trace." in page_of("clear", True)
    assert "No leak is detected." in page_of("clear", False)
    assert "A leak is detected. " in page_of("undecided", True)
    assert "sensitive : the statistic" in page_of("sensitive", True)
    for (verdict, found), names in kinds.items():
        told = ksdp("show", audit, names[0], "--store", folder / "store", "--json").out
        assert (told["verdict"], told["detected"]) == (verdict, found)
