"""A repeated table as it is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from ksdp.audit.errors import InputError
from ksdp.extras.reproduce import data
from ksdp.extras.reproduce.outcomes import Line, Outcome, write_outcome
from ksdp.storage.codec import read_object

OUTCOME = Outcome(("a", "b"), ((1, None), ("x", 2.5)), ("Seen.",), (Line("p", "l", (1.0,), (2.0,)),))


def test_the_page_says_what_is_found_first_and_why_numbers_differ(tmp_path: Path) -> None:
    page, plot = write_outcome(tmp_path / "out", "t", "Title", OUTCOME, ("Because.",), {"size": "short"})
    text = page.read_text(encoding="utf-8")
    assert text.index("Seen.") < text.index("| a | b |") < text.index("Because.")
    assert "| 1 |  |" in text
    assert "![" not in text  # nothing was drawn
    assert read_object(tmp_path / "out" / "t.json", dict, "this")["lines"][0]["name"] == "l"
    plot.write_bytes(b"")
    assert "(t.png)" in write_outcome(tmp_path / "out", "t", "Title", OUTCOME, (), {})[0].read_text(
        encoding="utf-8"
    )


def test_a_data_set_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert data.missing(tmp_path, ("kos", "mnist")) == ("kos", "mnist")
    with pytest.raises(InputError, match=r"kos/counts.npz is not in the data folder"):
        data.counts(tmp_path, "kos")
