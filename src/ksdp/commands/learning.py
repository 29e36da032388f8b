"""What is gained by a run, and the settings between gain and leak: `gain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ksdp.commands.options import JsonOption

__all__ = ["gain"]


def gain(
    spec: Annotated[Path, typer.Argument(help="The spec, a TOML file; `[gain]` says how to measure.")],
    as_json: JsonOption = False,
) -> None:
    """Measure what the parties gain by a run over working alone, beside public data alone and the exact run."""
    from ksdp.flows.learning.gain import measure_gain
    from ksdp.flows.prepare import read_spec_file

    found = measure_gain(*read_spec_file(spec))
    if as_json:
        typer.echo(json.dumps(found.to_json()))
        return
    typer.echo("\n".join(found.sentences))
    for one in found.measures:
        public = "" if one.public is None else f"   public {one.public.mean:.4f}"
        kept = (
            "" if one.kept is None else f"   kept {one.kept.mean:.0%} ({one.kept.low:.0%} to {one.kept.high:.0%})"
        )
        typer.echo(
            f"\n{one.measure}: alone {one.alone.mean:.4f}   run {one.run.mean:.4f}   exact {one.exact.mean:.4f}"
            f"{public}{kept}"
        )
        for party in one.parties:
            typer.echo(
                f"  {party.party:24} own documents: alone {party.alone.mean:.4f}, run {party.run.mean:.4f}, "
                f"gain {party.gain.mean:+.4f} ({party.gain.low:+.4f} to {party.gain.high:+.4f})"
            )
