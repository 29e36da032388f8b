"""Events that automations on a Prefect server trigger on: their names, what they say, and that they arrive."""

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prefect.blocks.notifications import SlackWebhook
from prefect.blocks.system import Secret
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import get_client
from prefect.events import Automation, Event, emit_event
from prefect.events.filters import EventFilter, EventNameFilter
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from ksdp.audit.errors import InputError
from ksdp.dashboards.home import HomePage, Need
from ksdp.flows.schedules.events import body, emit_expired, emit_run, events_of, keep_automation, remind
from ksdp.storage.clearances import clearance_at
from ksdp.storage.schedules.schedule_files import Schedule, ScheduledRun, check_schedule, write_schedule
from ksdp.storage.store import Store

from ...clearances import NOW, signed_copy
from .test_serve import until, webhook

RUN = ScheduledRun(
    started=NOW, finished=NOW, outcome="audited", audit="0123456789ab", became_sensitive=2, verdict_changes=3
)
AUDIT = {"prefect.resource.id": "ksdp.audit.0123456789ab", "prefect.resource.role": "audit"}


@pytest.fixture
def nightly(tmp_path: Path) -> tuple[Store, Schedule]:
    values = {"name": "nightly", "spec": "/s", "created": NOW}
    return Store.open(tmp_path / "store"), check_schedule(values)


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Event]]:
    """What would have been sent, as Prefect takes it."""
    sent: list[Event] = []

    def emit(event: str, resource: Any, **more: Any) -> None:
        sent.append(Event(event=event, resource=resource, **more))

    monkeypatch.setattr("ksdp.flows.schedules.events.emit_event", emit)
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        yield sent


@pytest.mark.parametrize(
    ("changes", "events"),
    [
        ({}, ["document.turned-sensitive"]),
        ({"became_sensitive": 0}, []),
        ({"appetite_missed": ("coverage",)}, ["document.turned-sensitive", "appetite.missed"]),
        ({"became_sensitive": 0, "outcome": "unchanged"}, []),
        ({"became_sensitive": 0, "audit": None, "appetite_missed": ("coverage",)}, []),  # told in its own night
        ({"outcome": "void", "became_sensitive": 0}, ["audit.void"]),
    ],
)
def test_what_gives_cause_for_an_event(changes: dict[str, Any], events: list[str]) -> None:
    assert events_of(RUN.model_copy(update=changes)) == [f"ksdp.{event}" for event in events]


def test_what_an_event_says_is_counts_and_links(nightly: tuple[Store, Schedule]) -> None:
    store, schedule = nightly[0], nightly[1].model_copy(update={"link": "http://127.0.0.1:8000/"})
    said = body(store, schedule, RUN.model_copy(update={"reason": "row 7 of mail.csv"}))
    assert said["links"] == {
        "report": f"{store.root.as_uri()}/audits/0123456789ab/report.html",
        "dashboard": "http://127.0.0.1:8000/audits/0123456789ab",
    }
    assert (said["schedule"], said["became_sensitive"], said["verdict_changes"]) == ("nightly", 2, 3)
    assert "row 7" not in json.dumps(said)
    same = RUN.model_copy(update={"outcome": "unchanged", "audit": None})
    assert body(store, schedule, same)["links"] == {}


def test_an_event_is_about_its_schedule_and_its_audit(
    nightly: tuple[Store, Schedule], emitted: list[Event]
) -> None:
    emit_run(*nightly, RUN)
    assert [one.event for one in emitted] == ["ksdp.document.turned-sensitive"]
    assert {one.resource.id for one in emitted} == {"ksdp.schedule.nightly"}
    assert [dict(one) for one in emitted[0].related] == [AUDIT]
    assert emitted[0].payload == body(*nightly, RUN)
    emit_run(*nightly, RUN.model_copy(update={"became_sensitive": 0}))
    assert len(emitted) == 1


def test_a_clearance_expires_once_and_not_before(nightly: tuple[Store, Schedule], emitted: list[Event]) -> None:
    store, _ = nightly
    emit_expired(store, NOW)  # nothing was ever signed
    first, _later = (
        signed_copy(store, ids=["secret name"]),
        signed_copy(store, ids=["secret name"], expires=NOW + timedelta(days=99)),
    )
    old = signed_copy(store, ids=["secret name"], expires=NOW + timedelta(days=59))
    clearance_at(store, "damaged").write_text("{")
    for days in (89, 90, 91):
        emit_expired(store, NOW + timedelta(days=days))
    (event,) = emitted
    assert (event.event, event.resource.id) == ("ksdp.clearance.expired", f"ksdp.clearance.{first}")
    assert clearance_at(store, old).with_suffix(".expired").exists(), "marked, and too old to be told"
    assert event.payload == {"expired": (NOW + timedelta(days=90)).isoformat(), "documents": 1}
    assert [one.id for one in event.related] == ["ksdp.audit.one", "ksdp.audit.two"]
    assert "secret" not in event.model_dump_json()


@pytest.fixture
def due(nightly: tuple[Store, Schedule], monkeypatch: pytest.MonkeyPatch) -> list[Need]:
    """What the home page says is due; `tests/dashboards/test_home.py` has how it comes to that."""
    needs: list[Need] = []
    monkeypatch.setattr("ksdp.flows.schedules.events.read_home_page", lambda *_: HomePage(tuple(needs), ()))
    write_schedule(nightly[0], nightly[1].model_copy(update={"link": "https://review.example/"}))
    return needs


