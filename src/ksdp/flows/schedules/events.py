"""Prefect events: what a run found, what is due; and the automation that sends them where a person wants them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from prefect.client.orchestration import PrefectClient, get_client
from prefect.events import emit_event
from prefect.events.actions import CallWebhook, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL

from ksdp.audit.errors import DamagedFile, InputError
from ksdp.dashboards.home import Need, read_home_page
from ksdp.storage.clearances import stored_clearance, stored_clearances
from ksdp.storage.codec import read_object, write_checked_json
from ksdp.storage.schedules.schedule_files import Schedule, ScheduledRun, pool_of, read_schedules
from ksdp.storage.store import Store

CAUSES: Mapping[str, Callable[[ScheduledRun], bool]] = {
    "ksdp.document.turned-sensitive": lambda run: run.became_sensitive > 0,
    "ksdp.audit.void": lambda run: run.outcome == "void",
    "ksdp.appetite.missed": lambda run: bool(run.audit and run.appetite_missed),
}
"""When a run gives cause for an event."""
_DAILY = timedelta(days=7)
"""A need that is due later than this is told once, and a nearer one every day."""
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
    about = _resource(store, f"ksdp.schedule.{schedule.name}") | {"prefect.resource.name": schedule.name}
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
        about = _resource(store, f"ksdp.clearance.{path.stem}")
        with contextlib.suppress(OSError):  # without room or right to mark it, it would be told every few seconds
            mark.touch()
            if now < signed.expires + _NEWS:
                emit_event("ksdp.clearance.expired", about, related=_audits(*signed.audits), payload=payload)


def remind(store: Store, now: datetime) -> None:
    """Emit what is due, each at most once a day, however often this is called and by which process."""
    file, today = store.root / "schedules" / "reminded.json", now.date()
    try:
        reminders = read_object(file, dict[str, str], "", "") if file.exists() else {}
    except DamagedFile:
        reminders = {}  # at worst somebody is reminded twice
    needs = [need for need in read_home_page(store, now).needs if need.event] if _is_watched() else []
    due = [need for need in needs if _is_told_today(need, reminders.get(_key(need), ""), today)]
    if not due:
        return
    marks = {_key(need): f"{today} {need.until}" for need in due}
    kept = {_key(need): reminders[_key(need)] for need in needs if _key(need) in reminders}
    write_checked_json(file, kept | marks)  # before they are sent: a crash repeats none
    site = next((schedule.link.rstrip("/") for schedule in read_schedules(store) if schedule.link), None)
    for need in due:
        said = {"about": need.about, "words": need.words, "until": f"{need.until}"}
        link = {"link": f"{site}{need.href}"} if site else {}
        emit_event(need.event, _resource(store, need.subject), payload=said | link)


def _is_told_today(need: Need, reminder: str, today: date) -> bool:
    """Every day from a week before on, and once when the day that it is due comes near, or is another."""
    day, _, until = reminder.partition(" ")
    return day != f"{today}" and (need.until - today <= _DAILY or until != f"{need.until}")


def _key(need: Need) -> str:
    return f"{need.event} {need.subject}"


_TEXT = "{% for name, value in event.payload.items() %}{{ name }}: {{ value }}\n{% endfor %}"
_JSON = """{"event": {{ event.event | tojson }}, "payload": {{ event.payload | tojson }}}"""


async def keep_automation(store: Store, block: str) -> bool:
    """Send every event of a store to a block, `TYPE/NAME`, by one automation; whether the block is there."""
    kind, _, name = block.partition("/")
    async with get_client() as client:
        try:
            to = await client.read_block_document_by_name(name, kind, include_secrets=False)
        except ObjectNotFound:
            return False
        given: dict[str, Any] = {"block_document_id": to.id}
        if kind == "webhook":
            action: CallWebhook | SendNotification = CallWebhook(payload=_JSON, **given)
        elif to.block_schema is not None and "notify" in to.block_schema.capabilities:
            action = SendNotification(subject="{{ event.event }}", body=_TEXT, **given)
        else:
            raise InputError(f"`--to` must be a webhook or a block that notifies; {kind} sends nothing.")
        await _write_automation(client, store, action)
    return True


async def _write_automation(client: PrefectClient, store: Store, action: CallWebhook | SendNotification) -> None:
    name, match = f"reminders of {store.root}", ResourceSpecification({"ksdp.store": pool_of(store)})
    trigger = EventTrigger(expect={"ksdp.*"}, match=match, posture=Posture.Reactive)
    made, there = (
        AutomationCore(name=name, trigger=trigger, actions=[action]),
        await client.read_automations_by_name(name),
    )
    if not there:
        await client.create_automation(made)
    elif str(action.block_document_id) not in str(there[0].actions):  # else what people changed on its page stays
        await client.update_automation(there[0].id, made)


def _resource(store: Store, subject: str) -> dict[str, str]:
    return {"prefect.resource.id": subject, "ksdp.store": pool_of(store)}


def _is_watched() -> bool:
    """Whether a server is named: where none is, Prefect would start one to take the event."""
    return bool(PREFECT_API_URL.value())


def _audits(*ids: str | None) -> list[dict[str, Any]]:
    return [
        {"prefect.resource.id": f"ksdp.audit.{name}", "prefect.resource.role": "audit"} for name in ids if name
    ]
