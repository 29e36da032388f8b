"""Screenings: rounds of audit and exclusion, and how each ended."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ksdp.dashboards.addresses import PAGE_ROWS, page_number
from ksdp.storage.audits.history import screen_ids, valid_audit
from ksdp.storage.audits.screens import ScreenSummary, read_excluded, read_screen
from ksdp.storage.errors import StoreError
from ksdp.storage.store import Store


@dataclass(frozen=True)
class ScreensPage:
    """All screenings, newest first."""

    screens: tuple[ScreenSummary, ...]
    total: int
    page: int
    pages: int


@dataclass(frozen=True)
class Excluded:
    """A document that was left out."""

    round: int
    document: str
    statistic: str
    distance: float
    log10_adjusted: float


@dataclass(frozen=True)
class ScreenPage:
    """One screening."""

    screen: ScreenSummary
    rows: tuple[Excluded, ...]
    total: int
    page: int
    pages: int
    finished: frozenset[str]
    """Its audits that are in the store."""


def read_screens_page(store: Store, query: Mapping[str, str]) -> ScreensPage:
    """Read the list."""
    ids, page = screen_ids(store), page_number(query)
    shown = ids[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    screens = tuple(_readable(store, shown))
    return ScreensPage(screens, len(ids), page, max(1, -(-len(ids) // PAGE_ROWS)))


def _readable(store: Store, ids: list[str]) -> Iterator[ScreenSummary]:
    """As in the list of audits, one that cannot be read is left out; its own page says why."""
    for name in ids:
        with contextlib.suppress(StoreError):
            yield read_screen(store, name)


def read_screen_page(store: Store, screen: str, query: Mapping[str, str]) -> ScreenPage:
    """Read one."""
    if not valid_audit(screen) or screen not in screen_ids(store):
        raise LookupError("There is no such screening in this store.")
    stored, page = read_screen(store, screen), page_number(query)
    try:
        table = read_excluded(store, screen)
    except StoreError:
        table = None
    total = 0 if table is None else len(table)
    rows = [] if table is None else table.slice((page - 1) * PAGE_ROWS, PAGE_ROWS).to_pylist()
    kept = {done.audit for done in stored.rounds if done.audit in set(store.audits())}
    return ScreenPage(
        screen=stored,
        rows=tuple(
            Excluded(r["round"], r["document"], r["statistic"], r["distance"], r["log10_adjusted_p"]) for r in rows
        ),
        total=total,
        page=page,
        pages=max(1, -(-total // PAGE_ROWS)),
        finished=frozenset(kept),
    )
