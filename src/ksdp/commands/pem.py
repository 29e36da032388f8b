"""PEM among processes of this machine: `pem`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ksdp.commands.options import JsonOption

__all__ = ["pem"]


def pem(
    spec: Annotated[Path, typer.Argument(help="The spec, a TOML file.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the result; new or empty.")] = Path("pem-result"),
    as_json: JsonOption = False,
) -> None:
    """Run PEM with every client, server and the aggregator as a process on this machine; print what it cost."""
    from datetime import UTC, datetime

    from ksdp.flows.runs.pem_run import prepare_pem, read_pem_spec, run_prepared
    from ksdp.storage.runs.pem_results import require_new_folder
    from ksdp.terminal import terminal

    require_new_folder(out)
    prepared = prepare_pem(*read_pem_spec(spec))
    with terminal():
        done = run_prepared(prepared, out, lambda: datetime.now(UTC))
    cost, sampler = done["cost"], done["sampler"]
    if not sampler["protects"]:
        typer.secho(f"NOT PRIVATE: noise by {sampler['drawn_by']}.", err=True, fg="red", bold=True)
    if as_json:
        typer.echo(json.dumps(done | {"out": str(out.resolve())}))
        return
    lost = done["lost_clients"]
    typer.echo(
        f"{done['algorithm']}: {done['iterations']} of {done['planned_iterations']} iterations in "
        f"{done['seconds']:.1f} s, {done['clients']} clients ({len(lost)} lost), {done['servers']} servers\n"
        f"found     {done['found']}\n"
        f"cost      epsilon {cost['epsilon']:.4g} at delta 0; {cost['tight_epsilon']:.4g} at delta "
        f"{cost['tight_delta']:g}\n"
        f"          for {cost['unit']}\n"
        f"          against {cost['against']}\n"
        f"noise     {sampler['drawn_by']}\n"
        f"written to {out}"
    )
