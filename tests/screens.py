"""The summary of a screen that nobody had to run, for tests of what reads screens."""

from __future__ import annotations

from typing import Any

from ksdp.audit.results.stored_summary import VERSION
from ksdp.audit.screening.screen_summary import ScreenSummary

__all__ = ["SEARCH", "round_of", "screened", "tried"]


def round_of(number: int, **changes: Any) -> dict[str, Any]:
    """A round of 1,200 documents, as its file holds it."""
    return {
        "round": number, "proof": False, "audit": f"audit{number}", "corpus": "sha256:aa", "among": 1200,
        "documents": 1200, "sensitive": 40, "clear": 1000, "undecided": 160, "median_D": 0.31, "largest_D": 0.97,
        "level": 0.025, "seed": 5, "runs": 4000, "cached_runs": 0, "valid": True,
    } | changes  # fmt: skip


def tried(value: float | None, **changes: Any) -> dict[str, Any]:
    """A value of a search that was not good, as its file holds it."""
    return {
        "value": value, "good": False, "audit": "a", "runs": 400, "valid": True, "documents": 200,
        "above_margin": 180, "share": 0.9, "upper_limit": 0.95, "median_D": 0.7, "largest_D": 1.0,
    } | changes  # fmt: skip


SEARCH: dict[str, Any] = {
    "quota": 0.05, "margin": 0.2, "confidence": 0.95, "level_each": 0.002, "sampled": 200, "population": 1200,
    "design": "balanced", "measure": "share of the energy", "reason": "What would help: noise.", "seconds": 9.0,
    "present": tried(None) | {"quality": {"from_all": 0.51, "from_a_party": 0.6}},
    "answers": [
        {
            "search": "party-size", "found": None,
            "tried": [tried(51), {"value": 72, "refused": "void: a control", "valid": False}],
            "reason": "No party size from 51 to 600 was found.", "quality": None,
        },
        {"search": "rank", "found": None, "tried": [], "reason": "Nothing to search: the mechanism has no rank."},
        {
            "search": "noise", "found": 0.25, "tried": [tried(0.25, good=True, above_margin=1, upper_limit=0.031)],
            "reason": "At a noise of 0.25.", "quality": {"from_all": 0.8123, "from_a_party": 0.9},
        },
    ],
}  # fmt: skip


def screened(**changes: Any) -> ScreenSummary:
    """A screen of two rounds that cleared 1,160 of 1,200 documents; `changes` replace whole parts."""
    proof = round_of(2, proof=True, sensitive=0, clear=1160, undecided=0, documents=1160, among=1160)
    told = {
        "version": VERSION, "screen": "0123456789ab", "corpus": "sha256:" + "0f" * 32, "mechanism": "pd-nmf",
        "spec": "sha256:" + "aa" * 32, "outcome": "cleared", "helps": True,
        "reason": "Without 40 documents, round 2 found nothing sensitive.", "documents": 1200,
        "unit": "document", "excluded": 1, "allowed": 1160, "allowed_verdicts": ["clear"], "exact": True,
        "beside": 0, "why_beside": None, "statement": "In the last of 2 audits nothing was found.",
        "rounds": [round_of(1), proof | {"largest_D": 0.19}],
        "most": 0.5, "level": 0.05, "margin": 0.2, "party_rows": 36,
        "quality": {
            "measure": "share of the energy", "learnt_from_all": 0.512345, "learnt_from_cleared": 0.523456,
            "documents_all": 1200, "documents_cleared": 1160,
        },
        "search": None, "clearance": "/somewhere/mail.clearance", "fingerprint": "139e-3940", "reviewer": "Ana",
        "finished": "2026-03-01T00:00:00+00:00", "seconds": 71.0, "store": "s", "report": "r",
    }  # fmt: skip
    return ScreenSummary.from_json(told | changes)
