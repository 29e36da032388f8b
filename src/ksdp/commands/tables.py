"""An audit's tables for other tools: `export`, `tables`, `sql`."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ksdp.commands.options import AuditArgument, JsonOption, StoreOption, tell_void


class TableName(StrEnum):
    """The tables of an audit."""

    verdicts = "verdicts"
    statistics = "statistics"
    effects = "effects"
    unbiased = "unbiased"


def export(
    audit: AuditArgument,
    to: Annotated[Path, typer.Option("--to", help="A file: .csv, .json or .parquet says the format.")],
    table: Annotated[TableName, typer.Option("--table", help="The table to write.")] = TableName.verdicts,
    store: StoreOption = Path("ksdp-store"),
) -> None:
    """Write a table of an audit as CSV, JSON or Parquet."""
    from ksdp.storage.audits.history import find_audit, read_summary
    from ksdp.storage.audits.sql import export_table
    from ksdp.storage.store import Store

    opened = Store.open(store, create=False)
    audit = find_audit(opened, audit)
    rows = export_table(opened, audit, table.value, to)
    tell_void(read_summary(opened.audit(audit)))
    typer.echo(f"{rows} rows  {to}")


def tables(audit: AuditArgument, store: StoreOption = Path("ksdp-store")) -> None:
    """List the tables that `ksdp sql` opens, with their columns and rows."""
    from ksdp.storage.audits.history import find_audit
    from ksdp.storage.audits.sql import described_tables
    from ksdp.storage.store import Store

    opened = Store.open(store, create=False)
    for name, rows, columns in described_tables(opened, find_audit(opened, audit)):
        typer.echo(f"{name} ({rows} rows)\n  {', '.join(columns)}")


def sql(
    audit: AuditArgument,
    query: Annotated[str, typer.Argument(help="A query in SQL; `ksdp tables` lists the tables.")],
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Query an audit's tables in SQL (DuckDB), including the values and the inclusion of every run."""
    from ksdp.storage.audits.history import find_audit, read_summary
    from ksdp.storage.audits.sql import ask
    from ksdp.storage.store import Store

    opened = Store.open(store, create=False)
    audit = find_audit(opened, audit)
    names, rows = ask(opened, audit, query)
    tell_void(read_summary(opened.audit(audit)))
    if as_json:
        told = [
            [None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row] for row in rows
        ]
        typer.echo(json.dumps([dict(zip(names, row, strict=True)) for row in told], default=str))
        return
    typer.echo("\t".join(names))
    for row in rows:
        typer.echo("\t".join("" if cell is None else str(cell) for cell in row))
