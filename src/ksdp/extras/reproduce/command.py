"""The papers' tables and figures, ours beside theirs: `reproduce`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ksdp.audit.errors import InputError
from ksdp.commands.options import JsonOption


def reproduce(
    table: Annotated[str, typer.Argument(help="Name of the table, as `--list` shows it.")] = "",
    show: Annotated[
        bool, typer.Option("--list", help="List the tables: what each needs, and how long it takes.")
    ] = False,
    data: Annotated[
        Path, typer.Option("--data", envvar="KSDP_DATA", help="Folder of the data sets, one folder each.")
    ] = Path("data"),
    out: Annotated[Path, typer.Option("--out", help="Folder for the page, the numbers and the plot.")] = Path(
        "reproduced"
    ),
    short: Annotated[bool, typer.Option("--short", help="A smaller version, in minutes.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure a table or figure of the papers again, and print it beside theirs.

    The plot needs matplotlib: pip install 'ksdp[plot]'.
    """
    from ksdp.extras.reproduce.tables import listed
    from ksdp.extras.reproduce.tables import reproduce as repeat

    if show:
        typer.echo(json.dumps(listed(data)) if as_json else "\n".join(_told(data)))
        return
    if not table:
        raise InputError("name a table; `ksdp reproduce --list` shows them.")
    found = repeat(table, data, out, short=short, say=lambda text: typer.echo(text, err=True))
    if as_json:
        typer.echo(json.dumps(found | {"page": str(found.page), "plot": found.plot and str(found.plot)}))
        return
    typer.echo(found.page.read_text(encoding="utf-8"))
    typer.echo(f"page  {found.page}", err=True)
    typer.echo(f"plot  {found.plot or 'none: pip install ksdp[plot] draws one'}", err=True)


def _told(data: Path) -> list[str]:
    from ksdp.extras.reproduce.tables import ELSEWHERE, listed

    lines = [f"{'table':22} {'minutes, --short':>16}  data"]
    for one in listed(data):
        needs = ", ".join(one["data"]) or "none"
        there = f"; not there: {', '.join(one['missing'])}" if one["missing"] else ""
        minutes = f"{one['minutes']['whole']:g}, {one['minutes']['short']:g}"
        lines += [f"{one['name']:22} {minutes:>16}  {needs}{there}", f"{'':22}   {one['title']}"]
    lines += ["", "Not reproduced by this command:"]
    lines += [f"  {name}: {why}" for name, why in ELSEWHERE.items()]
    return lines
