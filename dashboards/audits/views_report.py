"""The page of an audit of several views: one HTML file, like the report of an audit."""

from __future__ import annotations

from typing import Any

from ksdp.dashboards.audits.standalone import of_summary, standalone
from ksdp.storage.audits.history import read_views
from ksdp.storage.audits.view_tables import read_strongest
from ksdp.storage.store import Store

LISTED = 200
"""Most sensitive documents named on the page."""


def parts_of_views(store: Store, name: str) -> dict[str, Any]:
    """What `_views.html.j2` is filled with."""
    summary = read_views(store, name)
    listed, unit = read_strongest(store, name, LISTED), summary.design.unit
    every = len(listed) == summary.verdicts.sensitive
    return of_summary(summary) | {
        "unit": unit,
        "units": f"{unit}s",
        "sections": (
            ("result", "The result over all views"),
            ("views", "View by view"),
            ("listing", f"Every sensitive {unit}" if every else f"The most sensitive {unit}s"),
            ("meaning", "What this says, and what not"),
            ("provenance", "Where the numbers come from"),
        ),
        "listed": listed,
        "audit_of": {view.name: view.audit for view in summary.views},
    }


def render_views(store: Store, name: str) -> str:
    """Render the page from what the store holds of the views."""
    return standalone("views.html.j2", **parts_of_views(store, name))
