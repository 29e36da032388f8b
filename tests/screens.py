"""The summary of a screen that nobody had to run, for tests of what reads screens."""

from __future__ import annotations

from typing import Any

from ksdp.audit.results.summary import VERSION
from ksdp.audit.screening.screen_summary import ScreenSummary

__all__ = ["CLEARED", "round_of", "screened"]

CLEARED = {"sensitive": 0, "clear": 1160, "undecided": 0}


def round_of(number: int, **changes: Any) -> dict[str, Any]:
    """A round of 1,200 documents, as its file holds it."""
    return {
        "round": number, "proof": False, "audit": f"audit{number}", "corpus": "sha256:aa", "among": 1200,
        "rows": 36, "documents": 1200, "verdicts": {"sensitive": 40, "clear": 1000, "undecided": 160},
        "median_D": 0.31, "largest_D": 0.97, "level": 0.025, "seed": 5, "runs": 4000, "cached_runs": 0,
        "valid": True,
    } | changes  # fmt: skip


def screened(**changes: Any) -> ScreenSummary:
    """A screen of two rounds that cleared 1,160 of 1,200 documents; `changes` replace whole parts."""
    proof = round_of(2, proof=True, verdicts=CLEARED, documents=1160, among=1160)
    told = {
        "version": VERSION, "screen": "0123456789ab", "corpus": "sha256:" + "0f" * 32, "mechanism": "pd-nmf",
        "spec": "sha256:" + "aa" * 32, "outcome": "cleared", "helps": True,
        "reason": "Without 40 documents, round 2 found nothing sensitive.", "documents": 1200,
        "unit": "document", "excluded": 1, "allowed": 1160, "allowed_verdicts": ["clear"], "exact": True,
        "exclusions": [], "beside": 0, "why_beside": None,
        "statement": "In the last of 2 audits nothing was found.",
        "rounds": [round_of(1), proof | {"largest_D": 0.19}],
        "most": 0.5, "level": 0.05, "margin": 0.2, "party_rows": 36,
        "quality": {
            "measure": "share of the energy", "learnt_from_all": 0.512345, "learnt_from_cleared": 0.523456,
            "documents_all": 1200, "documents_cleared": 1160,
        },
        "clearance": "/somewhere/mail.clearance", "fingerprint": "139e-3940", "reviewer": "Ana",
        "finished": "2026-03-01T00:00:00+00:00", "seconds": 71.0, "store": "s", "report": "r",
    }  # fmt: skip
    return ScreenSummary.from_json(told | changes)
