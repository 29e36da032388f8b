"""The dossier for a regulator or a board: what was measured, declared and decided, and what is missing."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import TypeAdapter

from ksdp.dashboards.audits import sentences
from ksdp.dashboards.audits.audit_model import AuditModel, read_audit_model
from ksdp.dashboards.audits.frameworks import Clause, crosswalk
from ksdp.dashboards.audits.pipelines import uncovered
from ksdp.dashboards.audits.report import parts_of, standalone
from ksdp.dashboards.audits.result import audit_result
from ksdp.dashboards.words import count, decimal, percent, plural, timestamp
from ksdp.storage.audits.history import ProvedBy, Risk, Summary, read_summary
from ksdp.storage.clearances import (
    Clearance,
    content_hash,
    read_clearance,
    require_new,
    signed,
    stored_clearances,
    verify_signed,
    write_signed,
)
from ksdp.storage.files import read_stored
from ksdp.storage.findings import DeclaredSpec, read_spec, read_verdicts
from ksdp.storage.keys import fingerprint
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.reviews.appetites import AppetiteRecord
from ksdp.storage.reviews.decisions import NOTES, read_log, read_policy
from ksdp.storage.store import ClearanceError, Store, write_whole

VERSION = 1
"""Version of the JSON."""
_PICTURED = 4
"""Documents of which the distributions are drawn."""
_GROUPS = 5
"""Parties that are shown, and persons, at most: those with the largest average."""

_Names = tuple[str, ...]
CHAPTERS: tuple[tuple[str, str, _Names, _Names], ...] = (
    ("measured", "What was measured", (), ("result", "worst")),
    (
        "release",
        "What is released, and who might attack it",
        ("release", "how_often", "released_before", "prior", "main_attacks"),
        ("asked",),
    ),
    (
        "processing",
        "Who, why, and whose data",
        (
            *("controller", "parties", "purpose", "legal_basis", "dpia", "recipients"),
            *("data_subjects", "people", "harm"),
        ),
        (),
    ),
    ("appetite", "What is accepted", (), ("appetite",)),
    ("theory", "What theory says", (), ()),
    ("trust", "Can the test be trusted?", ("auditor",), ("controls", "undecided")),
    ("measures", "Measures, and what is gained", ("measures",), ("gain",)),
    (
        "signoff",
        "Sign-off",
        (*("dpo_advice", "measures_approved_by", "residual_risk_accepted_by"), "review_date", "review_triggers"),
        (),
    ),
    ("crosswalk", "What is asked for elsewhere", (), ()),
    ("limits", "What this result does not say", (), ("limits",)),
    ("plain", "For those whose data it is", (), ()),
    ("provenance", "Who, when, and how to do it again", (), ("cost", "provenance")),
)
"""Anchor, heading, keys of `[declared]`, and parts of the report that stand there."""
_NAMES = {
    "dpia": "Impact assessment (DPIA)",
    "dpo_advice": "Advice of the data protection officer",
    "prior": "Attacker's prior",
}
_UNTRIED = "What was not tried may leak: clear means clear under the statistics tried, unless a proof is named."
NOT_CLAIMED = (
    "Nobody claims that this processing is lawful, or that it complies with any law or standard.",
    "Whether somebody took part is tested; not what else could be learnt about them.",
    _UNTRIED,
    "Another corpus, other settings, a second run: each needs an audit; so does a smaller party, without a proof.",
    "Where three parties compute on shares (final output, normed sums), any two of them can see what is hidden.",
)


@dataclass(frozen=True)
class Advantage:
    """Intervals of the advantage on some documents, by a statistic or by a proof. All hold together."""

    name: str
    document: str
    """The worst."""
    documents: int
    sensitive: int
    average: float
    average_low: float
    average_high: float
    largest: float
    largest_low: float
    largest_high: float


@dataclass(frozen=True)
class Fact:
    """One thing that is said, and who says it."""

    name: str
    text: tuple[str, ...]
    source: Literal["declared", "measured", "recorded", "missing"]


@dataclass(frozen=True)
class Chapter:
    """Some facts under a heading."""

    anchor: str
    heading: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class BillOfMaterials:
    """The packages that were installed where the audit ran."""

    packages: Mapping[str, str]
    """Versions by name."""
    sha256: str
    """Hash of the lines `name==version`, sorted, with a line feed after each."""


@dataclass(frozen=True)
class Dossier:
    """Everything that is handed over."""

    version: int
    audit: str
    called: str
    made: datetime
    valid: bool
    decision: tuple[str, ...]
    """Statements, in sentences."""
    for_whom: str
    until: str
    answered_by: str
    """Names of those who approved it and who accepted the remaining risk."""
    not_claimed: tuple[str, ...]
    missing: tuple[str, ...]
    """Keys of `[declared]` that nobody filled in."""
    verdicts: Mapping[str, int]
    margin: float
    level: float
    error: Literal["fdr", "fwer"]
    advantages: tuple[Advantage, ...]
    """Everybody first, then the worst groups."""
    chapters: tuple[Chapter, ...]
    crosswalk: tuple[Clause, ...]
    plain: tuple[str, ...]
    materials: BillOfMaterials
    declared: DeclaredSpec
    risk: Risk
    appetite: Mapping[str, Any] | None
    """Every criterion of the risk appetite that the audit is held to; None where it is held to none."""
    summary: Mapping[str, Any]
    """`audit.json`: all that the audit found and rests on."""
    signed_by: str | None = None
    """Name of the signer."""
    key: str | None = None
    """Fingerprint of the key."""
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of its page, and of its PDF, by name, in what is signed."""

    def to_json(self) -> dict[str, Any]:
        """For machines: `docs/dossier.schema.json` says what stands where."""
        record: dict[str, Any] = TypeAdapter(Dossier).dump_python(self, mode="json")
        return record


