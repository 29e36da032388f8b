"""Reviews of a store: what was decided about which document, by whom and why.

::

    store/reviews/
      log.jsonl      the truth: one decision a line, only ever added to (`ksdp.storage.reviews.log`)
      head.json      the newest line
      policy.json    whether a second person must confirm
      index.sqlite   made from the log; rebuilt where it is missing or does not fit
      torn-*.bin     bytes of lines that a crash cut short, set aside by a person

`append` is the one way to record decisions: under one lock it reads the states, checks the rules of
`ksdp.audit.reviewing`, and adds to the log.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache

from ksdp.audit.errors import InputError, InvalidAudit, SpecError, StoreError
from ksdp.audit.reviewing import Decision, Entry, Proposal, State, Status, check_proposal, fold, question
from ksdp.storage.audits.queries import Findings
from ksdp.storage.findings import read_spec, read_summary
from ksdp.storage.reviews.index import ReviewIndex, open_index
from ksdp.storage.reviews.log import ChainReport, LogHead, add_lines, check_chain, locked, make_entry
from ksdp.storage.store import Store, write_json

__all__ = [
    "ChainReport",
    "Decision",
    "Entry",
    "LogHead",
    "Policy",
    "Proposal",
    "Snapshot",
    "State",
    "Status",
    "append",
    "check_chain",
    "document_state",
    "head",
    "newer_audits",
    "older_audits",
    "read_log",
    "read_policy",
    "snapshot",
    "states",
    "write_policy",
]


@dataclass(frozen=True, slots=True)
class Policy:
    """How decisions are made in a store."""

    four_eyes: bool = False
    """A second person must confirm `exclude`, `accept` and `withdraw`."""


def read_policy(store: Store) -> Policy:
    """The policy of a store; the default where none was set.

    Raises
    ------
    StoreError
        If the file is damaged: that is never read as "one person is enough".
    """
    file = store.root / "reviews" / "policy.json"
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        if set(said) != {"four_eyes"} or not isinstance(said["four_eyes"], bool):
            raise ValueError("other keys")
    except FileNotFoundError:
        return Policy()
    except (OSError, ValueError, TypeError) as error:
        raise StoreError("reviews/policy.json cannot be read; set the policy again.") from error
    return Policy(said["four_eyes"])


def write_policy(store: Store, policy: Policy) -> None:
    """Set the policy of a store. What is in the log is judged by it from now on."""
    write_json(store.root / "reviews" / "policy.json", asdict(policy))


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
    with locked(store.root) as log, open_index(log) as index:
        yield index


def append(store: Store, proposals: Sequence[Proposal], now: datetime) -> list[Entry]:
    """Record decisions by the store's policy, all or none of them. Returns the entries as the log has them.

    A crash while several are written can leave the first of them recorded.

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
    for audit, mine in by_audit.items():
        _check_audit(store, audit, [proposal.document for proposal in mine])
    four_eyes = read_policy(store).four_eyes
    with locked(store.root) as log, open_index(log) as index:
        if index.torn:
            raise StoreError(
                f"the last line of the review log was cut short ({index.torn} bytes, no entry); nothing is added "
                "behind it. `ksdp log --set-torn-aside` keeps the bytes in a file of their own."
            )
        for proposal in proposals:
            if proposal.saw is not None and not 0 <= proposal.saw <= index.head.number:
                raise InputError(
                    f"`saw` must be in 0 to {index.head.number}, the newest entry; got {proposal.saw}."
                )
        versions: dict[tuple[str, str], int] = {}
        for audit, mine in by_audit.items():
            found = _states(store, index, audit, [proposal.document for proposal in mine], four_eyes)
            for proposal in mine:
                check_proposal(proposal, found[proposal.document], four_eyes=four_eyes)
                versions[audit, proposal.document] = found[proposal.document].version
        entries: list[Entry] = []
        newest = index.head
        for proposal in proposals:
            entry = make_entry(
                newest,
                audit=proposal.audit,
                document=proposal.document,
                decision=proposal.decision,
                reason=proposal.reason.strip(),
                reviewer=proposal.reviewer.strip(),
                at=now,
                saw=versions[proposal.audit, proposal.document],
            )
            entries.append(entry)
            newest = LogHead(entry.number, entry.hash)
        if entries:
            add_lines(log, entries)
            index.sync()
    return entries


def _check_audit(store: Store, audit: str, documents: Sequence[str]) -> None:
    if not read_summary(store.audit(audit)).valid:
        raise InvalidAudit(f"the controls of audit {audit} failed: there is nothing to decide about.")
    held, seen = Findings(store.audit(audit)).held(documents), set()
    for document in documents:
        if document not in held:
            raise InputError(f"audit {audit} has no document {document!r}.")
        if document in seen:
            raise InputError(f"document {document!r} is named twice.")
        seen.add(document)


