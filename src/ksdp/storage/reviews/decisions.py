"""Decisions of a store: how they are made (`reviews/policy.json`), and what follows from the log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError, InvalidAudit
from ksdp.audit.results.summary import Summary
from ksdp.audit.reviewing import (
    LONGEST_NAME,
    WITHOUT_AUDIT,
    CorpusUnits,
    assignment,
    check_bounded,
    check_proposal,
    fold,
    is_exclusion,
    plural,
    same_person,
)
from ksdp.audit.reviewing import NOTES as NOTES
from ksdp.audit.reviewing import Decision as Decision
from ksdp.audit.reviewing import Entry as Entry
from ksdp.audit.reviewing import Proposal as Proposal
from ksdp.audit.reviewing import StaleDecision as StaleDecision
from ksdp.audit.reviewing import State as State
from ksdp.audit.reviewing import Status as Status
from ksdp.audit.reviewing import visible as visible
from ksdp.audit.screening.clearance import list_attempt
from ksdp.audit.specs.models import Section, validated
from ksdp.storage.audits.history import Brief, read_history, read_summary, signable_among
from ksdp.storage.audits.ledger import AuditLedger, read_ledger
from ksdp.storage.audits.queries import Findings, proved_sensitive
from ksdp.storage.codec import read_object, write_checked_json
from ksdp.storage.files import read_toml
from ksdp.storage.keys import fingerprint
from ksdp.storage.locks import shared_lock
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.reviews.log import LogHead, ReviewLog, add_lines, chained, locked, log_file, read_review_log
from ksdp.storage.store import Store


class Policy(Section, frozen=True):
    """How decisions are made in a store, and by whom."""

    four_eyes: bool = False
    """A second person must confirm `exclude`, `accept` and `withdraw`."""
    decide: tuple[str, ...] = ()
    """Names of the people who may decide, confirm, withdraw and assign; none: everybody who reaches the store."""
    sign: tuple[str, ...] = ()
    """Fingerprints of the keys that may sign (`ksdp keys`); none: every key."""

    def lets_decide(self, name: str) -> bool:
        """Whether somebody may decide."""
        return not self.decide or any(same_person(name, decider) for decider in self.decide)

    @property
    def words(self) -> str:
        """All of it, for people."""
        return (
            f"{'two persons decide' if self.four_eyes else 'one person decides'}; may decide: "
            f"{', '.join(self.decide) or 'everybody'}; may sign: {', '.join(self.sign) or 'every key'}"
        )


def read_policy(store: Store) -> Policy:
    """The policy of a store; the default where none was set."""
    file = store.root / "reviews" / "policy.json"
    if not file.exists():
        return Policy()
    return read_object(file, Policy.model_validate, "the reviews", "set the policy again, from its file")


def write_policy(store: Store, policy: Policy) -> None:
    """Set the policy of a store. What is in the log is judged by it from now on."""
    write_checked_json(store.root / "reviews" / "policy.json", policy.model_dump(mode="json"))


def set_policy(store: Store, given: str, who: str, now: datetime) -> tuple[Policy, Entry]:
    """Set the policy from a TOML file, or how many must decide alone: it, and the log's entry of the change."""
    check_bounded("who", who, LONGEST_NAME, lines=False)
    if Path(given).suffix == ".toml":
        policy = validated(Policy, read_toml(Path(given), "the policy"), "policy")
    elif given in ("four-eyes", "one-person"):
        policy = read_policy(store).model_copy(update={"four_eyes": given == "four-eyes"})
    else:
        raise InputError(f"`--policy` must be four-eyes, one-person or a file, FILE.toml; got {given!r}.")
    with locked(store.root) as path:
        log = read_review_log(path)
        number, previous, at = log.head.number, log.head.hash, now.astimezone(UTC)
        about = ("", "", "", "store", "store", Decision.POLICY, policy.words)
        entry = chained(Entry(number + 1, *about, who.strip(), at, number, previous, ""))
        add_lines(path, log, [entry])
        write_policy(store, policy)
    return policy, entry


def check_signer(store: Store, key: Ed25519PrivateKey) -> None:
    """Refuse a key that the store's policy does not list."""
    listed, shown = read_policy(store).sign, fingerprint(key)
    if listed and shown not in listed:
        raise InputError(
            f"the key {shown} may not sign in this store: take one of {', '.join(listed)}, or list it under "
            "`sign` in the file of `ksdp decide --policy`."
        )