def read_dossier(store: Store, view: AuditModel, made: datetime) -> Dossier:
    """Put together what the store knows of an audit."""
    summary, record = view.result.summary, view.result.record
    audit, stated, proved = summary.audit, summary.spec.declared, sentences.proof_of_all(summary) is not None
    missing = tuple(key for key, value in stated.all.items() if not value)
    every = map(read_clearance, stored_clearances(store))
    signed = sorted((c for c in every if audit in c.audits), key=lambda c: c.created)
    figures = advantages(store, summary)
    packages = summary.provenance.packages
    lines = "".join(f"{name}=={version}\n" for name, version in sorted(packages.items()))
    materials = BillOfMaterials(packages, hashlib.sha256(lines.encode()).hexdigest())
    counted = plural(len(packages), "package", "packages")
    installed = f"{counted}, named in the JSON (sha256:{materials.sha256})"
    measured = {
        "appetite": (_held_to(record),),
        "measured": _measured(figures, summary),
        "theory": _theory(view),
        "trust": (Fact("Error rate", (sentences.how_sure(summary),), "measured"), *_trust(view)),
        "signoff": _recorded(store, audit, signed),
        "provenance": (*_again(audit), Fact("Bill of materials", (installed,), "recorded")),
    }
    return Dossier(
        version=VERSION,
        audit=audit,
        called=sentences.called(summary),
        made=made,
        valid=summary.valid,
        decision=_decision(summary, signed),
        for_whom="; ".join(filter(None, map(stated.text, ("controller", "recipients")))) or "nobody is named",
        until=_until(signed, stated, made.date()),
        answered_by="; ".join(
            f"{_heading(key).lower()} {stated.text(key) or 'nobody named'}"
            for key in ("measures_approved_by", "residual_risk_accepted_by")
        ),
        not_claimed=tuple(each for each in NOT_CLAIMED if not (proved and each == _UNTRIED)),
        missing=missing,
        verdicts=summary.verdicts.as_dict(),
        margin=summary.spec.decision.margin,
        level=summary.spec.decision.level,
        error=summary.spec.decision.error,
        advantages=figures,
        chapters=tuple(
            Chapter(anchor, heading, (*_stated(stated, keys), *measured.get(anchor, ())))
            for anchor, heading, keys, _ in CHAPTERS
        ),
        crosswalk=crosswalk(missing, _gaps(summary), not summary.valid),
        plain=tuple(_plain(summary, stated)),
        materials=materials,
        declared=stated,
        risk=summary.risk,
        appetite=None if record is None else record.to_json(),
        summary=summary.to_json(),
    )


