"""A first spec from a person's file: `init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    data: Annotated[
        str, typer.Argument(help="The corpus, a path or URL: Parquet, CSV, JSON lines, npz, mtx, UCI docword.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="The spec to write. Default: the data file's name with .toml.")
    ] = None,
    margin: Annotated[float, typer.Option("--margin", min=0.01, max=0.99, help="The advantage accepted.")] = 0.2,
) -> None:
    """Write a commented spec for a data file, with enough runs to certify the margin."""
    from ksdp.audit.errors import InputError
    from ksdp.flows.audits.first_spec import first_spec, spec_beside
    from ksdp.storage.store import write_text

    target = out or spec_beside(data)
    if target.exists():
        raise InputError(f"{target} exists; name another file with `--out`.")
    write_text(target, first_spec(data, target.resolve().parent, margin))
    typer.echo(f"{target}\nnext: ksdp plan {target}", err=True)
