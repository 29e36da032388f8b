"""What mechanisms promise, and whether they keep it: `mechanisms`, `claim`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ksdp.commands.options import JsonOption, StoreOption

_REFUTED = 3


def mechanisms(as_json: JsonOption = False) -> None:
    """List every mechanism with its guarantee, parameters and source."""
    from ksdp.audit.registry import described_mechanisms

    entries = described_mechanisms()
    if as_json:
        typer.echo(json.dumps(entries))
        return
    for entry in entries:
        promise = entry["guarantee"]
        budget = _budget(promise)
        typer.secho(
            f"{entry['name']}  {promise['kind']}{budget}{'' if promise['sound'] else '  UNSOUND'}", bold=True
        )
        for key in ("unit", "trust", "source", "notes"):
            if promise[key]:
                typer.echo(f"  {key:11} {promise[key]}")
        if promise["sampler"]:
            typer.echo(f"  {'noise':11} {promise['sampler']['name']}: {promise['sampler']['is']}")
        shown = ", ".join(f"{name} = {value}" for name, value in entry["parameters"].items())
        typer.echo(f"  {'parameters':11} {shown}")


def claim(
    spec: Annotated[Path, typer.Argument(help="A spec; only its mechanism and seed are used.")],
    runs: Annotated[int, typer.Option(min=20, help="Runs in each arm.")] = 2000,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.")] = 0.95,
    simulated: Annotated[
        bool, typer.Option(help="Draw noise by the spec's own sampler: faster, but not what real parties draw.")
    ] = False,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Compare the epsilon that a mechanism claims with what runs on its worst case prove. Exit 3: refuted.

    The noise is drawn by the sampler that real parties use, whatever the spec names.

    The finding is stored: audits of the same mechanism show it, and the same command reads it.
    """
    from datetime import UTC, datetime
    from functools import partial

    from ksdp.flows.audits.claims import run_claim
    from ksdp.flows.prepare import read_spec_file
    from ksdp.terminal import terminal

    parsed, _ = read_spec_file(spec)
    with terminal():
        asked = partial(run_claim, parsed, store, clock=lambda: datetime.now(UTC))
        done = asked(runs=runs, confidence=confidence, simulated=simulated)
    finding = done.finding
    if finding.refuted:
        typer.secho(f"REFUTED: {finding.mechanism} does not keep its claim.", err=True, fg="red", bold=True)
    if as_json:
        where = {"finished": done.finished, "read": done.read, "file": str(done.path)}
        typer.echo(json.dumps(finding.as_json() | where))
    else:
        ways = ", ".join(f"{way.epsilon:.3g} {way.way} (delta {way.delta:.1g})" for way in finding.counted)
        typer.echo(finding.sentence())
        typer.echo(f"  counted: {ways}\n  unit: {finding.guarantee.unit}\n  trust: {finding.guarantee.trust}")
        if finding.guarantee.notes:
            typer.echo(f"  note: {finding.guarantee.notes}")
        how = "read from the store: the same inputs and code, run" if done.read else "stored"
        typer.echo(f"  {how} {done.finished}, {done.path}")
    if finding.refuted:
        raise typer.Exit(_REFUTED)


def _budget(promise: dict[str, Any]) -> str:
    if promise["delta"] is None:
        return ""
    epsilon = "by the sizes" if promise["epsilon"] is None else f"{promise['epsilon']:g}"
    return f"  epsilon {epsilon}, delta {promise['delta']:g}"
