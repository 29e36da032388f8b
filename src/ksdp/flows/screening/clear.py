"""Clearances: signed for a list that an audit of exactly this list has proved, verified before a run."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.contract import traits_of
from ksdp.audit.corpus.groups import GROUPS_AUDITED, documents_of, unit_names
from ksdp.audit.corpus.matrix import Corpus, restrict
from ksdp.audit.coverage import coverage_of
from ksdp.audit.errors import ClearanceError, InputError, InvalidAudit, StoreError
from ksdp.audit.mechanisms.schema import exact_throughout, opened
from ksdp.audit.numeric.sparse_rows import unlike_rows
from ksdp.audit.opened import Opened
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.proofs import Bound, known_bounds
from ksdp.audit.registry import lent
from ksdp.audit.results.appetite import Appetite
from ksdp.audit.results.summary import VERSION, Summary
from ksdp.audit.reviewing import exclusion_row, plural
from ksdp.audit.screening.clearance import (
    AuditedSizes,
    AuditQuestion,
    Clearance,
    Covered,
    Evidence,
    ListCounts,
    MechanismIdentity,
    Reviewed,
    Selection,
    count_attempts,
    entering_units,
    list_statement,
    select,
)
from ksdp.audit.screening.rounds import drawn_from
from ksdp.audit.screening.screen_summary import ScreenSummary
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.models import Spec
from ksdp.audit.specs.own_names import mechanism_words
from ksdp.audit.verdicts.multiplicity import wrong_share
from ksdp.audit.verdicts.verdict import ProvedBy, Verdict
from ksdp.dashboards.screening import render_screen
from ksdp.flows.audits.place import ANYWHERE, Place
from ksdp.flows.audits.run import run_audit, run_prepared
from ksdp.flows.prepare import Prepared, audit_id, open_spec
from ksdp.flows.screening.screen import ProposedList, Screened, first_round, is_exact, screen
from ksdp.storage.audits.continuation import Origin, read_origin
from ksdp.storage.audits.history import read_summary
from ksdp.storage.audits.ledger import check_none_lost, read_ledger, record_signed
from ksdp.storage.audits.screens import RoundVerdicts, page_path, write_left_out, write_page, write_screen
from ksdp.storage.clearances import (
    Verified,
    check_sizes,
    clearance_at,
    content_hash,
    read_clearance,
    require_new,
    verify_clearance,
    write_clearance,
)
from ksdp.storage.corpora import find_source, read_source
from ksdp.storage.findings import check_verdicts, read_spec
from ksdp.storage.keys import fingerprint, load_public
from ksdp.storage.learning import learning_of
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.reviews.appetites import keep_appetite, kept_appetite, read_record
from ksdp.storage.reviews.decisions import Entry, Snapshot, check_signer, exclusions, newer_audits, snapshot
from ksdp.storage.reviews.log import LogHead, check_chain
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import code_of


@dataclass(frozen=True)
class Signing:
    """Signer of a clearance, its file, its term and its appetite."""

    path: Path
    """Where there is no file yet: what is signed is never replaced."""
    private_key: Ed25519PrivateKey = field(repr=False)
    who: str
    now: datetime
    expires: datetime
    appetite: Appetite | None = None
    """Appetite that the deciding audit is held to; None: the one it was held to when it was made, if any."""

    def check(self, store: Path) -> None:
        """Refuse now what would be refused after hours of work, or of waiting for people."""
        check_signer(Store(store), self.private_key)
        if not self.who.strip():
            raise InputError("`who` must say who signs.")
        for name in ("now", "expires"):
            if getattr(self, name).tzinfo is None:
                raise InputError(f"`{name}` must have a time zone.")
        if self.expires <= self.now:
            raise InputError("`expires` must be later than now.")
        require_new(self.path)

    def at(self, now: datetime) -> Signing:
        """The same for a clearance that holds as long, from another moment on."""
        return dataclasses.replace(self, now=now, expires=now + (self.expires - self.now))


@dataclass(frozen=True, eq=False)
class Grounds:
    """Grounds of a clearance. If groups were audited, `listed` and `excluded` are their names."""

    plan: Plan
    corpus: Corpus
    """The whole one, what was left out included."""
    spec: str
    """Hash of the spec that people wrote."""
    audits: tuple[str, ...]
    verdicts: Mapping[str, int]
    """How many documents of the last audit have each."""
    listed: Sequence[str]
    certified: Sequence[str]
    """Documents of `listed` that are clear against every attack."""
    sensitive: Sequence[str]
    excluded: Mapping[str, Entry]
    """Documents that people excluded, never listed, and who did."""
    statement: str
    evidence: Evidence
    reviewed: Reviewed | None = None
    wrong: str = ""
    """How many of `listed` may be wrong, where `statement` does not say it."""
    bounds: Sequence[Bound] = ()
    """Bounds that are proved of every audited document before any run, and within the margin."""


def mechanism_identity(plan: Plan) -> MechanismIdentity:
    """Identify the mechanism that a clearance is bound to: the plan's, with defaults and own code."""
    runs = plan.runs_identity
    own = {"code": content_key(runs["code"])} if "code" in runs else {}
    return MechanismIdentity(runs["mechanism"], runs["mechanism_version"], {**runs["parameters"], **own})


