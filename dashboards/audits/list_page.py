"""The list of audits and their history: a timeline with its gaps, and how the findings moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ksdp.dashboards.addresses import PAGE_ROWS, page_number
from ksdp.dashboards.audits.sentences import title
from ksdp.dashboards.audits.views_page import ViewsPage, read_views_list
from ksdp.dashboards.charts.timeline import Mark, gaps, timeline_svg, trend_svg
from ksdp.storage.audits.history import Brief, read_history
from ksdp.storage.store import Store

_DRAWN = 8
_MARKS = 200
_VIEWS = 5


@dataclass(frozen=True)
class Series:
    """Audits that ask the same of the same corpus, time after time."""

    key: str
    name: str
    audits: int
    """All that there are."""
    newest: Brief


@dataclass(frozen=True)
class AuditsPage:
    """What the page shows."""

    series: tuple[Series, ...]
    """The most recent first."""
    chosen: Series | None
    drawn: int
    """Rows of the timeline."""
    timeline: Markup | None
    trends: tuple[Markup, ...]
    """Of the chosen series, or of the only one."""
    left_out: int
    """Older audits that the pictures leave out."""
    views: ViewsPage
    """The newest audits of several views."""
    rows: tuple[Brief, ...]
    total: int
    page: int
    pages: int
    gaps: int

    @property
    def query(self) -> dict[str, Any]:
        """What an address says of it."""
        return {"series": self.chosen.key if self.chosen else None}


def _kind(entry: Brief) -> str:
    if not entry.valid:
        return "void"
    return "sensitive" if entry.verdicts["sensitive"] else "quiet"


def _row(name: str, entries: Sequence[Brief]) -> tuple[str, list[Mark], list[Any]]:
    return name, [Mark(e.finished, _kind(e)) for e in entries], gaps([e.finished for e in entries])


def _trends(entries: Sequence[Brief]) -> tuple[Markup, ...]:
    missing = gaps([entry.finished for entry in entries])
    sensitive = [Mark(e.finished, _kind(e), float(e.verdicts["sensitive"]) if e.valid else None) for e in entries]
    largest = [Mark(e.finished, _kind(e), e.largest if e.valid else None) for e in entries]
    return (
        trend_svg(sensitive, missing, name="sensitive documents"),
        trend_svg(largest, missing, name="largest advantage", top=1.0),
    )


def _by_series(history: Sequence[Brief]) -> dict[str, list[Brief]]:
    series: dict[str, list[Brief]] = {}
    for entry in history:
        series.setdefault(entry.series, []).append(entry)
    return series


def read_audits_page(store: Store, query: Mapping[str, str]) -> AuditsPage:
    """Read the page.

    Parameters
    ----------
    query : mapping
        `series` (key of one) and `page`.
    """
    history = read_history(store)
    grouped = _by_series(history)
    series = tuple(
        Series(key, f"{title(audits[0].mechanism)} on {audits[0].corpus_path}", len(audits), audits[0])
        for key, audits in grouped.items()
    )
    chosen = next((one for one in series if one.key == query.get("series")), None)
    shown = grouped[chosen.key] if chosen else history
    drawn = [chosen] if chosen else list(series[:_DRAWN])
    rows = [_row(one.name, grouped[one.key][:_MARKS]) for one in drawn]
    trend = drawn[0] if len(drawn) == 1 else None
    page = page_number(query)
    pages = max(1, -(-len(shown) // PAGE_ROWS))
    return AuditsPage(
        series=series,
        chosen=chosen,
        drawn=len(drawn),
        timeline=timeline_svg(rows) if rows else None,
        trends=_trends(grouped[trend.key][:_MARKS]) if trend and len(grouped[trend.key]) > 1 else (),
        left_out=sum(max(0, len(grouped[one.key]) - _MARKS) for one in drawn),
        views=read_views_list(store, {}, _VIEWS),
        rows=tuple(shown[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]),
        total=len(shown),
        page=page,
        pages=pages,
        gaps=sum(len(missing) for _, _, missing in rows),
    )
