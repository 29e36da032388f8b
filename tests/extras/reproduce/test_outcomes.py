"""A repeated table as it is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ksdp.audit.errors import InputError
from ksdp.extras.reproduce import data
from ksdp.extras.reproduce.outcomes import Line, Outcome, can_draw, write_outcome
from ksdp.storage.codec import read_object

OUTCOME = Outcome(("a", "b"), ((1, None), ("x", 2.5)), ("Seen.",), (Line("p", "l", (1.0,), (2.0,)),))


def test_the_page_says_what_is_found_first_and_why_numbers_differ(tmp_path: Path) -> None:
    found = write_outcome(tmp_path / "out", "t", "Title", OUTCOME, ("Because.",), {"size": "short"})
    text = found.page.read_text(encoding="utf-8")
    assert text.index("Seen.") < text.index("| a | b |") < text.index("Because.")
    assert "| 1 |  |" in text
    assert ("(t.png)" in text) is can_draw() is (found.plot is not None)
    assert read_object(tmp_path / "out" / "t.json", dict, "this")["lines"][0]["name"] == "l"
    assert "![" not in write_outcome(tmp_path, "t", "Title", replace(OUTCOME, lines=()), (), {}).page.read_text()


def test_a_data_set_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert data.missing(tmp_path, ("kos", "mnist")) == ("kos", "mnist")
    with pytest.raises(InputError, match=r"kos/counts.npz is not in the data folder"):
        data.counts(tmp_path, "kos")
