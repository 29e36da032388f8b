"""The page of a screen, for every outcome: what it says, what it never loads, and text that stays text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ksdp.audit.errors import StoreError
from ksdp.dashboards.screening.screen_report import render_screen, screen_headline
from ksdp.storage.screening.screens import RoundVerdicts, write_excluded, write_screen
from ksdp.storage.store import Store


def round_of(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "round": number, "proof": False, "audit": f"audit{number}", "corpus": "sha256:aa", "among": 1200,
        "documents": 1200, "sensitive": 40, "clear": 1000, "undecided": 160, "median_D": 0.31, "largest_D": 0.97,
        "level": 0.025, "seed": 5, "runs": 4000, "cached_runs": 0, "valid": True,
    } | changes  # fmt: skip


def tried(value: float | None, **changes: Any) -> dict[str, Any]:
    return {
        "value": value, "good": False, "audit": "a", "runs": 400, "valid": True, "documents": 200,
        "above_margin": 180, "share": 0.9, "upper_limit": 0.95, "median_D": 0.7, "largest_D": 1.0,
    } | changes  # fmt: skip


def summary(**changes: Any) -> dict[str, Any]:
    return {
        "screen": "0123456789ab", "corpus": "sha256:" + "0f" * 32, "mechanism": "pd-nmf",
        "spec": "sha256:" + "aa" * 32, "outcome": "cleared", "helps": True,
        "reason": "Without 40 documents, round 2 found nothing sensitive.", "documents": 1200, "excluded": 1,
        "allowed": 1160, "allowed_verdicts": ["clear"], "exact": True, "beside": 0, "why_beside": None,
        "statement": "In the last of 2 audits nothing was found.",
        "rounds": [
            round_of(1),
            round_of(2, proof=True, sensitive=0, clear=1160, undecided=0, documents=1160, among=1160)
            | {"largest_D": 0.19},
        ],
        "most": 0.5, "level": 0.05, "margin": 0.2, "party_rows": 36,
        "quality": {
            "measure": "share of the energy", "learnt_from_all": 0.512345, "learnt_from_cleared": 0.523456,
            "documents_all": 1200, "documents_cleared": 1160,
        },
        "search": None, "clearance": "/somewhere/mail.clearance", "fingerprint": "139e-3940", "reviewer": "Ana",
        "finished": "2026-03-01T00:00:00+00:00", "seconds": 71.0, "store": "s", "report": "r",
    } | changes  # fmt: skip


SEARCH = {
    "quota": 0.05, "margin": 0.2, "confidence": 0.95, "level_each": 0.002, "sampled": 200, "population": 1200,
    "design": "balanced", "measure": "share of the energy", "reason": "What would help: noise.", "seconds": 9.0,
    "present": tried(None) | {"quality": {"from_all": 0.51, "from_a_party": 0.6}},
    "answers": [
        {
            "search": "party-size", "found": None, "tried": [tried(51), tried(72, refused="void: a control")],
            "reason": "No party size from 51 to 600 was found.", "quality": None,
        },
        {"search": "rank", "found": None, "tried": [], "reason": "Nothing to search: the mechanism has no rank."},
        {
            "search": "noise", "found": 0.25, "tried": [tried(0.25, good=True, above_margin=1, upper_limit=0.031)],
            "reason": "At a noise of 0.25.", "quality": {"from_all": 0.8123, "from_a_party": 0.9},
        },
    ],
}  # fmt: skip


class ScreenReportPage(HTMLParser):
    """Tags, attributes and text; a tag that is not closed is a fault."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "link", "br"}:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def render(tmp_path: Path, found: dict[str, Any], document: str = "mail-7") -> ScreenReportPage:
    store = Store.open(tmp_path / "store")
    if found["excluded"]:
        row = {
            "document": document,
            "verdict": "sensitive",
            "statistic": "sigma",
            "distance": 0.97,
            "log10_adjusted_p": -31.25,
        }
        write_excluded(store, found["screen"], [RoundVerdicts(1, pa.Table.from_pylist([row]))])
    write_screen(store, found["screen"], found)
    return ScreenReportPage(render_screen(store, found["screen"]))


