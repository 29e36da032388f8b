"""Keep a store well: `check`, `prune`."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from ksdp.commands.options import JsonOption, StoreOption


def check(store: StoreOption = Path("ksdp-store"), as_json: JsonOption = False) -> None:
    """Read a whole store, and print what is damaged and what repairs it. The exit code is 1 if there is damage."""
    from ksdp.audit.reviewing import visible
    from ksdp.flows.upkeep import damage
    from ksdp.storage.store import Store
    from ksdp.terminal import terminal

    opened = Store.open(store, create=False)
    with terminal():
        known = damage(opened)
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in known]))
    else:
        for one in known:
            typer.echo(visible(f"{one.where}: {one.sentence}"))
        typer.echo(f"{len(known)} damaged" if known else "nothing is damaged", err=True)
    raise typer.Exit(1 if known else 0)


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
    known = (delete if yes else prunable)(opened, datetime.now(UTC), timedelta(days=days))
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in known]))
        return
    for one in known:
        mark = "stays  " if one.kept else "deleted" if yes else "goes   "
        typer.echo(f"{mark} {one.folder}  {one.size / 1e6:8.1f} MB  {one.why}")
    going = [one for one in known if not one.kept]
    size = sum(one.size for one in going) / 1e6
    again = "the same `ksdp audit` makes them again" if yes else "`--yes` deletes them"
    typer.echo(f"{len(going)} of {len(known)} folders of runs, {size:.1f} MB; {again}", err=True)
