"""Make audits: `audit`, `plan`, `test`, `demo`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ksdp.commands.options import (
    DaskOption,
    InsecureDaskOption,
    JsonOption,
    StoreOption,
    WorkersOption,
    asked_dask,
    exit_code,
    tell,
)

if TYPE_CHECKING:
    from ksdp.audit.results.summary import Summary
    from ksdp.audit.results.views_summary import ViewsSummary
    from ksdp.audit.spec import Spec

__all__ = ["audit", "demo", "evaluate_statistics", "plan"]


def audit(
    spec: Annotated[Path, typer.Argument(help="The spec, a TOML file.")],
    store: StoreOption = Path("ksdp-store"),
    workers: WorkersOption = None,
    dask: DaskOption = None,
    insecure_dask: InsecureDaskOption = False,
    as_json: JsonOption = False,
) -> None:
    """Audit every document of a corpus, in every view of the spec; interrupted, the same command resumes."""
    from ksdp.flows.prepare import read_spec_file
    from ksdp.terminal import terminal

    read, base = read_spec_file(spec)
    dask = asked_dask(dask, insecure_dask)
    with terminal():
        summary = _run(read, base, store, workers=workers, dask=dask)
    tell(summary, as_json)
    raise typer.Exit(exit_code(summary))


def _run(spec: Spec, base: Path, store: Path, *, workers: int | None, dask: str | None) -> Summary | ViewsSummary:
    if spec.views is None:
        from ksdp.flows.audits.run import run_audit

        return run_audit(spec, base, store, workers=workers, dask=dask)
    from ksdp.flows.audits.views import run_views

    return run_views(spec, base, store, workers=workers, dask=dask)


def _pairs(runs: int) -> str:
    return f"pairs     {runs} runs besides, for the certificate\n" if runs else ""


def plan(
    spec: Annotated[Path, typer.Argument(help="The spec, a TOML file.")], as_json: JsonOption = False
) -> None:
    """Forecast before spending: runs, CPU hours, bytes, and what the audit can find and certify."""
    from ksdp.flows.audits.forecast import forecast
    from ksdp.flows.prepare import read_spec_file

    said = forecast(*read_spec_file(spec))
    if as_json:
        typer.echo(json.dumps(said))
        return
    for view in said["views"]:
        typer.echo(
            f"{view['name']}: {view['runs']} runs{' (shared)' if view['shared'] else ''}, finds "
            f"{view['detectable_D']:.2f}, certifies {view['certifiable_margin']:.2f}"
        )
    typer.echo(
        f"{said['documents']} {said['unit']}s, {said['runs']} runs in {said['blocks']} blocks, "
        f"{len(said['statistics'])} statistics\n"
        f"{_pairs(said['certificate_runs'])}"
        f"cost      {said['cpu_hours']:.2f} CPU hours ({said['seconds_a_run'] * 1e3:.1f} ms a run), "
        f"{said['bytes'] / 1e9:.1f} GB\n"
        f"finds     a leak of advantage {said['detectable_D']:.2f}, 8 times in 10, even as the only one\n"
        f"certifies a margin of {said['certifiable_margin']:.2f}, 8 times in 10, where there is no leak"
        + (
            f";\n          the spec's {said['margin']:.2f} takes {said['runs_for_margin']} runs"
            if said["margin"]
            else ""
        )
    )
    if said["unread"]:
        typer.echo(f"unread    {', '.join(said['unread'])}: nobody looks at it, so that no document can be clear")


def evaluate_statistics(
    audit: Annotated[str, typer.Argument(help="Id of a finished audit (`ksdp list`).")],
    statistics: Annotated[str, typer.Option("--statistics", help="Names, or module:object, comma-separated.")],
    store: StoreOption = Path("ksdp-store"),
    workers: WorkersOption = None,
    dask: DaskOption = None,
    insecure_dask: InsecureDaskOption = False,
    as_json: JsonOption = False,
) -> None:
    """Evaluate new statistics on cached observables, without a single run of the mechanism."""
    from ksdp.flows.audits.run import run_test
    from ksdp.terminal import terminal

    names = tuple(name.strip() for name in statistics.split(",") if name.strip())
    dask = asked_dask(dask, insecure_dask)
    with terminal():
        summary = run_test(store, audit, names, workers=workers, dask=dask)
    tell(summary, as_json)
    raise typer.Exit(exit_code(summary))


def demo(
    store: StoreOption = Path("ksdp-demo"), workers: WorkersOption = None, as_json: JsonOption = False
) -> None:
    """Audit the docstrings of the installed numpy, scipy and pandas with PD-SVD and PD-NMF."""
    from ksdp.flows.audits.demo import run_demo
    from ksdp.terminal import terminal

    with terminal():
        summaries = run_demo(store, workers=workers)
    for summary in summaries:
        tell(summary, as_json)
