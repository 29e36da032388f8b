"""Pages of audits: the list, one audit, one document, two audits compared, more runs under way."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ksdp.dashboards.addresses import PAGE_ROWS, Listing, Paged, page_number, whole_number
from ksdp.dashboards.audits.audit_model import AuditModel, Picture, picture, read_audit_model, written
from ksdp.dashboards.audits.result import audit_result
from ksdp.dashboards.audits.sentences import title
from ksdp.dashboards.timeline import Mark, gaps, spark_svg, timeline_svg
from ksdp.dashboards.words import counted, words
from ksdp.storage.audits.continuation import UNDER_WAY, read_origin, read_progress
from ksdp.storage.audits.documents import (
    Neighbour,
    corpus_entries,
    held_out_distance,
    neighbours,
    read_arms,
    stored_statistics,
    values_bytes,
)
from ksdp.storage.audits.history import Brief, read_history, read_summary, valid_audit
from ksdp.storage.audits.queries import VERDICTS, Findings, Row
from ksdp.storage.findings import EffectRow, StatisticSummary, StatisticTestRow, Summary
from ksdp.storage.reviews.decisions import Entry, Policy, State, document_log, document_state, read_policy, states
from ksdp.storage.store import InputError, Store, StoreError


@dataclass(frozen=True)
class MoreRuns:
    """Parts that are shown."""

    audit: str
    state: str
    """As `ksdp.storage.audits.continuation.read_progress` gives it."""
    to: str | None
    """The audit that continues it, once it is finished."""
    documents: int | None
    doing: str
    """The stage in words."""
    unit: str
    units: int
    total: int
    runs: int
    """Done in all stages together; those that the store held already are among them."""
    started: datetime
    seconds: float
    """From its start to its last sign of life."""
    reason: str | None

    @property
    def under_way(self) -> bool:
        """Whether it goes on by itself."""
        return self.state in UNDER_WAY


def read_more_runs(store: Store, audit: str) -> MoreRuns | None:
    """The progress of more runs; None if none were started."""
    progress = read_progress(store, audit)
    if progress is None:
        return None
    stage = str(progress.get("stage", "prepare"))
    started = datetime.fromisoformat(progress["started"])
    to = progress.get("audit")
    return MoreRuns(
        audit=audit,
        state=progress["state"],
        to=to if to and progress["state"] == "done" and (store.audit(to) / "audit.json").is_file() else None,
        documents=progress.get("documents"),
        doing=words(stage),
        unit=counted(stage),
        units=int(progress.get("units", 0)),
        total=max(1, int(progress.get("total", 1))),
        runs=int(progress.get("runs", 0)),
        started=started,
        seconds=(datetime.fromisoformat(progress["changed"]) - started).total_seconds(),
        reason=progress.get("reason"),
    )


def wanted(store: Store, audit: str) -> bool:
    """Whether a decision in force asks for more runs, of a document that no newer audit has."""
    return any(state.asks_for_runs for state in states(store, audit).values())


@dataclass(frozen=True, eq=False)
class AuditPage(Paged):
    """Contents of the page."""

    view: AuditModel
    listing: Listing
    rows: tuple[Row, ...]
    states: Mapping[str, State]
    """States of the documents that anything was decided about."""
    more: MoreRuns | None
    """State of its further runs."""
    wanted: bool
    """Somebody wants runs that are not under way."""
    continues: str | None
    """The audit that this one continues with more runs."""
    earlier: Brief | None
    """The audit of the same series before this one."""
    later: Brief | None


def require_audit(store: Store, audit: str) -> str:
    """An audit's id, if there is such a finished audit."""
    if not valid_audit(audit) or not (store.audit(audit) / "audit.json").exists():
        raise LookupError("There is no such finished audit in this store.")
    return audit


def read_audit_page(store: Store, audit: str, query: Mapping[str, str]) -> AuditPage:
    """Read the page; raises what `require_audit` and `Listing.read` do, and StoreError for damaged findings."""
    require_audit(store, audit)
    listing = Listing.read(query)
    page = Findings(store.audit(audit)).page(listing, offset=listing.offset, limit=PAGE_ROWS)
    history = read_history(store).audits
    own = next((entry for entry in history if entry.audit == audit), None)
    series = [entry for entry in history if own is not None and entry.series == own.series]
    at = next((n for n, entry in enumerate(series) if entry.audit == audit), None)
    more, origin = read_more_runs(store, audit), read_origin(store, audit)
    return AuditPage(
        view=read_audit_model(audit_result(read_summary(store.audit(audit))), documents=False),
        listing=listing,
        rows=page.rows,
        total=page.total,
        states=states(store, audit, [row.document for row in page.rows]),
        more=more,
        wanted=more is not None and not more.under_way and wanted(store, audit),
        continues=origin.audits[-2] if origin and len(origin.audits) > 1 else None,
        earlier=series[at + 1] if at is not None and at + 1 < len(series) else None,
        later=series[at - 1] if at else None,
    )


