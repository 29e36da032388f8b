"""Make audits: `audit`, `plan`, `test`, `demo`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ksdp.commands.options import (
    AuditArgument,
    JsonOption,
    PlaceOptions,
    SpecArgument,
    StoreOption,
    WorkersOption,
    exit_code,
    tell,
    with_options,
)

if TYPE_CHECKING:
    from ksdp.audit.results.summary import Summary
    from ksdp.audit.results.views_summary import ViewsSummary
    from ksdp.audit.spec import Spec
    from ksdp.flows.audits.place import Place


@with_options
def audit(
    *,
    spec: SpecArgument,
    store: StoreOption = Path("ksdp-store"),
    where: PlaceOptions,
    as_json: JsonOption = False,
) -> None:
    """Audit every document of a corpus, in every view of the spec. The same command resumes it."""
    from ksdp.flows.prepare import read_spec_file
    from ksdp.terminal import terminal

    read, base = read_spec_file(spec)
    place = where.place()
    with terminal():
        if read.mechanism.name == "recorded":
            summary: Summary | ViewsSummary = _run_recorded(read, base, store)
        else:
            summary = _run(read, base, store, place)
    tell(summary, as_json)
    raise typer.Exit(exit_code(summary))


def _run_recorded(spec: Spec, base: Path, store: Path) -> Summary:
    """Runs that were made elsewhere are in two tables, which this process alone has read."""
    from ksdp.api.call_spec import CallSpec, with_recorded_runs
    from ksdp.flows.audits.place import HERE
    from ksdp.flows.audits.run import run_audit

    asked = with_recorded_runs(CallSpec(spec, base))
    with asked.known():
        return run_audit(asked.spec, base, store, HERE)


def _forecast_recorded(spec: Spec, base: Path) -> dict[str, Any]:
    from ksdp.api.call_spec import CallSpec, with_recorded_runs
    from ksdp.flows.audits.forecast import forecast

    asked = with_recorded_runs(CallSpec(spec, base))
    with asked.known():
        return forecast(asked.spec, base)


def _run(spec: Spec, base: Path, store: Path, place: Place) -> Summary | ViewsSummary:
    if spec.views is None:
        from ksdp.flows.audits.run import run_audit

        return run_audit(spec, base, store, place)
    from ksdp.flows.audits.views import run_views

    return run_views(spec, base, store, place)


def plan(spec: SpecArgument, as_json: JsonOption = False) -> None:
    """Forecast before spending: runs, CPU hours, bytes, and what the audit can find and certify."""
    from ksdp.flows.audits.forecast import forecast, forecast_words
    from ksdp.flows.prepare import read_spec_file

    read, base = read_spec_file(spec)
    recorded = read.mechanism.name == "recorded"
    forecasts = _forecast_recorded(read, base) if recorded else forecast(read, base)
    if as_json:
        typer.echo(json.dumps(forecasts))
        return
    typer.echo(forecast_words(forecasts))


@with_options
def evaluate_statistics(
    *,
    audit: AuditArgument,
    statistics: Annotated[str, typer.Option("--statistics", help="Names, or module:object, comma-separated.")],
    store: StoreOption = Path("ksdp-store"),
    where: PlaceOptions,
    as_json: JsonOption = False,
) -> None:
    """Evaluate new statistics on cached observables, without a single run of the mechanism."""
    from ksdp.flows.audits.run import run_test
    from ksdp.storage.audits.history import find_audit
    from ksdp.storage.store import Store
    from ksdp.terminal import terminal

    names = tuple(name.strip() for name in statistics.split(",") if name.strip())
    place = where.place()
    with terminal():
        opened = Store.open(store, create=False)
        summary = run_test(store, find_audit(opened, audit), names, place)
    if not as_json:
        for name, statistic in summary.statistics.items():
            typer.echo(
                f"{name:28} median D {statistic.median_D:.3f}, largest {statistic.max_D:.3f}, sensitive by it "
                f"alone {statistic.sensitive}   (by chance half stay below {summary.chance.median_D:.3f})"
            )
    tell(summary, as_json)
    raise typer.Exit(exit_code(summary))


def demo(
    store: StoreOption = Path("ksdp-demo"), workers: WorkersOption = None, as_json: JsonOption = False
) -> None:
    """Audit docstrings of the installed numpy, scipy and pandas: every verdict, and what makes it safe."""
    from ksdp.flows.audits.demo import demo_words, run_demo
    from ksdp.terminal import terminal

    with terminal():
        summaries = run_demo(store, workers=workers)
    if as_json:
        for summary in summaries:
            tell(summary, as_json)
    else:
        typer.echo(demo_words(summaries), err=True)