def audited_sizes(plan: Plan, bounds: Sequence[Bound]) -> AuditedSizes:
    """Return the sizes of the databases of an audit by this plan; `bounds` are those of all its documents."""
    holdings, spec = plan.holdings, plan.spec
    return AuditedSizes(
        unit=spec.design.unit,
        size=holdings.size,
        honest=holdings.entering,
        coalition=len(holdings.coalition),
        parties=1 + bool(len(holdings.honest)) + bool(len(holdings.coalition)),
        every_size=any(bound.every_size for bound in bounds),
    )


def _check_appetite(signing: Signing, grounds: Grounds, store: Store) -> None:
    """Refuse to sign where what may enter does not meet the risk appetite that the audits are held to."""
    deciding = grounds.audits[-1]
    if signing.appetite is not None:
        keep_appetite(store, deciding, signing.appetite)
    appetite = next(filter(None, (kept_appetite(store, audit) for audit in reversed(grounds.audits))), None)
    if appetite is not None:
        record = read_record(
            store, appetite, read_summary(store.audit(deciding)), set(grounds.listed) - set(grounds.excluded)
        )
        if missed := "\n  ".join(criterion.sentence() for criterion in record.missed):
            raise ClearanceError("appetite", f"the risk appetite is not met, and nothing was signed.\n  {missed}")


def clearance_of(signing: Signing, grounds: Grounds, store: Store) -> Clearance:
    """Make the clearance that is to be signed; `ClearanceError` if a risk appetite is not met."""
    plan = grounds.plan
    _check_appetite(signing, grounds, store)
    return Clearance(
        corpus=grounds.corpus.hash,
        mechanism=mechanism_identity(plan),
        spec=grounds.spec,
        audits=grounds.audits,
        verdicts=dict(grounds.verdicts),
        documents=Clearance.entries(_documents(grounds, grounds.listed)),
        sensitive=len(_documents(grounds, grounds.sensitive)),
        excluded=len(grounds.excluded.keys() & {*grounds.corpus.ids.tolist()}),
        sizes=audited_sizes(plan, grounds.bounds),
        reviewer=signing.who,
        created=signing.now,
        expires=signing.expires,
        statement=" ".join(_sentences(grounds)),
        evidence=grounds.evidence,
        coverage=Covered(traits_of(plan.mechanism).opens, tuple(sorted(coverage_of(plan).read_by))),
        reviewed=grounds.reviewed,
        certified=Clearance.entries(_documents(grounds, grounds.certified)) or None,
        drawn=plan.spec.corpus.levers.drawn,
    )


def sign(signing: Signing, clearance: Clearance, store: Store) -> None:
    """Write the signed clearance; the store keeps a copy, and its ledger names what it rests on."""
    digest = content_hash(clearance)
    copy = clearance_at(store, digest)
    if not copy.exists():  # whoever signed this was killed before it was recorded
        write_clearance(copy, clearance, signing.private_key)
    record_signed(store, digest, clearance.audits)
    write_clearance(signing.path, clearance, signing.private_key)


_OPENED = {
    "every round": "The audit looked at what a run that opens every round shows its parties.",
    "final": (
        "The audit looked at what a run that opens its final output alone shows its parties. The clearance does "
        "not hold for a run that opens more, nor if two of the three parties that compute pool what they hold."
    ),
}


