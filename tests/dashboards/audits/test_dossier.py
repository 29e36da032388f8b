"""The dossier: what is declared changes no number, what is missing is named, a void audit covers nothing."""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from ksdp.audit.errors import ClearanceError, InputError, SpecError
from ksdp.audit.specs.models import parse_spec
from ksdp.dashboards.audits.audit_model import AuditModel
from ksdp.dashboards.audits.dossier import (
    Dossier,
    advantages,
    read_audit,
    read_dossier,
    render_dossier,
    verify_dossier,
)
from ksdp.dashboards.audits.frameworks import crosswalk
from ksdp.flows.schedules.scheduled_run import spec_basis
from ksdp.storage.audits.history import find_audit, read_summary
from ksdp.storage.clearances import write_clearance, write_signed
from ksdp.storage.findings import read_verdicts, write_summary
from ksdp.storage.keys import load_private, make_identity
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.store import Store

from ... import finished
from ...clearances import clearance
from ...finished import made_once
from ...typed import typed

ROOT = Path(__file__).resolve().parents[3]
NOW = datetime(2030, 3, 1, tzinfo=UTC)
DECLARED = """
[declared]
controller = "Registry <of> three"
purpose = "To learn topics."
recipients = ["the hospitals"]
prior = 0.1
people = 30
dpo_advice = "Leave the sensitive out."
measures_approved_by = "Ada"
review_date = 2031-05-01
[declared.parties]
Graz = "controller"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with an audit of 30 rows of two parties, and its spec without and with `[declared]`."""
    made = made_once(tmp_path_factory, "small", finished.small)
    folder = Path(shutil.copytree(made, tmp_path_factory.mktemp("dossier"), dirs_exist_ok=True))
    (folder / "declared.toml").write_text((folder / "spec.toml").read_text() + DECLARED)
    return folder


def made(folder: Path, spec: str = "declared") -> tuple[Store, AuditModel, Dossier]:
    store = Store.open(folder / "store")
    declared = read_spec_file(folder / f"{spec}.toml")[0].declared
    read = read_audit(store, find_audit(store, "latest"), declared)
    return store, read, read_dossier(store, read, NOW)