def read_log(
    store: Store,
    *,
    audit: str | None = None,
    document: str | None = None,
    newest_first: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> list[Entry]:
    """Entries of the log, of one audit or document where named (from the index: fast for any length).

    Raises
    ------
    StoreError
        If the log is broken. A torn last line is no entry and is passed over; `check_chain` reports it.
    """
    with _index(store) as index:
        return index.page(audit, document, newest_first=newest_first, limit=limit, offset=offset)


def states(store: Store, audit: str, documents: Iterable[str] | None = None) -> dict[str, State]:
    """States of documents of an audit.

    Parameters
    ----------
    documents : iterable of str, optional
        All of these are in the result. Without it: those that have an entry, here or (as `earlier`) in an older
        audit of the same question; a document that is not in the result is open, at version 0.

    Raises
    ------
    StoreError
        If there is no such finished audit, or the log is broken.
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
    newer, older = _lineage(store, audit)
    about: dict[tuple[str, str], list[Entry]] = {}
    for entry in index.about([audit, *older], documents):
        about.setdefault((entry.audit, entry.document), []).append(entry)
    if documents is None:
        named = list(dict.fromkeys(document for _, document in about))
        held = Findings(store.audit(audit)).held(named)
        documents = [document for document in named if document in held]
    superseded = _newest_of(store, newer, documents)
    return {
        document: fold(
            about.get((audit, document), ()),
            audit,
            document,
            four_eyes=four_eyes,
            superseded_by=superseded.get(document),
            earlier=_earlier(about, older, document, four_eyes),
        )
        for document in documents
    }


def _newest_of(store: Store, audits: Sequence[str], documents: Sequence[str]) -> dict[str, str]:
    """The first of some audits that has each document; those that none has are left out."""
    found: dict[str, str] = {}
    for audit in audits:
        left = [document for document in documents if document not in found]
        if not left:
            break
        found |= dict.fromkeys(Findings(store.audit(audit)).held(left), audit)
    return found


def _earlier(
    about: Mapping[tuple[str, str], Sequence[Entry]], older: Sequence[str], document: str, four_eyes: bool
) -> Entry | None:
    for audit in older:
        entries = about.get((audit, document))
        if entries and (decided := fold(entries, audit, document, four_eyes=four_eyes).decided):
            return decided
    return None


def newer_audits(store: Store, audit: str) -> list[str]:
    """Valid audits finished later that ask the same question (`ksdp.audit.reviewing.question`), newest first.

    Raises
    ------
    StoreError
        If there is no such finished audit.
    """
    return _lineage(store, audit)[0]


def older_audits(store: Store, audit: str) -> list[str]:
    """The same for audits finished earlier."""
    return _lineage(store, audit)[1]


def _lineage(store: Store, audit: str) -> tuple[list[str], list[str]]:
    """Audits of the same question, newest first: the newer ones, the older ones."""
    read_summary(store.audit(audit))  # a finished audit, or an error that says so
    asked = {name: _asked(store, name) for name in store.audits()}
    mine = asked[audit]
    for name in (name for name, about in asked.items() if about[0] == mine[0] and about[3] is None):
        read_summary(store.audit(name))  # an error that says why: a look that is not counted would be hidden
    alike = [
        (about[1:3], name) for name, about in asked.items() if about[0] == mine[0] and (about[3] or name == audit)
    ]
    order = [name for _, name in sorted(alike, reverse=True)]
    place = order.index(audit)
    return order[:place], order[place + 1 :]


def _asked(store: Store, audit: str) -> tuple[str, str, int, bool | None]:
    file = store.audit(audit) / "audit.json"
    return _asked_at(store, audit, file.stat().st_mtime_ns)


@lru_cache(maxsize=4096)
def _asked_at(store: Store, audit: str, modified: int) -> tuple[str, str, int, bool | None]:
    """What an audit asked, when it was finished, and whether its controls held; None where that cannot be read."""
    try:
        summary = read_summary(store.audit(audit))
    except StoreError:  # of another version of ksdp: it matters where it asks the same
        return _question_of_other_version(store, audit), "", modified, None
    return question(summary.spec), summary.provenance.finished, modified, summary.valid


def _question_of_other_version(store: Store, audit: str) -> str:
    try:
        return question(read_spec(store.audit(audit)))
    except (SpecError, StoreError):  # nothing is known to ask the same
        return audit
