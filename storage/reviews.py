"""Reviews of a store: what was decided about which document, by whom and why.

::

    store/reviews/
      log.jsonl      the truth: one decision a line, only ever added to (`ksdp.storage.review_log`)
      head.json      the newest line
      policy.json    whether a second person must confirm
      index.sqlite   made from the log; rebuilt where it is missing or does not fit
      torn-*.bin     bytes of lines that a crash cut short, set aside by a person

`decide` is the one way to record decisions: under one lock it reads the states, checks the rules of
`ksdp.audit.reviewing`, and adds to the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ksdp.audit.reviewing import Entry, Proposal, State
from ksdp.storage.review_log import ChainReport, LogHead, check_chain
from ksdp.storage.store import Store

__all__ = [
    "ChainReport",
    "LogHead",
    "Policy",
    "append",
    "check_chain",
    "document_state",
    "head",
    "newer_audits",
    "read_log",
    "read_policy",
    "states",
    "write_policy",
]


@dataclass(frozen=True, slots=True)
class Policy:
    """How decisions are made in a store."""

    four_eyes: bool = False
    """A second person must confirm `exclude`, `accept` and `withdraw`."""


def read_policy(store: Store) -> Policy:
    """The policy of a store; the default where none was set."""
    raise NotImplementedError


def write_policy(store: Store, policy: Policy) -> None:
    """Set the policy of a store. What is in the log is judged by it from now on."""
    raise NotImplementedError


def append(store: Store, proposals: Sequence[Proposal], now: datetime) -> list[Entry]:
    """Record decisions, all or none of them, by the store's policy. Returns the entries as the log has them.

    Raises
    ------
    StaleDecision
        If one was made without having seen what is in force by now (`newer` is the entry not seen).
    InputError
        If one is refused by `ksdp.audit.reviewing.check_proposal`, or names a document twice.
    StoreError
        If there is no such finished audit or document in it, or the log is broken or torn.
    """
    raise NotImplementedError


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
    raise NotImplementedError


def states(store: Store, audit: str) -> dict[str, State]:
    """States of all documents of an audit that have an entry, here or (as `earlier`) in an older audit.

    A document that is not in the result is open, at version 0, unless a newer audit holds it: ask
    `document_state`.
    """
    raise NotImplementedError


def document_state(store: Store, audit: str, document: str) -> State:
    """State of one document of an audit."""
    raise NotImplementedError


def newer_audits(store: Store, audit: str) -> list[str]:
    """Finished audits that ask the same question (`ksdp.audit.reviewing.question`), newest first, newer ones only."""
    raise NotImplementedError


def head(store: Store) -> LogHead:
    """The newest entry of the log."""
    raise NotImplementedError