def need(event: str, days: int, words: str = "words") -> Need:
    until = NOW.date() + timedelta(days=days)
    return Need("act", "PD-SVD on mail.csv", words, "/queue?audit=one", f"ksdp.{event}", "ksdp.question.7", until)


def test_each_reminder_comes_once_a_day_also_from_a_serve_that_was_restarted(
    nightly: tuple[Store, Schedule], due: list[Need], emitted: list[Event]
) -> None:
    due += [need("finding.overdue", -2), need("review.due", 20), Need("act", "no event", "", "")]

    def days(*some: int) -> list[list[str]]:
        told = []
        for day in some:
            emitted.clear()
            for hours in (0, 1, 9):  # nothing but the file in the store remembers
                remind(nightly[0], NOW.replace(hour=1) + timedelta(days=day, hours=hours))
            told.append([one.event.removeprefix("ksdp.") for one in emitted])
        return told

    daily = ["finding.overdue"]
    assert days(0, 1, 12) == [[*daily, "review.due"], daily, daily]
    assert days(13, 14) == [[*daily, "review.due"]] * 2, "every day of the last week"
    due[1] = need("review.due", 40)
    assert days(14, 15, 16) == [[], [*daily, "review.due"], daily], "another day for the review is told once"
    assert emitted[0].payload == {
        "about": "PD-SVD on mail.csv",
        "words": "words",
        "until": f"{NOW.date() - timedelta(days=2)}",
        "link": "https://review.example/queue?audit=one",
    }
    (nightly[0].root / "schedules" / "reminded.json").write_text("{")
    assert days(16) == [[*daily, "review.due"]], "a damaged file costs a repetition"


def test_a_real_automation_posts_a_reminder_to_a_webhook(
    nightly: tuple[Store, Schedule], due: list[Need], server: dict[str, str]
) -> None:
    store, due[:] = nightly[0], [need("finding.overdue", -2, 'of "Ben"')]
    key, address = server["PREFECT_API_AUTH_STRING"], server["PREFECT_API_URL"]

    async def automations() -> list[Automation]:
        async with get_client() as client:
            return await client.read_automations_by_name(f"reminders of {store.root}")

    with temporary_settings({PREFECT_API_URL: address, PREFECT_API_AUTH_STRING: key}), webhook() as (url, posted):
        assert asyncio.run(keep_automation(store, "webhook/privacy-desk")) is False
        assert asyncio.run(automations()) == []
        Secret(value="x").save("no-desk", overwrite=True)
        with pytest.raises(InputError, match="secret sends nothing"):
            asyncio.run(keep_automation(store, "secret/no-desk"))
        Webhook(url=url).save("privacy-desk", overwrite=True)
        for _ in range(2):
            assert asyncio.run(keep_automation(store, "webhook/privacy-desk")) is True
        (first,) = asyncio.run(automations())
        emit_event("ksdp.finding.overdue", {"prefect.resource.id": "of another store", "ksdp.store": "other"})
        remind(store, NOW)
        until(lambda: posted, "the reminder")
        SlackWebhook(url="https://hooks.slack.example/a/b").save("chat", overwrite=True)
        assert asyncio.run(keep_automation(store, "slack-webhook/chat")) is True
        (second,) = asyncio.run(automations())
    assert first.id == second.id
    assert [type(one).__name__ for one in (*first.actions, *second.actions)] == ["CallWebhook", "SendNotification"]
    (message,) = posted
    assert (message["event"], message["payload"]["words"]) == ("ksdp.finding.overdue", 'of "Ben"')


def test_nothing_happens_where_no_server_is(nightly: tuple[Store, Schedule], emitted: list[Event]) -> None:
    digest = signed_copy(nightly[0])
    with temporary_settings({PREFECT_API_URL: None}):
        emit_run(*nightly, RUN)
        emit_expired(nightly[0], NOW + timedelta(days=90))
        remind(nightly[0], NOW)
    assert emitted == []
    assert not clearance_at(nightly[0], digest).with_suffix(".expired").exists()


def test_they_are_read_back_from_a_server(nightly: tuple[Store, Schedule], server: dict[str, str]) -> None:
    store, schedule = nightly[0], nightly[1].model_copy(update={"name": "read-back"})
    digest = signed_copy(store, ids=["secret name"])
    about = ("ksdp.schedule.read-back", f"ksdp.clearance.{digest}")

    async def arrived() -> dict[str, Any]:
        async with get_client() as client:
            page = await client.read_events(EventFilter(event=EventNameFilter(prefix=["ksdp."])), limit=50)
        return {one.resource.id: one for one in page.events if one.resource.id in about}

    key, address = server["PREFECT_API_AUTH_STRING"], server["PREFECT_API_URL"]
    with temporary_settings({PREFECT_API_URL: address, PREFECT_API_AUTH_STRING: key}):
        emit_run(store, schedule, RUN)
        emit_expired(store, NOW + timedelta(days=90))
        ends = time.monotonic() + 60
        while len(found := asyncio.run(arrived())) < 2 and time.monotonic() < ends:
            time.sleep(0.2)
    turned, expired = (found[name] for name in about)
    wanted = "ksdp.document.turned-sensitive", body(store, schedule, RUN)
    assert (turned.event, turned.payload) == wanted
    assert (expired.event, expired.payload["documents"]) == ("ksdp.clearance.expired", 1)
