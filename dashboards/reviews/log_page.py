"""The log of decisions, newest first, and of who read which text; the chain is checked on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ksdp.dashboards.addresses import PAGE_ROWS, page_number
from ksdp.storage.reviews.decisions import Entry, head, read_log
from ksdp.storage.reviews.document_text import TextAccess, read_accesses
from ksdp.storage.reviews.log import ChainReport, LogHead, check_chain
from ksdp.storage.store import Store


@dataclass(frozen=True)
class LogPage:
    """What the page shows."""

    kind: str
    """`decisions` or `looks`."""
    entries: tuple[Entry, ...]
    looks: tuple[TextAccess, ...]
    looks_broken: int | None
    head: LogHead
    checked: ChainReport | None
    total: int
    page: int
    pages: int


def read_log_page(store: Store, query: Mapping[str, str]) -> LogPage:
    """Read the page.

    Parameters
    ----------
    query : mapping
        `kind` (`looks`, else decisions), `check=1`, `page`.
    """
    page, kind = page_number(query), "looks" if query.get("kind") == "looks" else "decisions"
    newest, first = head(store), (page - 1) * PAGE_ROWS
    looks: tuple[TextAccess, ...] = ()
    entries: tuple[Entry, ...] = ()
    broken, total = None, newest.number
    if kind == "looks":
        accesses, broken = read_accesses(store)
        looks, total = tuple(accesses[::-1][first : first + PAGE_ROWS]), len(accesses)
    else:
        entries = tuple(read_log(store, newest_first=True, limit=PAGE_ROWS, offset=first))
    return LogPage(
        kind=kind,
        entries=entries,
        looks=looks,
        looks_broken=broken,
        head=newest,
        checked=check_chain(store.root) if query.get("check") == "1" else None,
        total=total,
        page=page,
        pages=max(1, -(-total // PAGE_ROWS)),
    )
