"""A risk appetite from the file to the exit code: kept once, and listed whole."""

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import pandas as pd
import pytest

import ksdp
from ksdp.audit.errors import ClearanceError, DamagedFile, InputError, SpecError

from ..specs import spec_text
from ..typed import typed

APPETITE = "margin = 0.3\nlevel = 0.05\nproof = 'every attack'\n"
SPEC = {
    "corpus": {"path": "rows.csv", "format": "table", "id": "who", "party": "house"},
    "mechanism": {"name": "moments", "rank": 2, "advantage": 0.3},
    "design": {"party_size": 0.5, "with_runs": 10},
    "decision": {"margin": 0.3},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of two houses, an audit whose noise clears everybody, and one in which nothing is proved."""
    folder = tmp_path_factory.mktemp("appetite")
    rows = np.random.default_rng(3).normal(size=(60, 5)) * [0.6, 0.4, 0.3, 0.2, 0.1]
    table = pd.DataFrame(rows, columns=list("abcde"))
    table.insert(0, "who", [f"row-{n}" for n in range(60)])
    table.insert(1, "house", ["Graz"] * 20 + ["Linz"] * 40)
    table.to_csv(folder / "rows.csv", index=False)
    (folder / "proved.toml").write_text(spec_text(SPEC))
    (folder / "open.toml").write_text(spec_text(SPEC, mechanism={"name": "pd-svd", "advantage": None}))
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
    assert {f"appetite ({one['name']})" for one in record["criteria"]} <= set(cases)
    store = ("--store", folder / "store")
    again = json.loads(typed("show", record["audit"], *store, "--json", code=0).stdout)["appetite"]
    assert again == record
    shown = typed("show", record["audit"], *store, code=0)
    assert "appetite  met" in shown.stdout
    typed("check", *store, code=0)


def test_report_and_python_say_what_is_met(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "rows.csv", tmp_path)
    spec, store = tmp_path / "proved.toml", tmp_path / "store"
    shutil.copy(folder / "proved.toml", spec)
    named = ("audit", spec, "--store", store, "--here", 1, "--json")
    plain = json.loads(typed(*named, code=0).stdout)
    assert "What is accepted" not in Path(plain["report"]).read_text()
    asked = ("--appetite", folder / "appetite.toml")
    told = json.loads(typed(*named, *asked, code=0).stdout)  # the same audit, and its report is made anew
    page = Path(told["report"]).read_text()
    assert "What is accepted" in page
    assert page.count("</span> met</td>") == len(told["appetite"]["criteria"])
    found = ksdp.load(store)
    assert found.appetite.to_json() == told["appetite"]
    kept = ksdp.load(found.save(tmp_path / "copy")).appetite
    assert kept == found.appetite
    with pytest.raises(SpecError, match=r"decision.margin"):
        ksdp.audit(spec, appetite={"margin": 0.1, "level": 0.05})


def test_what_an_audit_is_held_to_stays(folder: Path) -> None:
    audit(folder, "proved", "appetite", code=0)
    with pytest.raises(InputError, match="is held to another appetite, which stays"):
        audit(folder, "proved", "tolerant")
    typed("show", "latest", "--appetite", folder / "tolerant.toml", "--store", folder / "store", code=0)


def test_a_kept_appetite_that_was_changed_is_found(folder: Path, tmp_path: Path) -> None:
    audit(folder, "proved", "appetite", code=0)
    store = shutil.copytree(folder / "store", tmp_path / "store")
    for kept in (store / "appetites").iterdir():
        kept.write_text(kept.read_text().replace('"level": 0.05', '"level": 0.5'))
    with pytest.raises(DamagedFile, match="is damaged"):
        typed("show", "latest", "--store", store)


@pytest.mark.usefixtures("many_documents")
def test_an_audit_that_does_not_meet_it_says_what_to_do(folder: Path) -> None:
    found = audit(folder, "open", "appetite")
    assert found.exit_code in (3, 4)
    assert "FAIL" in found.stderr
    assert "undecided: asked a share of at most 0, found" in found.stderr
    assert "(`ksdp more-runs AUDIT`)" in found.stderr
    assert "\nnext    Do not take the" in found.stderr
    assert "would decide half" in found.stderr
    shown = repr(ksdp.load(folder / "store"))
    assert "would decide half" in shown or "0 undecided" in shown


@pytest.mark.parametrize("command", ["audit", "plan"])
def test_a_spec_that_cannot_meet_it_is_refused_before_any_work(folder: Path, tmp_path: Path, command: str) -> None:
    strict = tmp_path / "strict.toml"
    strict.write_text("margin = 0.2\nlevel = 0.01\n")
    with pytest.raises(SpecError, match=r"set `decision.margin = 0.2`(.|\n)*set `decision.level = 0.01`"):
        typed(command, folder / "proved.toml", "--appetite", strict, "--store", tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("many_documents")
def test_what_is_not_met_is_not_signed(folder: Path, tmp_path: Path) -> None:
    store, signed = ("--store", tmp_path / "store"), tmp_path / "rows.clearance"
    named = ("--here", 1, *store, "--json")
    missed = json.loads(typed("audit", folder / "open.toml", *named).stdout)["audit"]
    typed("keys", "ada", "--folder", tmp_path)
    signer = ("--clearance", signed, "--key", tmp_path / "ada.key", "--who", "Ada", *store)
    rows = pd.read_csv(folder / "rows.csv", dtype=str).iloc[:, 0].tolist()
    typed("decide", missed, *rows, "--decision", "accept", "--reason", "small", "--who", "Ada", *store, code=0)
    strict = ("--appetite", folder / "appetite.toml")
    found = json.loads(typed("show", missed, *strict, *store, "--json").stdout)["appetite"]["criteria"]
    assert {one["name"] for one in found if not one["met"]} == set(), "what people accept counts for nobody"
    met = tmp_path / "margin.toml"
    met.write_text("margin = 0.2\nlevel = 0.05\n")
    with pytest.raises(ClearanceError, match=r"not met(.|\n)*margin: asked at most 0.2, found 0.3"):
        typed("clear", missed, *signer, "--appetite", met)
    assert not signed.exists()


def test_what_is_met_is_signed(folder: Path, tmp_path: Path) -> None:
    typed("keys", "ada", "--folder", tmp_path)
    signer = ("--key", tmp_path / "ada.key", "--who", "Ada", "--store", tmp_path / "store", "--here", 1)
    asked = ("--appetite", folder / "appetite.toml")
    typed("clear", folder / "proved.toml", "--clearance", tmp_path / "c", *signer, *asked, code=0)
    assert "clearance is whole" in typed("verify", tmp_path / "c", code=0).stdout
