"""What a pipeline is given: every rule, whether it holds or not, no text of a document, exit codes as asked."""

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import jsonschema
import pytest
import yaml

from ksdp.audit.reviewing import visible
from ksdp.dashboards.audits import pipelines
from ksdp.dashboards.audits.pipelines import RULES, checks
from ksdp.dashboards.audits.pipelines import sarif as sarif_of
from ksdp.dashboards.audits.result import audit_result
from ksdp.storage.audits.history import find_audit, read_summary
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.store import Store

from ... import finished
from ...finished import made_once
from ...typed import typed

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "ci"
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
RULE = {"type": "object", "required": ["id"], "properties": {"shortDescription": TEXT, "fullDescription": TEXT}}
PLACE = {
    "type": "object",
    "required": ["physicalLocation"],
    "additionalProperties": False,
    "properties": {
        "physicalLocation": {"required": ["artifactLocation", "region"]},
        "logicalLocations": {"type": "array", "items": {"required": ["name"]}},
    },
}
RESULT = {
    "type": "object",
    "required": ["message", "ruleId", "locations", "partialFingerprints"],
    "properties": {
        "message": TEXT,
        "ruleId": {"enum": list(RULES)},
        "kind": {"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "locations": {"type": "array", "minItems": 1, "items": PLACE},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "if": {"properties": {"kind": {"const": "fail"}}},
    "else": {"properties": {"level": {"const": "none"}}},
}
RUN = {
    "type": "object",
    "required": ["tool", "results"],
    "properties": {
        "tool": {"properties": {"driver": {"required": ["name"], "properties": {"rules": {"items": RULE}}}}},
        "invocations": {"items": {"required": ["executionSuccessful"]}},
        "results": {"type": "array", "items": RESULT},
    },
}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {"version": {"const": "2.1.0"}, "runs": {"type": "array", "minItems": 1, "items": RUN}},
}
"""What SARIF 2.1.0 requires of the parts that are written, and GitHub besides: a place and a fingerprint each."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, and the spec of its audit: 30 rows, of which a few stand far out."""
    made = made_once(tmp_path_factory, "small", finished.small)
    return Path(shutil.copytree(made, tmp_path_factory.mktemp("pipelines"), dirs_exist_ok=True))


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


def shown(folder: Path, tmp_path: Path, *more: object) -> tuple[int, Xml.Element, dict[str, Any]]:
    """Exit code, JUnit and SARIF of the audit."""
    files = ("--junit", tmp_path / "j.xml", "--sarif", tmp_path / "s.sarif")
    code = typed("show", "latest", "--store", folder / "store", *files, *more).exit_code
    sarif = json.loads((tmp_path / "s.sarif").read_text())
    jsonschema.validate(sarif, SARIF)
    root = Xml.parse(tmp_path / "j.xml").getroot()
    counted(root)
    return code, root, sarif


def counted(root: Xml.Element) -> None:
    """A JUnit file's own numbers are those of its cases, and each case has one outcome at most."""
    assert root.tag == "testsuites"
    for suite in root:
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase")) == len(suite)
        for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.attrib[name]) == len(suite.findall(f"testcase/{tag}"))
        assert all(len(case) <= 1 and case.attrib["name"] and case.attrib["classname"] for case in suite)
        assert all("message" in outcome.attrib for case in suite for outcome in case)


def outcomes(root: Xml.Element) -> dict[str, str]:
    """Of each rule, where a pass has none."""
    cases = {case.attrib["name"]: case for case in root.iter("testcase")}
    return {rule: cases[rule][0].tag if len(cases[rule]) else "pass" for rule in RULES}