def _held_to(record: AppetiteRecord | None) -> Fact:
    if record is None:
        return Fact("Risk appetite", ("none is kept with this audit (ksdp audit --appetite)",), "missing")
    return Fact("Risk appetite", ("met" if record.met else "NOT met",), "recorded")


def read_audit(store: Store, audit: str, declared: DeclaredSpec | None = None) -> AuditModel:
    """Read an audit for its dossier, with what is declared by now, or with this instead, and few pictures."""
    summary = read_summary(store.audit(audit))
    spec = summary.spec.model_copy(update={"declared": declared or read_spec(store.audit(audit)).declared})
    view = read_audit_model(audit_result(replace(summary, spec=spec)))
    return replace(view, worst=view.worst[:_PICTURED])


def _gaps(summary: Summary) -> dict[str, str]:
    by = {bound.by for bound in summary.bounds} - {ProvedBy.COPIES}
    nothing = "" if by or summary.guarantee.kind == "(epsilon, delta)" else "nothing is proved of every attack"
    return {"measured": uncovered(summary).rstrip("."), "theory": nothing}


def render_dossier(view: AuditModel, dossier: Dossier) -> str:
    """The dossier as one page that loads nothing."""
    shown = parts_of(view) | {"dossier": dossier, "parts": {anchor: parts for anchor, _, _, parts in CHAPTERS}}
    return standalone("dossier.html.j2", sheets=("app.css", "dossier.css"), **shown)


def signed_file(page: Path) -> Path:
    """Where the signed JSON of a dossier's page, or its PDF, is."""
    return page.with_suffix(".json")


def write_dossier(dossier: Dossier, files: Mapping[Path, bytes], key: Ed25519PrivateKey | None) -> None:
    """Write its page, or its PDF; with a key also the signed JSON that lists them, and is never replaced."""
    for path in files:
        require_new(signed_file(path))
    for path, content in files.items():
        write_whole(path, partial(Path.write_bytes, data=content))
    if key is not None:
        named = {path.name: _sha256(content) for path, content in files.items()}
        envelope = signed(replace(dossier, files=named).to_json(), "dossier", key)
        write_signed(signed_file(next(iter(files))), envelope)


def verify_dossier(file: Path, public_key: Ed25519PublicKey | None) -> dict[str, Any]:
    """Check a signed dossier and the files beside it: what was checked."""
    envelope, key, checked = verify_signed(file, "dossier", public_key)
    record = envelope["dossier"]
    missing: list[str] = []
    for name, content in record["files"].items():
        path = file.parent / name
        if path.is_file() and _sha256(read_stored(path)) != content:
            raise ClearanceError("files", f"{name} was changed after it was signed; {file.name} was not.")
        (checked if path.is_file() else missing).append(name)
    about = {name: record[name] for name in ("signed_by", "made", "audit", "called", "valid")}
    checks = {"checked": checked, "missing": missing}
    return {"dossier": str(file.resolve()), "fingerprint": fingerprint(key)} | checks | about


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def advantages(store: Store, summary: Summary) -> tuple[Advantage, ...]:
    """Advantages over all, and over the parties and persons with the largest average, if the corpus names them."""
    table = read_verdicts(store.audit(summary.audit))
    rows = [_advantage(table, f"all {summary.design.unit}s")]
    if summary.design.unit == "group":
        return tuple(rows)
    corpus = open_corpus(store.corpus(summary.corpus))
    for kind, labels in (("party", corpus.party), ("group", corpus.group)):
        if labels is not None:
            of = dict(zip(corpus.ids.tolist(), labels.tolist(), strict=True))
            mine, which = np.unique([of[name] for name in table["document"].to_pylist()], return_inverse=True)
            total = np.bincount(which, weights=np.nan_to_num(table["distance"].to_numpy()))
            worst = np.argsort(-total / np.bincount(which), kind="stable")[:_GROUPS]
            rows += [_advantage(table.filter(which == at), f"{kind} {mine[at]}") for at in worst]
    return tuple(rows)


