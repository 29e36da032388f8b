"""Audits that come back: `schedule`, `now`, `serve`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ksdp.audit.verdicts.verdict import FAILING, verdicts_code
from ksdp.commands.options import (
    AppetiteOption,
    JsonOption,
    MetricsOption,
    StoreOption,
    WorkersOption,
    read_asked,
    read_spec,
    with_options,
)
from ksdp.commands.present import appetite_code

_TRIES = {"retries": 2, "retry_delay_seconds": 60.0, "timeout_seconds": None}
"""Parameters of a deployment, which Prefect's page can change; the pause doubles with each retry."""
NameArgument = Annotated[str, typer.Argument(help="Name of the schedule.")]


@dataclass(frozen=True)
class CalendarOptions:
    """Options that say when a schedule runs, and what it is called."""

    cron: Annotated[
        str, typer.Option("--cron", help="Cron expression: minute, hour, day of month, month, day of week.")
    ]
    timezone: Annotated[
        str, typer.Option("--timezone", help="Time zone by its IANA name, such as Europe/Vienna.")
    ] = "UTC"
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the schedule. Default: the file name of the spec.")
    ] = None


@dataclass(frozen=True)
class SpendingOptions:
    """Options that say how many documents a run audits, and at what level."""

    full_every: Annotated[
        int, typer.Option("--full-every", help="Every n-th audit is of all documents; 0: only the first.")
    ] = 0
    budget: Annotated[
        str,
        typer.Option(
            "--budget", help="lord: fresh runs, findings earn level back; spending: reused runs, none does."
        ),
    ] = "lord"


@with_options
def schedule(
    *,
    spec: Annotated[Path, typer.Argument(help="The spec, a TOML file; read again at every run.")],
    calendar: CalendarOptions,
    spending: SpendingOptions,
    appetite: AppetiteOption = None,
    link: Annotated[str | None, typer.Option("--link", help="URL of the dashboard, for links.")] = None,
    workers: WorkersOption = None,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Write a Prefect deployment that audits what has changed, on a calendar; the same name changes it."""
    read, _ = read_spec(spec)
    from ksdp.flows.schedules.serve import add, next_level_words
    from ksdp.storage.schedules.schedule_files import check_schedulable, check_schedule
    from ksdp.storage.store import Store

    check_schedulable(read)
    read_asked(appetite, read)
    made = check_schedule(
        {
            "name": calendar.name or re.sub(r"[^a-z0-9]+", "-", spec.stem.lower()).strip("-"),
            "spec": str(spec.resolve()),
            "created": datetime.now(UTC),
            "level": read.decision.level,
            "workers": workers,
            "appetite": None if appetite is None else str(appetite.resolve()),
            "link": link,
        }
        | asdict(spending)
    )
    deployment = add(Store.open(store), made, calendar.cron, calendar.timezone, _TRIES)
    if as_json:
        shown = {"schedule": made.name, "deployment": deployment, "level": made.level, "budget": made.budget}
        typer.echo(json.dumps(shown | asdict(calendar)))
        return
    typer.echo(f"deployment {deployment}: {calendar.cron} ({calendar.timezone})", err=True)
    runs = f"`ksdp now {made.name} --store {store}` runs it once, `ksdp serve --store {store}` by the calendar."
    typer.echo(f"{next_level_words(store, made.name)}\n{runs}", err=True)


class FailNowOn(StrEnum):
    """What a night's exit code may report, besides failed controls."""

    became_sensitive = "became-sensitive"
    sensitive = "sensitive"
    undecided = "undecided"


def run_schedule(
    name: NameArgument,
    full: Annotated[bool, typer.Option("--full", help="Audit every document, changed or not.")] = False,
    fail_on: Annotated[
        list[FailNowOn] | None,
        typer.Option(
            "--fail-on",
            help="What the exit code reports, besides a void audit; repeatable. Default: sensitive, undecided.",
        ),
    ] = None,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Run a schedule here and now, and wait for it. The exit code counts all its documents, audited now or not."""
    from ksdp.flows.schedules.serve import next_level_words, run_now
    from ksdp.terminal import terminal

    with terminal():
        run = run_now(store, name, full=full)
    if as_json:
        typer.echo(json.dumps({"schedule": name} | run.model_dump(mode="json")))
    else:
        typer.echo(f"{run.outcome}: {run.reason or run.words}", err=True)
        if run.audit:
            typer.echo(f"audit   {run.audit}", err=True)
        typer.echo(next_level_words(store, name), err=True)
    raise typer.Exit(_code(run, fail_on))


def _code(run: Any, fail_on: Sequence[str] | None) -> int:
    """The exit code; without `fail_on`, that of the risk appetite if there is one, else of all verdicts."""
    if run.outcome == "void":
        return 5
    if fail_on is None and run.appetite_missed is not None:
        return appetite_code(run.appetite_missed)
    if "became-sensitive" in (fail_on or ()) and run.became_sensitive:
        return 3
    return verdicts_code(run.verdicts, FAILING if fail_on is None else fail_on) or appetite_code(
        run.appetite_missed or ()
    )


def serve(
    store: StoreOption = Path("ksdp-store"),
    metrics: MetricsOption = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Prefect block that reminders and news go to, such as webhook/NAME.")
    ] = None,
) -> None:
    """Run the schedules of a store until stopped (Ctrl-C); `PREFECT_API_URL` names a Prefect server to use."""
    from ksdp.flows.schedules.serve import serve as run_server
    from ksdp.terminal import plain

    with plain():
        run_server(store, metrics=metrics, to=to)
