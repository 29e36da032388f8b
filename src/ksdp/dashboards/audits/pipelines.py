"""Results of an audit for pipelines: JUnit, SARIF, Markdown. Ids of documents, never their text.

SARIF names all rules, and has results only for those that do not hold: GitHub takes a result of the kind "pass"
for a finding, and closes what a new file does not have. The others list what an appetite asks, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote
from xml.etree import ElementTree as Xml

from ksdp.dashboards.audits.result import AuditResult
from ksdp.dashboards.audits.sentences import called, explored
from ksdp.dashboards.words import plural
from ksdp.storage.audits.history import Summary, Verdict
from ksdp.storage.audits.queries import Filter
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.reviews.appetites import AppetiteRecord
from ksdp.storage.reviews.decisions import visible
from ksdp.storage.store import Store

NAMED = 100
"""Most documents that are named for one rule; the others are counted."""

RULES = {
    "controls": (
        "The audit is valid",
        "Its controls came out as they must; no verdict of a void audit may be used.",
    ),
    "uncovered": (
        "Nothing is uncovered",
        "A statistic reads every array that is announced, and every document was audited of the corpus, or of "
        "`parties.me`.",
    ),
    **{w.value: (f"Nobody is {w}", w.meaning.format(margin="the spec")) for w in Verdict if w.exit_code},
}
"""By name, each with what it says and what that means; all but the first are what `--fail-on` takes."""
FAIL_ON = tuple(RULES)[1:]

State = Literal["pass", "warning", "fail", "void"]


@dataclass(frozen=True)
class Check:
    """One rule held to an audit."""

    rule: str
    name: str
    """Name of the rule, or of the criterion of an appetite."""
    state: State
    """`warning`: the rule does not hold, and the pipeline need not fail by it."""
    message: str
    documents: tuple[str, ...] = ()
    """Documents that are named."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line of each document of the corpus in its file, if a line is a document."""


def checks(result: AuditResult, fail_on: Collection[str]) -> list[Check]:
    """Every rule, held to an audit."""
    summary = result.summary
    void = "" if summary.valid else f"void: {summary.controls.reason}"
    results = [Check("controls", "controls", "fail" if void else "pass", void or RULES["controls"][0])]
    broken_by = {rule: _broken(result, rule) for rule in FAIL_ON}
    lines = _lines(result.store, summary) if any(documents for documents, _ in broken_by.values()) else {}
    for rule, (documents, broken) in broken_by.items():
        state: State = "void" if void else "pass" if not broken else "fail" if rule in fail_on else "warning"
        results.append(Check(rule, rule, state, void or broken or RULES[rule][0], documents, lines))
    return results


def appetite_checks(record: AppetiteRecord) -> list[Check]:
    """Every criterion of an appetite."""
    return [
        Check("appetite", f"appetite ({each.name})", "pass" if each.met else "fail", each.sentence())
        for each in record.criteria
    ]


def _broken(result: AuditResult, rule: str) -> tuple[tuple[str, ...], str]:
    summary = result.summary
    if rule == "uncovered":
        return (), uncovered(summary)
    count = summary.verdicts.as_dict()[rule]
    if not count or not summary.valid:
        return (), ""
    rows = result.findings.page(Filter(verdict=rule), limit=NAMED).rows
    words = f"{_units(count, summary)} of {summary.documents:,} {rule}. {explored(summary)}"
    return tuple(visible(row.document) for row in rows), words.strip()


def _lines(store: Store, summary: Summary) -> dict[str, int]:
    """The line of every document, in a file of numbers with a document a line."""
    corpus, first = summary.spec.corpus, {".csv": 2, ".tsv": 2, ".jsonl": 1}
    head = first.get(Path(corpus.path).suffix)
    if head is None or corpus.columns is None or summary.corpus_about.without_features:
        return {}
    ids = open_corpus(store.corpus(summary.corpus)).ids.tolist()
    return {visible(name): head + at for at, name in enumerate(ids)}


def _units(number: int, summary: Summary) -> str:
    return plural(number, summary.design.unit, f"{summary.design.unit}s")