def _sentences(grounds: Grounds) -> list[str]:
    groups = [GROUPS_AUDITED] if grounds.plan.spec.design.unit == "group" else []
    opens = _OPENED[traits_of(grounds.plan.mechanism).opens]
    draw, low = grounds.plan.spec.draw_sentence, grounds.plan.spec.decision.margin_at_low_fpr
    limits = [] if draw is None else [draw]
    if low is not None:
        limits.append(f"Who is clear has true positives below {low:g} at 1 % false ones, too.")
    stated = [part for part in (grounds.statement, grounds.wrong) if part]
    return [*stated, *groups, *limits, *_certified(grounds), grounds.evidence.sentence(), opens]


def bounds_of_all(plan: Plan) -> list[Bound]:
    """Bounds that are proved of every document before any run, and within the margin."""
    rule = plan.spec.decision_in_run
    return [bound for bound in known_bounds(plan) if rule.accepts(bound.advantage).all()]


def _certified(grounds: Grounds) -> list[str]:
    """State the ground of the certified documents: a bound of all of them, else paired runs, else copies."""
    count, spec = len(grounds.certified), grounds.plan.spec
    if not count:
        return []
    first = f"Of the listed {spec.design.unit}s, {count} are clear against every attack (`certified`): "
    bound, margin = next(iter(grounds.bounds), None), f"{spec.decision_in_run.margin:g}"
    by = bound.by if bound is not None else ProvedBy.COPIES if spec.certificate is None else ProvedBy.PAIRS
    if by == ProvedBy.DRAW:
        rest = (
            "as long as nobody learns the draw, none of any kind has an advantage above "
            f"{spec.decision.margin:g} in telling whether the party has one."
        )
    elif by == ProvedBy.NOISE and bound is not None:
        rest = (
            "where the noise is what the mechanism says, no attack of any kind has an advantage above "
            f"{bound.advantage.max():g} on them, whatever the attacker knows of the others. Whom one must trust: "
            f"{bound.trust}."
        )
    elif by == ProvedBy.COPIES:
        rest = (
            f"none of any kind that takes the others for random has an advantage above {margin} on them. "
            "So many have the same content, and at most a run shows how many of these were in."
        )
    else:
        rest = (
            "where the noise is what the mechanism says, no attack of any kind that takes the others for random "
            f"has an advantage above {margin} on them. The probability that any of these bounds is wrong is at "
            f"most {spec.certificate_level:g}."
        )
    return [first + rest]


@dataclass(frozen=True)
class ClearRules:
    """Which documents a clearance may list, and how often the list may be audited."""

    rounds: int = 8
    """The most audits of the list by itself."""
    leave_out_waiting: bool = False
    """Leave out documents that wait for a second person, instead of refusing."""
    only: Sequence[str] | None = None
    """Ids of exactly the documents to list, as lines of a file; all that may be by default."""

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise InputError(f"`rounds` must be at least 1; got {self.rounds}.")


DEFAULT_RULES = ClearRules()


def audit_and_clear(
    opened: Opened, store: Path, signing: Signing, rules: ClearRules = DEFAULT_RULES, place: Place = ANYWHERE
) -> ScreenSummary:
    """Audit by a spec, unless the store has that audit, and `clear` it."""
    signing.check(store)
    with lent(opened.own):
        summary = run_audit(opened, store, place)
        if not summary.valid:
            raise InvalidAudit(f"the controls of audit {summary.audit} failed: {summary.controls.reason}.")
        return clear(store, summary.audit, signing, rules, place)


