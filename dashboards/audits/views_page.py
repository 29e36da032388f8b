"""Audits of several views: the list, and one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ksdp.dashboards.addresses import PAGE_ROWS, page_number
from ksdp.dashboards.audits.views_report import parts_of_views
from ksdp.storage.audits.history import ViewsSummary, finished_views, read_views, valid_audit
from ksdp.storage.store import Store


@dataclass(frozen=True, eq=False)
class ViewsPage:
    """Some of them, the newest first."""

    views: tuple[ViewsSummary, ...]
    total: int
    page: int
    pages: int


def read_views_list(store: Store, query: Mapping[str, str], rows: int = PAGE_ROWS) -> ViewsPage:
    """Read the list."""
    names, page = finished_views(store), page_number(query)
    shown = names[(page - 1) * rows : page * rows]
    pages = max(1, -(-len(names) // rows))
    return ViewsPage(tuple(read_views(store, name) for name in shown), len(names), page, pages)


def require_views(store: Store, name: str) -> str:
    """Their id, if there are such finished ones."""
    if not valid_audit(name) or name not in finished_views(store):
        raise LookupError("There is no such audit of several views in this store.")
    return name


def read_views_page(store: Store, name: str) -> dict[str, Any]:
    """What the page of one is filled with; raises what `require_views` does."""
    return parts_of_views(store, require_views(store, name))