_DRAWN = 8
_MARKS = 200


@dataclass(frozen=True)
class Series:
    """Audits that ask the same of the same corpus, time after time."""

    key: str
    name: str
    audits: int
    """All that there are."""
    newest: Brief


@dataclass(frozen=True)
class AuditsPage(Paged):
    """Contents of the page."""

    series: tuple[Series, ...]
    """The most recent first."""
    chosen: Series | None
    drawn: int
    """Rows of the timeline."""
    timeline: Markup | None
    trends: tuple[tuple[Markup, str], ...]
    """Trends of the chosen series, or of the only one."""
    left_out: int
    """Older audits that the pictures leave out."""
    rows: tuple[Brief, ...]
    page: int
    gaps: int
    damaged: tuple[str, ...]
    """A sentence for each audit that cannot be read."""

    @property
    def query(self) -> dict[str, Any]:
        """Query of the page."""
        return {"series": self.chosen.key if self.chosen else None}


def kind_of(entry: Brief) -> str:
    """How an audit is marked in a picture over time."""
    if not entry.valid:
        return "void"
    return "sensitive" if entry.verdicts.sensitive else "quiet"


def _row(name: str, entries: Sequence[Brief]) -> tuple[str, list[Mark], list[Any]]:
    return name, [Mark(e.finished, kind_of(e)) for e in entries], gaps([e.finished for e in entries])


def _trends(entries: Sequence[Brief]) -> tuple[tuple[Markup, str], ...]:
    """Pictures of two numbers over the audits of one setting, each with a sentence."""
    valid, drawn = [entry for entry in entries[::-1] if entry.valid], []
    for name, number, form in (
        ("Sensitive documents", lambda entry: float(entry.verdicts.sensitive), "{:,.0f}"),
        ("Largest advantage", lambda entry: entry.largest, "{:.2f}"),
    ):
        values = [number(entry) for entry in valid] or [math.nan]
        said = (form.format(value) for value in (values[0], values[-1], min(values), max(values)))
        sentence = "{}: {} at first, {} at last, between {} and {}.".format(name, *said)
        marks = [Mark(entry.finished, kind_of(entry), number(entry)) for entry in entries[::-1]]
        drawn.append((spark_svg(marks, sentence), sentence))
    return tuple(drawn)


def read_audits_page(store: Store, query: Mapping[str, str]) -> AuditsPage:
    """Read the page."""
    history = read_history(store)
    briefs = history.audits
    grouped: dict[str, list[Brief]] = {}
    for entry in briefs:
        grouped.setdefault(entry.series, []).append(entry)
    series = tuple(
        Series(key, f"{title(audits[0].mechanism)} on {audits[0].corpus_path}", len(audits), audits[0])
        for key, audits in grouped.items()
    )
    chosen = next((setting for setting in series if setting.key == query.get("series")), None)
    shown = grouped[chosen.key] if chosen else briefs
    drawn = [chosen] if chosen else list(series[:_DRAWN])
    rows = [_row(setting.name, grouped[setting.key][:_MARKS]) for setting in drawn]
    trend = drawn[0] if len(drawn) == 1 else None
    page = page_number(query)
    return AuditsPage(
        series=series,
        chosen=chosen,
        drawn=len(drawn),
        timeline=timeline_svg(rows) if rows else None,
        trends=_trends(grouped[trend.key][:_MARKS]) if trend and len(grouped[trend.key]) > 1 else (),
        left_out=sum(max(0, len(grouped[setting.key]) - _MARKS) for setting in drawn),
        rows=tuple(shown[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]),
        total=len(shown),
        page=page,
        gaps=sum(len(missing) for _, _, missing in rows),
        damaged=history.damaged,
    )


@dataclass(frozen=True)
class StatisticPair:
    """One statistic in both; None where an audit did not try it."""

    name: str
    before: StatisticSummary | None
    after: StatisticSummary | None

    @property
    def comparable(self) -> bool:
        """Numbers of different versions are never compared."""
        return self.before is not None and self.after is not None and self.before.version == self.after.version


@dataclass(frozen=True, eq=False)
class ComparePage(Paged):
    """Contents of the page; without two audits, only the choice."""

    audits: tuple[Brief, ...]
    before: Summary | None
    after: Summary | None
    differences: tuple[tuple[str, str, str], ...]
    """Keys of the spec that differ, with what they were and are."""
    same_corpus: bool
    moves: Mapping[tuple[str | None, str | None], int]
    statistics: tuple[StatisticPair, ...]
    shown: tuple[str, str] | None
    """Verdicts before and after of the documents that are listed."""
    rows: Sequence[tuple[str, float, float]]
    """Documents, with D before and after."""
    page: int