def clear(
    store: Path, audit: str, signing: Signing, rules: ClearRules = DEFAULT_RULES, place: Place = ANYWHERE
) -> ScreenSummary:
    """Sign the documents that may enter a run, proved by an audit of exactly these. The same call resumes.

    The audit proposes a list: what it proves clear and nobody excluded, and what people accepted. The list is
    signed if the audit's databases were drawn from just these documents, or if its proof holds for every part of
    the corpus. Otherwise the list is audited by itself (`ksdp.flows.screening.screen.screen`), since documents
    that are left out may have hidden the others. Where no list is left all of which holds, nothing is signed.
    """
    started = time.monotonic()
    signing.check(store)
    opened = Store.open(store, create=False)
    decided = _decided(opened, read_ledger(opened).proposing(audit))
    chosen = _chosen(opened, decided, leave_out_waiting=rules.leave_out_waiting)
    chosen = chosen if rules.only is None else chosen.only(rules.only)
    plan = make_plan(Opened.of(decided.spec, open_corpus(opened.corpus(decided.summary.corpus))))
    if (code := code_of(plan)) and audit_id(plan, code) != decided.audit:
        raise InputError(f"code of your own has changed since audit {decided.audit}: audit again, and clear that.")
    screened = _screened(opened, plan, decided, chosen, rules.rounds, place)
    grounds, unit = _grounds(opened, plan.corpus, decided, chosen, screened), decided.spec.design.unit
    late = grounds.excluded.keys() & set(documents_of(plan.corpus, unit, screened.listed))
    if late and not any(bound.every_size for bound in grounds.bounds):
        raise InputError(
            f"{min(late)!r} was excluded while the list was audited, which is another now: clear again."
        )
    gain = None
    if len(_documents(grounds, screened.listed)) == len(plan.corpus):
        gain = learning_of(opened, decided.spec, plan.corpus.hash).gain
    clearance = clearance_of(signing, grounds, opened) if screened.listed else None
    result = _screen_summary(opened, decided, chosen, screened, grounds, signing, clearance)
    sentences = () if gain is None else tuple(gain["sentences"])
    result = dataclasses.replace(result, gain=sentences, seconds=round(time.monotonic() - started, 3))
    members = (plan.corpus.ids, unit_names(plan.corpus, "group")) if unit == "group" else None
    if screened.left_out:
        write_left_out(opened, result.screen, screened.left_out, members)
    write_screen(opened, result)
    write_page(opened, result.screen, render_screen(opened, result.screen))
    if clearance is not None:  # last of all: where it is, nothing is left to do
        sign(signing, clearance, opened)
    return result


def _screened(
    opened: Store, plan: Plan, decided: _Decided, chosen: Selection, rounds: int, place: Place, fewest: int = 1
) -> Screened:
    """The list that holds: the audit's own where its proof or its databases say so, else after audits of it."""
    accepted = frozenset(chosen.accepted)
    proposal = ProposedList(
        opened, plan, decided.summary, decided.verdicts, decided.question, chosen.listed, accepted
    )
    every_size = any(bound.every_size for bound in bounds_of_all(plan))
    why = _EVERY_SIZE if every_size else _EXACT if is_exact(proposal) else ""
    if why := why or ("" if chosen.proved else _ACCEPTED):
        about = (first_round(proposal),)
        return Screened("signed", why, chosen.listed, plan, decided.summary, decided.verdicts, about, ())
    return screen(proposal, rounds, place, fewest)


@dataclass(frozen=True)
class ClearForecast:
    """Forecast of the list that `clear` signs if nobody decides anything more."""

    summary: Summary
    listed: tuple[str, ...]
    """Documents; all that a listed group holds, where groups were audited."""
    units: int
    """Documents, or groups, that are listed."""
    every_attack: int
    """How many of these are clear against every attack."""
    reason: str


def forecast_clear(prepared: Prepared, place: Place, fewest: int) -> ClearForecast:
    """Run an audit, and audit its list by itself until all of it holds, or fewer documents are left."""
    summary, spec = run_prepared([prepared], place)[0], prepared.plan.spec
    if not summary.valid:
        return ClearForecast(summary, (), 0, 0, f"The audit is void: {summary.controls.reason}.")
    opened, counts = Store.open(Path(prepared.ref.store), create=False), summary.verdicts
    try:
        decided = _decided(opened, read_ledger(opened).proposing(summary.audit))
        chosen = _chosen(opened, decided, leave_out_waiting=True)
    except InputError:
        return ClearForecast(summary, (), 0, 0, f"No document is clear: {counts.words}.")
    if len(chosen.listed) < fewest:
        return ClearForecast(summary, (), 0, 0, f"Too many would have to stay out: {counts.words}.")
    screened = _screened(opened, prepared.plan, decided, chosen, DEFAULT_RULES.rounds, place, fewest)
    listed = documents_of(prepared.plan.corpus, spec.design.unit, screened.listed)
    proved = len(screened.verdicts.every_attack & {*screened.listed})
    return ClearForecast(summary, tuple(listed), len(screened.listed), proved, screened.reason)


_EXACT = "The audit's databases were drawn from exactly the listed documents."
_ACCEPTED = "Every listed document is listed by decision alone: no audit has to prove anything of it."
_EVERY_SIZE = "The proof holds for every part of the corpus and every size: no further audit is needed."


def _documents(grounds: Grounds, names: Sequence[str]) -> list[str]:
    named = documents_of(grounds.corpus, grounds.plan.spec.design.unit, names)
    return [document for document in named if document not in grounds.excluded]


