"""Pages and forms of the review: the queue, the log, decisions, texts, more runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request

from ksdp.dashboards.addresses import PAGE_ROWS, Listing, Paged, page_number, whole_number
from ksdp.dashboards.audits.pages import MoreRuns, read_more_runs, require_audit, wanted
from ksdp.storage.audits.history import Brief, read_history, read_summary
from ksdp.storage.audits.ledger import read_ledger
from ksdp.storage.audits.queries import Filter, Findings, Row
from ksdp.storage.findings import Summary
from ksdp.storage.reviews.decisions import (
    Decision,
    Entry,
    Policy,
    Proposal,
    State,
    Status,
    append,
    head,
    newest_audits,
    read_log,
    read_policy,
    states,
)
from ksdp.storage.reviews.document_text import TextAccess, read_accesses, record_access
from ksdp.storage.reviews.log import ChainReport, LogHead, check_chain
from ksdp.storage.store import InputError, KsdpError, Store

_FIELDS = 20_000

Resolve = Callable[[str, str], str]
StartMoreRuns = Callable[[str], None]


@dataclass(frozen=True)
class Actions:
    """Actions of the pages outside the store; None if they are not configured."""

    resolve: Resolve | None = None
    """Text of a document: (audit, document) -> text; a `KsdpError` where there is none."""
    more_runs: StartMoreRuns | None = None
    """Start the more runs that are decided for documents of an audit."""
    clock: Callable[[], datetime] = datetime.now


@dataclass(frozen=True)
class Form:
    """Form that was sent."""

    values: dict[str, list[str]]

    def one(self, name: str, default: str = "") -> str:
        """The only value of a field."""
        values = self.values.get(name, [default])
        if len(values) != 1:
            raise InputError(f"`{name}` was sent {len(values)} times.")
        return values[0]

    def all(self, name: str) -> list[str]:
        """All values of a field."""
        return self.values.get(name, [])


async def read_form(request: Request) -> Form:
    """Read a urlencoded body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InputError("A form must be sent as application/x-www-form-urlencoded.")
    try:
        body = (await request.body()).decode("ascii")
        return Form(parse_qs(body, keep_blank_values=True, strict_parsing=bool(body), max_num_fields=_FIELDS))
    except ValueError as error:
        raise InputError("The form cannot be read.") from error


def safe_path(text: str, default: str) -> str:
    """An address of ours to go on to; the default for anything that is not one.

    >>> safe_path("/queue?page=2", "/"), safe_path("//elsewhere", "/"), safe_path("https://elsewhere/", "/")
    ('/queue?page=2', '/', '/')
    """
    parts = urlsplit(text)
    ours = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if ours and not parts.scheme and not parts.netloc else default


def record(store: Store, audit: str, form: Form, reviewer: str, actions: Actions) -> list[Entry]:
    """Record what a form decides about one document or several."""
    try:
        decision = Decision(form.one("note") or form.one("decision"))
    except ValueError as error:
        raise InputError("Choose what is decided.") from error
    documents, saw = form.all("document"), form.all("saw")
    if len(documents) != len(saw):
        raise InputError("Each `document` must have a `saw`.")
    pairs: dict[str, str | int] = dict(zip(documents, saw, strict=True))
    if form.one("boxes") == "1":
        pairs = {document: pairs[document] for document in form.all("chosen") if document in pairs}
    if form.one("every") == "1":
        seen = whole_number(form.one("seen"), "seen")
        pairs = dict.fromkeys(_listed(store, audit, parse_qs(urlsplit(form.one("back")).query)), seen)
    if not pairs:
        raise InputError("Choose at least one document.")
    reason = form.one("reason").replace("\r\n", "\n")
    to = (form.one("owner"), form.one("due"))
    if decision is not Decision.ASSIGN and any(to):
        raise InputError("An owner and a due day are recorded by Assign. Press it, or empty both fields.")
    proposals = [
        Proposal(audit, document, decision, reason, reviewer, whole_number(str(version), "saw"), *to)
        for document, version in pairs.items()
    ]
    entries = append(store, proposals, actions.clock())
    if decision is Decision.MORE_RUNS and actions.more_runs is not None:
        with suppress(KsdpError):  # the page offers to start them, and says then why they do not
            actions.more_runs(audit)
    return entries


