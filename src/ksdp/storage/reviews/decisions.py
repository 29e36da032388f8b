"""How decisions are made in a store: `reviews/policy.json`."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError, InvalidAudit, StoreError
from ksdp.audit.results.summary import Summary
from ksdp.audit.reviewing import WITHOUT_AUDIT, CorpusUnits, check_proposal, fold, is_exclusion
from ksdp.audit.reviewing import Decision as Decision
from ksdp.audit.reviewing import Entry as Entry
from ksdp.audit.reviewing import Proposal as Proposal
from ksdp.audit.reviewing import State as State
from ksdp.audit.reviewing import Status as Status
from ksdp.audit.reviewing import visible as visible
from ksdp.audit.screening.clearance import list_attempt
from ksdp.storage.audits.history import Brief, read_history, read_summary, signable_audits
from ksdp.storage.audits.ledger import find_attempt, read_attempts, read_questions
from ksdp.storage.audits.queries import Findings, proved_sensitive
from ksdp.storage.codec import read_object, write_checked_json
from ksdp.storage.locks import shared_lock
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.reviews.log import (
    GENESIS,
    LogHead,
    add_lines,
    chained,
    follow,
    locked,
    log_file,
    read_head,
    read_lines,
    read_signatures,
    sign_entries,
)
from ksdp.storage.store import Store


@dataclass(frozen=True, slots=True)
class Policy:
    """How decisions are made in a store."""

    four_eyes: bool = False
    """A second person must confirm `exclude`, `accept` and `withdraw`."""
    signed: bool = False
    """Every decision must be signed by its decider's key, and the second person's be another one: on the command
    line alone, because the dashboard holds no keys."""


def read_policy(store: Store) -> Policy:
    """The policy of a store; the default where none was set.

    Raises
    ------
    StoreError
        If the file is damaged: that is never read as "one person is enough".
    """
    file = store.root / "reviews" / "policy.json"
    if not file.exists():
        return Policy()

    def parse(fields: dict[str, Any]) -> Policy:
        if not all(isinstance(value, bool) for value in fields.values()):
            raise ValueError("a value is neither true nor false")
        return Policy(**fields)

    return read_object(file, parse, "the reviews", "set the policy again")


def write_policy(store: Store, policy: Policy) -> None:
    """Set the policy of a store. What is in the log is judged by it from now on."""
    write_checked_json(store.root / "reviews" / "policy.json", asdict(policy))


def newest_audits(store: Store) -> list[Brief]:
    """The newest valid audit of every question, newest first; one that the ledger does not name stands alone."""
    questions, newest = read_questions(store), list[Brief]()
    for entry in signable_audits(store):
        asked = questions.get(entry.audit)
        known = (questions.get(other.audit) for other in newest)
        if entry.valid and not (asked and any(one and asked.same(one) for one in known)):
            newest.append(entry)
    return newest


def newer_audits(store: Store, audit: str) -> list[str]:
    """Valid audits finished later that ask the same question and can be signed, newest first."""
    return lineage(store, audit)[0]


def lineage(store: Store, audit: str) -> tuple[list[str], list[str]]:
    """Audits of the same question, newest first: the newer ones, the older ones."""
    read_summary(store.audit(audit))
    questions = read_questions(store)
    mine = questions.get(audit)
    alike = {audit} | {name for name, asked in questions.items() if mine and mine.same(asked)}
    history = read_history(store).audits
    for name in set(store.audits()) & alike - {entry.audit for entry in history}:
        read_summary(store.audit(name))  # an error that says why: a look that is not counted would be hidden
    signable = {entry.audit for entry in signable_audits(store) if entry.valid} | {audit}
    order = [entry.audit for entry in history if entry.audit in alike & signable]
    place = order.index(audit)
    return order[:place], order[place + 1 :]


_TABLES = """
CREATE TABLE entry (
    number INTEGER PRIMARY KEY, audit TEXT, corpus TEXT, file TEXT, unit TEXT, document TEXT, line BLOB
);
CREATE INDEX entry_document ON entry (document);
CREATE INDEX entry_corpus ON entry (corpus);
CREATE INDEX entry_file ON entry (file);
CREATE INDEX entry_audit ON entry (audit);
CREATE TABLE read (size INTEGER, modified INTEGER, whole INTEGER, number INTEGER, hash TEXT);
"""
_FORMAT = 1
_AT_ONCE = 500
"""Names in one query."""


def _key(text: str) -> str:
    """Any id as text that SQLite takes, lone surrogates included."""
    return json.dumps(text)


def _entry(line: bytes) -> Entry:
    """A line that was checked when it was read in."""
    fields = json.loads(line)
    fields["decision"] = Decision(fields["decision"])
    fields["at"] = datetime.fromisoformat(fields["at"])
    return Entry(**fields)


class ReviewIndex:
    """The entries of a log that were read so far; `sync` reads on."""

    def __init__(self, connection: sqlite3.Connection, log: Path) -> None:
        self._db = connection
        self._log = log
        self.head = LogHead(0, GENESIS)
        """The newest entry."""
        self.torn = 0
        """Bytes of a torn last line."""

    def sync(self) -> None:
        """Read what was added to the log; all of it where it is not what it was."""
        try:
            log = self._log.stat()
            size, modified = log.st_size, log.st_mtime_ns
        except FileNotFoundError:
            size, modified = 0, 0
        row = self._db.execute("SELECT size, modified, whole, number, hash FROM read").fetchone()
        known, then, whole, number, digest = row or (-1, 0, 0, 0, GENESIS)
        if (known, then) == (size, modified):
            self.head, self.torn = LogHead(number, digest), size - whole
        else:
            if not row or size <= known or not self._continues(whole, number):
                whole, number, digest = 0, 0, GENESIS
            self._read(size, modified, whole, LogHead(number, digest))
        self._vouch()

    def _continues(self, whole: int, number: int) -> bool:
        """Whether the log's bytes before `whole` still end with the newest line that was read in."""
        last = self._db.execute("SELECT line FROM entry WHERE number = ?", (number,)).fetchone()
        if last is None:
            return number == 0
        wanted = last[0] + b"\n"
        with self._log.open("rb") as file:
            file.seek(whole - len(wanted))
            return bool(file.read(len(wanted)) == wanted)

    def _read(self, size: int, modified: int, whole: int, head: LogHead) -> None:
        lines, self.torn = read_lines(self._log, whole)
        rows = []
        self.head = head
        try:
            for line, entry in zip(lines, follow(head, lines), strict=True):
                units = units_of(entry)
                named = (entry.audit, units.corpus, units.file, units.unit, entry.document)
                rows.append((entry.number, *map(_key, named), line))
                self.head = LogHead(entry.number, entry.hash)
        except ValueError as error:
            number = self.head.number + 1
            raise StoreError(
                f"the review log is broken: entry {number} is not what was written ({error})."
            ) from error
        with self._db:
            if not whole:
                self._db.execute("DELETE FROM entry")
            self._db.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            self._db.execute("DELETE FROM read")
            values = (size, modified, size - self.torn, self.head.number, self.head.hash)
            self._db.execute("INSERT INTO read VALUES (?, ?, ?, ?, ?)", values)

    def _vouch(self) -> None:
        """Compare with `head.json`, which may lag by what a crash kept from being written."""
        head = read_head(self._log)
        if head.number == self.head.number:
            same = head.hash == self.head.hash
        else:
            row = self._db.execute("SELECT line FROM entry WHERE number = ?", (head.number,)).fetchone()
            same = head.number == 0 or (row is not None and _entry(row[0]).hash == head.hash)
        if not same:
            raise StoreError(
                f"the review log is broken: it holds {self.head.number} entries, and entry {head.number}, which "
                "was the newest once, is not among them."
            )

    def about(self, units: CorpusUnits, documents: Sequence[str] | None = None) -> dict[str, list[Entry]]:
        """Entries about units of a corpus, whatever the audit, by name, in the order of the log."""
        query = "SELECT line FROM entry WHERE (corpus = ? OR file = ?) AND unit = ?"
        values = [_key(name) for name in (units.corpus, units.file, units.unit)]
        lines: list[bytes] = []
        if documents is None:
            lines = [line for (line,) in self._db.execute(f"{query} ORDER BY number", values)]
        for first in range(0, len(documents or ()), _AT_ONCE):
            part = [_key(name) for name in (documents or ())[first : first + _AT_ONCE]]
            some = f"{query} AND document IN ({','.join('?' * len(part))}) ORDER BY number"
            lines += [line for (line,) in self._db.execute(some, [*values, *part])]
        named: dict[str, list[Entry]] = {}
        for line in lines:
            entry = _entry(line)
            named.setdefault(entry.document, []).append(entry)
        return named

    def page(
        self, audit: str | None, document: str | None, *, newest_first: bool, limit: int | None, offset: int
    ) -> list[Entry]:
        """Entries in the order of the log or backwards, a part of them."""
        where, values = ["1"], []
        for column, name in (("audit", audit), ("document", document)):
            if name is not None:
                where.append(f"{column} = ?")
                values.append(_key(name))
        order = "DESC" if newest_first else "ASC"
        query = f"SELECT line FROM entry WHERE {' AND '.join(where)} ORDER BY number {order} LIMIT ? OFFSET ?"
        rows = self._db.execute(query, [*values, -1 if limit is None else limit, offset])
        return [_entry(line) for (line,) in rows]


