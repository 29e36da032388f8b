"""A risk appetite from the file to the exit code: kept once, listed whole, and one record of two audits."""

from __future__ import annotations

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
from ksdp.storage.reviews import appetites

from ..typed import typed

TOLERANT = "margin = 0.3\nlevel = 0.05\nmost_sensitive = 1\nmost_undecided = 1\n"
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
    assert f"appetite  met, record {record['hash']}" in shown.stdout
    typed("check", *store, code=0)


def test_report_and_python_say_what_is_met(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(folder / "rows.csv", tmp_path)
    spec, store = tmp_path / "proved.toml", tmp_path / "store"
    shutil.copy(folder / "proved.toml", spec)
    named = ("audit", spec, "--store", store, "--here", 1, "--json")
    plain = json.loads(typed(*named, code=0).stdout)
    assert "What is accepted" not in Path(plain["report"]).read_text()
    asked = ("--appetite", folder / "appetite.toml")
    told = json.loads(typed(*named, *asked, code=0).stdout)  # the same audit, and its report is made anew
    page = Path(told["report"]).read_text()
    assert f'<code class="hash">{told["appetite"]["hash"]}</code>' in page
    assert page.count("</span> met</td>") == len(told["appetite"]["criteria"])
    found = ksdp.load(store)
    assert found.appetite is not None
    assert found.appetite.to_json() == told["appetite"]
    kept = ksdp.load(found.save(tmp_path / "copy")).appetite
    assert kept == found.appetite
    read: list[str] = []
    once = appetites.read_record
    monkeypatch.setattr(appetites, "read_record", lambda *given: read.append("once") or once(*given))
    typed(*named, *asked, "--junit", tmp_path / "a.xml", code=0)
    assert read == ["once"]


@pytest.mark.usefixtures("many_documents")
def test_python_holds_an_audit_to_an_appetite(folder: Path) -> None:
    table, asked = pd.read_csv(folder / "rows.csv"), {"margin": 0.3, "level": 0.05}
    settings = {
        "id": "who",
        "party_size": 0.5,
        "with_runs": 30,
        "rank": 2,
        "margin": 0.3,
        "columns": list("abcde"),
    }
    found = ksdp.audit(table, "moments", advantage=0.3, appetite=asked, **settings)
    assert found.appetite is not None
    assert found.appetite.met
    missed = ksdp.audit(table, "pd-svd", appetite=asked, **settings).appetite
    assert missed is not None
    assert {one.name for one in missed.missed} <= {"sensitive", "undecided"}
    assert ksdp.audit(table, "pd-svd", **settings).appetite is None
    with pytest.raises(SpecError, match=r"decision.margin"):
        ksdp.audit(table, "pd-svd", appetite=asked | {"margin": 0.1}, **settings)


def test_what_an_audit_is_held_to_stays(folder: Path) -> None:
    audit(folder, "proved", "appetite", code=0)
    with pytest.raises(InputError, match="is held to another appetite, sha256:.*, which stays"):
        audit(folder, "proved", "tolerant")
    typed("appetite", "latest", "--appetite", folder / "tolerant.toml", "--store", folder / "store", code=0)


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
    assert "(`ksdp more`)" in found.stderr
    assert "\nnext    Do not take the" in found.stderr
    assert "would decide half" in found.stderr
    shown = repr(ksdp.load(folder / "store"))
    assert ("would decide half of the undecided" in shown) or "0 undecided" in shown


@pytest.mark.parametrize("command", ["audit", "plan"])
def test_a_spec_that_cannot_meet_it_is_refused_before_any_work(folder: Path, tmp_path: Path, command: str) -> None:
    strict = tmp_path / "strict.toml"
    strict.write_text("margin = 0.2\nlevel = 0.05\n[groups.ann]\nmargin = 0.1\n")
    with pytest.raises(SpecError, match=r"set `decision.margin = 0.2`(.|\n)*set `corpus.group`"):
        typed(command, folder / "proved.toml", "--appetite", strict, "--store", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_clearance_carries_what_was_met_and_is_held_to_it(folder: Path, tmp_path: Path) -> None:
    audit(folder, "proved", "appetite", code=0)
    store, signed = ("--store", folder / "store"), tmp_path / "rows.clearance"
    typed("keys", "ada", "--folder", tmp_path)
    signer = ("--key", tmp_path / "ada.key", "--who", "Ada", *store)
    latest = json.loads(typed("list", "--json", *store).stdout)
    proved = next(one["audit"] for one in latest if one["mechanism"] == "moments")
    typed("clear", proved, "--clearance", signed, *signer, code=0)
    held = json.loads(typed("verify", signed, "--appetite", folder / "appetite.toml", "--json", code=0).stdout)
    assert "appetite" in held["checked"]
    kept = folder / "store" / "appetites" / f"{held['record'].removeprefix('sha256:')}.json"
    assert json.loads(kept.read_text())["appetite_hash"] == held["appetite"]
    with pytest.raises(ClearanceError, match="was signed under sha256:.*; this is sha256:.*"):
        typed("verify", signed, "--appetite", folder / "tolerant.toml")
    typed("check", *store, code=0)


def test_a_dossier_is_verified_against_the_appetite_that_its_audit_met(folder: Path, tmp_path: Path) -> None:
    store, signed = ("--store", tmp_path / "store"), tmp_path / "d.json"
    typed("keys", "ada", "--folder", tmp_path)
    signer = ("--key", tmp_path / "ada.key", "--who", "Ada", *store)
    met, other = folder / "appetite.toml", folder / "tolerant.toml"
    typed("audit", folder / "proved.toml", *store, "--here", 1, "--appetite", met, code=0)
    typed("dossier", "latest", "--html", tmp_path / "d.html", *signer, code=0)
    found = json.loads(typed("verify", signed, "--appetite", met, "--json", code=0).stdout)
    assert found["checked"] == ["content", "signature", "d.html", "appetite"]
    with pytest.raises(ClearanceError, match="was signed under sha256:.*; this is sha256:.*"):
        typed("verify", signed, "--appetite", other)
    typed("audit", folder / "open.toml", *store, "--here", 1, "--appetite", met)
    typed("dossier", "latest", "--html", tmp_path / "missed.html", *signer, code=0)
    with pytest.raises(ClearanceError, match=r"missed.json says that the appetite is not met"):
        typed("verify", tmp_path / "missed.html", "--appetite", met)


@pytest.mark.usefixtures("many_documents")
def test_what_is_not_met_is_not_signed(folder: Path, tmp_path: Path) -> None:
    """Both views of a run are asked for, by one clearance: the second makes it whole."""
    both = tmp_path / "both.toml"
    both.write_text(TOLERANT + 'opens = ["every round", "final"]\nmay_override = ["Ada"]\n')
    store, signed = ("--store", tmp_path / "store"), tmp_path / "rows.clearance"
    named = ("--here", 1, *store, "--appetite", both, "--json")
    final = tmp_path / "final.toml"
    final.write_text((folder / "open.toml").read_text() + '[statistics]\nsees = "final"\n')
    shutil.copy(folder / "rows.csv", tmp_path)
    first = json.loads(typed("audit", final, *named, code=4).stdout)
    assert [one["name"] for one in first["appetite"]["criteria"] if not one["met"]] == ["opens"]
    second = json.loads(typed("audit", folder / "open.toml", *named, code=0).stdout)
    assert {one["audit"] for one in second["appetite"]["audits"]} == {first["audit"], second["audit"]}
    typed("keys", "ada", "--folder", tmp_path)
    signer = ("--clearance", signed, "--key", tmp_path / "ada.key", "--who", "Ada", *store)
    rows = pd.read_csv(folder / "rows.csv", dtype=str).iloc[:, 0].tolist()
    accept = (second["audit"], *rows, "--decision", "accept", "--reason", "small", *store)
    typed("decide", *accept, "--who", "Bob", code=0)
    with pytest.raises(ClearanceError, match=r"not met(.|\n)*accepted: asked by Ada alone, found \d+"):
        typed("clear", second["audit"], *signer)
    assert not signed.exists()
    typed("decide", *accept, "--who", "Ada", code=0)
    typed("clear", second["audit"], *signer, code=0)
    page = typed("dossier", second["audit"], *store).stdout.strip()
    assert "<td>every round, final</td><td>every round, final</td>" in Path(page).read_text()


@pytest.mark.usefixtures("many_documents")
def test_views_of_one_audit_are_one_record(folder: Path, tmp_path: Path) -> None:
    named = tmp_path / "views.toml"
    named.write_text((folder / "open.toml").read_text() + "[views]\nfinal = true\n")
    shutil.copy(folder / "rows.csv", tmp_path)
    both = tmp_path / "both.toml"
    own = "[parties.Graz]\nmargin = 1\n[parties.Linz]\nmargin = 0.01\n"
    both.write_text(TOLERANT + 'opens = ["every round", "final"]\n' + own)
    found = typed("audit", named, "--store", tmp_path / "store", "--here", 1, "--appetite", both, "--json", code=4)
    record = json.loads(found.stdout)["appetite"]
    assert [one["opens"] for one in record["audits"]] == [["every round", "final"]]
    assert [one["name"] for one in record["criteria"] if not one["met"]] == ["party Linz"]
    page = Path(json.loads(found.stdout)["report"]).read_text()
    assert record["hash"] in page
    assert page.count("</span> not met</strong>") == 1


def test_what_is_met_is_signed(folder: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked.toml"
    asked.write_text(APPETITE + "[parties.Graz]\nmargin = 0.3\n")
    typed("keys", "ada", "--folder", tmp_path)
    signer = ("--key", tmp_path / "ada.key", "--who", "Ada", "--store", tmp_path / "store", "--here", 1)
    typed("clear", folder / "proved.toml", "--clearance", tmp_path / "c", *signer, "--appetite", asked, code=0)
    typed("verify", tmp_path / "c", "--appetite", asked, code=0)


def test_groups_have_limits_by_their_own_names(folder: Path, tmp_path: Path) -> None:
    spec = tmp_path / "groups.toml"
    spec.write_text(
        SPEC.replace('party = "house"', 'group = "who"').replace("[design]", '[design]\nunit = "group"')
    )
    shutil.copy(folder / "rows.csv", tmp_path)
    asked = tmp_path / "asked.toml"
    asked.write_text(TOLERANT + "[groups.row-1]\nmargin = 1\n[groups.row-2]\nmargin = 0.01\n")
    found = typed("audit", spec, "--store", tmp_path / "store", "--here", 1, "--appetite", asked, code=4)
    assert "group row-1: asked bounds of at most 1, but for a share of 0, found 0 of 1 group above" in found.stderr
    assert (
        "group row-2: asked bounds of at most 0.01, but for a share of 0, found 1 of 1 group above" in found.stderr
    )
