"""Who is told of what a schedule found: notices by mail, HTTP or a command; Prefect's artifacts."""

from __future__ import annotations

import json
import os
import smtplib
import ssl
import subprocess
from collections.abc import Mapping
from email.message import EmailMessage
from typing import Any

import httpx
from prefect.artifacts import acreate_link_artifact, acreate_table_artifact

from ksdp.audit.errors import KsdpError
from ksdp.audit.results.parts import StatisticSummary
from ksdp.audit.results.summary import Summary
from ksdp.flows.audits.prefect_audit import statistic_row
from ksdp.flows.interruption import Clock
from ksdp.storage.schedules.changes import Drift, StatisticDrift
from ksdp.storage.schedules.outbox import Waiting, attempted, put_notice, waiting_notices
from ksdp.storage.schedules.schedule_files import Event, Notice, Schedule, ScheduledRun, read_runs
from ksdp.storage.store import Store

_SECONDS = 30.0

_SUBJECT: dict[Event, str] = {
    "sensitive": "{became_sensitive} documents became sensitive",
    "void": "the controls failed, the audit is void",
    "appetite": "the risk appetite is missed",
    "not-run": "an audit did not run",
    "unchanged": "audits were missed, and nothing has changed since",
}


class Undelivered(KsdpError):
    """A notice did not arrive; the message holds no address and no secret."""


def events_of(run: ScheduledRun) -> list[Event]:
    """What a run gives cause to tell."""
    events: list[Event] = []
    if run.became_sensitive:
        events.append("sensitive")
    if run.outcome == "void":
        events.append("void")
    if run.appetite_missed:
        events.append("appetite")
    if run.outcome == "unchanged" and run.missed:
        events.append("unchanged")
    elif run.outcome in ("failed", "timed-out", "crashed") or run.missed:
        events.append("not-run")
    return events


def body(store: Store, schedule: Schedule, event: Event, run: ScheduledRun) -> dict[str, Any]:
    """The body of a notice: counts and links.

    Returns
    -------
    dict
        `event`, `schedule`, `outcome`, `audit`, times, counts, and under `links` the report on this machine and,
        where the schedule names its address, the dashboard.
    """
    links: dict[str, str] = {}
    if run.audit is not None and run.outcome in ("audited", "void"):
        links["report"] = (store.audit(run.audit) / "report.html").as_uri()
        if schedule.link:
            links["dashboard"] = f"{schedule.link.rstrip('/')}/audits/{run.audit}"
    return {
        "event": event,
        "schedule": schedule.name,
        "outcome": run.outcome,
        "audit": run.audit,
        "planned": None if run.planned is None else run.planned.isoformat(),
        "finished": run.finished.isoformat(),
        "became_sensitive": run.became_sensitive,
        "verdict_changes": run.verdict_changes,
        "appetite_missed": list(run.appetite_missed or ()),
        "documents": dict(run.documents),
        "verdicts": dict(run.verdicts),
        "attempts": run.attempts,
        "missed": run.missed,
        "links": links,
    }


def notify(store: Store, schedule: Schedule, run: ScheduledRun, now: Clock) -> list[Waiting]:
    """Queue and send whatever a run gives cause to tell; what became of each. Nothing that fails here raises."""
    queued = [
        put_notice(store, schedule.name, event, notice, body(store, schedule, event, run), now())
        for event in events_of(run)
        for notice in schedule.notices
        if event in notice.on or (event == "unchanged" and "not-run" in notice.on)
    ]
    return [_attempt(store, schedule.name, item, now) for item in queued]


def send_waiting(store: Store, name: str, now: Clock) -> list[Waiting]:
    """Try those notices again whose turn it is."""
    return [_attempt(store, name, item, now) for item in waiting_notices(store, name, now())]


def _attempt(store: Store, name: str, item: Waiting, now: Clock) -> Waiting:
    error = None
    try:
        deliver(item.notice, item.body, item.id)
    except Undelivered as failed:
        error = str(failed)
    except Exception as failed:
        error = f"{type(failed).__name__}"  # its text may hold an address or a password
    return attempted(store, name, item, error, now())


def deliver(notice: Notice, content: Mapping[str, Any], name: str) -> None:
    """Send one notice.

    Parameters
    ----------
    content : mapping
        What `body` made.
    name : str
        Id of the notice: the same in every attempt, so that a receiver can tell a repetition.
    """
    content = {"notice": name} | dict(content)
    if notice.kind == "command":
        _command(notice, content)
    elif notice.kind == "webhook":
        _webhook(notice, content)
    else:
        _email(notice, content)


