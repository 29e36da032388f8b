"""Pages of screenings: the report that one writes, and the list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ksdp.dashboards.addresses import PAGE_ROWS, Paged, page_number
from ksdp.dashboards.audits.report import standalone
from ksdp.dashboards.audits.sentences import title
from ksdp.dashboards.charts import shares_svg
from ksdp.dashboards.words import count, plural
from ksdp.storage.audits.history import screen_ids, valid_audit
from ksdp.storage.audits.screens import RoundSummary, ScreenSummary, read_left_out, read_screen
from ksdp.storage.store import Store, StoreError

_LISTED = 200
"""Documents that the page names; the store holds all."""


def screen_headline(screen: ScreenSummary) -> str:
    """The outcome in one sentence."""
    name, audits = title(screen.mechanism), plural(len(screen.rounds), "audit", "audits")
    if screen.outcome == "signed":
        may = plural(screen.allowed, "document", "documents")
        return f"{may} of {count(screen.documents)} may enter {name}: {audits}, and the last one proves this list."
    return {
        "out-of-rounds": f"Nothing is signed for {name}: {audits} did not end in a list all of which holds.",
        "too-few": f"Nothing is signed for {name}: the documents that were left out had hidden the others.",
        "void": "An audit of this list is void: nothing is signed.",
    }[screen.outcome]


def render_screen(store: Store, screen: str) -> str:
    """The page of a finished screening, from what the store holds: complete HTML that loads and runs nothing."""
    stored = read_screen(store, screen)
    rows = read_left_out(store, screen).to_pylist() if stored.left_out else []
    rows.sort(key=lambda row: (row["round"], row["log10_adjusted_p"], -row["distance"]))
    return standalone(
        "screen.html.j2",
        screen=stored,
        headline=screen_headline(stored),
        left_out=rows[:_LISTED],
        before=_bar(stored.rounds[0]),
        after=_bar(stored.rounds[-1]),
    )


def _bar(round_: RoundSummary) -> Markup:
    return shares_svg(list(round_.verdicts.as_dict().items()))


@dataclass(frozen=True)
class ScreensPage(Paged):
    """All screenings, newest first."""

    screens: tuple[ScreenSummary, ...]
    page: int
    damaged: tuple[str, ...]


@dataclass(frozen=True)
class ScreenPage(Paged):
    """One screening."""

    screen: ScreenSummary
    rows: tuple[Mapping[str, Any], ...]
    """Documents that were left out, as `read_left_out` has them."""
    page: int
    finished: frozenset[str]
    """Its audits that are in the store."""


def read_screens_page(store: Store, query: Mapping[str, str]) -> ScreensPage:
    """Read the list."""
    ids, page = screen_ids(store), page_number(query)
    shown = ids[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    screens, damaged = [], []
    for name in shown:
        try:
            screens.append(read_screen(store, name))
        except StoreError as error:
            damaged.append(str(error))
    return ScreensPage(tuple(screens), page, tuple(damaged), total=len(ids))


def require_screen(store: Store, screen: str) -> str:
    """A screening's id, if there is one."""
    if not valid_audit(screen) or screen not in screen_ids(store):
        raise LookupError("There is no such screening in this store.")
    return screen


def read_screen_page(store: Store, screen: str, query: Mapping[str, str]) -> ScreenPage:
    """Read one."""
    stored, page = read_screen(store, require_screen(store, screen)), page_number(query)
    table = read_left_out(store, screen) if stored.left_out else None
    total = 0 if table is None else len(table)
    rows = [] if table is None else table.slice((page - 1) * PAGE_ROWS, PAGE_ROWS).to_pylist()
    kept = {done.audit for done in stored.rounds if done.audit in set(store.audits())}
    return ScreenPage(screen=stored, rows=tuple(rows), total=total, page=page, finished=frozenset(kept))
