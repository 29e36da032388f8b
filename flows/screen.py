"""Screening: audit, leave the sensitive documents out, audit the rest on fresh runs, ...; then the clearance.

Every round is an audit of its own in the same store, so an interrupted screen resumes where it was.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.clearance import Clearance, MechanismIdentity
from ksdp.audit.corpus import Corpus, restrict
from ksdp.audit.errors import ClearanceError, InputError
from ksdp.audit.plan import Plan
from ksdp.audit.quality import learning_cost
from ksdp.audit.registry import make_mechanism
from ksdp.audit.screening import Ended, check_screenable, ending, round_spec, statement
from ksdp.audit.spec import Spec
from ksdp.flows.prepare import Prepared, prepare_stored, spec_corpus
from ksdp.flows.progress import current
from ksdp.flows.run import run_prepared
from ksdp.storage.clearances import read_clearance, write_clearance
from ksdp.storage.findings import read_verdicts
from ksdp.storage.keys import fingerprint
from ksdp.storage.screens import sensitive_documents, verdict_ids, write_excluded, write_screen
from ksdp.storage.store import Store, content_key

__all__ = ["mechanism_identity", "screen"]


@dataclass(frozen=True, eq=False)
class _Rounds:
    """What the rounds have found; `plan` and `last` (its verdicts) are of the last one."""

    about: list[dict[str, Any]]
    sensitive: list[pa.Table]
    """The sensitive documents of each round."""
    plan: Plan
    last: pa.Table
    ended: Ended

    @property
    def excluded(self) -> list[str]:
        """Ids of all sensitive documents."""
        return _ids(self.sensitive)


def _ids(tables: list[pa.Table]) -> list[str]:
    return [str(name) for table in tables for name in table["document"].to_pylist()]


def mechanism_identity(plan: Plan) -> MechanismIdentity:
    """What a clearance is bound to: the mechanism as the plan built it, defaults included."""
    runs = plan.runs_identity
    return MechanismIdentity(runs["mechanism"], runs["mechanism_version"], runs["parameters"])


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

    Returns
    -------
    dict
        As `screens/<id>.json` holds it. `outcome` is `cleared`, `nothing-proved` (nothing is sensitive, and
        nothing may be listed), `hopeless`, `limit`, `too-few` or `void`; `reason` says it in a sentence.

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
    found = _rounds(spec, corpus, store, rounds, most, workers, dask)
    name = content_key({"screen": 1, "spec": spec.hash, "corpus": corpus.hash, "rounds": rounds, "most": most})[
        :12
    ]
    opened = Store.open(store)
    if found.sensitive:
        write_excluded(opened, name, found.sensitive)
    kinds = ["clear", "undecided"] if allow_undecided else ["clear"]
    ids = verdict_ids(found.last, kinds) if found.ended.outcome == "stable" else []
    outcome, reason = found.ended.outcome, found.ended.reason
    if outcome == "stable":
        outcome = "cleared" if ids else "nothing-proved"
        if not ids:
            reason += f" {_undecided(found.last)} documents are undecided and none may be listed: do more runs."
    quality = None
    if outcome == "cleared":
        current().say("learning from all documents and from the cleared ones, to see what leaving out costs")
        mechanism = make_mechanism(spec.mechanism.name, spec.mechanism.parameters)
        quality = learning_cost(mechanism, corpus, np.flatnonzero(np.isin(corpus.ids, ids)), spec.seed)
        salt = secrets.token_bytes(16) if salted else None
        cleared = Clearance(
            corpus=corpus.hash,
            mechanism=mechanism_identity(found.plan),
            spec=spec.hash,
            audits=tuple(about["audit"] for about in found.about),
            verdicts={kind: found.about[-1][kind] for kind in ("sensitive", "clear", "undecided")},
            allowed=tuple(kinds),
            documents=Clearance.entries(ids, salt),
            salt=salt,
            excluded=len(found.excluded),
            excluded_documents=tuple(sorted(found.excluded)) if list_excluded else None,
            reviewer=who,
            created=now,
            expires=expires,
            statement=statement(
                margin=spec.decision.margin,
                level=spec.decision.level,
                rows=found.plan.party_rows,
                among=_pool(found.plan),
                allowed=kinds,
                beside=_pool(found.plan) - len(ids),
                rounds=len(found.about),
            ),
        )
        write_clearance(clearance_path, cleared, private_key)
    elif clearance_path.exists():
        current().say(f"{clearance_path} is an older clearance and was left as it is")
    summary = {
        "screen": name,
        "corpus": corpus.hash,
        "mechanism": found.plan.mechanism.name,
        "spec": spec.hash,
        "outcome": outcome,
        "helps": found.ended.helps,
        "reason": reason,
        "documents": len(corpus),
        "excluded": len(found.excluded),
        "allowed": len(ids),
        "allowed_verdicts": kinds,
        "rounds": found.about,
        "party_rows": found.plan.party_rows,
        "quality": quality,
        "clearance": str(clearance_path.resolve()) if outcome == "cleared" else None,
        "fingerprint": fingerprint(private_key),
        "reviewer": who,
        "seconds": round(time.monotonic() - started, 3),
        "store": str(opened.root),
    }
    write_screen(opened, name, summary)
    return summary


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


def _rounds(
    spec: Spec, corpus: Corpus, store: Path, rounds: int, most: float, workers: int | None, dask: str | None
) -> _Rounds:
    about: list[dict[str, Any]] = []
    sensitive: list[pa.Table] = []
    prepared = prepare_stored(round_spec(spec, 1, rounds, len(corpus), None), corpus, store, may_sample=True)
    share = prepared.plan.party_rows / _pool(prepared.plan)
    while True:
        number, before, plan = len(about) + 1, len(_ids(sensitive)), prepared.plan
        current().say(f"round {number}: {len(plan.audited)} documents")
        summary = run_prepared([prepared], workers=workers, dask=dask)[0]
        verdicts = read_verdicts(Store(Path(prepared.ref.store)).audit(prepared.ref.audit))
        about.append(_about(number, prepared, summary))
        if not summary["valid"]:
            why = f"Round {number} is void: {summary['controls']['reason']}. Nothing of it may be used."
            return _Rounds(about, sensitive, plan, verdicts, Ended("void", None, why))
        sensitive.append(sensitive_documents(verdicts, number))
        ended = ending(
            number=number,
            rounds=rounds,
            audited=len(plan.audited),
            sensitive=len(sensitive[-1]),
            before=before,
            left=_pool(plan) - len(sensitive[-1]),
            rows=plan.party_rows,
            share=share,
            most=most,
        )
        if ended is None:
            try:
                prepared = _without(spec, corpus, _ids(sensitive), store, number + 1, rounds)
            except InputError as error:
                ended = Ended("too-few", False, f"What is left cannot be audited: {error}")
        if ended is not None:
            return _Rounds(about, sensitive, plan, verdicts, ended)


def _without(spec: Spec, corpus: Corpus, out: list[str], store: Path, number: int, rounds: int) -> Prepared:
    """The audit of a later round."""
    rest = restrict(corpus, np.flatnonzero(~np.isin(corpus.ids, out)))
    named = spec.design.documents
    audited = sorted(set(named) - set(out)) if isinstance(named, tuple) else None
    return prepare_stored(round_spec(spec, number, rounds, len(corpus), audited), rest, store, may_sample=True)


def _pool(plan: Plan) -> int:
    """Documents that the victim's databases are drawn from."""
    return len(plan.corpus) - len(plan.honest) - len(plan.coalition)


def _about(number: int, prepared: Prepared, summary: dict[str, Any]) -> dict[str, Any]:
    return {
        "round": number,
        "audit": prepared.ref.audit,
        "corpus": prepared.ref.corpus,
        "among": _pool(prepared.plan),
        "documents": summary["documents"],
        **summary["verdicts"],
        "level": prepared.plan.spec.decision.level,
        "seed": prepared.plan.spec.seed,
        "runs": summary["runs"],
        "cached_runs": summary["cached_runs"],
        "valid": summary["valid"],
    }


def _undecided(verdicts: pa.Table) -> int:
    return len(verdict_ids(verdicts, ["undecided"]))
