"""The signed clearance that follows from an audit's verdicts and from what people decided."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import ClearanceError, InputError, InvalidAudit, StoreError
from ksdp.audit.groups import GROUPS_AUDITED, unit_names
from ksdp.audit.plan import make_plan
from ksdp.audit.screening.clearance import Clearance, Reviewed
from ksdp.audit.screening.clearance_list import Selection, review_statement, select
from ksdp.flows.screening.screen import covered_by, mechanism_identity
from ksdp.storage.audits.continuations import Origin, read_origin
from ksdp.storage.findings import read_spec, read_summary, read_verdicts
from ksdp.storage.keys import fingerprint
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.reviews.decisions import check_chain, newer_audits, older_audits, snapshot
from ksdp.storage.screening.clearances import read_clearance, write_clearance
from ksdp.storage.store import Store

__all__ = ["check_signing", "clearance_from_decisions"]


def clearance_from_decisions(
    store: Path,
    audit: str,
    clearance_path: Path,
    private_key: Ed25519PrivateKey,
    *,
    who: str,
    now: datetime,
    expires: datetime,
    leave_out_waiting: bool = False,
    superseded: bool = False,
    salted: bool = False,
) -> dict[str, Any]:
    """Sign what may be used after people decided: proved clear and not excluded, or accepted by decision.

    Open documents are left out; so is a clear one that was excluded in an earlier audit and of which nothing was
    decided since. The newest entry of the review log goes into the clearance.

    Parameters
    ----------
    store : Path
    audit : str
    clearance_path : Path
        An older clearance there is replaced.
    private_key : Ed25519PrivateKey
    who : str
        Who signs.
    now, expires : datetime
        With time zones.
    leave_out_waiting : bool
        Leave out documents that wait for a second person, instead of refusing.
    superseded : bool
        Sign although a newer audit asked the same question.
    salted : bool
        List salted hashes instead of ids.

    Raises
    ------
    InputError
        If a second person has not answered, a newer audit asked the same, no document may be listed, or an
        argument is wrong. Nothing was written.
    InvalidAudit
        If the controls of the audit failed.
    StoreError
        If there is no such audit, or the review log is broken or torn.
    """
    check_signing(clearance_path, who, now, expires)
    opened = Store.open(store, create=False)
    folder = opened.audit(audit)
    summary, spec = read_summary(folder), read_spec(folder)
    if not summary["valid"]:
        raise InvalidAudit(f"the controls of audit {audit} failed: it clears nothing.")
    if spec.statistics.sees == "final":
        raise InputError(f"audit {audit} saw the final output alone, and a protocol run announces more.")
    newer = newer_audits(opened, audit)
    if newer and not superseded:
        raise InputError(f"audit {newer[0]} asked the same later: decide there, or say that this one is meant.")
    report = check_chain(opened.root)
    if not report.whole:
        raise StoreError(f"the review log is not whole: {report.reason} Nothing was signed.")
    seen = snapshot(opened, audit)
    rows = read_verdicts(folder)
    verdicts = dict(zip(rows["document"].to_pylist(), rows["verdict"].to_pylist(), strict=True))
    chosen = select(verdicts, seen.states)
    if chosen.waiting and not leave_out_waiting:
        raise InputError(
            f"{len(chosen.waiting)} documents wait for a second person, {chosen.waiting[0]!r} among them; confirm "
            "or withdraw, or leave them out."
        )
    if not chosen.listed:
        raise InputError("no document may be listed: none is proved clear, and the risk of none was accepted.")
    plan = make_plan(spec, open_corpus(opened.corpus(summary["corpus"])))
    origin = read_origin(opened, audit) or Origin(spec.hash, (audit,))
    looks = [read_summary(opened.audit(name)) for name in older_audits(opened, audit)]
    levels = [look["spec"]["decision"]["level"] for look in looks if look["corpus"] == summary["corpus"]]
    salt = secrets.token_bytes(16) if salted else None
    names = unit_names(plan.corpus, spec.design.unit)
    listed = plan.corpus.ids[np.isin(names, list(chosen.listed))]
    sensitive = [name for name in chosen.left_open if verdicts[name] == "sensitive"]
    said = review_statement(
        margin=spec.decision.margin,
        levels=[spec.decision.level, *levels],
        rows=plan.party_rows,
        among=len(plan.units) - len(plan.honest) - len(plan.coalition),
        selection=chosen,
        accepted_sensitive=_sensitive(verdicts, chosen.accepted),
        four_eyes=seen.policy.four_eyes,
        newest=not newer,
    )
    cleared = Clearance(
        corpus=summary["corpus"],
        mechanism=mechanism_identity(plan),
        spec=origin.spec,
        audits=origin.audits,
        verdicts=dict(summary["verdicts"]),
        allowed=("clear",),
        documents=Clearance.entries(listed, salt),
        salt=salt,
        excluded=int(np.isin(names, [*chosen.excluded, *sensitive]).sum()),
        excluded_documents=None,
        reviewer=who,
        created=now,
        expires=expires,
        statement=f"{said} {GROUPS_AUDITED}" if spec.design.unit == "group" else said,
        reviewed=Reviewed(
            accepted=len(chosen.accepted),
            excluded=len(chosen.excluded),
            left_open=len(chosen.left_open),
            four_eyes=seen.policy.four_eyes,
            log_entries=seen.head.number,
            log_head=seen.head.hash,
        ),
        coverage=covered_by(plan),
    )
    write_clearance(clearance_path, cleared, private_key)
    return _told(clearance_path, cleared, chosen) | {"audit": audit, "fingerprint": fingerprint(private_key)}


def check_signing(path: Path, who: str, now: datetime, expires: datetime) -> None:
    """Refuse now what would be refused when people have decided.

    Raises
    ------
    InputError
        If nobody signs, a time is wrong, or the file is there and is no clearance.
    """
    if not who.strip():
        raise InputError("`who` must say who signs.")
    if now.tzinfo is None or expires.tzinfo is None:
        raise InputError("`now` and `expires` must have a time zone.")
    if expires <= now:
        raise InputError("`expires` must be later than now.")
    if path.exists():
        try:
            read_clearance(path)
        except ClearanceError as error:
            raise InputError(f"{path} exists and is not a clearance; name another file.") from error


def _sensitive(verdicts: dict[str, str], documents: Sequence[str]) -> int:
    return sum(verdicts[name] == "sensitive" for name in documents)


def _told(path: Path, cleared: Clearance, chosen: Selection) -> dict[str, Any]:
    reviewed = cleared.reviewed
    return {
        "clearance": str(path.resolve()),
        "listed": len(cleared.documents),
        "proved": len(chosen.proved),
        "accepted": len(chosen.accepted),
        "excluded": len(chosen.excluded),
        "left_open": len(chosen.left_open),
        "waiting": len(chosen.waiting),
        "log_entries": reviewed.log_entries if reviewed else 0,
        "statement": cleared.statement,
    }
