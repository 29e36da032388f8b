"""The report of an audit: one HTML file that loads nothing, runs nothing, and can be kept or printed."""

from __future__ import annotations

from typing import Any

from ksdp.dashboards.audits.audit_model import AuditModel, read_audit_model
from ksdp.dashboards.audits.standalone import of_summary, standalone
from ksdp.dashboards.charts.charts import scale_svg
from ksdp.storage.store import Store


def parts_of(view: AuditModel) -> dict[str, Any]:
    """What the parts that the report shares with an audit's page are rendered with."""
    return of_summary(view.summary) | {"view": view, "scale": scale_svg()}


def render_report(store: Store, audit: str) -> str:
    """The report of a finished audit, from what the store holds of it: a complete HTML page."""
    view = read_audit_model(store, audit)
    return standalone("report.html.j2", **parts_of(view))