def _listed(store: Store, audit: str, query: Mapping[str, list[str]]) -> list[str]:
    """All documents of a list of the queue, however many pages it has."""
    parameters = {name: values[-1] for name, values in query.items()}
    places = _places(store, audit, _stamp(store, audit), head(store), read_policy(store))
    shown = parameters["show"] if parameters.get("show") in SHOWN else "open"
    page = Findings(store.audit(audit)).page(_filter(places, shown, Listing.read(parameters)), limit=_FIELDS)
    if page.total > _FIELDS:
        raise InputError(f"These are {page.total:,} documents; at most {_FIELDS:,} are decided at once.")
    return [row.document for row in page.rows]


def resolve_text(store: Store, audit: str, document: str, reviewer: str, actions: Actions) -> str:
    """Fetch the text of a document, after logging the access."""
    if actions.resolve is None:
        raise LookupError("No resolver of texts is configured.")
    record_access(store, audit, document, reviewer, actions.clock())
    return actions.resolve(audit, document)


@dataclass(frozen=True)
class LogPage(Paged):
    """Contents of the page."""

    kind: str
    """`decisions` or `looks`."""
    entries: tuple[Entry, ...]
    looks: tuple[TextAccess, ...]
    looks_broken: int | None
    head: LogHead
    checked: ChainReport | None
    page: int


def read_log_page(store: Store, query: Mapping[str, str]) -> LogPage:
    """Read the page."""
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
    )


SHOWN = ("open", "waiting", "more-runs", "decided", "assigned")
"""Filters of the list: nothing decided; a second person is awaited; more runs are wanted; decided; owned."""


@dataclass(frozen=True)
class Pending:
    """An audit and how many of its documents stand where."""

    brief: Brief
    counts: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class QueuePage(Paged):
    """Contents of the page."""

    audits: tuple[Pending, ...]
    chosen: Pending | None
    superseded: bool
    """The chosen audit is not the newest of its question."""
    shown: str
    listing: Listing
    rows: tuple[Row, ...]
    reasons: Sequence[tuple[str, str, int, float, float]]
    """All that may be listed, grouped by verdict and strongest statistic."""
    states: Mapping[str, State]
    policy: Policy
    head: int
    """Number of the newest entry of the log: what whoever decides about all of a list has seen."""
    summary: Summary | None
    more: MoreRuns | None = None
    """More runs for documents of the chosen audit."""
    wanted: bool = False
    """Some are wanted that are not under way."""
    part_of: str | None = None
    """The whole that the chosen audit is a part of; nobody signs a part by itself."""
    damaged: tuple[str, ...] = ()
    """A sentence for each audit that cannot be read."""
    overdue: tuple[str, ...] = ()
    """Documents whose owner's last day is over, which come first."""

    def at(self, page: int) -> dict[str, Any]:
        """Query of another page of the list."""
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
    """Documents by where they stand, for all that the log or another audit says something of; once an entry."""
    places: dict[str, list[str]] = {name: [] for name in (*SHOWN, "proved")}
    for document, state in states(store, audit).items():
        place = _place(state)
        places[place].append(document)
        if place != "decided" and state.assigned:
            places["assigned"].append(document)
        if place == "open" and state.proved_by:
            places["proved"].append(document)
    return {name: tuple(documents) for name, documents in places.items()}


def _filter(places: Mapping[str, tuple[str, ...]], shown: str, listing: Listing) -> Filter:
    """Open documents are those that nothing is decided about and that are not clear, here or in another audit."""
    if shown == "assigned":
        even = places["proved"] + places["waiting"] + places["more-runs"]
        return replace(listing, only=places[shown], but=None if listing.verdict else "clear", even=even)
    if shown == "open":
        without = places["waiting"] + places["more-runs"] + places["decided"]
        but = None if listing.verdict else "clear"
        return replace(listing, without=without, but=but, even=places["proved"])
    return replace(listing, only=places[shown])