@contextlib.contextmanager
def _open_index(log: Path) -> Iterator[ReviewIndex]:
    """Open the index of a log, up to date. The log's lock must be held."""
    file = log.parent / "index.sqlite"
    try:
        index = _opened(file, log)
    except sqlite3.DatabaseError:
        for spoilt in (file, file.with_name("index.sqlite-journal")):
            spoilt.unlink(missing_ok=True)  # whatever it was, it can be made again
        index = _opened(file, log)
    with contextlib.closing(index._db):
        yield index


def _opened(file: Path | None, log: Path) -> ReviewIndex:
    if file is not None:
        file.touch(mode=0o600)  # SQLite makes files by the umask, and its journal with the modes of the file
    connection = sqlite3.connect(file or ":memory:")
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] != _FORMAT:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            with connection:
                for (name,) in tables:
                    connection.execute(f"DROP TABLE {name}")
                connection.executescript(f"{_TABLES} PRAGMA user_version = {_FORMAT};")
        index = ReviewIndex(connection, log)
        index.sync()
    except BaseException:
        connection.close()
        raise
    return index


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything about an audit's reviews at one moment."""

    states: dict[str, State]
    """As `states` gives them."""
    policy: Policy
    head: LogHead
    """The newest entry of the log: what `Proposal.saw` may say for whoever sees this."""