def _screen_summary(
    opened: Store,
    decided: _Decided,
    chosen: Selection,
    screened: Screened,
    grounds: Grounds,
    signing: Signing,
    clearance: Clearance | None,
) -> ScreenSummary:
    spec, corpus, name = decided.spec, grounds.corpus, decided.audit
    here, excluded = {*corpus.ids.tolist(), *corpus.left_out}, sorted(grounds.excluded.items())
    return ScreenSummary(
        version=VERSION,
        screen=name,
        corpus=corpus.hash,
        mechanism=grounds.plan.mechanism.name,
        spec=grounds.spec,
        outcome=screened.outcome,
        reason=screened.reason,
        documents=len(corpus),
        unit=spec.design.unit,
        proposed=len(_documents(grounds, chosen.listed)),
        allowed=0 if clearance is None else len(clearance.documents),
        accepted=len(_documents(grounds, chosen.accepted)),
        left_out=sum(len(out) for _, out in screened.left_out),
        exclusions=tuple(exclusion_row(document, entry, document not in here) for document, entry in excluded),
        statement=None if clearance is None else clearance.statement,
        rounds=screened.rounds,
        level=spec.decision.level,
        margin=spec.decision_in_run.margin,
        gain=(),
        clearance=None if clearance is None else str(signing.path.resolve()),
        fingerprint=fingerprint(signing.private_key),
        reviewer=signing.who,
        finished=signing.now.isoformat(timespec="seconds"),
        seconds=0.0,
        store=str(opened.root),
        report=str(page_path(opened, name)),
    )


@dataclass(frozen=True, eq=False)
class _Decided:
    """An audit, and what people decided about it."""

    audit: str
    summary: Summary
    spec: Spec
    question: AuditQuestion
    verdicts: RoundVerdicts
    seen: Snapshot

    @cached_property
    def words(self) -> dict[str, str]:
        """The verdict of each document (or group)."""
        rows = self.verdicts.verdicts
        return dict(zip(rows["document"].to_pylist(), rows["verdict"].to_pylist(), strict=True))


def _decided(opened: Store, audit: str) -> _Decided:
    folder = opened.audit(audit)
    summary, spec = read_summary(folder), read_spec(folder)
    if not summary.valid:
        raise InvalidAudit(f"the controls of audit {audit} failed: it clears nothing.")
    if spec.planted:
        raise InputError(f"leaks were planted in audit {audit} to see whether they are found: it clears nothing.")
    if not spec.decides:
        raise InputError(f"audit {audit} explored statistics on runs that were seen before: it clears nothing.")
    ledger = read_ledger(opened)
    started = ledger.attempt(audit)
    if started is None:  # it was written down before its first run
        raise StoreError(
            f"the ledger of the store does not name audit {audit}: lines of it are gone, and how often this was "
            "asked is not known. Restore `audits/ledger.jsonl`; `ksdp audit` with its spec adds this audit alone."
        )
    if started.part:
        raise InputError(
            f"audit {audit} is one of several of an attempt, and none that people decide about: `ksdp list` shows "
            "those that can be signed."
        )
    if spec.statistics.sees == "final":
        raise InputError(f"audit {audit} saw the final output alone, and a protocol run announces more.")
    for newer in newer_audits(opened, audit):
        if ledger.proposing(newer) != audit:
            raise InputError(f"audit {newer} asked the same question later: decide there.")
    report = check_chain(opened.root)
    if not report.whole:
        raise StoreError(f"the review log is not whole: {report.reason} Nothing was signed.")
    return _Decided(
        audit=audit,
        summary=summary,
        spec=spec,
        question=AuditQuestion(started.question, started.file),
        verdicts=RoundVerdicts(0, check_verdicts(folder, spec)),
        seen=snapshot(opened, audit),
    )


def _chosen(opened: Store, decided: _Decided, *, leave_out_waiting: bool) -> Selection:
    """The documents that may be listed, one at least, and those that may not."""
    check_none_lost(opened)
    chosen = select(decided.words, decided.seen.states)
    if chosen.waiting and not leave_out_waiting:
        raise InputError(
            f"{plural(len(chosen.waiting), 'document', 'wait')} for a second person, {chosen.waiting[0]!r} among "
            "them: `ksdp decide` confirms or withdraws, `--leave-out-waiting` leaves them out."
        )
    if not chosen.listed:
        raise InputError(
            "there is nothing to sign: no document is proved clear, and the risk of none was accepted. "
            "`ksdp advise` looks for a run that gives less away; `ksdp decide` accepts documents one by one."
        )
    return chosen


