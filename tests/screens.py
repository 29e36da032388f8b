"""The summary of a screening that nobody had to run, for tests of what reads screenings."""

from typing import Any

from ksdp.audit.results.summary import VERSION
from ksdp.audit.screening.screen_summary import ScreenSummary

__all__ = ["CLEARED", "round_of", "screened"]

CLEARED = {"sensitive": 0, "clear": 960, "undecided": 0}


def round_of(number: int, **changes: Any) -> dict[str, Any]:
    """A round of 1,200 documents, as its file holds it."""
    return {
        "round": number, "audit": f"audit{number}", "corpus": "sha256:aa", "among": 1200,
        "rows": 36, "documents": 1200, "verdicts": {"sensitive": 40, "clear": 1000, "undecided": 160},
        "median_D": 0.31, "largest_D": 0.97, "level": 0.025, "seed": 5, "runs": 4000, "cached_runs": 0,
        "valid": True,
    } | changes  # fmt: skip


def screened(**changes: Any) -> ScreenSummary:
    """A screening of two rounds that signed 960 of 1,200 documents; `changes` replace whole parts."""
    second = round_of(1, verdicts={"sensitive": 0, "clear": 960, "undecided": 40}, documents=1000, among=1000)
    last = round_of(2, verdicts=CLEARED, documents=960, among=960, largest_D=0.19)
    told = {
        "version": VERSION, "screen": "0123456789ab", "corpus": "sha256:" + "0f" * 32, "mechanism": "pd-nmf",
        "spec": "sha256:" + "aa" * 32, "outcome": "signed",
        "reason": "All 960 documents of the list hold in an audit of exactly this list.", "documents": 1200,
        "unit": "document", "proposed": 1000, "allowed": 960, "accepted": 0, "left_out": 40, "exclusions": [],
        "statement": "960 documents are listed.",
        "rounds": [round_of(0), second, last], "level": 0.05, "margin": 0.2,
        "gain": ["On its own documents a party gains +0.0100 (+0.0050 to +0.0150)."],
        "clearance": "/somewhere/mail.clearance", "fingerprint": "139e-3940", "reviewer": "Ana",
        "finished": "2026-03-01T00:00:00+00:00", "seconds": 71.0, "store": "s", "report": "r",
    }  # fmt: skip
    return ScreenSummary.from_json(told | changes)
