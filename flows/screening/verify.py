"""Verify a clearance against what is about to be run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ksdp.audit.errors import ClearanceError, StoreError
from ksdp.audit.mechanisms.contract import opened
from ksdp.audit.mechanisms.delegation import mechanism_words
from ksdp.audit.planning import make_plan
from ksdp.audit.spec import Spec
from ksdp.flows.prepare import spec_corpus
from ksdp.flows.screening.signing import mechanism_identity
from ksdp.storage.clearances import read_clearance, verify_clearance
from ksdp.storage.reviews.log import LogHead, check_chain
from ksdp.storage.store import Store


def verify(
    path: Path,
    *,
    now: datetime,
    public_key: Ed25519PublicKey | None = None,
    spec: Spec | None = None,
    base: Path | None = None,
) -> dict[str, Any]:
    """Verify a clearance and, where a spec is given, that it is for that spec, its corpus and its mechanism.

    Parameters
    ----------
    now : datetime
        With a time zone.
    public_key : Ed25519PublicKey, optional
        The reviewer's, from elsewhere; without it the fingerprint must be compared by a person.
    base : Path, optional
        Folder that the spec's paths are relative to; the present one by default.

    Returns
    -------
    dict
        Who signed, what was checked, and how many documents of the corpus are allowed.
    """
    if spec is None:
        verified, ids = verify_clearance(path, now=now, public_key=public_key), None
    else:
        corpus = spec_corpus(spec, base or Path())
        ids, plan = corpus.ids, make_plan(spec, corpus)
        verified = verify_clearance(
            path,
            now=now,
            public_key=public_key,
            corpus_hash=corpus.hash,
            mechanism=mechanism_identity(plan),
            spec_hash=spec.hash,
            opened=opened(plan.mechanism, corpus.features),
        )
    cleared = verified.clearance
    words = mechanism_words(cleared.mechanism.name, cleared.mechanism.parameters)
    return {
        "clearance": str(path.resolve()),
        "fingerprint": verified.fingerprint,
        "checked": list(verified.checked),
        "reviewer": cleared.reviewer,
        "created": cleared.created.isoformat(),
        "expires": cleared.expires.isoformat(),
        "corpus": cleared.corpus,
        "mechanism": cleared.mechanism.name,
        "computes": None if words == cleared.mechanism.name else words,
        "spec": cleared.spec,
        "audits": list(cleared.audits),
        "listed": len(cleared.documents),
        "allowed": None if ids is None else int(cleared.allows(ids).sum()),
        "of": None if ids is None else len(ids),
        "certified": len(cleared.certified or ()),
        "drawn": cleared.drawn,
        "excluded": cleared.excluded,
        "evidence": None if cleared.evidence is None else asdict(cleared.evidence),
        "coverage": None if cleared.coverage is None else asdict(cleared.coverage),
        "statement": cleared.statement,
    } | ({"reviewed": asdict(cleared.reviewed)} if cleared.reviewed else {})


def verify_log(
    path: Path, clearances: Sequence[Path] = (), public_key: Ed25519PublicKey | None = None
) -> dict[str, Any]:
    """Check the hash chain of a review log, and that it holds the entry that each clearance was signed over.

    Parameters
    ----------
    path : Path
        A store, or a log file.
    clearances : sequence of Path
        Made from decisions of this store. Expired ones bear witness too.
    public_key : Ed25519PublicKey, optional
        That signed them.

    Returns
    -------
    dict
        `whole`; `entries` that are good; the `head` they end in; the first `broken` entry and the `reason`; bytes
        that are `torn`; `anchors` that were compared.
    """
    if path.is_dir():
        path = Store.open(path, create=False).root
    elif not path.is_file():
        raise StoreError(f"there is no review log {path}.")
    anchors = []
    for file in clearances:
        signed = verify_clearance(file, now=read_clearance(file).created, public_key=public_key).clearance
        if signed.reviewed is None:
            raise ClearanceError("content", f"{file.name} was not made from decisions: it names no review log.")
        anchors.append(LogHead(signed.reviewed.log_entries, signed.reviewed.log_head))
    report = check_chain(path, anchors)
    return {
        "log": str(path.resolve()),
        "whole": report.whole,
        "entries": report.entries,
        "head": report.head.hash,
        "broken": report.broken,
        "reason": report.reason,
        "torn": report.torn,
        "anchors": len(anchors),
    }
