"""One document: every statistic with and without it, what fresh runs say, what was decided, what is like it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ksdp.dashboards.addresses import Listing, whole_number
from ksdp.dashboards.audits.audit_model import Picture, picture
from ksdp.dashboards.audits.audit_page import require_audit
from ksdp.dashboards.audits.more_runs import MoreRuns, read_more_runs
from ksdp.storage.audits.documents import (
    Neighbour,
    corpus_entries,
    held_out_distance,
    neighbours,
    read_arms,
    stored_statistics,
    values_bytes,
)
from ksdp.storage.audits.history import Brief, read_history, read_summary
from ksdp.storage.audits.queries import Findings, Row
from ksdp.storage.errors import StoreError
from ksdp.storage.finding_tables import EffectRow, StatisticTestRow
from ksdp.storage.findings import Summary
from ksdp.storage.reviews.decisions import Entry, Policy, State, document_state, read_log, read_policy
from ksdp.storage.store import Store

_AT_ONCE = 300 * 2**20
"""Bytes of values that a page reads without being asked; about half a second."""
_PICTURES = 12
_ENTRIES = 20_000_000
_EARLIER = 12


@dataclass(frozen=True)
class Earlier:
    """The same document in another audit."""

    brief: Brief
    row: Row
    same_corpus: bool


@dataclass(frozen=True)
class Position:
    """The document's place in the list it was opened from, and its neighbours there."""

    at: int
    total: int
    before: str | None
    after: str | None


@dataclass(frozen=True, eq=False)
class DocumentPage:
    """What the page shows."""

    summary: Summary
    row: Row
    tests: tuple[StatisticTestRow, ...]
    pictures: tuple[Picture, ...]
    undrawn: tuple[str, ...]
    """Statistics whose picture has to be asked for; the scores of learners are not stored and have none."""
    held_out: float | None
    """D without the bias of choosing; None where it would take long, or values are not stored."""
    no_values: str | None
    """Why there are no pictures."""
    chosen: str | None
    """The statistic that was asked for."""
    effects: tuple[EffectRow, ...]
    earlier: tuple[Earlier, ...]
    alike: tuple[Neighbour, ...] | None
    """None where they have to be asked for."""
    no_alike: str | None
    state: State
    policy: Policy
    log: tuple[Entry, ...]
    more: MoreRuns | None
    """More runs for documents of this audit."""
    wanted: bool
    """They are wanted for this one, and not under way."""
    listing: Listing
    position: Position | None

    @property
    def context(self) -> dict[str, Any]:
        """What an address says of the list it was opened from."""
        return ({"at": str(self.position.at)} if self.position else {}) | self.listing.query


def _wanted(summary: Summary, tests: tuple[StatisticTestRow, ...], chosen: str | None) -> list[str]:
    """Strongest evidence first, the paper's own strongest among the first; as many as fit."""
    stored = stored_statistics(summary)
    names = [test.statistic for test in tests if test.statistic in stored]
    paper = [name for name in names if summary.statistics[name].family.startswith("paper")]
    if chosen is not None:
        return [chosen] if chosen in stored else []
    first = dict.fromkeys(names[:1] + paper[:1])
    names = [*first, *(name for name in names if name not in first)]
    fit = max(1, int(_AT_ONCE // max(values_bytes(summary, 1), 1)))
    return names[: min(fit, _PICTURES)]


def _pictures(
    store: Store, summary: Summary, row: Row, tests: tuple[StatisticTestRow, ...], names: list[str]
) -> tuple[tuple[Picture, ...], str | None]:
    known = {test.statistic: test for test in tests}
    try:
        curves = read_arms(store, summary, row.document, row.place, names)
    except StoreError as error:
        return (), str(error)
    drawn = [picture(summary, curve, known[curve.statistic]) for curve in curves]
    return tuple(one for one in drawn if one is not None), None


def _earlier(store: Store, summary: Summary, document: str) -> tuple[Earlier, ...]:
    """Other audits that hold a document of this id in a corpus of the same path."""
    path, earlier = summary.spec.corpus.path, []
    for entry in read_history(store):
        if entry.audit == summary.audit or entry.corpus_path != path:
            continue
        row = Findings(store.audit(entry.audit)).document(document)
        if row is not None:
            earlier.append(Earlier(entry, row, entry.corpus == summary.corpus))
        if len(earlier) == _EARLIER:
            break
    return tuple(earlier)


def _position(findings: Findings, listing: Listing, at: int | None, document: str) -> Position | None:
    """Its neighbours in the list; None where it was not opened from one, or the list has changed."""
    if at is None:
        return None
    first = max(at - 1, 0)
    page = findings.page(listing, offset=first, limit=3)
    ids = [row.document for row in page.rows]
    if document not in ids:
        return None
    here = ids.index(document)
    return Position(
        at=first + here,
        total=page.total,
        before=ids[here - 1] if here else None,
        after=ids[here + 1] if here + 1 < len(ids) else None,
    )


def _alike(
    store: Store, summary: Summary, document: str, asked: bool
) -> tuple[tuple[Neighbour, ...] | None, str | None]:
    folder = store.corpus(summary.corpus)
    try:
        if not asked and corpus_entries(folder) > _ENTRIES:
            return None, None
        return tuple(neighbours(folder, document)), None
    except StoreError as error:
        return (), str(error)


def read_document_page(store: Store, audit: str, query: Mapping[str, str]) -> DocumentPage:
    """Read the page.

    Parameters
    ----------
    query : mapping
        `id` of the document; `statistic` to draw that one; `alike=1` to compute neighbours in a large corpus; `at`
        and what `Listing` reads, for the list it was opened from.
    """
    require_audit(store, audit)
    folder = store.audit(audit)
    summary, findings, listing = read_summary(folder), Findings(folder), Listing.read(query)
    row = findings.document(query.get("id", ""))
    if row is None:
        raise LookupError("This audit has no such document.")
    tests = findings.tests(row)
    chosen = query.get("statistic") or None
    if chosen is not None and chosen not in summary.statistics:
        raise LookupError("This audit has no such statistic.")
    names = _wanted(summary, tests, chosen)
    pictures, no_values = _pictures(store, summary, row, tests, names)
    quick = values_bytes(summary, len(stored_statistics(summary))) <= _AT_ONCE
    alike, no_alike = _alike(store, summary, row.document, query.get("alike") == "1")
    at = whole_number(query["at"], "at") if "at" in query else None
    state, more = document_state(store, audit, row.document), read_more_runs(store, audit)
    return DocumentPage(
        summary=summary,
        row=row,
        tests=tests,
        pictures=pictures,
        undrawn=tuple(name for name in stored_statistics(summary) if name not in names),
        held_out=held_out_distance(store, summary, row.document, row.place) if quick else None,
        no_values=no_values,
        chosen=chosen,
        effects=findings.effects(row.document),
        earlier=_earlier(store, summary, row.document),
        alike=alike,
        no_alike=no_alike,
        state=state,
        policy=read_policy(store),
        log=tuple(read_log(store, audit=audit, document=row.document, newest_first=True, limit=50)),
        more=more,
        wanted=state.asks_for_runs and not (more and more.under_way),
        listing=replace(listing, page=1),
        position=_position(findings, listing, at, row.document),
    )