def _grounds(opened: Store, corpus: Corpus, decided: _Decided, chosen: Selection, screened: Screened) -> Grounds:
    spec, seen, plan = decided.spec, decided.seen, screened.plan
    origin = read_origin(opened, decided.audit) or Origin(spec.binding, (decided.audit,))
    attempts = read_ledger(opened).attempts_at(decided.question.content)
    summary, bounds = screened.summary, bounds_of_all(plan)
    power = summary.design.n_with[0], summary.power.detectable_D
    evidence = Evidence(summary.runs, *power, count_attempts(attempts))
    proved = [name for name in screened.listed if name not in chosen.accepted]
    every_attack = screened.verdicts.every_attack & {*proved}
    sensitive = {name for name in chosen.left_open if decided.words[name] == Verdict.SENSITIVE}
    for verdicts, out in screened.left_out:
        sensitive |= {*verdicts.ids([Verdict.SENSITIVE])} & {*out}
    counts = ListCounts(
        proved=len(proved),
        accepted=len(chosen.accepted),
        excluded=len(chosen.excluded),
        left_open=len(chosen.left_open),
        not_picked=len(chosen.not_picked),
        left_out=sum(len(out) for _, out in screened.left_out),
        every_attack=len({*proved} & every_attack),
    )
    return Grounds(
        plan=plan,
        corpus=corpus,
        spec=origin.spec,
        audits=(*origin.audits, *(about.audit for about in screened.rounds[1:])),
        verdicts=summary.verdicts.as_dict(),
        listed=screened.listed,
        certified=sorted(every_attack),
        sensitive=sorted(sensitive),
        excluded=exclusions(opened, corpus, spec.corpus.path),
        statement=list_statement(
            counts,
            margin=spec.decision_in_run.margin,
            attempts=evidence.attempts,
            rows=plan.holdings.size,
            among=drawn_from(plan),
            four_eyes=seen.policy.four_eyes,
            every_size=any(bound.every_size for bound in bounds),
            any_knowledge=any(bound.any_knowledge for bound in bounds),
            sums=exact_throughout(plan.mechanism) and traits_of(plan.mechanism).opens != "final",
        ),
        evidence=evidence,
        reviewed=Reviewed(
            accepted=len(chosen.accepted),
            left_open=len(chosen.left_open),
            four_eyes=seen.policy.four_eyes,
            log_entries=seen.head.number,
            log_head=seen.head.hash,
        ),
        wrong=_wrong(plan, screened.verdicts.verdicts, {*proved} - every_attack),
        bounds=bounds,
    )


def _wrong(plan: Plan, rows: pa.Table, tested: set[str]) -> str:
    """How many of the listed may be wrong; empty where no test proved one of them clear."""
    if not tested:
        return ""
    rule = plan.spec.decision_in_run
    if rule.error == "fwer":
        any_of = f"any of the {len(tested)} that tests prove clear is wrong"
        return f"The probability that {any_of} is at most {rule.for_clear:g}."
    picked = np.array([name in tested for name in rows["document"].to_pylist()])
    below = rows["log10_p_below"].to_numpy()
    share = math.ceil(wrong_share(below, picked, rule.for_clear, plan.counted) * 1e4 - 1e-6)
    return (
        f"Of the {len(tested)} that tests prove clear, a share of at most {share / 1e4:g} is expected to be wrong."
    )


def verified_for(
    path: Path, *, now: datetime, public_key: Ed25519PublicKey | None = None, against: Opened | None = None
) -> Verified:
    """Refuse a clearance unless it is whole, in force, by this key and, where a spec is given, for that spec."""
    if against is None:
        return verify_clearance(path, now=now, public_key=public_key)
    corpus, plan = against.corpus, make_plan(against)
    verified = verify_clearance(
        path,
        now=now,
        public_key=public_key,
        corpus_hash=corpus.hash,
        mechanism=mechanism_identity(plan),
        spec_hash=against.spec.binding,
        opened=opened(plan.mechanism, corpus.features),
    )
    if verified.clearance.drawn is None:  # else the party's key decides who enters
        check_sizes(path, verified.clearance, entering_units(verified.clearance, corpus))
        verified = dataclasses.replace(verified, checked=(*verified.checked, "sizes"))
    return verified


