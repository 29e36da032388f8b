"""Say what parties have to agree on before a run: `columns`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ksdp.commands.options import JsonOption, SpecArgument


def columns(
    spec: SpecArgument,
    out: Annotated[Path | None, typer.Option("--out", help="Write the names there, one per line.")] = None,
    party: Annotated[
        list[str] | None,
        typer.Option("--party", help="NAME@HOST:PORT of each party, with NAME.pub: print a whole protocol file."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the columns that a spec's levers leave and how rows are made: `[features]` of a protocol file.

    With the parties named, the whole file.
    """
    from ksdp.flows.prepare import read_spec_file
    from ksdp.flows.runs.countersigned import features_hash
    from ksdp.flows.runs.terms import protocol_text
    from ksdp.storage.corpora import corpus_features, rows_hash
    from ksdp.storage.readers.spec_files import copies_kept

    read, base = read_spec_file(spec)
    with copies_kept():
        names, rows = corpus_features(read.corpus, base), rows_hash(read.corpus, base)
    said: dict[str, str | int] = {"hash": features_hash(names), "count": len(names), "rows": rows}
    if out is not None:
        out.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(said))
    elif party:
        typer.echo(protocol_text(read, said, party), nl=False)
    else:
        typer.echo("[features]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in said.items()))
