"""What checks print: a line a finding, and how many there are to mend."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from ksdp.flows.runs.check import Finding, OwnCheck


def check_run(
    here: OwnCheck, me: str, listen: str | None, wait: float, hop: float = 5.0, *, as_json: bool
) -> NoReturn:
    """Print what a node found by itself and what it finds at its peers; the exit code says if a run may begin."""
    from ksdp.flows.interruption import utc_now
    from ksdp.flows.runs.check import PeerCheck, check_peers
    from ksdp.protocols.network.mesh import Address

    def tell(finding: Finding) -> None:
        if not as_json:
            typer.echo(_line(finding))

    findings = list(here.findings)
    for finding in findings:
        tell(finding)
    if here.run is not None and here.identity is not None:
        address = Address.parse(listen) if listen else None
        asked = PeerCheck(here.run, me, here.identity, here.grounds, address, wait, hop, utc_now)
        findings += check_peers(asked, tell)
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