@contextlib.contextmanager
def _index(store: Store) -> Iterator[ReviewIndex]:
    if os.access(store.root, os.W_OK):
        with locked(store.root) as log, _open_index(log) as index:
            yield index
        return
    log = log_file(store.root)  # nobody can write here, and an index of its own is read alone
    with shared_lock(log.parent / "lock"), contextlib.closing((index := _opened(None, log))._db):
        yield index


@dataclass(frozen=True)
class Subject:
    """What is decided about, and the names that it holds: the documents or groups of a corpus."""

    units: CorpusUnits
    names: Collection[str]


def append(
    store: Store,
    proposals: Sequence[Proposal],
    now: datetime,
    *,
    key: Ed25519PrivateKey | None = None,
    subject: Subject | None = None,
) -> list[Entry]:
    """Record decisions by the store's policy, all or none of them. Returns the entries as the log has them.

    A crash while several are written can leave the first of them recorded.

    Parameters
    ----------
    key : Ed25519PrivateKey, optional
        Of the person who decides; the entries are signed with it.
    subject : Subject, optional
        Of the proposals that name no audit.

    Raises
    ------
    StaleDecision
        If one was made without having seen what is in force by now (`newer` is the entry not seen).
    InputError
        If one is refused by `ksdp.audit.reviewing.check_proposal`, its audit does not hold its document, or two
        are about the same document.
    InvalidAudit
        If the controls of the audit failed: it has no verdict to decide about.
    StoreError
        If there is no such finished audit, or the log is broken or torn.
    """
    if now.tzinfo is None:
        raise InputError("`now` must have a time zone.")
    by_audit: dict[str, list[Proposal]] = {}
    for proposal in proposals:
        by_audit.setdefault(proposal.audit, []).append(proposal)
    units = {audit: _checked_units(store, audit, mine, subject) for audit, mine in by_audit.items()}
    policy = read_policy(store)
    if policy.signed and key is None:
        raise InputError("this store takes signed decisions only: `ksdp decide --key`.")
    with locked(store.root) as log, _open_index(log) as index:
        _check_seen(index, proposals)
        entries, newest = [], index.head
        for audit, mine in by_audit.items():
            about = units[audit]
            documents = [proposal.document for proposal in mine]
            if audit:
                current = _states(store, index, audit, documents, policy.four_eyes)
            else:
                written = index.about(about, documents)
                current = {
                    name: fold(written.get(name, ()), "", name, four_eyes=policy.four_eyes) for name in documents
                }
            for proposal in mine:
                state = current[proposal.document]
                check_proposal(proposal, state, four_eyes=policy.four_eyes)
                if policy.signed:
                    _check_second_key(log, proposal, state, key)
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
                        )
                    )
                )
                newest = LogHead(entries[-1].number, entries[-1].hash)
        if entries:
            add_lines(log, entries)
            if key is not None:
                sign_entries(log, entries, key)
            index.sync()
    return entries