def _command(notice: Notice, content: Mapping[str, Any]) -> None:
    try:
        done = subprocess.run(
            list(notice.command),
            input=json.dumps(content).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Undelivered(f"the command did not end within {_SECONDS:.0f} s.") from None
    except OSError as error:
        raise Undelivered(f"the command cannot be started: {error.strerror}.") from None
    if done.returncode:
        raise Undelivered(f"the command ended with exit code {done.returncode}.")


def _webhook(notice: Notice, content: Mapping[str, Any]) -> None:
    try:
        answer = httpx.post(str(notice.url), json=dict(content), timeout=_SECONDS)
    except httpx.HTTPError as error:
        raise Undelivered(f"the webhook did not answer ({type(error).__name__}).") from None
    if not answer.is_success:
        raise Undelivered(f"the webhook answered {answer.status_code}.")


def _email(notice: Notice, content: Mapping[str, Any]) -> None:
    try:
        with smtplib.SMTP(str(notice.host), notice.port, timeout=_SECONDS) as server:
            if notice.starttls:
                server.starttls(context=ssl.create_default_context())
            if notice.user is not None:
                server.login(notice.user, _password(notice))
            server.send_message(_message(notice, content))
    except (smtplib.SMTPException, OSError) as error:
        raise Undelivered(f"the mail server did not take it ({type(error).__name__}).") from None


def _password(notice: Notice) -> str:
    try:
        return os.environ[str(notice.password_env)]
    except KeyError:
        raise Undelivered(f"the environment variable {notice.password_env} is not set.") from None


def _message(notice: Notice, content: Mapping[str, Any]) -> EmailMessage:
    message = EmailMessage()
    subject = _SUBJECT[content["event"]].format_map(content)
    message["Subject"] = f"ksdp: {subject} (schedule {content['schedule']})"
    message["From"] = str(notice.sender)
    message["To"] = ", ".join(notice.to)
    message["X-Ksdp-Notice"] = content["notice"]
    lines = []
    for key, value in content.items():
        if isinstance(value, Mapping):
            lines += [f"{key} {name}: {inner}" for name, inner in value.items()]
        elif value is not None:
            lines.append(f"{key}: {value}")
    message.set_content("\n".join(lines) + "\n")
    return message


_LINES = 30


async def publish_run(
    store: Store, schedule: Schedule, run: ScheduledRun, summary: Summary | None, drift: Drift | None
) -> None:
    """Create the artifacts of a run.

    Parameters
    ----------
    summary : Summary, optional
        Of the audit; None where there was none.
    """
    key = f"schedule-{schedule.name}"
    await acreate_table_artifact(
        key=f"{key}-history",
        table=[_line(past) for past in reversed(read_runs(store, schedule.name)[-_LINES:])],
        description=f"Runs of schedule {schedule.name}, newest first",
    )
    if run.verdicts:
        await acreate_table_artifact(
            key=f"{key}-verdicts",
            table=[{"verdict": name, "documents": count} for name, count in run.verdicts.items()],
            description="All documents as they stand after this run",
        )
    if summary is None:
        return
    moved = {} if drift is None else drift.summary().statistics
    await acreate_table_artifact(
        key=f"{key}-statistics",
        table=[_statistic(name, statistic, moved.get(name)) for name, statistic in summary.statistics.items()],
        description=f"Audit {run.audit}: D by statistic, and its drift against earlier audits",
    )
    links = body(store, schedule, "sensitive", run)["links"]
    for name, link in links.items():
        await acreate_link_artifact(
            key=f"{key}-{name}", link=link, link_text=f"{name} of audit {run.audit}", description="of this run"
        )


def _line(run: ScheduledRun) -> dict[str, Any]:
    return {
        "planned": "asked for" if run.planned is None else run.planned.isoformat(timespec="minutes"),
        "started": run.started.isoformat(timespec="seconds"),
        "outcome": run.outcome,
        "audit": run.audit or "",
        "documents audited": run.documents.get("audited", 0),
        "excluded by decision": run.documents.get("excluded", 0),
        "became sensitive": run.became_sensitive,
        "missed before": run.missed,
        "level": "" if run.level is None else f"{run.level:.2g}",
        "level left": "" if run.level_left is None else f"{run.level_left:.2g}",
        "seconds": round(run.seconds, 1),
    }


def _statistic(name: str, statistic: StatisticSummary, moved: StatisticDrift | None) -> dict[str, Any]:
    return statistic_row(name, statistic) | {
        "measured before": 0 if moved is None else moved.pairs,
        "median change of D": "" if moved is None else round(moved.median, 3),
    }
