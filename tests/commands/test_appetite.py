"""A risk appetite from the file to the exit code: kept once, listed whole, and one record of two audits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import pandas as pd
import pytest

from ksdp.audit.errors import InputError, SpecError

from ..typed import typed

TOLERANT = "margin = 0.3\nlevel = 0.05\nmost_sensitive = 0.9\nmost_undecided = 0.9\n"
APPETITE = "margin = 0.3\nlevel = 0.05\nproof = 'every attack'\n"
SPEC = """
[corpus]
path = "rows.csv"
format = "table"
id = "who"
party = "house"
[mechanism]
name = "moments"
rank = 2
advantage = 0.3
[design]
party_size = 0.5
with_runs = 30
[decision]
margin = 0.3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of two houses, an audit whose noise clears everybody, and one in which nothing is proved."""
    folder = tmp_path_factory.mktemp("appetite")
    rows = np.random.default_rng(3).normal(size=(60, 5)) * [0.6, 0.4, 0.3, 0.2, 0.1]
    table = pd.DataFrame(rows, columns=list("abcde"))
    table.insert(0, "who", [f"row-{n}" for n in range(60)])
    table.insert(1, "house", ["Graz"] * 20 + ["Linz"] * 40)
    table.to_csv(folder / "rows.csv", index=False)
    (folder / "proved.toml").write_text(SPEC)
    (folder / "open.toml").write_text(SPEC.replace('"moments"', '"pd-svd"').replace("advantage = 0.3\n", ""))
    (folder / "appetite.toml").write_text(APPETITE)
    (folder / "tolerant.toml").write_text(
        "margin = 0.3\nlevel = 0.05\nmost_sensitive = 0.9\nmost_undecided = 0.9\n"
    )
    return folder


def audit(folder: Path, spec: str, appetite: str, *more: object, code: int | None = None) -> Any:
    named = (folder / f"{spec}.toml", "--store", folder / "store", "--here", 1)
    return typed("audit", *named, "--appetite", folder / f"{appetite}.toml", *more, code=code)


def test_an_audit_that_meets_it_exits_with_0_and_says_so_from_then_on(folder: Path, tmp_path: Path) -> None:
    found = audit(folder, "proved", "appetite", "--json", "--junit", tmp_path / "a.xml", code=0)
    record = json.loads(found.stdout)["appetite"]
    assert record["met"]
    cases = [case.attrib["name"] for case in Xml.parse(tmp_path / "a.xml").iter("testcase")]
    assert {f"appetite ({one['audit']} {one['name']})" for one in record["criteria"]} <= set(cases)
    store = ("--store", folder / "store")
    again = json.loads(typed("appetite", record["audits"][0]["audit"], *store, "--json", code=0).stdout)
    assert again == record
    shown = typed("show", record["audits"][0]["audit"], *store, code=0)
    assert f"appetite  met, record {record['hash']}" in shown.stderr
    typed("check", *store, code=0)


def test_what_an_audit_is_held_to_stays(folder: Path) -> None:
    audit(folder, "proved", "appetite", code=0)
    with pytest.raises(InputError, match="is held to another appetite, sha256:.*, which stays"):
        audit(folder, "proved", "tolerant")
    typed("appetite", "latest", "--appetite", folder / "tolerant.toml", "--store", folder / "store", code=0)


def test_an_audit_that_does_not_meet_it_says_what_to_do(folder: Path) -> None:
    found = audit(folder, "open", "appetite")
    assert found.exit_code in (3, 4)
    assert "FAIL" in found.stderr
    assert "undecided: asked a share of at most 0, found" in found.stderr
    assert "(`ksdp more`)" in found.stderr


@pytest.mark.parametrize("command", ["audit", "plan"])
def test_a_spec_that_cannot_meet_it_is_refused_before_any_work(folder: Path, tmp_path: Path, command: str) -> None:
    strict = tmp_path / "strict.toml"
    strict.write_text("margin = 0.2\nlevel = 0.05\n[groups.ann]\nmargin = 0.1\n")
    with pytest.raises(SpecError, match=r"set `decision.margin = 0.2`(.|\n)*set `corpus.group`"):
        typed(command, folder / "proved.toml", "--appetite", strict, "--store", tmp_path / "none")
    assert not (tmp_path / "none").exists()