def uncovered(summary: Summary) -> str:
    """Name the parts that the audit left out; empty if it left out none."""
    unread = f"No statistic reads {', '.join(summary.unread)}. " if summary.unread else ""
    part = "" if summary.spec.audits_all else f"Only {_units(summary.documents, summary)} of the corpus audited."
    return (unread + part).strip()


def junit(outcomes: Sequence[Check], summary: Summary) -> str:
    """JUnit XML: a test case for every rule, and one for every document that is named."""
    suite = Xml.Element(
        "testsuite", name=f"ksdp {visible(called(summary))}", timestamp=summary.provenance.finished[:19]
    )
    for check in outcomes:
        _case(suite, check, check.name, check.message + _others(check, summary))
        for document in check.documents:
            _case(suite, check, f"{check.name}: {document}", f"{document} is {check.rule}")
    for tag in ("failure", "error", "skipped"):
        suite.set({"failure": "failures", "error": "errors"}.get(tag, tag), str(len(suite.findall(f"*/{tag}"))))
    suite.set("tests", str(len(suite)))
    root = Xml.Element("testsuites")
    root.append(suite)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: Xml.Element, check: Check, name: str, message: str) -> None:
    case = Xml.SubElement(suite, "testcase", classname=f"ksdp.{check.rule}", name=name)
    if check.state != "pass":
        tag = "skipped" if check.state in ("warning", "void") else "failure"
        Xml.SubElement(case, "error" if check.rule == "controls" else tag, message=message)


def _others(check: Check, summary: Summary) -> str:
    if not check.documents:
        return ""
    return f" Named: {len(check.documents)}; `ksdp sql {summary.audit} --to verdicts.csv` has all."


def sarif(outcomes: Sequence[Check], summary: Summary) -> dict[str, Any]:
    """SARIF 2.1.0: all rules, and a result for each that does not hold and for every document that is named."""
    rules = [
        {
            "id": name,
            "shortDescription": {"text": short},
            "fullDescription": {"text": long},
            "help": {"text": long},
            "properties": {"tags": ["privacy"]},
        }
        for name, (short, long) in RULES.items()
    ]
    results = []
    for check in outcomes:
        if check.state == "pass":
            continue
        results.append(_result(check, summary, "", check.message + _others(check, summary)))
        results += [
            _result(check, summary, document, f"{document} is {check.rule}.", check.lines.get(document, 1))
            for document in check.documents
        ]
    made = summary.provenance
    driver = {"name": "ksdp", "version": made.versions["ksdp"], "rules": rules}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"ksdp/{summary.spec.series}/"},
        "invocations": [{"executionSuccessful": summary.valid, "endTimeUtc": f"{made.finished[:19]}Z"}],
        "results": results,
        "properties": {"audit": summary.audit, "rules": {check.name: check.state for check in outcomes}},
    }
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def _result(check: Check, summary: Summary, document: str, message: str, line: int = 1) -> dict[str, Any]:
    """One result: every one needs a place in a file, or GitHub refuses them all."""
    place: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(summary.spec.corpus.path)},
            "region": {"startLine": line},
        }
    }
    if document:
        place["logicalLocations"] = [{"name": document, "kind": summary.design.unit}]
    same = "\n".join((summary.spec.series, check.name, document)).encode()
    return {
        "ruleId": check.rule,
        "ruleIndex": list(RULES).index(check.rule),
        "kind": "open" if check.state == "void" else "fail",
        "level": {"fail": "error", "warning": "warning"}.get(check.state, "none"),
        "message": {"text": message},
        "locations": [place],
        "partialFingerprints": {"primaryLocationLineHash": hashlib.sha256(same).hexdigest()[:32]},
    }


def markdown(outcomes: Sequence[Check], summary: Summary) -> str:
    """A few lines for the page of a pipeline."""
    marks = {"pass": "✅ holds", "warning": "⚠️ does not hold", "fail": "❌ does not hold", "void": "❔ not known"}
    cells = ((check.name, marks[check.state], check.message) for check in outcomes)
    rows = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells]
    limits = summary.spec.decision.limits
    head = f"{_units(summary.documents, summary)}: {summary.verdicts.words}, at a margin of {limits}."
    lines = [f"### ksdp: {visible(called(summary))}", "", head, "", "| rule | | |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)
