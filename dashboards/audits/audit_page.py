"""One audit: everything that its report says, and its documents to filter, sort, search and open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ksdp.dashboards.addresses import PAGE_ROWS, Listing
from ksdp.dashboards.audits.audit_model import AuditModel, read_audit_model
from ksdp.dashboards.audits.more_runs import MoreRuns, read_more_runs, wanted
from ksdp.storage.audits.continuation import read_origin
from ksdp.storage.audits.history import Brief, read_history, valid_audit, views_of
from ksdp.storage.audits.queries import Findings, Row
from ksdp.storage.reviews.decisions import State, states
from ksdp.storage.store import Store


@dataclass(frozen=True, eq=False)
class AuditPage:
    """What the page shows."""

    view: AuditModel
    listing: Listing
    rows: tuple[Row, ...]
    total: int
    pages: int
    states: Mapping[str, State]
    """What was decided, for the documents that anything was decided about."""
    more: MoreRuns | None
    """Of its continuation."""
    wanted: bool
    """Somebody wants runs that are not under way."""
    views: str | None
    """The audit of several views that this is one of."""
    continues: str | None
    """The audit that this one continues with more runs."""
    earlier: Brief | None
    """The audit of the same series before this one."""
    later: Brief | None


def require_audit(store: Store, audit: str) -> str:
    """An audit's id, if there is such a finished audit."""
    if not valid_audit(audit) or not (store.audit(audit) / "audit.json").is_file():
        raise LookupError("There is no such finished audit in this store.")
    return audit


def read_audit_page(store: Store, audit: str, query: Mapping[str, str]) -> AuditPage:
    """Read the page; raises what `require_audit` and `Listing.read` do, and StoreError for damaged findings."""
    require_audit(store, audit)
    listing = Listing.read(query)
    page = Findings(store.audit(audit)).page(listing, offset=listing.offset, limit=PAGE_ROWS)
    history = read_history(store)
    own = next((entry for entry in history if entry.audit == audit), None)
    series = [entry for entry in history if own is not None and entry.series == own.series]
    at = next((n for n, entry in enumerate(series) if entry.audit == audit), None)
    more, origin = read_more_runs(store, audit), read_origin(store, audit)
    return AuditPage(
        view=read_audit_model(store, audit, documents=False),
        listing=listing,
        rows=page.rows,
        total=page.total,
        pages=max(1, -(-page.total // PAGE_ROWS)),
        states=states(store, audit, [row.document for row in page.rows]),
        more=more,
        wanted=more is not None and not more.under_way and wanted(store, audit),
        views=views_of(store, audit),
        continues=origin.audits[-2] if origin and len(origin.audits) > 1 else None,
        earlier=series[at + 1] if at is not None and at + 1 < len(series) else None,
        later=series[at - 1] if at else None,
    )
