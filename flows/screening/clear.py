"""The signed clearance that follows from an audit's verdicts and from what people decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksdp.audit.errors import InputError, InvalidAudit, StoreError
from ksdp.audit.planning import make_plan
from ksdp.audit.results.summary import Summary
from ksdp.audit.screening.clearance import Attempt, Clearance, Reviewed, Selection, review_statement, select
from ksdp.audit.screening.rounds import drawn_from
from ksdp.audit.spec import Spec
from ksdp.audit.verdicts.decide import Verdict
from ksdp.flows.screening.signing import Grounds, Signing, evidence_of, sign
from ksdp.storage.audits.continuation import Origin, read_origin
from ksdp.storage.audits.history import finished_views, read_summary, views_of
from ksdp.storage.audits.ledger import find_attempt, read_attempts, remembered_sensitive
from ksdp.storage.audits.screens import screen_of
from ksdp.storage.findings import read_spec, read_verdicts
from ksdp.storage.keys import fingerprint
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.reviews.decisions import Snapshot, newer_audits, snapshot
from ksdp.storage.reviews.log import check_chain
from ksdp.storage.store import Store

_SIGN_A_VIEW = (
    "Audit what the strongest of them sees by itself, with its size as `parties.coalition` and without `[views]`: "
    "`ksdp audit SPEC`, then `ksdp clear` with that audit's id, or `ksdp screen SPEC --clearance FILE`. What its "
    "view proved sensitive stays out."
)


def clearance_from_decisions(
    store: Path, audit: str, signing: Signing, *, leave_out_waiting: bool = False, superseded: bool = False
) -> dict[str, Any]:
    """Sign what may be used after people decided: proved clear and not excluded, or accepted by decision.

    Open documents are left out; so is a clear one that was excluded in an earlier audit and of which nothing was
    decided since. The newest entry of the review log goes into the clearance.

    Parameters
    ----------
    store : Path
        Folder of the store.
    audit : str
        The one that people decided about.
    signing : Signing
        Who signs, where the clearance goes, and for how long it holds.
    leave_out_waiting : bool
        Leave out documents that wait for a second person, instead of refusing.
    superseded : bool
        Sign although a newer audit asked the same question.
    """
    signing.check()
    opened = Store.open(store, create=False)
    decided = _decided(opened, audit, superseded=superseded)
    chosen = _chosen(opened, decided, leave_out_waiting=leave_out_waiting)
    signed = sign(signing, _grounds(opened, decided, chosen))
    return _counts(signing.path, signed, chosen) | {
        "audit": audit,
        "fingerprint": fingerprint(signing.private_key),
    }


@dataclass(frozen=True, eq=False)
class _Decided:
    """An audit, and what people decided about it."""

    audit: str
    summary: Summary
    spec: Spec
    newest: bool
    """Whether no newer audit asked the same question."""
    verdicts: dict[str, str]
    seen: Snapshot
    """Of the review log."""
    attempts: Sequence[Attempt]
    """At the same question."""


def _decided(opened: Store, audit: str, *, superseded: bool) -> _Decided:
    """What the store holds, unless nothing may be signed on it."""
    if audit in finished_views(opened):
        raise InputError(f"{audit} is an audit of several views, which cannot be signed together. {_SIGN_A_VIEW}")
    folder = opened.audit(audit)
    summary, spec = read_summary(folder), read_spec(folder)
    if not summary.valid:
        raise InvalidAudit(f"the controls of audit {audit} failed: it clears nothing.")
    _check_by_itself(opened, audit)
    if spec.statistics.sees == "final":
        raise InputError(f"audit {audit} saw the final output alone, and a protocol run announces more.")
    newer = newer_audits(opened, audit)
    if newer and not superseded:
        raise InputError(f"audit {newer[0]} asked the same question later: decide there, or give `--superseded`.")
    report = check_chain(opened.root)
    if not report.whole:
        raise StoreError(f"the review log is not whole: {report.reason} Nothing was signed.")
    started = find_attempt(opened, audit)
    if started is None:  # it was written down before its first run
        raise StoreError(
            f"the ledger of the store does not name audit {audit}: lines of it are gone, and how often this was "
            "asked is not known. Restore `audits/ledger.jsonl`; `ksdp audit` with its spec adds this audit alone."
        )
    rows = read_verdicts(folder)
    return _Decided(
        audit=audit,
        summary=summary,
        spec=spec,
        newest=not newer,
        verdicts=dict(zip(rows["document"].to_pylist(), rows["verdict"].to_pylist(), strict=True)),
        seen=snapshot(opened, audit),
        attempts=read_attempts(opened, started.question),
    )


def _chosen(opened: Store, decided: _Decided, *, leave_out_waiting: bool) -> Selection:
    """The documents that may be listed, one at least, and those that may not."""
    margin, unit = decided.spec.rule.margin, decided.spec.design.unit
    remembered = remembered_sensitive(opened, decided.attempts, margin=margin, unit=unit)
    chosen = select(decided.verdicts, decided.seen.states, remembered)
    if chosen.waiting and not leave_out_waiting:
        raise InputError(
            f"{len(chosen.waiting)} documents wait for a second person, {chosen.waiting[0]!r} among them; confirm "
            "or withdraw, or leave them out."
        )
    if not chosen.listed:
        raise InputError("no document may be listed: none is proved clear, and the risk of none was accepted.")
    return chosen


def _grounds(opened: Store, decided: _Decided, chosen: Selection) -> Grounds:
    summary, spec, verdicts, seen = decided.summary, decided.spec, decided.verdicts, decided.seen
    plan = make_plan(spec, open_corpus(opened.corpus(summary.corpus)))
    origin = read_origin(opened, decided.audit) or Origin(spec.hash, (decided.audit,))
    evidence = evidence_of(summary, decided.attempts)
    sensitive = [name for name in chosen.left_open if verdicts[name] == "sensitive"]
    return Grounds(
        plan=plan,
        corpus=plan.corpus,
        spec=origin.spec,
        audits=origin.audits,
        verdicts=summary.verdicts.as_dict(),
        allowed=("clear",),
        listed=chosen.listed,
        certified=[name for name in chosen.listed if verdicts[name] == Verdict.CERTIFIED],
        excluded=[*chosen.excluded, *sensitive],
        statement=review_statement(
            margin=spec.rule.margin,
            asked=evidence.attempts,
            rows=plan.holdings.size,
            among=drawn_from(plan),
            selection=chosen,
            accepted_sensitive=sum(verdicts[name] == "sensitive" for name in chosen.accepted),
            four_eyes=seen.policy.four_eyes,
            newest=decided.newest,
        ),
        evidence=evidence,
        reviewed=Reviewed(
            accepted=len(chosen.accepted),
            excluded=len(chosen.excluded),
            left_open=len(chosen.left_open),
            four_eyes=seen.policy.four_eyes,
            log_entries=seen.head.number,
            log_head=seen.head.hash,
        ),
    )


def _check_by_itself(store: Store, audit: str) -> None:
    """Refuse one of several views, a round of a screen, or what continues one."""
    origin = read_origin(store, audit)
    first = origin.audits[0] if origin else audit
    started, screen = find_attempt(store, first), screen_of(store, first)
    alone = started is None or started.attempt == read_spec(store.audit(first)).hash
    if alone and screen is None:
        return
    views = views_of(store, first)
    if views and screen is None:
        raise InputError(
            f"audit {audit} is one of the views {views}: what it calls clear, another of them may call sensitive. "
            f"{_SIGN_A_VIEW}"
        )
    number = next((about.round for about in screen.rounds if about.audit == first), 0) if screen else 0
    unfinished = "a round of a screen, or one of several views, that have not finished"
    which = f"round {number} of screen {screen.screen}" if screen else unfinished
    signed = f" It signed {screen.clearance}." if screen and screen.clearance else ""
    raise InputError(
        f"audit {audit} is {which}: no run would take what is signed for it.{signed} `ksdp screen SPEC "
        "--clearance FILE` signs, the same command as before: every round is read from the store. Where people "
        "decide, `ksdp audit SPEC` comes first, and `ksdp clear` with that audit's id."
    )


def _counts(path: Path, cleared: Clearance, chosen: Selection) -> dict[str, Any]:
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