def _advantage(table: pa.Table, name: str) -> Advantage:
    """Where an arm was empty nothing is known: from 0 to 1. No number is above what is proved of every attack."""
    proved = table["certified_bound"].to_numpy()
    measured, low, high = (
        np.fmin(np.nan_to_num(table[column].to_numpy(), nan=unknown), proved)
        for column, unknown in (("distance", 0.0), ("band_low", 0.0), ("largest_band_high", 1.0))
    )
    worst = int(measured.argmax())
    numbers = (measured.mean(), low.mean(), high.mean(), measured[worst], low.max(), high.max())
    return Advantage(
        name,
        str(table["document"][worst]),
        len(table),
        table["verdict"].to_pylist().count("sensitive"),
        *(round(float(number), 6) for number in numbers),
    )


def _heading(key: str) -> str:
    return _NAMES.get(key, key.replace("_", " ").capitalize())


def _stated(stated: DeclaredSpec, keys: tuple[str, ...]) -> Iterator[Fact]:
    facts = stated.all
    yield from (Fact(_heading(key), _words(facts[key]), "declared") for key in keys if facts[key])
    if names := [_heading(key) for key in keys if not facts[key]]:
        yield Fact("Not declared", (", ".join(names),), "missing")


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        return tuple(f"{name}: {said}" for name, said in value.items())
    if isinstance(value, tuple):
        return value
    return (f"{value:,}" if isinstance(value, int) else str(value),)


def _decision(summary: Summary, signed: list[Clearance]) -> tuple[str, ...]:
    if not summary.valid:
        return (f"Nothing may be decided on this audit. It is void: {summary.controls.reason}.",)
    said = filter(None, (sentences.headline(summary), sentences.trusted(summary)))
    if not signed:
        return (*said, "No clearance was signed on it: nothing may enter a run on its account.")
    newest = signed[-1]
    entering = plural(len(newest.documents), "document", "documents")
    until = f"{entering} may enter a run until {timestamp(newest.expires)}"
    return (*said, f"{until}: {newest.reviewer} signed that on {timestamp(newest.created)}.")


def _until(signed: list[Clearance], stated: DeclaredSpec, today: date) -> str:
    ends = [(clearance.expires.date(), "the clearance expires") for clearance in signed[-1:]]
    if stated.review_date:
        ends.append((stated.review_date, "it is reviewed"))
    if not ends:
        return "no date is named"
    day, why = min(ends)
    return f"{day:%-d %b %Y}: {why}{', and that day is past' if day < today else ''}"


def _measured(figures: tuple[Advantage, ...], summary: Summary) -> tuple[Fact, ...]:
    every = figures[0]
    largest = f"{decimal(every.largest)} ({decimal(every.largest_low)} to {decimal(every.largest_high)})"
    average = f"{decimal(every.average)} ({decimal(every.average_low)} to {decimal(every.average_high)})"
    if limit := sentences.proved_limit(summary):
        largest = average = f"{limit}, by a proof"
    accepted = (sentences.margin_words(summary), sentences.advantage_means(summary.spec.decision.margin))
    said = (("Maximum advantage", (largest,)), ("Average advantage", (average,)), ("Margin accepted", accepted))
    return tuple(Fact(name, text, "measured") for name, text in said)


def _theory(view: AuditModel) -> tuple[Fact, ...]:
    summary = view.result.summary
    promise, bounds = sentences.promised(summary, view.result.claim), sentences.by_knowledge(summary)
    none = "No bound: it claims no differential privacy, and no attack beyond those tried was bounded."
    first = promise or (summary.spec.draw_sentence or "" if summary.bounds else none)
    said = [("Promise", [first]), *bounds] if first else bounds
    return tuple(Fact(name, tuple(text), "measured") for name, text in said)


def _trust(view: AuditModel) -> tuple[Fact, ...]:
    summary = view.result.summary
    unread, strength, chance = ", ".join(summary.unread), view.strength, summary.chance.median_D
    return (
        Fact("Planted leaks", (strength.sentence() if strength else "none planted (ksdp power)",), "measured"),
        Fact("Without leaks", (f"half measure an advantage below {decimal(chance)}",), "measured"),
        Fact("Coverage", (f"not looked at: {unread}" if unread else "all that is announced",), "measured"),
    )