def test_a_clearance_is_told_with_its_rounds_its_price_and_what_was_left_out(tmp_path: Path) -> None:
    page = render(tmp_path, summary())
    assert (
        "Without 1 document, 1,160 documents of 1,200 may enter PD-NMF: 2 audits, nothing left to flag."
        in page.text
    )
    assert "The largest fell from 0.97 to 0.19." in page.text
    assert "2 (the listed ones alone)" in page.text
    assert "0.5123" in page.text
    assert "0.5235" in page.text
    assert "mail-7" in page.text
    assert "10−31.2" in page.text
    assert "What is cleared is what was audited together." in page.text
    assert "There was nothing to search for." in page.text
    ids = [value for name, value in page.attributes if name == "id"]
    targets = [value[1:] for name, value in page.attributes if name == "href" and value and value.startswith("#")]
    assert len(ids) == len(set(ids))
    assert set(targets) <= set(ids)
    assert page.tags.count("section") == 7


def test_it_loads_and_runs_nothing(tmp_path: Path) -> None:
    page = render(tmp_path, summary(search=SEARCH, outcome="hopeless"))
    assert not {"script", "img", "iframe", "object", "form"} & set(page.tags)
    assert all(not name.startswith("on") and name not in ("src", "style") for name, _ in page.attributes)
    policy = [value for name, value in page.attributes if name == "content" and value and "default-src" in value]
    assert "default-src 'none'" in str(policy[0])


def test_what_was_beside_the_cleared_ones_is_said(tmp_path: Path) -> None:
    page = render(tmp_path, summary(exact=False, beside=90, why_beside="10 listed documents are too few"))
    assert "90 documents were in the last audit’s databases without being cleared, because 10 listed" in page.text


@pytest.mark.parametrize("outcome", ["hopeless", "limit", "too-few"])
def test_where_exclusion_does_not_help_the_search_is_offered_or_told(tmp_path: Path, outcome: str) -> None:
    found = summary(outcome=outcome, clearance=None, quality=None, exact=False, beside=None, allowed=0)
    offered = render(tmp_path, found)
    assert "ksdp screen --search" in offered.text
    assert "No clearance was written." in offered.text
    told = render(tmp_path, found | {"search": SEARCH})
    assert "What would help: noise." in told.text
    assert "As it stands: 0.5100 learnt by all parties together, 0.6000 by one party alone." in told.text
    assert "noise of 25 % of the announcement's size" in told.text
    assert "51 documents" in told.text
    assert "void: a control" in told.text
    assert "it is no differential privacy" in told.text
    assert "At a noise of 0.25. Quality there: 0.8123" in told.text


def test_a_void_screen_says_so_first(tmp_path: Path) -> None:
    rounds = [round_of(1, valid=False)]
    page = render(
        tmp_path, summary(outcome="void", rounds=rounds, excluded=0, quality=None, reason="A control failed.")
    )
    assert page.text.index("Nothing is cleared") < page.text.index("Screening for PD-NMF Screen")
    assert page.tags.count("aside") == 1
    assert "Nothing was left out." in page.text


def test_names_from_outside_are_text(tmp_path: Path) -> None:
    page = render(tmp_path, summary(reviewer="<script>x</script>", why_beside="<b>", exact=False), "<img src=x>")
    assert not {"script", "img", "b"} & set(page.tags)
    assert "<img src=x>" in page.text


def test_every_outcome_has_its_headline() -> None:
    outcomes = ("cleared", "nothing-proved", "hopeless", "limit", "too-few", "void")
    assert len({screen_headline(summary(outcome=outcome)) for outcome in outcomes}) == 6


def test_no_such_screen(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no screen"):
        render_screen(Store.open(tmp_path / "store"), "nothing")
