"""Which audits of a store asked the same question, and which of them is the newest."""

from __future__ import annotations

from functools import lru_cache

from ksdp.audit.errors import SpecError
from ksdp.audit.reviewing import question
from ksdp.audit.spec import parse_spec
from ksdp.storage.findings import read_summary
from ksdp.storage.store import Store

__all__ = ["lineage", "newer_audits", "older_audits"]


def newer_audits(store: Store, audit: str) -> list[str]:
    """Valid audits finished later that ask the same question (`ksdp.audit.reviewing.question`), newest first.

    Raises
    ------
    StoreError
        If there is no such finished audit.
    """
    return lineage(store, audit)[0]


def older_audits(store: Store, audit: str) -> list[str]:
    """The same for audits finished earlier."""
    return lineage(store, audit)[1]


def lineage(store: Store, audit: str) -> tuple[list[str], list[str]]:
    """Audits of the same question, newest first: the newer ones, the older ones."""
    read_summary(store.audit(audit))  # a finished audit, or an error that says so
    asked = {name: _question(store, name) for name in store.audits()}
    mine = asked[audit]
    alike = [
        (about[1:3], name) for name, about in asked.items() if about[0] == mine[0] and (about[3] or name == audit)
    ]
    order = [name for _, name in sorted(alike, reverse=True)]
    place = order.index(audit)
    return order[:place], order[place + 1 :]


def _question(store: Store, audit: str) -> tuple[str, str, int, bool]:
    file = store.audit(audit) / "audit.json"
    return _question_at(store, audit, file.stat().st_mtime_ns)


@lru_cache(maxsize=4096)
def _question_at(store: Store, audit: str, modified: int) -> tuple[str, str, int, bool]:
    """What an audit asked, when it was finished, and whether its controls held."""
    summary = read_summary(store.audit(audit))
    try:
        asked = question(parse_spec(summary["spec"]))
    except SpecError:  # of another version of ksdp: nothing is known to ask the same
        asked = audit
    return asked, summary["provenance"]["finished"], modified, summary["valid"]
