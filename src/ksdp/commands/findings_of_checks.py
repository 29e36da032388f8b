"""What checks print: a line a finding, and how many there are to mend."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ksdp.flows.runs.check import Finding


def tell_findings(findings: Sequence[Finding], *, as_json: bool) -> Callable[[Finding], None]:
    """Print those that there are, and give what prints one more."""

    def tell(finding: Finding) -> None:
        if not as_json:
            typer.echo(_line(finding))

    for finding in findings:
        tell(finding)
    return tell


def end_of_check(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Say whether a run may begin; the exit code says it, too."""
    faults = [finding for finding in findings if not finding.fine]
    if as_json:
        typer.echo(json.dumps({"fine": not faults, "findings": [finding.as_json() for finding in findings]}))
    else:
        typer.echo(f"{len(faults)} to mend" if faults else "nothing stands in the way of a run")
    raise typer.Exit(1 if faults else 0)


def _line(finding: Finding) -> str:
    mark = "ok  " if finding.fine else "FAIL"
    mends = f"  ->  {finding.mend}" if finding.mend else ""
    return f"{mark} {finding.party:12} {finding.hop:12} {finding.said}{mends}"
