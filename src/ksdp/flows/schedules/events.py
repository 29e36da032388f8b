"""Prefect events, for automations: what a run found, and which clearances have expired."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL

from ksdp.storage.clearances import stored_clearance, stored_clearances
from ksdp.storage.schedules.schedule_files import Schedule, ScheduledRun
from ksdp.storage.store import Store

CAUSES: Mapping[str, Callable[[ScheduledRun], bool]] = {
    "ksdp.document.turned-sensitive": lambda run: run.became_sensitive > 0,
    "ksdp.audit.void": lambda run: run.outcome == "void",
    "ksdp.appetite.missed": lambda run: bool(run.appetite_missed),
}
"""When a run gives cause for an event."""
_NEWS = timedelta(days=30)
"""Clearances that expired longer ago are marked without an event when an old store is first served."""


def events_of(run: ScheduledRun) -> list[str]:
    """Names of the events that a run gives cause for."""
    return [name for name, given in CAUSES.items() if given(run)]


def links_of(store: Store, schedule: Schedule, run: ScheduledRun) -> dict[str, str]:
    """The report on this machine and, where the schedule names its address, the dashboard."""
    if run.audit is None:
        return {}
    links = {"report": (store.audit(run.audit) / "report.html").as_uri()}
    if schedule.link:
        links["dashboard"] = f"{schedule.link.rstrip('/')}/audits/{run.audit}"
    return links


def body(store: Store, schedule: Schedule, run: ScheduledRun) -> dict[str, Any]:
    """Contents of an event about a run: times, counts and links, never a document."""
    facts = {"outcome", "audit", "finished", "became_sensitive", "verdict_changes", "appetite_missed"}
    said = run.model_dump(mode="json", include=facts | {"documents", "verdicts"})
    return {"schedule": schedule.name} | said | {"links": links_of(store, schedule, run)}


def emit_run(store: Store, schedule: Schedule, run: ScheduledRun) -> None:
    """Emit whatever a run gives cause to tell."""
    about = {"prefect.resource.id": f"ksdp.schedule.{schedule.name}", "prefect.resource.name": schedule.name}
    for event in events_of(run) if _is_watched() else ():
        emit_event(event, about, related=_audits(run.audit), payload=body(store, schedule, run))


def emit_expired(store: Store, now: datetime) -> None:
    """Emit, once each, which of the clearances that were signed in a store have expired."""
    for path in stored_clearances(store) if _is_watched() else ():
        mark = path.with_suffix(".expired")
        signed = None if mark.exists() else stored_clearance(path)
        if signed is None or now < signed.expires:
            continue
        payload = {"expired": signed.expires.isoformat(), "documents": len(signed.documents)}
        about = {"prefect.resource.id": f"ksdp.clearance.{path.stem}"}
        with contextlib.suppress(OSError):  # without room or right to mark it, it would be told every few seconds
            mark.touch()
            if now < signed.expires + _NEWS:
                emit_event("ksdp.clearance.expired", about, related=_audits(*signed.audits), payload=payload)


def _is_watched() -> bool:
    """Whether a server is named: where none is, Prefect would start one to take the event."""
    return bool(PREFECT_API_URL.value())


def _audits(*ids: str | None) -> list[dict[str, Any]]:
    return [
        {"prefect.resource.id": f"ksdp.audit.{name}", "prefect.resource.role": "audit"} for name in ids if name
    ]