def audits_by_question(store: Store) -> list[tuple[Brief, list[Brief]]]:
    """The newest valid audit of every question, newest first, and all signable audits of it, void ones too."""
    ledger, newest = read_ledger(store), list[Brief]()
    questions, entries = ledger.questions, signable_among(ledger, read_history(store).audits)

    def same(brief: Brief, other: Brief) -> bool:
        first, second = questions.get(brief.audit), questions.get(other.audit)
        return brief.audit == other.audit or bool(first and second and first.same(second))

    for entry in entries:
        if entry.valid and not any(same(entry, other) for other in newest):
            newest.append(entry)
    return [(brief, [entry for entry in entries if same(brief, entry)]) for brief in newest]


def newest_audits(store: Store) -> list[Brief]:
    """The newest valid audit of every question, newest first."""
    return [newest for newest, _ in audits_by_question(store)]


def newer_audits(store: Store, audit: str) -> list[str]:
    """Valid audits finished later that ask the same question and can be signed, newest first."""
    read_summary(store.audit(audit))
    return lineage(store, audit, read_ledger(store))[0]


def lineage(store: Store, audit: str, ledger: AuditLedger) -> tuple[list[str], list[str]]:
    """Audits of the same question, newest first: the newer ones, the older ones."""
    questions = ledger.questions
    mine = questions.get(audit)
    alike = {audit} | {name for name, question in questions.items() if mine and mine.same(question)}
    history = read_history(store).audits
    for name in set(store.audits()) & alike - {entry.audit for entry in history}:
        read_summary(store.audit(name))  # an error that says why: a look that is not counted would be hidden
    signable = {entry.audit for entry in signable_among(ledger, history) if entry.valid} | {audit}
    order = [entry.audit for entry in history if entry.audit in alike & signable]
    place = order.index(audit)
    return order[:place], order[place + 1 :]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything about an audit's reviews at one moment."""

    states: dict[str, State]
    policy: Policy
    head: LogHead
    """The newest entry of the log: what `Proposal.saw` may say for whoever sees this."""


def _read(store: Store) -> ReviewLog:
    log = log_file(store.root)
    with shared_lock(log.parent / "lock"):
        return read_review_log(log)


@dataclass(frozen=True)
class Subject:
    """The corpus that decisions are about, and the names of its documents or groups."""

    units: CorpusUnits
    names: Collection[str]


def append(
    store: Store, proposals: Sequence[Proposal], now: datetime, *, subject: Subject | None = None
) -> list[Entry]:
    """Record decisions by the store's policy, all or none of them. Returns the entries as the log has them."""
    if now.tzinfo is None:
        raise InputError("`now` must have a time zone.")
    by_audit: dict[str, list[Proposal]] = {}
    for proposal in proposals:
        by_audit.setdefault(proposal.audit, []).append(proposal)
    units = {audit: _checked_units(store, audit, mine, subject) for audit, mine in by_audit.items()}
    policy = read_policy(store)
    for name in (proposal.reviewer for proposal in proposals if proposal.decision is not Decision.COMMENT):
        if not policy.lets_decide(name):
            raise InputError(
                f"{name!r} may comment in this store, and not decide: ask one of {', '.join(policy.decide)}, or "
                "list the name under `decide` in the file of `ksdp decide --policy`."
            )
    with locked(store.root) as path:
        log = read_review_log(path)
        for saw in (proposal.saw for proposal in proposals):
            if saw is not None and not 0 <= saw <= log.head.number:
                raise InputError(f"`saw` must be in 0 to {log.head.number}, the newest entry; got {saw}.")
        entries, newest = [], log.head
        for audit, mine in by_audit.items():
            about = units[audit]
            documents = [proposal.document for proposal in mine]
            if audit:
                current = _states(store, log, audit, documents, policy.four_eyes)
            else:
                written = log.about(about, documents)
                current = {
                    name: fold(written.get(name, ()), "", name, four_eyes=policy.four_eyes) for name in documents
                }
            for proposal in mine:
                state = current[proposal.document]
                check_proposal(proposal, state, four_eyes=policy.four_eyes)
                entries.append(
                    chained(
                        Entry(
                            number=newest.number + 1,
                            audit=audit,
                            corpus=about.corpus,
                            source=about.source,
                            unit=about.unit,
                            document=proposal.document,
                            decision=proposal.decision,
                            reason=proposal.reason.strip(),
                            reviewer=proposal.reviewer.strip(),
                            at=now.astimezone(UTC),
                            saw=state.version,
                            previous=newest.hash,
                            hash="",
                            owner=proposal.owner.strip(),
                            due=proposal.due,
                        )
                    )
                )
                newest = LogHead(entries[-1].number, entries[-1].hash)
        if entries:
            add_lines(path, log, entries)
    return entries


