"""The page of a screening, for every outcome: what it says, what it never loads, and text that stays text."""

from pathlib import Path

import pyarrow as pa
import pytest

from ksdp.audit.errors import StoreError
from ksdp.audit.screening.screen_summary import ScreenSummary
from ksdp.dashboards.screening import read_screens_page, render_screen
from ksdp.storage.audits.screens import RoundVerdicts, read_screen, write_left_out, write_screen
from ksdp.storage.codec import write_json_with_checksum
from ksdp.storage.store import Store

from ...screens import round_of, screened
from ..html_page import HtmlPage


def render(tmp_path: Path, found: ScreenSummary, document: str = "mail-7") -> HtmlPage:
    store = Store.open(tmp_path / "store")
    if found.left_out:
        row = {"document": document, "verdict": "sensitive", "statistic": "sigma", "distance": 0.97}
        row |= {"log10_adjusted_p": -31.25}
        write_left_out(store, found.screen, [(RoundVerdicts(1, pa.Table.from_pylist([row])), [document])])
    write_screen(store, found)
    return HtmlPage(render_screen(store, found.screen))


def test_a_clearance_is_shown_with_its_rounds_its_price_and_what_was_left_out(tmp_path: Path) -> None:
    page = render(tmp_path, screened())
    assert "960 documents of 1,200 may enter PD-NMF: 3 audits, and the last one proves this list." in page.text()
    assert "The largest went from 0.97 to 0.19." in page.text()
    for words in (
        "first audit",
        "On its own documents a party gains +0.0100",
        "mail-7",
        "less than 1 in a million",
        "Nothing else is needed.",
    ):
        assert words in page.text(), words
    ids = [value for name, value in page.attributes if name == "id"]
    targets = [value[1:] for name, value in page.attributes if name == "href" and value and value.startswith("#")]
    assert len(ids) == len(set(ids))
    assert set(targets) <= set(ids)
    assert page.tags.count("section") == 7


def test_it_loads_and_runs_nothing(tmp_path: Path) -> None:
    page = render(tmp_path, screened(outcome="out-of-rounds", clearance=None))
    assert not {"script", "img", "iframe", "object", "form"} & set(page.tags)
    assert all(not name.startswith("on") and name not in ("src", "style") for name, _ in page.attributes)
    policy = [value for name, value in page.attributes if name == "content" and value and "default-src" in value]
    assert "default-src 'none'" in str(policy[0])


def test_who_was_excluded_by_decision_is_named_with_who_when_and_why(tmp_path: Path) -> None:
    row = {
        "document": "K1011",
        "audit": "",
        "who": "Ada",
        "at": "2026-03-01T00:00:00+00:00",
        "reason": "objection",
    }
    page = render(tmp_path, screened(exclusions=[row]))
    assert "K1011: without an audit, Ada, 2026-03-01. objection" in page.text()


def test_a_void_screening_says_so_first(tmp_path: Path) -> None:
    nothing = {"left_out": 0, "gain": [], "clearance": None, "reason": "A control failed."}
    page = render(tmp_path, screened(outcome="void", rounds=[round_of(0), round_of(1, valid=False)], **nothing))
    assert page.text().index("Nothing is signed") < page.text().index("Screening for PD-NMF Screening")
    assert page.tags.count("aside") == 1
    assert "No document of the list was left out." in page.text()


def test_names_from_outside_are_text(tmp_path: Path) -> None:
    page = render(tmp_path, screened(reviewer="<script>x</script>", reason="<b>"), "<img src=x>")
    assert not {"script", "img", "b"} & set(page.tags)
    assert "<img src=x>" in page.text()


def test_what_was_written_is_read_again_and_another_version_is_refused(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    for found in (screened(), screened(outcome="too-few", gain=[])):
        file = write_screen(store, found)
        assert read_screen(store, found.screen) == found
    told = found.to_json()
    write_json_with_checksum(file, told | {"version": 2})
    with pytest.raises(StoreError, match="has version 2"):
        read_screen(store, found.screen)
    page = read_screens_page(store, {})
    assert (page.screens, len(page.damaged), page.total) == ((), 1, 1)
    write_json_with_checksum(file, told | {"left_out": "many"})
    with pytest.raises(StoreError, match="damaged at `left_out`"):
        read_screen(store, found.screen)