def test_every_rule_is_there_and_the_exit_code_speaks_of_those_named(folder: Path, tmp_path: Path) -> None:
    audit = find_audit(store := Store.open(folder / "store"), "latest")
    counts = read_summary(store.audit(audit)).verdicts
    assert counts.sensitive
    assert counts.undecided
    code, root, sarif = shown(folder, tmp_path, "--fail-on", "sensitive")
    assert code == 3
    assert outcomes(root) == dict(zip(RULES, ("pass", "skipped", "failure", "skipped"), strict=True))
    run = sarif["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(RULES)
    levels = {"uncovered": "warning", "sensitive": "error", "undecided": "warning"}
    assert {(r["ruleId"], r["level"]) for r in run["results"]} == set(levels.items())
    documents = [r for r in run["results"] if "logicalLocations" in r["locations"][0]]
    assert len(documents) == counts.sensitive + counts.undecided
    same = {r["partialFingerprints"]["primaryLocationLineHash"] for r in run["results"]}
    assert len(same) == len(run["results"])
    for fails, expected in (("undecided", 4), ("uncovered", 4)):
        assert shown(folder, tmp_path, "--fail-on", fails)[0] == expected
    assert shown(folder, tmp_path)[0] == 0
    asked = ("audit", folder / "spec.toml", "--store", folder / "store", "--here", 1)
    assert typed(*asked).exit_code == 3
    assert typed(*asked, "--fail-on", "uncovered").exit_code == 4


def test_a_finding_stands_at_its_line_in_a_file_that_others_can_read(folder: Path, tmp_path: Path) -> None:
    _, _, sarif = shown(folder, tmp_path)
    store = Store.open(folder / "store")
    summary = read_summary(store.audit(find_audit(store, "latest")))
    ids = [visible(one) for one in open_corpus(store.corpus(summary.corpus)).ids.tolist()]
    corpus = summary.spec.corpus.model_copy(update={"path": "a.csv", "columns": ("a",)})
    named = replace(summary, spec=summary.spec.model_copy(update={"corpus": corpus}))
    assert not named.corpus_about.without_features
    found = results(sarif_of(checks(audit_result(named), ["sensitive"]), named))
    assert found
    assert all(line == ids.index(document) + 2 for document, line in found)  # the first line has the names
    assert {line for _, line in results(sarif)} == {1}  # a matrix has no lines
    (tmp_path / "plain").touch()
    assert (tmp_path / "s.sarif").stat().st_mode == (tmp_path / "plain").stat().st_mode


def results(sarif: dict[str, Any]) -> list[tuple[str, int]]:
    places = [one["locations"][0] for one in sarif["runs"][0]["results"]]
    return [
        (place["logicalLocations"][0]["name"], place["physicalLocation"]["region"]["startLine"])
        for place in places
        if "logicalLocations" in place
    ]


def test_most_documents_are_counted_and_not_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelines, "NAMED", 2)
    _, root, sarif = shown(folder, tmp_path)
    named = [case for case in root.iter("testcase") if case.attrib["name"].startswith("undecided: ")]
    assert len(named) == 2
    assert "<U+202E>" in named[0].attrib["name"]
    messages = [r["message"]["text"] for r in sarif["runs"][0]["results"]]
    assert any("Named: 2; `ksdp sql" in message for message in messages)


def test_a_part_of_the_corpus_is_never_a_pass(folder: Path, tmp_path: Path) -> None:
    text = (folder / "spec.toml").read_text().replace('families = ["geometry"]', "")
    (folder / "some.toml").write_text(text + "documents = 5\n")
    typed("audit", folder / "some.toml", "--store", tmp_path / "store", "--here", 1)
    (tmp_path / "out").mkdir()
    code, root, _ = shown(tmp_path, tmp_path / "out", "--fail-on", "uncovered")
    assert code == 4
    assert outcomes(root)["uncovered"] == "failure"
    assert outcomes(root)["undecided"] == "pass"
    assert outcomes(shown(tmp_path, tmp_path / "out", "--fail-on", "sensitive")[1])["uncovered"] == "skipped"


def test_a_void_audit_passes_nothing(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, page: Path) -> None:
    shutil.copytree(made_once(tmp_path_factory, "void", finished.void) / "store", tmp_path / "store")
    code, root, sarif = shown(tmp_path, tmp_path, "--fail-on", "sensitive")
    assert code == 5
    assert outcomes(root) == {"controls": "error"} | dict.fromkeys(list(RULES)[1:], "skipped")
    assert not sarif["runs"][0]["invocations"][0]["executionSuccessful"]
    assert {r["kind"] for r in sarif["runs"][0]["results"]} == {"fail", "open"}
    assert "holds" not in page.read_text().replace("does not hold", "")


def test_the_page_of_a_pipeline_is_added_to_and_names_nobody(folder: Path, tmp_path: Path, page: Path) -> None:
    shown(folder, tmp_path)
    text = page.read_text()
    assert text.startswith("before\n### ksdp: PD-SVD")
    assert all(f"| {rule} |" in text for rule in RULES)
    assert "row-" not in text


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_examples_run_as_they_stand(
    path: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they type is typed, and what they upload is there then."""
    made = yaml.safe_load(path.read_text())
    if path.stem == "github":
        assert {"on", "permissions", "jobs"} <= {"on" if key is True else key for key in made}  # YAML 1.1's `on`
        steps = made["jobs"]["audit"]["steps"]
        typed_there = [step["run"] for step in steps if "run" in step]
        files = [step["with"]["sarif_file"] for step in steps if "upload-sarif" in step.get("uses", "")]
        files += [step["with"]["path"] for step in steps if "upload-artifact" in step.get("uses", "")]
        assert all("uses" in step or "run" in step for step in steps)
        assert made["permissions"]["security-events"] == "write"
    else:
        typed_there = made["privacy"]["script"]
        kept = made["privacy"]["artifacts"]
        files = [*kept["paths"], kept["reports"]["junit"]]
        assert made["privacy"]["allow_failure"] == {"exit_codes": 4}
    (tmp_path / "rows.csv").write_bytes((folder / "rows.csv").read_bytes())
    (tmp_path / "spec.toml").write_text((folder / "spec.toml").read_text())
    monkeypatch.chdir(tmp_path)
    asked = [shlex.split(line)[1:] for line in typed_there if line.startswith("ksdp ")]
    assert [typed(*words, "--here", 1).exit_code for words in asked] == [3]
    assert all(list(tmp_path.glob(pattern)) for one in files for pattern in one.split())
