"""Screening: audit, leave the sensitive documents out, audit the rest on fresh runs, ...; then the clearance.

Every round is an audit of its own in the same store, so an interrupted screen resumes where it was.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.corpus import Corpus
from ksdp.audit.errors import ClearanceError, InputError
from ksdp.audit.groups import GROUPS_AUDITED, unit_names
from ksdp.audit.learning.quality import learning_cost
from ksdp.audit.mechanisms.contract import opens_of
from ksdp.audit.plan import Plan
from ksdp.audit.registry import make_mechanism
from ksdp.audit.screening.clearance import Clearance, Covered, MechanismIdentity
from ksdp.audit.screening.rounds import check_screenable, statement
from ksdp.audit.spec import Spec
from ksdp.dashboards.screening.screen_report import render_screen
from ksdp.flows.prepare import spec_corpus
from ksdp.flows.progress import current
from ksdp.flows.screening.lever_search import Search, plan_search, run_search
from ksdp.flows.screening.rounds import Rounds, Rules, run_rounds
from ksdp.storage.keys import fingerprint
from ksdp.storage.screening.clearances import read_clearance, write_clearance
from ksdp.storage.screening.screens import page_path, verdict_ids, write_excluded, write_page, write_screen
from ksdp.storage.store import Store, content_key

__all__ = ["NO_HELP", "mechanism_identity", "screen"]

NO_HELP = ("hopeless", "limit", "too-few")
"""Outcomes in which leaving documents out does not make the rest safe."""


def mechanism_identity(plan: Plan) -> MechanismIdentity:
    """What a clearance is bound to: the mechanism as the plan built it, defaults included."""
    runs = plan.runs_identity
    return MechanismIdentity(runs["mechanism"], runs["mechanism_version"], runs["parameters"])


def covered_by(plan: Plan) -> Covered:
    """What an audit by this plan looks at, of what a run shows its parties."""
    return Covered(opens_of(plan.mechanism), tuple(sorted(plan.coverage.read_by)))


def screen(
    spec: Spec,
    base: Path,
    store: Path,
    clearance_path: Path,
    private_key: Ed25519PrivateKey,
    *,
    who: str,
    now: datetime,
    expires: datetime,
    rounds: int = 5,
    most: float = 0.5,
    workers: int | None = None,
    dask: str | None = None,
    salted: bool = False,
    list_excluded: bool = False,
    allow_undecided: bool = False,
    proof: bool = True,
    search: bool = False,
    quota: float = 0.05,
    sampled: int = 200,
) -> dict[str, Any]:
    """Audit and leave out until nothing new is sensitive; then write the clearance. The same call resumes.

    Parameters
    ----------
    spec : Spec
    base : Path
        Folder that the spec's paths are relative to.
    store : Path
    clearance_path : Path
        Written only if the last round found nothing sensitive and there is a document to list; an older clearance
        there is replaced then, and left alone otherwise.
    private_key : Ed25519PrivateKey
        Of the reviewer.
    who : str
        Who decided.
    now, expires : datetime
        With time zones.
    rounds : int
        The most audits.
    most : float
        Where more than this share of a round's documents is sensitive, leaving them out is called no help.
    workers, dask : optional
        As for `run_audit`.
    salted : bool
        List salted hashes instead of ids.
    list_excluded : bool
        Name the excluded documents in the clearance, in plain.
    allow_undecided : bool
        List undecided documents besides clear ones.
    proof : bool
        Where the databases of the last round also held documents that may not be listed (undecided ones), leave
        these out too and audit the listed ones by themselves, so that what is cleared is what was audited
        together. Where that cannot be, the clearance says so and why.
    search : bool
        Where leaving documents out does not help, search what would (`ksdp.flows.screening.lever_search`).
    quota : float in (0, 1)
        For the search: the share of the documents that may exceed the margin.
    sampled : int
        For the search: documents drawn at random for every audit of it.

    Returns
    -------
    dict
        As `screens/<id>.json` holds it. `outcome` is `cleared`, `nothing-proved` (nothing is sensitive, and
        nothing may be listed), `hopeless`, `limit`, `too-few` or `void`; `reason` says it in a sentence. `report`
        names the page for people.

    Raises
    ------
    InputError
        If anything is refused, before work starts.
    """
    started = time.monotonic()
    check_screenable(spec)
    _check(clearance_path, who, now, expires, rounds, most)
    current().stage("prepare", 1)
    corpus = spec_corpus(spec, base)
    planned = plan_search(spec, corpus, quota=quota, documents=sampled) if search else None
    allowed = ("clear", "undecided") if allow_undecided else ("clear",)
    rules = Rules(rounds, most, allowed, proof)
    found = run_rounds(spec, corpus, store, rules, workers=workers, dask=dask)
    name = _name(spec, corpus, rules, planned)
    opened = Store.open(store)
    if found.excluded:
        members = (corpus.ids, unit_names(corpus, "group")) if spec.design.unit == "group" else None
        write_excluded(opened, name, found.sensitive, members)
    listed, excluded = (_documents(spec, corpus, names) for names in (found.listed, found.excluded))
    outcome, reason = _outcome(found)
    quality, said = None, None
    if outcome == "cleared":
        current().say("learning from all documents and from the cleared ones, to see what leaving out costs")
        mechanism = make_mechanism(spec.mechanism.name, spec.mechanism.parameters)
        quality = learning_cost(mechanism, corpus, np.flatnonzero(np.isin(corpus.ids, listed)), spec.seed)
        salt = secrets.token_bytes(16) if salted else None
        cleared = _clearance(spec, corpus, found, rules, salt, list_excluded, who, now, expires)
        write_clearance(clearance_path, cleared, private_key)
        said = cleared.statement
    elif clearance_path.exists():
        current().say(f"{clearance_path} is an older clearance and was left as it is")
    searched = None
    if planned is not None and outcome in NO_HELP:
        searched = run_search(planned, corpus, store, workers=workers, dask=dask)
    summary = {
        "screen": name,
        "corpus": corpus.hash,
        "mechanism": found.plan.mechanism.name,
        "spec": spec.hash,
        "outcome": outcome,
        "helps": found.ended.helps,
        "reason": reason,
        "documents": len(corpus),
        "unit": spec.design.unit,
        "excluded": len(excluded),
        "allowed": len(listed),
        "allowed_verdicts": list(allowed),
        "exact": outcome == "cleared" and not found.beside,
        "beside": found.beside if outcome == "cleared" else None,
        "why_beside": found.why_beside,
        "statement": said,
        "rounds": found.about,
        "most": most,
        "level": spec.decision.level,
        "margin": spec.decision.margin,
        "party_rows": found.plan.party_rows,
        "quality": quality,
        "search": searched,
        "clearance": str(clearance_path.resolve()) if outcome == "cleared" else None,
        "fingerprint": fingerprint(private_key),
        "reviewer": who,
        "finished": now.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - started, 3),
        "store": str(opened.root),
        "report": str(page_path(opened, name)),
    }
    write_screen(opened, name, summary)
    write_page(opened, name, render_screen(opened, name))
    return summary


def _documents(spec: Spec, corpus: Corpus, names: list[str]) -> list[str]:
    """Ids of the documents of some units: of documents themselves, or of all that some groups hold."""
    return [str(name) for name in corpus.ids[np.isin(unit_names(corpus, spec.design.unit), names)]]


def _name(spec: Spec, corpus: Corpus, rules: Rules, planned: Search | None) -> str:
    asked = {"screen": 2, "spec": spec.hash, "corpus": corpus.hash} | dataclasses.asdict(rules)
    sought = None if planned is None else {"quota": planned.quota, "documents": planned.drawn}
    return content_key(asked | {"search": sought})[:12]


def _outcome(found: Rounds) -> tuple[str, str]:
    outcome, reason = found.ended.outcome, found.ended.reason
    if outcome != "stable":
        return outcome, reason
    if not found.listed:
        undecided = len(verdict_ids(found.last, ["undecided"]))
        return (
            "nothing-proved",
            f"{reason} {undecided} {found.plan.units.word}s are undecided and none may be listed: do more runs.",
        )
    if found.why_beside:
        reason += f" The listed documents were not audited by themselves, because {found.why_beside}."
    elif found.about[-1]["proof"]:
        reason += " It audited the listed documents by themselves."
    return "cleared", reason


def _clearance(
    spec: Spec,
    corpus: Corpus,
    found: Rounds,
    rules: Rules,
    salt: bytes | None,
    list_excluded: bool,
    who: str,
    now: datetime,
    expires: datetime,
) -> Clearance:
    excluded = _documents(spec, corpus, found.excluded)
    said = statement(
        margin=spec.decision.margin,
        level=spec.decision.level,
        rows=found.plan.party_rows,
        among=found.among,
        allowed=rules.allowed,
        beside=found.beside,
        rounds=len(found.about),
        why=found.why_beside,
    )
    return Clearance(
        corpus=corpus.hash,
        mechanism=mechanism_identity(found.plan),
        spec=spec.hash,
        audits=tuple(about["audit"] for about in found.about),
        verdicts={kind: found.about[-1][kind] for kind in ("sensitive", "clear", "undecided")},
        allowed=rules.allowed,
        documents=Clearance.entries(_documents(spec, corpus, found.listed), salt),
        salt=salt,
        excluded=len(excluded),
        excluded_documents=tuple(sorted(excluded)) if list_excluded else None,
        reviewer=who,
        created=now,
        expires=expires,
        statement=f"{said} {GROUPS_AUDITED}" if spec.design.unit == "group" else said,
        coverage=covered_by(found.plan),
    )


def _check(path: Path, who: str, now: datetime, expires: datetime, rounds: int, most: float) -> None:
    """Refuse now what would be refused after hours of work."""
    if not who.strip():
        raise InputError("`who` must say who decided.")
    for name, when in (("now", now), ("expires", expires)):
        if when.tzinfo is None:
            raise InputError(f"`{name}` must have a time zone.")
    if expires <= now:
        raise InputError("`expires` must be later than now.")
    if rounds < 1:
        raise InputError(f"`rounds` must be at least 1; got {rounds}.")
    if not 0 < most <= 1:
        raise InputError(f"`most` must be in (0, 1]; got {most}.")
    if path.exists():
        try:
            read_clearance(path)
        except ClearanceError as error:
            raise InputError(f"{path} exists and is not a clearance; name another file.") from error
