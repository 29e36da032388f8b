"""Audits that come back: `schedule`, `schedules`, `pause`, `resume`, `now`, `unschedule`, `serve`."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ksdp.audit.verdicts.verdict import verdicts_code
from ksdp.commands.options import (
    AppetiteOption,
    JsonOption,
    MetricsOptions,
    StoreOption,
    WorkersOption,
    appetite_code,
    read_asked,
    read_spec,
    with_options,
)

NameArgument = Annotated[str, typer.Argument(help="Name of the schedule (`ksdp schedules`).")]


@dataclass(frozen=True)
class CalendarOptions:
    """Options that say when a schedule runs, and what it is called."""

    cron: Annotated[str, typer.Option("--cron", help="Minute, hour, day of month, month, day of week.")]
    timezone: Annotated[str, typer.Option("--timezone", help="IANA name, such as Europe/Vienna.")] = "UTC"
    name: Annotated[str | None, typer.Option("--name", help="Default: the spec's file name.")] = None


@dataclass(frozen=True)
class SpendingOptions:
    """Options that say how many documents a run audits, and at what level."""

    full_every: Annotated[int, typer.Option("--full-every", help="Audit all documents every n-th time.")] = 0
    budget: Annotated[
        str, typer.Option("--budget", help="lord: fresh runs, discoveries earn level; spending: runs reused.")
    ] = "lord"


@dataclass(frozen=True)
class AttemptOptions:
    """Options that say how often a run is tried, and for how long."""

    retries: Annotated[int, typer.Option("--retries", help="Further attempts after a failure.")] = 2
    backoff: Annotated[
        float, typer.Option("--backoff", help="Seconds before the first retry; doubled each time.")
    ] = 60.0
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds an attempt may take.")] = None


@with_options
def schedule(
    *,
    spec: Annotated[Path, typer.Argument(help="The spec, a TOML file; read again at every run.")],
    calendar: CalendarOptions,
    spending: SpendingOptions,
    attempts: AttemptOptions,
    appetite: AppetiteOption = None,
    link: Annotated[str | None, typer.Option("--link", help="Address of the dashboard, where links lead.")] = None,
    workers: WorkersOption = None,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Audit what changes, on a calendar; `ksdp serve` runs it. The same name again changes the schedule."""
    read, _ = read_spec(spec)
    from ksdp.flows.schedules.scheduled_run import check_schedulable
    from ksdp.storage.schedules.schedule_files import add_schedule, check_schedule
    from ksdp.storage.store import Store

    check_schedulable(read)
    read_asked(appetite, read)
    made = check_schedule(
        {
            "name": calendar.name or re.sub(r"[^a-z0-9]+", "-", spec.stem.lower()).strip("-"),
            "spec": str(spec.resolve()),
            "cron": calendar.cron,
            "timezone": calendar.timezone,
            "created": datetime.now(UTC),
            "level": read.decision.level,
            "workers": workers,
            "appetite": None if appetite is None else str(appetite.resolve()),
            "link": link,
        }
        | asdict(spending)
        | asdict(attempts)
    )
    opened = Store.open(store)
    made = add_schedule(opened, made)
    shown = _about(opened, made)
    if as_json:
        typer.echo(json.dumps(shown))
        return
    typer.echo(f"schedule {made.name}: next {', '.join(shown['next'])}", err=True)
    typer.echo(f"`ksdp serve --store {store}` runs it.", err=True)


def _about(store: Any, schedule: Any) -> dict[str, Any]:
    from ksdp.storage.schedules.schedule_files import next_times, read_runs

    runs = read_runs(store, schedule.name)
    left = next((run.level_left for run in reversed(runs) if run.level_left is not None), None)
    coming = [] if schedule.paused else next_times(schedule, datetime.now(UTC), 3)
    return {
        "schedule": schedule.name,
        "spec": schedule.spec,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "paused": schedule.paused,
        "next": [time.isoformat(timespec="minutes") for time in coming],
        "runs": len(runs),
        "last": runs[-1].model_dump(mode="json", exclude={"budget"}) if runs else None,
        "level": schedule.level,
        "level_left": left,
    }