def require_clearance(
    clearance: str | Path,
    spec: str | Path,
    data: str | Path,
    *,
    keys: Sequence[str | Path],
    now: datetime | None = None,
) -> tuple[str, ...]:
    """Refuse a computation on documents without a clearance in force for exactly them and for this mechanism.

    Parameters
    ----------
    clearance : path
        The signed list (`ksdp clear`).
    spec : path
        Spec of the audit: the mechanism, and the corpus that was audited.
    data : path
        File that is about to be used, in the form of the corpus: its documents, or some of them, as they were.
    keys : paths
        Public keys that are trusted to sign.
    now : datetime, optional
        Moment at which it must be in force; default: this one.

    Returns
    -------
    tuple of str
        Ids of the documents in `data`.

    Raises
    ------
    ClearanceError
        If a check fails; `failed` names it: signer, expired, corpus, mechanism, spec, documents, sizes, ...
    """
    path, now = Path(clearance), now or datetime.now(UTC)
    signer = verify_clearance(path, now=now).public_key
    if signer.public_bytes_raw() not in {load_public(Path(key)).public_bytes_raw() for key in keys}:
        by = fingerprint(signer)
        raise ClearanceError("signer", f"{path.name} is signed by {by}, which is none of the trusted keys.")
    read, base = read_spec_file(Path(spec))
    against = open_spec(read, base)
    cleared = verified_for(path, now=now, public_key=signer, against=against).clearance
    if cleared.drawn is not None:
        raise ClearanceError("drawn", f"{path.name} is of a secret draw, which `ksdp party` alone lets in.")
    here = read.corpus.model_copy(update={"path": str(Path(data).resolve())})
    audited, used = (read_source(find_source(each, base), nonnegative=False) for each in (read.corpus, here))
    rows, ids = {name: row for row, name in enumerate(audited.labels.ids.tolist())}, used.labels.ids.tolist()
    allowed = set(cleared.documents) & rows.keys()
    if used.dropped:
        many = f"{len(used.dropped)} documents of {Path(data).name} that lack a number, {used.dropped[0]!r} first"
        raise ClearanceError("documents", f"{path.name} does not list {many}: leave them out.")
    if out := [name for name in ids if name not in allowed]:
        many = f"{len(out)} of the {len(ids)} documents of {Path(data).name}, {out[0]!r} among them"
        raise ClearanceError("documents", f"{path.name} does not list {many}: leave them out.")
    if audited.matrix.shape[1] != used.matrix.shape[1]:
        raise ClearanceError("documents", f"{Path(data).name} has other columns than the audited corpus.")
    unlike = unlike_rows(sp.csr_array(audited.matrix[[rows[name] for name in ids]]), used.matrix)
    if len(unlike):
        first = ids[int(unlike[0])]
        raise ClearanceError("documents", f"{first!r} in {Path(data).name} is not the document that was audited.")
    entering = restrict(against.corpus, np.flatnonzero(np.isin(against.corpus.ids, ids)))
    groups = np.unique(unit_names(entering, cleared.sizes.unit)).tolist()
    if halves := {*documents_of(against.corpus, cleared.sizes.unit, groups)} - {*ids}:
        raise ClearanceError(
            "documents", f"{path.name} lists whole groups, and {min(halves)!r} is left out of one."
        )
    check_sizes(path, cleared, entering_units(cleared, entering))
    return tuple(ids)


def verify(
    path: Path, *, now: datetime, public_key: Ed25519PublicKey | None = None, against: Opened | None = None
) -> dict[str, Any]:
    """Verify a clearance and, where a spec is given, that it is for that spec, its corpus and its mechanism."""
    verified = verified_for(path, now=now, public_key=public_key, against=against)
    ids = None if against is None else against.corpus.ids
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
        "sensitive": cleared.sensitive,
        "excluded": cleared.excluded,
        "sizes": asdict(cleared.sizes),
        "audited_size": cleared.sizes.size,
        "audited_parties": cleared.sizes.parties,
        "evidence": asdict(cleared.evidence),
        "coverage": asdict(cleared.coverage),
        "statement": cleared.statement,
    } | ({"reviewed": asdict(cleared.reviewed)} if cleared.reviewed else {})


def verify_log(
    path: Path, clearances: Sequence[Path] = (), public_key: Ed25519PublicKey | None = None
) -> dict[str, Any]:
    """Check the hash chain of a review log, and that it holds the entry that each clearance was signed over."""
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