def _check_seen(index: ReviewIndex, proposals: Sequence[Proposal]) -> None:
    """Refuse what nothing can be added behind, and a `saw` that no entry has."""
    if index.torn:
        raise StoreError(
            f"the last line of the review log was cut short ({index.torn} bytes, no entry); nothing is added "
            "behind it. `ksdp log --set-torn-aside` keeps the bytes in a file of their own."
        )
    for proposal in proposals:
        if proposal.saw is not None and not 0 <= proposal.saw <= index.head.number:
            raise InputError(f"`saw` must be in 0 to {index.head.number}, the newest entry; got {proposal.saw}.")


def _check_second_key(log: Path, proposal: Proposal, state: State, key: Ed25519PrivateKey | None) -> None:
    """Four eyes are two keys: what is confirmed is signed, and by another key."""
    if proposal.decision is not Decision.CONFIRM or state.waiting is None or key is None:
        return
    waiting, mine = state.waiting, key.public_key().public_bytes_raw().hex()
    keys = {one.key for one in read_signatures(log) if (one.number, one.hash) == (waiting.number, waiting.hash)}
    if not keys:
        raise InputError(f"entry {waiting.number} is not signed; it must be decided again, with a key.")
    if mine in keys:
        raise InputError(f"entry {waiting.number} was signed with this key; another must confirm it.")


def _checked_units(
    store: Store, audit: str, proposals: Sequence[Proposal], subject: Subject | None
) -> CorpusUnits:
    """Whose documents some proposals are about, each of which is there and named once."""
    documents = [proposal.document for proposal in proposals]
    if audit:
        summary = read_summary(store.audit(audit))
        if not summary.valid:
            raise InvalidAudit(f"the controls of audit {audit} failed: there is nothing to decide about.")
        units, held, where = units_of(summary), Findings(store.audit(audit)).held(documents), f"audit {audit}"
    elif subject is not None:
        units, held, where = subject.units, set(subject.names), subject.units.source
        if not {proposal.decision for proposal in proposals} <= set(WITHOUT_AUDIT):
            raise InputError(f"without an audit, `decision` must be one of {', '.join(WITHOUT_AUDIT)}.")
    else:
        raise InputError("`audit` must name an audit, or the corpus be given.")
    seen = set[str]()
    for document in documents:
        if document not in held:
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
    """Documents of a corpus that people excluded, by themselves or with their group, in force or waiting.

    Parameters
    ----------
    corpus : Corpus
        The whole one.
    source : str
        Its path, as a spec has it.

    Raises
    ------
    InputError
        If groups are excluded and the spec does not say which document is whose.
    """
    four_eyes = read_policy(store).four_eyes
    found: dict[str, Entry] = {}
    with _index(store) as index:
        groups = _excluded(index, CorpusUnits(corpus.hash, source, "group"), four_eyes)
        alone = _excluded(index, CorpusUnits(corpus.hash, source, "document"), four_eyes)
    if groups:
        if corpus.group is None:
            raise InputError(
                f"{len(groups)} groups of {source} are excluded by decision, and nothing says which document is "
                "whose: set `corpus.group`."
            )
        found = _with_group(corpus, groups)
    return found | {document: alone[document] for document in corpus.ids.tolist() if document in alone}


def _excluded(index: ReviewIndex, units: CorpusUnits, four_eyes: bool) -> dict[str, Entry]:
    states = (fold(written, "", name, four_eyes=four_eyes) for name, written in index.about(units).items())
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
    """Entries of the log, of one audit or document where named (from the index: fast for any length)."""
    with _index(store) as index:
        return index.page(audit, document, newest_first=newest_first, limit=limit, offset=offset)