def _flat(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            text = "none" if value is None else str(value)
            yield prefix + key, text if len(text) <= 80 else text[:77] + "…"


def _differences(before: Summary, after: Summary) -> tuple[tuple[str, str, str], ...]:
    old, new = (dict(_flat(summary.spec.model_dump(mode="json"))) for summary in (before, after))
    keys = [*old, *(key for key in new if key not in old)]
    return tuple((key, old.get(key, "–"), new.get(key, "–")) for key in keys if old.get(key) != new.get(key))


@lru_cache(maxsize=64)
def _moves(
    before: Path, after: Path, _one: tuple[int, ...], _other: tuple[int, ...]
) -> Mapping[tuple[str | None, str | None], int]:
    """A join over all documents of both, once for each version of the files."""
    return Findings(before).compare(Findings(after)).moves


def _shown(query: Mapping[str, str], moves: Mapping[tuple[str | None, str | None], int]) -> tuple[str, str] | None:
    """The move asked for, or the one that matters most of those that there are."""
    before, after = query.get("from"), query.get("to")
    if before or after:
        if before not in VERDICTS or after not in VERDICTS:
            raise InputError(f"`from` and `to` must be of {', '.join(VERDICTS)}.")
        return before, after
    order = [(a, b) for b in VERDICTS for a in VERDICTS if a != b]
    return next((move for move in order if moves.get(move)), None)


def read_compare_page(store: Store, query: Mapping[str, str]) -> ComparePage:
    """Read the page."""
    audits, page = read_history(store).audits[:500], page_number(query)
    a, b = query.get("a"), query.get("b")
    if not a or not b:
        return ComparePage(audits, None, None, (), True, {}, (), None, (), 1, total=0)
    folders = [store.audit(require_audit(store, audit)) for audit in (a, b)]
    before, after = (read_summary(folder) for folder in folders)
    earlier, later = (Findings(folder) for folder in folders)
    moves = _moves(*folders, *(written(folder) for folder in folders))
    shown = _shown(query, moves)
    total = moves.get(shown, 0) if shown else 0
    changed = earlier.moved(later, *shown, offset=(page - 1) * PAGE_ROWS) if shown and total else []
    names = [*before.statistics, *(name for name in after.statistics if name not in before.statistics)]
    return ComparePage(
        audits=audits,
        before=before,
        after=after,
        differences=_differences(before, after),
        same_corpus=before.corpus == after.corpus,
        moves=moves,
        statistics=tuple(
            StatisticPair(name, before.statistics.get(name), after.statistics.get(name)) for name in names
        ),
        shown=shown,
        rows=changed,
        total=total,
        page=page,
    )


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
    """Contents of the page."""

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
        """Query of the list that the page was opened from."""
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
    by_statistic = {test.statistic: test for test in tests}
    try:
        curves = read_arms(store, summary, row.document, row.place, names)
    except StoreError as error:
        return (), str(error)
    drawn = [picture(summary, curve, by_statistic[curve.statistic]) for curve in curves]
    return tuple(drawing for drawing in drawn if drawing is not None), None


def _earlier(store: Store, summary: Summary, document: str) -> tuple[Earlier, ...]:
    """Other audits that hold a document of this id in a corpus of the same path."""
    path, earlier = summary.spec.corpus.path, []
    for entry in read_history(store).audits:
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
    store: Store, summary: Summary, document: str, requested: bool
) -> tuple[tuple[Neighbour, ...] | None, str | None]:
    folder = store.corpus(summary.corpus)
    try:
        if not requested and corpus_entries(folder) > _ENTRIES:
            return None, None
        return tuple(neighbours(folder, document)), None
    except StoreError as error:
        return (), str(error)


def read_document_page(store: Store, audit: str, query: Mapping[str, str]) -> DocumentPage:
    """Read the page."""
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
        held_out=None if no_values or not quick else held_out_distance(store, summary, row.document, row.place),
        no_values=no_values,
        chosen=chosen,
        effects=findings.effects(row.document),
        earlier=_earlier(store, summary, row.document),
        alike=alike,
        no_alike=no_alike,
        state=state,
        policy=read_policy(store),
        log=tuple(document_log(store, audit, row.document)[:50]),
        more=more,
        wanted=state.asks_for_runs and not (more and more.under_way),
        listing=replace(listing, page=1),
        position=_position(findings, listing, at, row.document),
    )
