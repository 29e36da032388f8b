"""`ksdp party check`: before any data, what would fail, at whom, and what mends it; and `ksdp party` itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ksdp.commands.findings_of_checks import end_of_check, tell_findings
from ksdp.commands.options import JsonOption, signing_key, with_options
from ksdp.commands.runs import EnteringOptions, ProtocolArgument
from ksdp.commands.runs import party as take_part

_TAKE_PART = "in"


class _Parties(TyperGroup):
    """`ksdp party FILE ...` takes part; `ksdp party check FILE ...` only looks."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Whatever is no command is what `party` itself is given."""
        if not args or args[0] not in self.commands:
            args = [_TAKE_PART, *args]
        return list(super().parse_args(ctx, args))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Usage lines show what a person types: `ksdp party FILE`."""
        name, command, rest = super().resolve_command(ctx, args)
        return "" if name == _TAKE_PART else name, command, rest


party = typer.Typer(
    name="party",
    cls=_Parties,
    help="Take part in a run, once `ksdp party check` finds nothing: shares only what the protocol says.",
    rich_markup_mode=None,
)
party.command(_TAKE_PART)(take_part)


@party.command("check")
@with_options
def check(
    *,
    protocol: ProtocolArgument,
    me: Annotated[str, typer.Option("--me", help="Which of the parties this is, or the server.")],
    entering: EnteringOptions,
    out: Annotated[Path | None, typer.Option("--out", help="As `ksdp party` will be given it.")] = None,
    listen: Annotated[str | None, typer.Option("--listen", help="Likewise.")] = None,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for the others.")] = 30.0,
    hop: Annotated[float, typer.Option("--hop", min=0.1, help="Seconds until a silent hop is given up.")] = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Check everything that a run needs, before any data: each fault in a line, at whom, and what mends it."""
    from datetime import UTC, datetime

    from ksdp.flows.runs.budget import purse_files
    from ksdp.flows.runs.check_here import Question, check_here
    from ksdp.flows.runs.check_peers import PeerCheck, check_peers
    from ksdp.protocols.network.mesh import Address

    address = Address.parse(listen) if listen else None
    given = {name: getattr(entering, name) for name in ("corpus", "clearance", "signer", "uncleared")}
    kept, limits = purse_files(me, entering.key, entering.ledger, entering.budget)
    question = Question(protocol, me, entering.key, signing_key, out, **given, ledger=kept, budget=limits)
    here = check_here(question, datetime.now(UTC))
    tell = tell_findings(here.findings, as_json=as_json)
    findings = list(here.findings)
    if here.run is not None and here.identity is not None:
        asked = PeerCheck(here.run, me, here.identity, here.grounds, address, wait, hop, lambda: datetime.now(UTC))
        findings += check_peers(asked, tell)
    end_of_check(findings, as_json=as_json)