def _checked_units(
    store: Store, audit: str, proposals: Sequence[Proposal], subject: Subject | None
) -> CorpusUnits:
    documents = [proposal.document for proposal in proposals]
    if audit:
        summary = read_summary(store.audit(audit))
        if not summary.valid:
            raise InvalidAudit(f"the controls of audit {audit} failed: there is nothing to decide about.")
        units, names_held, where = (
            units_of(summary),
            Findings(store.audit(audit)).held(documents),
            f"audit {audit}",
        )
    elif subject is not None:
        units, names_held, where = subject.units, set(subject.names), subject.units.source
        if not {proposal.decision for proposal in proposals} <= set(WITHOUT_AUDIT):
            raise InputError(f"without an audit, `decision` must be one of {', '.join(WITHOUT_AUDIT)}.")
    else:
        raise InputError("`audit` must name an audit, or the corpus be given.")
    seen = set[str]()
    for document in documents:
        if document not in names_held:
            raise InputError(f"{where} has no {units.unit} {document!r}.")
        if document in seen:
            raise InputError(f"{units.unit} {document!r} is named twice.")
        seen.add(document)
    return units


def units_of(about: Summary | Entry) -> CorpusUnits:
    """The corpus and the unit of an audit, or of an entry of the log."""
    if isinstance(about, Entry):
        return CorpusUnits(about.corpus, about.source, about.unit)
    return CorpusUnits(about.corpus, about.spec.corpus.path, about.design.unit)


def exclusions(store: Store, corpus: Corpus, source: str) -> dict[str, Entry]:
    """Documents that people excluded from a corpus, by themselves or with their group, in force or waiting.

    Those that nothing in the corpus is called are among them: somebody must see that these exclude nobody.
    """
    four_eyes = read_policy(store).four_eyes
    excluded: dict[str, Entry] = {}
    log = _read(store)
    groups = _excluded(log, CorpusUnits(corpus.hash, source, "group"), four_eyes)
    alone = _excluded(log, CorpusUnits(corpus.hash, source, "document"), four_eyes)
    if groups:
        if corpus.group is None:
            raise InputError(
                f"decisions exclude {plural(len(groups), 'group')} of {source}, and nothing says which document "
                "is whose: set `corpus.group`."
            )
        gone = groups.keys() - {*corpus.group.tolist()}
        excluded = _with_group(corpus, groups) | {f"group {name}": groups[name] for name in gone}
    if corpus.numbered and (others := [name for name, entry in alone.items() if entry.corpus != corpus.hash]):
        raise InputError(
            f"row {others[0]} of {source} was excluded before the file or its spec changed, and numbers may name "
            "other rows now. Set `corpus.id`, and decide about that id; or decide about the number again."
        )
    return excluded | alone


def _excluded(log: ReviewLog, units: CorpusUnits, four_eyes: bool) -> dict[str, Entry]:
    states = (fold(written, "", name, four_eyes=four_eyes) for name, written in log.about(units).items())
    return {state.document: state.exclusion for state in states if state.exclusion is not None}