def words(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_what_is_declared_changes_no_number(folder: Path) -> None:
    plain, more = (read_spec_file(folder / f"{name}.toml")[0] for name in ("spec", "declared"))
    assert plain.hash == more.hash
    assert plain.series == more.series
    assert spec_basis(plain) == spec_basis(more)
    again = typed("audit", folder / "declared.toml", "--store", folder / "store", "--here", 1, "--json")
    found = json.loads(again.stdout)
    assert found["cached_runs"] == found["runs"]
    store = Store.open(folder / "store")
    assert read_summary(store.audit(found["audit"])).risk.combined is not None, "and every page has it"
    assert found["audit"] == find_audit(store, "latest")
    page = typed("dossier", "latest", "--store", folder / "store").stdout.strip()
    assert "Leave the sensitive out." in Path(page).read_text()  # the same audit again takes the new words
    typed("check", "--store", store.root, code=0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"review_date": "soon"}, "review_date"), ({"prior": 1.5}, "prior"), ({"owner": "Ada"}, "no such key")],
)
def test_what_is_declared_is_checked(wrong: Mapping[str, object], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        parse_spec({"corpus": {"path": "a.csv"}, "mechanism": {"name": "pd-svd"}, "declared": wrong})


def test_page_and_json_hold_the_same_and_name_what_is_missing(folder: Path) -> None:
    _, read, dossier = made(folder)
    told = dossier.to_json()
    jsonschema.validate(told, json.loads((ROOT / "docs" / "dossier.schema.json").read_text()))
    page = render_dossier(read, dossier)
    shown = words(page)
    for chapter in dossier.chapters:
        assert f'id="{chapter.anchor}"' in page
        for line in (line for one in chapter.facts for line in one.text):
            assert " ".join(line.replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;").split()) in shown
    assert "Registry &lt;of&gt; three" in page
    missing = {"auditor", "dpia", "harm", "residual_risk_accepted_by", "review_triggers"}
    assert missing <= set(dossier.missing)
    assert not {"controller", "prior"} & set(dossier.missing)
    facts = [one for chapter in dossier.chapters for one in chapter.facts if one.name == "Not declared"]
    named = [line for one in facts for line in one.text]
    assert sum(line.count(",") + 1 for line in named) == len(dossier.missing)
    assert all(line in page for line in named)
    assert "compliant" not in page.lower()
    assert "src=" not in page.replace('src="data:', "")
    assert dossier.until == "1 May 2031: it is reviewed"
    assert "Before looking, the attacker gives a document a chance of 10 % to take part" in shown


def test_maximum_average_and_worst_group_are_those_of_the_table(folder: Path) -> None:
    store, _, dossier = made(folder)
    every, worst, other = advantages(store, read_summary(store.audit(dossier.audit)))
    table = read_verdicts(store.audit(dossier.audit)).to_pandas()
    assert every.average == pytest.approx(table["distance"].mean(), abs=1e-6)
    assert every.largest == pytest.approx(table["distance"].max(), abs=1e-6)
    assert every.average_low <= every.average <= every.average_high
    highest = np.fmin(table["largest_band_high"], table["certified_bound"])
    assert every.average_high == pytest.approx(highest.mean(), abs=1e-6)
    assert worst.average >= other.average
    assert {worst.name: worst.documents, other.name: other.documents} == {"party Graz": 10, "party Linz": 20}
    graz = table[table["document"].isin([f"row-{n}<&\u202e" for n in range(10)])]
    assert worst.average == pytest.approx(graz["distance"].mean(), abs=1e-6)
    assert worst.sensitive == (graz["verdict"] == "sensitive").sum()


def test_no_number_of_a_dossier_is_above_what_is_proved(folder: Path, tmp_path: Path) -> None:
    spec = (folder / "spec.toml").read_text().replace('"pd-svd"', '"moments"')
    spec = spec.replace("rank", "advantage = 0.194\nrank")
    (folder / "proved.toml").write_text(spec)
    typed("audit", folder / "proved.toml", "--store", tmp_path / "store", "--here", 1)
    told = json.loads(typed("dossier", "latest", "--store", tmp_path / "store", "--json", code=0).stdout)
    assert told["verdicts"]["clear"] == 30
    assert max(max(one["largest_high"], one["largest"]) for one in told["advantages"]) <= 0.194 + 1e-6
    assert any("All 30 documents are safe enough" in sentence for sentence in told["plain"])
    assert any("It is proved that no attack does better" in sentence for sentence in told["plain"])
    assert told["decision"][1].startswith("Whom one must trust: nobody: every party's noise is enough by itself")
    page = Path(typed("dossier", "latest", "--store", tmp_path / "store", code=0).stdout.strip()).read_text()
    assert [page.count(f"at most 0.20{whose}, by a proof") for whose in (" for each document", "")] == [2, 2]
    assert page.count("noise is enough by itself") == 1
    gone = ("hardly any document could be cleared", "What would make it safe", "not tried may leak", "<figure")
    assert not [words for words in gone if words in page]


def test_the_cross_walk_covers_what_is_there_alone(folder: Path) -> None:
    _, _, dossier = made(folder)
    found = {one.clause: one for one in dossier.crosswalk}
    risk = found["7.3.2 maximum or average risk"]  # of this spec's statistics none reads all that is announced
    assert risk.status == "partial"
    assert risk.why.startswith("No statistic reads ")
    assert found["Theoretical resistance"].why == "nothing is proved of every attack"
    whole = crosswalk((), {}, void=False)
    assert {one.status for one in whole if one.clause.startswith(("7.3.2", "6.2", "7 sign"))} == {"covered"}
    assert found["9.2.2, 9.2.4 roles, disclosure"].status == "covered"
    harms = found["6.3.3 harms"]
    assert (harms.status, harms.why) == ("partial", "not declared: harm")
    assert found["3 consultation"].status == "out of scope"
    anchors = {chapter.anchor for chapter in dossier.chapters}
    assert {one.chapter for one in dossier.crosswalk} - {""} <= anchors
    assert {one.status for one in dossier.crosswalk} == {"covered", "partial", "out of scope"}


def test_sign_off_is_filled_from_log_and_clearances(folder: Path, tmp_path: Path) -> None:
    store, _, before = made(folder)
    assert "No clearance was signed" in before.decision[-1]
    table = read_verdicts(store.audit(before.audit)).to_pandas()
    sensitive = table.loc[table["verdict"] == "sensitive", "document"]
    make_identity(tmp_path, "ada")
    where = ("--store", folder / "store", "--who", "Ada")
    typed("decide", before.audit, *sensitive, "--decision", "exclude", "--reason", "out", *where, code=0)
    others = table.loc[table["verdict"] != "sensitive", "document"]
    typed("decide", before.audit, *others, "--decision", "accept", "--reason", "fine", *where, code=0)
    signs = ("--clearance", tmp_path / "c.json", "--days", 3, "--key", tmp_path / "ada.key")
    typed("clear", before.audit, *signs, *where, code=0)
    _, _, after = made(folder)
    assert after.decision[-1].startswith(f"{len(others)} documents may enter a run until ")
    assert after.until.endswith("the clearance expires, and that day is past")
    signoff = next(chapter for chapter in after.chapters if chapter.anchor == "signoff")
    said = {one.name: one for one in signoff.facts}
    assert said["Decisions"].source == "recorded"
    assert said["Decisions"].text[0].startswith(f"Ada: exclude, {len(sensitive)} document")
    assert said["Clearances"].text[0].startswith("Ada, ")
    assert "Residual risk accepted by" in said["Not declared"].text[0]


def test_the_pdf_is_the_page_on_numbered_a4_sheets_with_its_charts(folder: Path, tmp_path: Path) -> None:
    try:
        pytest.importorskip("weasyprint")
    except OSError as missing:
        pytest.skip(f"Pango is missing: {missing}")
    pypdf = pytest.importorskip("pypdf")
    make_identity(tmp_path, "ada")
    where, pdf = ("--store", folder / "store"), tmp_path / "d.pdf"
    page = tmp_path / "d.html"
    signs = ("--html", page, "--key", tmp_path / "ada.key", "--who", "Ada", "--spec", folder / "declared.toml")
    done = typed("dossier", "latest", *where, *signs, "--pdf", pdf, code=0)
    assert done.stdout.split() == [str(tmp_path / "d.json"), str(page), str(pdf)]
    read = pypdf.PdfReader(pdf)
    sheets = [" ".join(sheet.extract_text().split()) for sheet in read.pages]
    assert len(sheets) > 5
    for at, (sheet, text) in enumerate(zip(read.pages, sheets, strict=True), 1):
        assert (round(sheet.mediabox.width), round(sheet.mediabox.height)) == (595, 842)
        assert f"{at} of {len(sheets)}" in text
    whole = " ".join(sheets)
    _, _, dossier = made(folder)
    assert all(chapter.heading in whole for chapter in dossier.chapters)
    assert "Registry <of> three" in whole
    assert json.loads((tmp_path / "d.json").read_text())["signature"]["fingerprint"] in whole
    found = json.loads(typed("verify", pdf, "--json", code=0).stdout)
    assert (found["checked"][2:], found["missing"]) == (["d.html", "d.pdf"], [])
    for again in (("--pdf", pdf), ("--pdf", pdf, "--html", tmp_path / "e.html")):
        with pytest.raises(InputError, match=r"d.json exists, and is never replaced"):
            typed("dossier", "latest", *where, *again)
    assert not (tmp_path / "e.html").exists()
    with pdf.open("ab") as more:
        more.write(b"\n")
    for named in (pdf, page, tmp_path / "d.json"):
        with pytest.raises(ClearanceError, match=r"d.pdf was changed after it was signed; d.json was not"):
            typed("verify", named)
    chart = next(sheet for sheet, text in zip(read.pages, sheets, strict=True) if "share of runs at" in text)
    assert b"0.109804 0.352941 0.65098 RG" in chart.get_contents().get_data()  # the curve with the document


def test_a_changed_byte_of_a_signed_dossier_is_found_and_named(folder: Path, tmp_path: Path) -> None:
    make_identity(tmp_path, "ada")
    make_identity(tmp_path, "bob")
    page, file, public = tmp_path / "d.html", tmp_path / "d.json", ("--key", tmp_path / "ada.pub")
    signs = ("--store", folder / "store", "--html", page, "--key", tmp_path / "ada.key", "--who", "Ada <b>")
    typed("dossier", "latest", *signs, code=0)
    told = json.loads(file.read_text())["dossier"]
    jsonschema.validate(told, json.loads((ROOT / "docs" / "dossier.schema.json").read_text()))
    found = json.loads(typed("verify", page, *public, "--json", code=0).stdout)
    assert found["checked"] == ["content", "signature", "signer", "d.html"]
    assert found["signed_by"] == "Ada <b>"
    assert found["fingerprint"] in words(page.read_text())
    with pytest.raises(ClearanceError, match="is signed by"):
        typed("verify", file, "--key", tmp_path / "bob.pub")
    for signed, other in ((page, file), (file, page)):
        whole = signed.read_bytes()
        for at in range(3, len(whole), len(whole) // 23):
            signed.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises(ClearanceError) as refused:
                verify_dossier(file, None)
            assert signed.name in str(refused.value), (at, whole[at - 9 : at + 9])
            assert f"{other.name} was changed" not in str(refused.value)
        signed.write_bytes(whole)
    for again in (signs, signs[:4]):
        with pytest.raises(InputError, match=r"d.json exists, and is never replaced"):
            typed("dossier", "latest", *again)
    page.unlink()
    assert "not beside it: d.html" in typed("verify", file, code=0).stdout
    with pytest.raises(InputError, match=r"d.html is not there"):
        typed("verify", page)
    with pytest.raises(InputError, match="`--key` and `--who` go together"):
        typed("dossier", "latest", *signs[:6])


def test_a_signature_of_a_clearance_is_none_of_a_dossier(tmp_path: Path) -> None:
    key, file = load_private(make_identity(tmp_path, "ada").private), tmp_path / "d.json"
    write_clearance(tmp_path / "c.json", clearance(), key)
    whole = json.loads((tmp_path / "c.json").read_text())
    write_signed(file, {"dossier": whole["clearance"], "signature": whole["signature"]})
    with pytest.raises(ClearanceError, match="d.json was changed after it was signed"):
        verify_dossier(file, None)
    with pytest.raises(ClearanceError, match="c.json is not a dossier"):
        verify_dossier(tmp_path / "c.json", None)


def test_nothing_of_a_void_audit_is_covered(folder: Path) -> None:
    store, _, dossier = made(folder)
    place = store.audit(dossier.audit)
    summary = read_summary(place)
    void = replace(summary, valid=False, controls=replace(summary.controls, reason="a control failed"))
    write_summary(place, void)
    try:
        _, read, dossier = made(folder)
        assert not dossier.valid
        assert dossier.decision == ("Nothing may be decided on this audit. It is void: a control failed.",)
        assert {one.status for one in dossier.crosswalk} == {"partial", "out of scope"}
        assert any("thrown away" in sentence for sentence in dossier.plain)
        assert "No verdict in this dossier may be used" in render_dossier(read, dossier)
    finally:
        write_summary(place, summary)


def test_declared_is_taken_from_the_spec_of_this_audit_alone(folder: Path, tmp_path: Path) -> None:
    asked = ("dossier", "latest", "--store", folder / "store", "--html", tmp_path / "d.html")
    told = json.loads(typed(*asked, "--spec", folder / "declared.toml", "--json", code=0).stdout)
    assert told["declared"]["controller"] == "Registry <of> three"
    assert (tmp_path / "d.html").is_file()
    other = folder / "other.toml"
    other.write_text((folder / "declared.toml").read_text().replace("rank = 2", "rank = 3"))
    with pytest.raises(InputError, match="is not the spec of audit"):
        typed(*asked, "--spec", other)
