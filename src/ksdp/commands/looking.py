"""Look at what was found: `list`, `show`, `report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ksdp.commands.options import KEYS, JsonOption, StoreOption, tell

__all__ = ["list_audits", "report", "show"]


def list_audits(store: StoreOption = Path("ksdp-store"), as_json: JsonOption = False) -> None:
    """List the finished audits of a store, newest first."""
    from ksdp.storage.findings import read_summary
    from ksdp.storage.store import Store

    opened = Store.open(store, create=False)
    summaries = [read_summary(opened.audit(name)) for name in opened.audits()]
    if as_json:
        typer.echo(json.dumps([{key: summary[key] for key in KEYS} for summary in summaries]))
        return
    for summary in summaries:
        counts, unit = summary["verdicts"], summary["design"].get("unit", "document")
        typer.echo(
            f"{summary['audit']}  {summary['provenance']['finished']}  {summary['mechanism']:12}  "
            f"{summary['documents']:>7} {unit}s  {counts['sensitive']:>6} sensitive  "
            f"{counts['clear']:>6} clear  {counts['undecided']:>6} undecided{'' if summary['valid'] else '  VOID'}"
        )


def show(
    audit: Annotated[str, typer.Argument(help="Id of a finished audit.")],
    document: Annotated[str | None, typer.Argument(help="Id of a document; the whole audit without.")] = None,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Show what an audit found, or what it found of one document."""
    from ksdp.storage.findings import read_document, read_summary
    from ksdp.storage.store import Store

    folder = Store.open(store, create=False).audit(audit)
    if document is None:
        tell(read_summary(folder), as_json)
        return
    found = read_document(folder, document)
    if as_json:
        typer.echo(json.dumps(found))
        return
    typer.echo(f"{document}: {found['verdict']}, adjusted p 10^{found['log10_adjusted_p']:.1f}")
    for row in found["statistics"]:
        typer.echo(
            f"  {row['statistic']:28} D {row['distance']:.3f} [{row['band_low']:.3f}, {row['band_high']:.3f}]  "
            f"p 10^{row['log10_p']:.1f}  ({row['n_with']} with, {row['n_without']} without)"
        )


def report(
    audit: Annotated[str, typer.Argument(help="Id of a finished audit.")],
    html: Annotated[
        Path | None, typer.Option("--html", help="Where to write it; beside the findings without.")
    ] = None,
    store: StoreOption = Path("ksdp-store"),
) -> None:
    """Render the report of a finished audit again."""
    from ksdp.dashboards.report import render_report
    from ksdp.storage.store import Store, write_whole

    opened = Store.open(store, create=False)
    page = render_report(opened, audit)
    target = html or opened.audit(audit) / "report.html"

    def write(part: Path) -> None:
        part.write_text(page, encoding="utf-8")

    write_whole(target, write)
    typer.echo(str(target))
