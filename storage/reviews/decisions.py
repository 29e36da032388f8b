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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError, InvalidAudit, StoreError
from ksdp.audit.reviewing import Decision as Decision
from ksdp.audit.reviewing import Entry as Entry
from ksdp.audit.reviewing import Proposal as Proposal
from ksdp.audit.reviewing import State as State
from ksdp.audit.reviewing import Status as Status
from ksdp.audit.reviewing import check_proposal, fold
from ksdp.audit.visible_text import visible as visible
from ksdp.storage.audits.queries import Findings
from ksdp.storage.reviews.index import ReviewIndex, open_index
from ksdp.storage.reviews.lineage import lineage
from ksdp.storage.reviews.log import LogHead, add_lines, locked, make_entry
from ksdp.storage.reviews.policy import Policy, read_policy
from ksdp.storage.reviews.signatures import read_signatures, sign_entries
from ksdp.storage.store import Store
from ksdp.storage.summaries import read_summary


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


def append(
    store: Store, proposals: Sequence[Proposal], now: datetime, *, key: Ed25519PrivateKey | None = None
) -> list[Entry]:
    """Record decisions by the store's policy, all or none of them. Returns the entries as the log has them.

    A crash while several are written can leave the first of them recorded.

    Parameters
    ----------
    key : Ed25519PrivateKey, optional
        Of the person who decides; the entries are signed with it.

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
    policy = read_policy(store)
    if policy.signed and key is None:
        raise InputError("this store takes signed decisions only: `ksdp decide --key`.")
    with locked(store.root) as log, open_index(log) as index:
        _check_seen(index, proposals)
        versions: dict[tuple[str, str], int] = {}
        for audit, mine in by_audit.items():
            documents = [proposal.document for proposal in mine]
            current = _states(store, index, audit, documents, policy.four_eyes)
            for proposal in mine:
                check_proposal(proposal, current[proposal.document], four_eyes=policy.four_eyes)
                if policy.signed:
                    _check_second_key(log, proposal, current[proposal.document], key)
                versions[audit, proposal.document] = current[proposal.document].version
        entries = _chained(index.head, proposals, versions, now)
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


def _chained(
    newest: LogHead, proposals: Sequence[Proposal], versions: Mapping[tuple[str, str], int], now: datetime
) -> list[Entry]:
    """The entries of some decisions, each with the hash of the one before; `versions` by audit and document."""
    entries: list[Entry] = []
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
    return entries


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
    newer, older = lineage(store, audit)
    entries: dict[tuple[str, str], list[Entry]] = {}
    for entry in index.about([audit, *older], documents):
        entries.setdefault((entry.audit, entry.document), []).append(entry)
    if documents is None:
        named = list(dict.fromkeys(document for _, document in entries))
        held = Findings(store.audit(audit)).held(named)
        documents = [document for document in named if document in held]
    superseded = _newest_of(store, newer, documents)
    return {
        document: fold(
            entries.get((audit, document), ()),
            audit,
            document,
            four_eyes=four_eyes,
            superseded_by=superseded.get(document),
            earlier=_earlier(entries, older, document, four_eyes),
        )
        for document in documents
    }


def _newest_of(store: Store, audits: Sequence[str], documents: Sequence[str]) -> dict[str, str]:
    """The first of some audits that has each document; those that none has are left out."""
    newest: dict[str, str] = {}
    for audit in audits:
        left = [document for document in documents if document not in newest]
        if not left:
            break
        newest |= dict.fromkeys(Findings(store.audit(audit)).held(left), audit)
    return newest


def _earlier(
    about: Mapping[tuple[str, str], Sequence[Entry]], older: Sequence[str], document: str, four_eyes: bool
) -> Entry | None:
    for audit in older:
        entries = about.get((audit, document))
        if entries and (decided := fold(entries, audit, document, four_eyes=four_eyes).decided):
            return decided
    return None
