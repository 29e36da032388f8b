"""`ksdp reproduce`: what it lists, what it refuses, and one whole small table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ksdp.audit.errors import InputError
from ksdp.extras.reproduce import curves, tables
from ksdp.extras.reproduce.data import FILES
from ksdp.extras.reproduce.outcomes import Outcome, can_draw
from ksdp.extras.reproduce.tables import CATALOGUE, ELSEWHERE, listed, reproduce

from ...typed import typed

ROOT = Path(__file__).resolve().parents[3]


def test_every_entry_needs_known_data() -> None:
    assert {name for entry in CATALOGUE for name in entry.data} <= set(FILES)
    assert all(entry.differs for entry in CATALOGUE if entry.paper != "ksdp")


def test_the_documentation_has_every_table_and_every_one_left_out() -> None:
    text = (ROOT / "docs" / "reproduced.md").read_text(encoding="utf-8")
    assert [name for name in (*(entry.name for entry in CATALOGUE), *ELSEWHERE) if f"`{name}`" not in text] == []


def test_the_list_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "kos").mkdir()
    (tmp_path / "kos" / "counts.npz").touch()
    absent = {one["name"]: one["missing"] for one in listed(tmp_path)}
    assert absent["compare-kos"] == []
    assert absent["pd-ml-lite-table-1"] == ["enron-mail6", "20newsgroups"]
    shown = typed("reproduce", "--list", "--data", tmp_path)
    assert "not there: enron-mail6, 20newsgroups" in shown.output
    told = json.loads(typed("reproduce", "--list", "--data", tmp_path, "--json").output)
    assert told[0]["missing"] == ["enron-mail6", "20newsgroups"]


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs adult"):
        reproduce("pem-figure-2a", tmp_path, tmp_path / "out")
    with pytest.raises(InputError, match="no table 'figure-99'"):
        reproduce("figure-99", tmp_path, tmp_path / "out")
    with pytest.raises(InputError, match="benchmarks peers"):
        reproduce("fedpower-table-3", tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_table_from_the_command_to_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(*_: object) -> Outcome:
        return curves.figure_2((4, 8), devices=4)

    whole = tables.entry
    monkeypatch.setattr(tables, "entry", lambda name: replace(whole(name), run=small))
    out = tmp_path / "out"
    done = typed("reproduce", "fedpower-figure-2", "--short", "--out", out, code=0)
    assert "Figure 2: how many iterations" in done.output
    assert "Why the numbers differ" in done.output
    kept = json.loads((out / "fedpower-figure-2.json").read_text(encoding="utf-8"))
    assert kept["about"]["size"] == "short"
    assert (out / "fedpower-figure-2.png").exists() == can_draw()
