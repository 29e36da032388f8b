"""The protocol among real parties: `party`, `run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ksdp.commands.options import JsonOption, signing_key

__all__ = ["party", "run"]

ProtocolArgument = Annotated[Path, typer.Argument(help="The protocol file, the same at every party.")]
UnclearedOption = Annotated[
    bool, typer.Option("--uncleared", help="Enter every document without a clearance. All parties are told.")
]


def party(
    protocol: ProtocolArgument,
    me: Annotated[str, typer.Option("--me", help="Which of the parties this is, or the server.")],
    key: Annotated[Path, typer.Option("--key", help="Its private key (`ksdp keys`).")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the result and the transcript.")],
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", help="The audit's spec, or a count matrix (npz, mtx); none for a server."),
    ] = None,
    clearance: Annotated[
        Path | None, typer.Option("--clearance", help="The signed list of documents that may enter.")
    ] = None,
    signer: Annotated[
        Path | None, typer.Option("--signer", help="Public key that signed the clearance; the party's by default.")
    ] = None,
    uncleared: UnclearedOption = False,
    listen: Annotated[
        str | None, typer.Option("--listen", help="HOST:PORT to listen on, if others dial another address.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Take part in a run: waits for the others, shares nothing but what the protocol says, writes the result."""
    from datetime import UTC, datetime

    from ksdp.audit.errors import InputError
    from ksdp.flows.runs.node_run import check_name, guarantee_words
    from ksdp.flows.runs.party_run import enter_documents, run_party, run_server
    from ksdp.flows.runs.terms import read_run
    from ksdp.protocols.network.mesh import Address
    from ksdp.storage.keys import load_public
    from ksdp.storage.runs.results import require_no_result

    read = read_run(protocol)
    require_no_result(out)
    address = Address.parse(listen) if listen else None
    private = signing_key(key)
    check_name(read, me, private)
    if me == read.server:
        if corpus or clearance or signer or uncleared:
            raise InputError(f"{me} is the server, which enters nothing: give no `--corpus` and no clearance.")
        typer.echo(f"{me} collects and enters no documents; waiting.", err=True)
        outcome = run_server(read, private, out, listen=address)
    else:
        if corpus is None:
            raise InputError(f"`--corpus` must be given for {me}: only a server enters no documents.")
        entered = enter_documents(
            read,
            corpus,
            clearance=clearance,
            uncleared=uncleared,
            signer=load_public(signer) if signer else private.public_key(),
            now=datetime.now(UTC),
        )
        grounds = "WITHOUT A CLEARANCE" if uncleared else "on its clearance"
        typer.echo(f"{me} enters {len(entered.corpus)} of {entered.of} documents {grounds}; waiting.", err=True)
        outcome = run_party(read, me, private, entered, out, listen=address)
    if as_json:
        typer.echo(json.dumps(outcome | {"out": str(out.resolve())}))
        return
    others = [name for name, party in outcome["parties"].items() if not party["cleared"]]
    counts = [f"{count} x {what}" for what, count in outcome["asked"].items()]
    taken = ", ".join(counts) or f"{outcome['sums']} sums, {outcome['normed_sums']} normed sums"
    typer.echo(
        f"done in {outcome['seconds']:.1f} s: {taken}\n"
        f"result  {outcome['result']}\n"
        f"uncleared: {', '.join(others) or 'nobody'}\n{outcome['reveals']}\n{guarantee_words(outcome)}\n"
        f"written to {out}"
    )


def run(
    protocol: ProtocolArgument,
    local: Annotated[
        Path | None,
        typer.Option(
            "--local", help="Folder with every node's files: start them all on this machine, to try the run out."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="With --local: folder of the parties' results.")] = Path(
        "run"
    ),
    uncleared: UnclearedOption = False,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for the parties.")] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Check a protocol file and list which parties are up. With --local, start them all on this machine."""
    from ksdp.flows.runs.local_run import run_local, wait_for_parties
    from ksdp.flows.runs.node_run import guarantee_words
    from ksdp.flows.runs.terms import read_run
    from ksdp.protocols.runs.trust import who_must_be_trusted

    read = read_run(protocol)
    if local is not None:
        ends = run_local(read, protocol, local, out, uncleared=uncleared)
        failed = [name for name, end in ends.items() if end["code"]]
        if as_json:
            typer.echo(json.dumps({"parties": ends, "out": str(out.resolve())}))
        else:
            for name, end in ends.items():
                typer.echo(f"{name:12} {_ended(end)}")
            for line in {guarantee_words(json.loads(end["said"])) for end in ends.values() if not end["code"]}:
                typer.echo(line)
        raise typer.Exit(1 if failed else 0)
    trust = who_must_be_trusted(read.terms)
    typer.echo(f"agreement  {read.terms.digest.hex()}\n{trust}", err=True)
    absent = wait_for_parties(
        read, wait, lambda name, here: typer.echo(f"{name} {'listens' if here else 'left'}", err=True)
    )
    if as_json:
        agreed = {"agreement": read.terms.digest.hex(), "terms": read.terms.terms, "trust": trust}
        typer.echo(json.dumps(agreed | {"absent": list(absent)}))
    else:
        typer.echo("\n".join(f"{name:26} {json.dumps(value)}" for name, value in read.terms.terms.items()))
        typer.echo(f"not there: {', '.join(absent) or 'nobody; all parties listen'}")


def _ended(end: dict[str, Any]) -> str:
    """How a node's process ended, in one line."""
    if end["code"]:
        return f"failed  {(end['said'].splitlines() or ['it said nothing'])[-1][:200]}"
    outcome = json.loads(end["said"])
    entered = (
        "collected" if outcome.get("collects") else f"entered {outcome['documents']} of {outcome['of']} documents"
    )
    return f"done in {outcome['seconds']:.1f} s  {entered}, result {outcome['result'][:16]}"