def read_log(
    store: Store,
    *,
    audit: str | None = None,
    document: str | None = None,
    newest_first: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> list[Entry]:
    """Entries of the log, of one audit or document where named."""
    some = [
        entry
        for entry in _read(store).entries
        if audit in (None, entry.audit) and document in (None, entry.document)
    ]
    return some[:: -1 if newest_first else 1][offset:][:limit]


def states(store: Store, audit: str, documents: Iterable[str] | None = None) -> dict[str, State]:
    """States of documents of an audit."""
    four_eyes = read_policy(store).four_eyes
    return _states(store, _read(store), audit, None if documents is None else list(documents), four_eyes)


def snapshot(store: Store, audit: str) -> Snapshot:
    """States, policy and newest entry, of one reading of the log."""
    log, policy = _read(store), read_policy(store)
    return Snapshot(_states(store, log, audit, None, policy.four_eyes), policy, log.head)


def document_log(store: Store, audit: str, document: str) -> list[Entry]:
    """Entries about a document of an audit, in whichever audit of its corpus, newest first."""
    units = units_of(read_summary(store.audit(audit)))
    return _read(store).about(units, [document]).get(document, [])[::-1]


def document_state(store: Store, audit: str, document: str) -> State:
    """State of one document of an audit."""
    return states(store, audit, [document])[document]


def head(store: Store) -> LogHead:
    """The newest entry of the log."""
    return _read(store).head


def _states(
    store: Store, log: ReviewLog, audit: str, documents: Sequence[str] | None, four_eyes: bool
) -> dict[str, State]:
    summary, ledger = read_summary(store.audit(audit)), read_ledger(store)
    newer, older = lineage(store, audit, ledger)
    units = units_of(summary)
    proved = _proved_elsewhere(store, summary, ledger)
    written = log.about(units, documents)
    groups = _excluded_with_group(store, log, units, four_eyes)
    if documents is None:
        named = list(dict.fromkeys([*_concerned(written, [audit, *older]), *groups, *proved]))
        names_held = Findings(store.audit(audit)).held(named)
        documents = [document for document in named if document in names_held]
    superseded = _newest_of(store, newer, documents)
    states_found = {}
    for document in documents:
        entries = written.get(document, ())
        state = fold(
            entries,
            audit,
            document,
            four_eyes=four_eyes,
            superseded_by=superseded.get(document),
            earlier=_earlier(entries, older, document, four_eyes),
        )
        if state.exclusion is None and document in groups:
            status = Status.SUPERSEDED if state.superseded_by else Status.DECIDED
            state = replace(state, decided=groups[document], confirmed=None, status=status)
        assigned = assignment(entries, {audit, *older})
        states_found[document] = replace(state, proved_by=proved.get(document), assigned=assigned)
    return states_found


def _proved_elsewhere(store: Store, summary: Summary, ledger: AuditLedger) -> dict[str, str]:
    attempt = ledger.attempt(summary.audit)
    attempts = () if attempt is None else ledger.attempts_at(attempt.question)
    own = {list_attempt(summary.audit), "" if attempt is None else attempt.attempt}
    others = [
        other for other in attempts if other.audit != summary.audit and not (other.part and other.attempt in own)
    ]
    return proved_sensitive(store, others, margin=summary.spec.decision_in_run.margin, unit=summary.design.unit)


def _concerned(written: Mapping[str, Sequence[Entry]], audits: Sequence[str]) -> list[str]:
    """Documents with an entry in one of some audits, or that are excluded somewhere."""
    return [
        document
        for document, entries in written.items()
        if any(entry.audit in audits or is_exclusion(entry) for entry in entries)
    ]


def _excluded_with_group(store: Store, log: ReviewLog, units: CorpusUnits, four_eyes: bool) -> dict[str, Entry]:
    """Documents of an excluded group, or groups that an excluded document is of; none if nobody says whose."""
    out = _excluded(log, replace(units, unit="group" if units.unit == "document" else "document"), four_eyes)
    corpus = open_corpus(store.corpus(units.corpus)) if out else None
    return {} if corpus is None else _with_group(corpus, out, units.unit)


def _with_group(corpus: Corpus, out: Mapping[str, Entry], unit: str = "document") -> dict[str, Entry]:
    """Documents whose group is out; where the unit is the group, groups a document of which is out."""
    if corpus.group is None:
        return {}
    names, others = (corpus.ids, corpus.group) if unit == "document" else (corpus.group, corpus.ids)
    return {n: out[other] for n, other in zip(names.tolist(), others.tolist(), strict=True) if other in out}


def _newest_of(store: Store, audits: Sequence[str], documents: Sequence[str]) -> dict[str, str]:
    """The first of some audits that has each document; those that none has are left out."""
    newest: dict[str, str] = {}
    for audit in audits:
        undecided = [document for document in documents if document not in newest]
        if not undecided:
            break
        newest |= dict.fromkeys(Findings(store.audit(audit)).held(undecided), audit)
    return newest


def _earlier(entries: Sequence[Entry], older: Sequence[str], document: str, four_eyes: bool) -> Entry | None:
    for audit in older:
        decided = fold(entries, audit, document, four_eyes=four_eyes).decided
        if decided is not None and not is_exclusion(decided):
            return decided
    return None
