"""The queue: documents to decide about, of the newest valid audit of every question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ksdp.dashboards.addresses import PAGE_ROWS, Listing
from ksdp.dashboards.audits.audit_page import require_audit
from ksdp.dashboards.audits.more_runs import MoreRuns, read_more_runs, wanted
from ksdp.storage.audits.history import Brief, read_history, read_summary, views_of
from ksdp.storage.audits.queries import Filter, Findings, Row
from ksdp.storage.audits.screens import screen_of
from ksdp.storage.errors import InputError
from ksdp.storage.findings import Summary
from ksdp.storage.reviews.decisions import Policy, State, Status, head, read_policy, states
from ksdp.storage.reviews.log import LogHead
from ksdp.storage.store import Store

SHOWN = ("open", "waiting", "more-runs", "decided")
"""What may be listed: nothing decided; a second person must confirm; more runs are wanted; decided."""


@dataclass(frozen=True)
class Pending:
    """An audit and how many of its documents stand where."""

    brief: Brief
    counts: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class QueuePage:
    """What the page shows."""

    audits: tuple[Pending, ...]
    chosen: Pending | None
    superseded: bool
    """The chosen audit is not the newest of its question."""
    shown: str
    listing: Listing
    rows: tuple[Row, ...]
    states: Mapping[str, State]
    total: int
    pages: int
    policy: Policy
    summary: Summary | None
    more: MoreRuns | None = None
    """More runs for documents of the chosen audit."""
    wanted: bool = False
    """Some are wanted that are not under way."""
    part_of: str | None = None
    """What the chosen audit is a part of, which nobody signs by itself."""

    def at(self, page: int) -> dict[str, Any]:
        """What an address says of another page of it."""
        named = {"audit": self.chosen.brief.audit if self.chosen else None}
        return named | {"show": None if self.shown == "open" else self.shown} | self.listing.at(page)


def _place(state: State) -> str:
    if state.status is Status.WAITING:
        return "waiting"
    if state.decided is None:
        return "open"
    return "more-runs" if state.decided.decision == "more-runs" else "decided"


@lru_cache(maxsize=64)
def _places(store: Store, audit: str, _stamp: int, _head: LogHead, _policy: Policy) -> dict[str, tuple[str, ...]]:
    """Documents by where they stand, for all that anything was decided about; once for each entry of the log."""
    places: dict[str, list[str]] = {name: [] for name in SHOWN}
    for document, state in states(store, audit).items():
        places[_place(state)].append(document)
    return {name: tuple(documents) for name, documents in places.items()}


def _filter(places: Mapping[str, tuple[str, ...]], shown: str, listing: Listing) -> Filter:
    """Open documents are sensitive ones that nothing is decided about, unless another verdict is asked for."""
    if shown == "open":
        without = places["waiting"] + places["more-runs"] + places["decided"]
        verdict = listing.verdict or "sensitive"
        return Filter(verdict, listing.search, listing.sort, listing.descending, without=without)
    return Filter(listing.verdict, listing.search, listing.sort, listing.descending, only=places[shown])


@lru_cache(maxsize=256)
def _counts(store: Store, audit: str, _stamp: int, _head: LogHead, _policy: Policy) -> Mapping[str, int]:
    places = _places(store, audit, _stamp, _head, _policy)
    findings = Findings(store.audit(audit))
    usual = Listing()
    return {
        name: findings.page(_filter(places, name, usual), limit=1).total if name == "open" else len(places[name])
        for name in SHOWN
    }


def _newest(history: list[Brief]) -> list[Brief]:
    """The newest valid audit of each series."""
    return list({entry.series: entry for entry in reversed(history) if entry.valid}.values())[::-1]


def read_queue_page(store: Store, query: Mapping[str, str]) -> QueuePage:
    """Read the page.

    Parameters
    ----------
    query : mapping
        `audit` (else the first with an open document), `show` (of `SHOWN`), and what `Listing` reads.
    """
    listing, shown = Listing.read(query), query.get("show") or "open"
    if shown not in SHOWN:
        raise InputError(f"`show` must be one of {', '.join(SHOWN)}.")
    policy, newest = read_policy(store), head(store)

    def stamp(audit: str) -> int:
        return (store.audit(audit) / "audit.json").stat().st_mtime_ns

    def pending(entry: Brief) -> Pending:
        return Pending(entry, _counts(store, entry.audit, stamp(entry.audit), newest, policy))

    history = read_history(store)
    audits = sorted((pending(entry) for entry in _newest(history)), key=lambda p: p.brief.finished, reverse=True)
    named = query.get("audit")
    if named:
        require_audit(store, named)
        chosen = next((one for one in audits if one.brief.audit == named), None)
        entry = next((e for e in history if e.audit == named), None)
        chosen = chosen or (pending(entry) if entry else None)
    else:
        chosen = next((one for one in audits if one.counts[shown]), audits[0] if audits else None)
    if chosen is None:
        return QueuePage((), None, False, shown, listing, (), {}, 0, 1, policy, None)
    audit = chosen.brief.audit
    places = _places(store, audit, stamp(audit), newest, policy)
    page_rows = Findings(store.audit(audit)).page(
        _filter(places, shown, listing), offset=listing.offset, limit=PAGE_ROWS
    )
    more = read_more_runs(store, audit)
    idle = bool(places["more-runs"]) and not (more and more.under_way)
    return QueuePage(
        audits=tuple(audits),
        chosen=chosen,
        superseded=all(one.brief.audit != audit for one in audits),
        shown=shown,
        listing=listing,
        rows=page_rows.rows,
        states=states(store, audit, [row.document for row in page_rows.rows]),
        total=page_rows.total,
        pages=max(1, -(-page_rows.total // PAGE_ROWS)),
        policy=policy,
        summary=read_summary(store.audit(audit)),
        more=more,
        wanted=idle and wanted(store, audit),
        part_of=_part_of(store, audit),
    )


def _part_of(store: Store, audit: str) -> str | None:
    if screen := screen_of(store, audit):
        return f"a round of screen {screen.screen}"
    views = views_of(store, audit)
    return f"one of the views {views}" if views else None
