"""Keep a store well: `check`, `prune`."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from ksdp.audit.reviewing import visible
from ksdp.commands.options import JsonOption, StoreOption


def check(store: StoreOption = Path("ksdp-store"), as_json: JsonOption = False) -> None:
    """Read a whole store, and print what is damaged and what repairs it. The exit code is 1 if there is damage."""
    from ksdp.flows.upkeep import damage
    from ksdp.storage.store import Store
    from ksdp.terminal import terminal

    opened = Store.open(store, create=False)
    with terminal():
        faults = damage(opened)
    if as_json:
        typer.echo(json.dumps([asdict(fault) for fault in faults]))
    else:
        for fault in faults:
            typer.echo(visible(f"{fault.where}: {fault.sentence}"))
        typer.echo(f"{len(faults)} damaged" if faults else "nothing is damaged", err=True)
    raise typer.Exit(1 if faults else 0)


def prune(
    days: Annotated[int, typer.Option("--days", min=0, help="Keep the runs of audits that are younger.")] = 90,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them. Default: only say what would go.")] = False,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Delete old runs that no clearance rests on; verdicts, tables, reviews and the ledger stay."""
    from ksdp.flows.upkeep import prunable
    from ksdp.flows.upkeep import prune as delete
    from ksdp.storage.store import Store

    opened = Store.open(store, create=False)
    old = (delete if yes else prunable)(opened, datetime.now(UTC), timedelta(days=days))
    if as_json:
        typer.echo(json.dumps([asdict(path) for path in old]))
        return
    for path in old:
        mark = "stays  " if path.kept else "deleted" if yes else "goes   "
        typer.echo(visible(f"{mark} {path.folder}  {path.size / 1e6:8.1f} MB  {path.why}"))
    going = [path for path in old if not path.kept]
    size = sum(path.size for path in going) / 1e6
    again = "the same `ksdp audit` makes them again" if yes else "`--yes` deletes them"
    typer.echo(f"{len(going)} of {len(old)} folders of runs, {size:.1f} MB; {again}", err=True)