def _recorded(store: Store, audit: str, signed: list[Clearance]) -> tuple[Fact, ...]:
    policy = read_policy(store)
    rule = Fact("Rule", ("two persons decide" if policy.four_eyes else "one person decides",), "recorded")
    kinds: dict[tuple[str, str], list[datetime]] = {}
    entries = read_log(store, audit=audit)
    for entry in (entry for entry in entries if entry.decision not in NOTES):
        kinds.setdefault((entry.reviewer, entry.decision.value), []).append(entry.at)
    lines = [
        f"{who}: {decision}, {plural(len(when), 'document', 'documents')}, {timestamp(min(when))} to "
        f"{timestamp(max(when))}"
        for (who, decision), when in kinds.items()
    ]
    if entries:
        newest = max(entries, key=lambda entry: entry.number)
        lines.append(f"Newest entry: {newest.number}, {newest.hash}")
    log = Fact("Decisions", tuple(lines) or ("none",), "recorded" if lines else "missing")
    cleared = tuple(
        f"{c.reviewer}, {timestamp(c.created)}: {plural(len(c.documents), 'document', 'documents')}, until "
        f"{timestamp(c.expires)} ({content_hash(c)})"
        for c in signed
    )
    return (rule, log, Fact("Clearances", cleared or ("none",), "recorded" if cleared else "missing"))


def _again(audit: str) -> tuple[Fact, ...]:
    same = f"with the specification below and the same corpus: it makes {audit} again."
    return (
        Fact("To repeat it", (f"ksdp audit SPEC --store STORE, {same}",), "measured"),
        Fact("To check one number", (f"ksdp show {audit} DOCUMENT --again STATISTIC --store STORE",), "measured"),
        Fact("For machines", (f"ksdp dossier {audit} --json: this dossier as one object.",), "measured"),
    )


def _plain(summary: Summary, stated: DeclaredSpec) -> Iterator[str]:
    counts, margin = summary.verdicts, summary.spec.decision.margin
    controller = stated.text("controller")
    who = f"Answerable: {controller}." if controller else "Nobody is named who answers for it."
    purpose = f" The purpose: {aim.rstrip('.')}." if (aim := stated.text("purpose")) else ""
    yield f"Something will be computed from data about you and others. {who}{purpose}"
    times = f"{plural(summary.runs, 'time', 'times')}, each time with data drawn anew"
    looked = f"To know, we made the computation {times}, and looked."
    if summary.all_proved:
        looked = (
            f"A proof answers this. We also made the computation {times}, to check that it does what was proved."
        )
    yield f"We asked: can somebody who sees what is published find out whether your data was in it? {looked}"
    if not summary.valid:
        yield "The test went wrong and was thrown away. Nothing may be decided by it."
        return
    right, unit = math.ceil(50 + 50 * margin - 1e-9), summary.design.unit
    everything = plural(summary.documents, unit, f"{unit}s")
    result = (
        f"Of {everything}, {count(counts.clear)} are safe enough by this test. {count(counts.sensitive)} are not. "
        f"Of {count(summary.documents - counts.clear - counts.sensitive)} we cannot say."
    )
    if counts.clear == summary.documents:
        result = f"All {everything} are safe enough."
    yield f"We call it safe enough if a guesser is right at most {right} times in 100; with a coin, 50. {result}"
    if (low := summary.spec.decision.margin_at_low_fpr) is not None:
        yield (
            "Nor may somebody who accuses 1 in 100 of those whose data was not used recognise more than "
            f"{percent(low)} of the others."
        )
    level, rule = percent(summary.spec.decision.level + summary.spec.level_of_clear), summary.spec.decision.error
    wrong = (
        f"at most {level} of them are expected to be" if rule == "fdr" else f"the chance of any is {level} at most"
    )
    tried = f"We tried the attacks that we know; there may be others. Our answers can be wrong: {wrong}."
    if summary.all_proved:
        tried = f"It is proved that no attack does better, if {sentences.grounds(summary)}."
    yield f"We tested only whether your data was used. {tried}"
    harm = f" The harm if it were found out: {feared.rstrip('.')}." if (feared := stated.text("harm")) else ""
    yield f"What happens to data that is not safe enough is for people to decide: see Sign-off.{harm}"
    yield f"Questions go to {controller or 'whoever gave you this page'}."