@lru_cache(maxsize=256)
def _counts(store: Store, audit: str, _stamp: int, _head: LogHead, _policy: Policy) -> Mapping[str, int]:
    places = _places(store, audit, _stamp, _head, _policy)
    findings = Findings(store.audit(audit))

    def undecided(verdict: str | None) -> int:
        return findings.page(_filter(places, "open", Listing(verdict)), limit=1).total

    counts = {name: len(places[name]) for name in SHOWN}
    assigned = findings.page(_filter(places, "assigned", Listing()), limit=1).total if counts["assigned"] else 0
    return counts | {"open": undecided(None), "sensitive": undecided("sensitive"), "assigned": assigned}


def overdue_of(store: Store, audit: str, today: date) -> list[Entry]:
    """Assignments of documents of an audit whose last day is over, the longest overdue first."""
    places = _places(store, audit, _stamp(store, audit), head(store), read_policy(store))
    if not places["assigned"]:
        return []
    rows = Findings(store.audit(audit)).page(_filter(places, "assigned", Listing()), limit=_FIELDS).rows
    given = [state.assigned for state in states(store, audit, [row.document for row in rows]).values()]
    late = [entry for entry in given if entry and "" < entry.due < today.isoformat()]
    return sorted(late, key=lambda entry: (entry.due, entry.number))


def pending_of(store: Store, entry: Brief) -> Pending:
    """How many documents of an audit stand where; `sensitive` are those of `open` that were proved given away."""
    return Pending(entry, _counts(store, entry.audit, _stamp(store, entry.audit), head(store), read_policy(store)))


def _stamp(store: Store, audit: str) -> int:
    return (store.audit(audit) / "audit.json").stat().st_mtime_ns


def read_queue_page(store: Store, query: Mapping[str, str], today: date) -> QueuePage:
    """Read the page."""
    listing, shown = Listing.read(query), query.get("show") or "open"
    if shown not in SHOWN:
        raise InputError(f"`show` must be one of {', '.join(SHOWN)}.")
    policy, history = read_policy(store), read_history(store)
    briefs = history.audits
    audits = [pending_of(store, entry) for entry in newest_audits(store)]
    named = query.get("audit")
    if named:
        require_audit(store, named)
        chosen = next((pending for pending in audits if pending.brief.audit == named), None)
        entry = next((e for e in briefs if e.audit == named), None)
        chosen = chosen or (pending_of(store, entry) if entry else None)
    else:
        chosen = next((pending for pending in audits if pending.counts[shown]), audits[0] if audits else None)
    if chosen is None:
        empty = QueuePage((), None, False, shown, listing, (), (), {}, policy, 0, None, total=0)
        return replace(empty, damaged=history.damaged)
    audit = chosen.brief.audit
    places = _places(store, audit, _stamp(store, audit), head(store), policy)
    late = tuple(entry.document for entry in overdue_of(store, audit, today))
    findings, selection = Findings(store.audit(audit)), replace(_filter(places, shown, listing), first=late)
    page_rows = findings.page(selection, offset=listing.offset, limit=PAGE_ROWS)
    more = read_more_runs(store, audit)
    idle = bool(places["more-runs"]) and not (more and more.under_way)
    return QueuePage(
        audits=tuple(audits),
        chosen=chosen,
        superseded=all(pending.brief.audit != audit for pending in audits),
        shown=shown,
        listing=listing,
        rows=page_rows.rows,
        reasons=findings.reasons(_filter(places, shown, Listing())),
        head=head(store).number,
        states=states(store, audit, [row.document for row in page_rows.rows]),
        total=page_rows.total,
        policy=policy,
        summary=read_summary(store.audit(audit)),
        more=more,
        wanted=idle and wanted(store, audit),
        part_of=_part_of(store, audit),
        damaged=history.damaged,
        overdue=late,
    )


def _part_of(store: Store, audit: str) -> str | None:
    ledger = read_ledger(store)
    proposed_by = ledger.proposing(audit)
    if audit == proposed_by or audit in ledger.deciding:
        return None
    return f"an audit of the list that audit {proposed_by} proposed"
