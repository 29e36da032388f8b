"""Which audits of a store asked the same question, and which of them is the newest."""

from __future__ import annotations

from functools import lru_cache

from ksdp.audit.errors import SpecError, StoreError
from ksdp.audit.reviewing import question
from ksdp.storage.findings import read_spec
from ksdp.storage.store import Store
from ksdp.storage.summaries import read_summary


def newer_audits(store: Store, audit: str) -> list[str]:
    """Valid audits finished later that ask the same question (`ksdp.audit.reviewing.question`), newest first."""
    return lineage(store, audit)[0]


def lineage(store: Store, audit: str) -> tuple[list[str], list[str]]:
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