def list_schedules(store: StoreOption = Path("ksdp-store"), as_json: JsonOption = False) -> None:
    """List the schedules of a store: when they run next, and what became of the last run."""
    from ksdp.flows.schedules.serve import being_served
    from ksdp.storage.schedules.schedule_files import read_schedules
    from ksdp.storage.store import Store

    opened = Store.open(store, create=False)
    rows = [_about(opened, each) for each in read_schedules(opened)]
    served = being_served(opened)
    if as_json:
        typer.echo(json.dumps({"served": served, "schedules": rows}))
        return
    for one in rows:
        last = one["last"]
        outcome = f"{last['outcome']} {last['finished'][:16]}" if last else "has not run"
        coming = "paused" if one["paused"] else f"next {one['next'][0]}" if one["next"] else "never"
        typer.echo(f"{one['schedule']:20} {one['cron']:16} {one['timezone']:16} {coming:32} last: {outcome}")
    if rows and not served:
        typer.echo("nothing runs them: start `ksdp serve`.", err=True)


def pause(name: NameArgument, store: StoreOption = Path("ksdp-store")) -> None:
    """Pause a schedule; runs planned in the meantime are skipped."""
    _set(store, name, True)


def resume(name: NameArgument, store: StoreOption = Path("ksdp-store")) -> None:
    """Resume a schedule."""
    _set(store, name, False)


def _set(store: Path, name: str, paused: bool) -> None:
    from ksdp.storage.schedules.schedule_files import set_paused
    from ksdp.storage.store import Store

    set_paused(Store.open(store, create=False), name, paused, datetime.now(UTC))
    typer.echo(f"schedule {name} is {'paused' if paused else 'resumed'}", err=True)


def run_schedule(
    name: NameArgument,
    full: Annotated[bool, typer.Option("--full", help="Every document, changed or not.")] = False,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Run a schedule now: by `ksdp serve` if it is running, else here."""
    from ksdp.flows.schedules.serve import being_served, run_now
    from ksdp.storage.schedules.schedule_files import RunRequest, ask_now
    from ksdp.storage.store import Store
    from ksdp.terminal import terminal

    opened = Store.open(store, create=False)
    if being_served(opened):
        ask_now(opened, name, RunRequest(at=datetime.now(UTC), full=full))
        answer = {"schedule": name, "asked": True}
        typer.echo(json.dumps(answer) if as_json else "`ksdp serve` runs it now", err=not as_json)
        return
    with terminal():
        run = run_now(store, name, full=full)
    if as_json:
        typer.echo(json.dumps({"schedule": name} | run.model_dump(mode="json")))
    else:
        typer.echo(f"{run.outcome}{f': {run.reason}' if run.reason else ''}", err=True)
        if run.audit:
            typer.echo(f"audit   {run.audit}", err=True)
    raise typer.Exit(_code(run))


def _code(run: Any) -> int:
    """What a run means to a shell: as for `ksdp audit`, of all documents as they stand."""
    if run.outcome == "void":
        return 5
    if not run.succeeded:
        return 1
    if run.appetite_missed is not None:
        return appetite_code(run.appetite_missed)
    return verdicts_code(run.verdicts)


def unschedule(name: NameArgument, store: StoreOption = Path("ksdp-store")) -> None:
    """Remove a schedule with its history; its audits stay."""
    from ksdp.storage.schedules.schedule_files import remove_schedule
    from ksdp.storage.store import Store

    remove_schedule(Store.open(store, create=False), name)
    typer.echo(f"schedule {name} is removed", err=True)


@with_options
def serve(
    *,
    store: StoreOption = Path("ksdp-store"),
    metrics: MetricsOptions,
    json_log: Annotated[
        bool, typer.Option("--json-log", help="Every line is a JSON object, for a log collector.")
    ] = False,
) -> None:
    """Run the schedules of a store until stopped (Ctrl-C); `PREFECT_API_URL` names a Prefect server to use."""
    from ksdp.flows.schedules.serve import serve as run_server
    from ksdp.terminal import plain

    with plain(as_json=json_log):
        run_server(store, metrics_port=metrics.metrics_port, metrics_host=metrics.metrics_host, json_log=json_log)