def states(store: Store, audit: str, documents: Iterable[str] | None = None) -> dict[str, State]:
    """States of documents of an audit.

    Parameters
    ----------
    documents : iterable of str, optional
        All of these are in the result. Without it: those that have an entry, here or (as `earlier`) in an older
        audit of the same question, or that another audit of it proved sensitive. A document that is not in the
        result is open, at version 0.
    """
    four_eyes = read_policy(store).four_eyes
    with _index(store) as index:
        return _states(store, index, audit, None if documents is None else list(documents), four_eyes)


def snapshot(store: Store, audit: str) -> Snapshot:
    """States, policy and newest entry, read under one lock."""
    with _index(store) as index:
        policy = read_policy(store)
        return Snapshot(_states(store, index, audit, None, policy.four_eyes), policy, index.head)


def document_state(store: Store, audit: str, document: str) -> State:
    """State of one document of an audit."""
    return states(store, audit, [document])[document]


def head(store: Store) -> LogHead:
    """The newest entry of the log."""
    with _index(store) as index:
        return index.head


def _states(
    store: Store, index: ReviewIndex, audit: str, documents: Sequence[str] | None, four_eyes: bool
) -> dict[str, State]:
    newer, older = lineage(store, audit)
    summary = read_summary(store.audit(audit))
    units = units_of(summary)
    proved = _proved_elsewhere(store, summary)
    written = index.about(units, documents)
    groups = _excluded_with_group(store, index, units, four_eyes)
    if documents is None:
        named = list(dict.fromkeys([*_concerned(written, [audit, *older]), *groups, *proved]))
        held = Findings(store.audit(audit)).held(named)
        documents = [document for document in named if document in held]
    superseded = _newest_of(store, newer, documents)
    found = {}
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
        found[document] = replace(state, proved_by=proved.get(document))
    return found


def _proved_elsewhere(store: Store, summary: Summary) -> dict[str, str]:
    """What other audits of the same question proved to be above this one's margin; not those of its own list."""
    asked = find_attempt(store, summary.audit)
    attempts = () if asked is None else read_attempts(store, asked.question)
    own = {list_attempt(summary.audit), "" if asked is None else asked.attempt}
    others = [one for one in attempts if one.audit != summary.audit and not (one.part and one.attempt in own)]
    return proved_sensitive(store, others, margin=summary.spec.rule.margin, unit=summary.design.unit)


def _concerned(written: Mapping[str, Sequence[Entry]], audits: Sequence[str]) -> list[str]:
    """Documents with an entry in one of some audits, or that are excluded somewhere."""
    return [
        document
        for document, entries in written.items()
        if any(entry.audit in audits or is_exclusion(entry) for entry in entries)
    ]


def _excluded_with_group(
    store: Store, index: ReviewIndex, units: CorpusUnits, four_eyes: bool
) -> dict[str, Entry]:
    """Documents of a corpus whose group is excluded; nothing where units are groups, or nobody says whose."""
    groups = _excluded(index, replace(units, unit="group"), four_eyes) if units.unit == "document" else {}
    corpus = open_corpus(store.corpus(units.corpus)) if groups else None
    return {} if corpus is None else _with_group(corpus, groups)


def _with_group(corpus: Corpus, groups: Mapping[str, Entry]) -> dict[str, Entry]:
    """Documents of a corpus whose group is excluded; none where nobody says whose they are."""
    if corpus.group is None:
        return {}
    pairs = zip(corpus.ids.tolist(), corpus.group.tolist(), strict=True)
    return {document: groups[group] for document, group in pairs if group in groups}


def _newest_of(store: Store, audits: Sequence[str], documents: Sequence[str]) -> dict[str, str]:
    """The first of some audits that has each document; those that none has are left out."""
    newest: dict[str, str] = {}
    for audit in audits:
        left = [document for document in documents if document not in newest]
        if not left:
            break
        newest |= dict.fromkeys(Findings(store.audit(audit)).held(left), audit)
    return newest


def _earlier(entries: Sequence[Entry], older: Sequence[str], document: str, four_eyes: bool) -> Entry | None:
    """What was in force in the newest of some audits; an exclusion is no such thing, it holds everywhere."""
    for audit in older:
        decided = fold(entries, audit, document, four_eyes=four_eyes).decided
        if decided is not None and not is_exclusion(decided):
            return decided
    return None
