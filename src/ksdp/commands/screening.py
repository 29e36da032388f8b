"""From a corpus to a signed clearance: `keys`, `screen`, `verify`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ksdp.commands.options import (
    JsonOption,
    PlaceOptions,
    SaltedOption,
    SignerOptions,
    SpecArgument,
    StoreOption,
    with_options,
)
from ksdp.commands.review_log import tell_chain

if TYPE_CHECKING:
    from ksdp.flows.screening.rounds import Rules

_SCREENED = {"cleared": 0, "nothing-proved": 4, "void": 5}


def keys(
    name: Annotated[str, typer.Argument(help="Whose identity it is.")],
    folder: Annotated[Path, typer.Option("--folder", help="Where the two key files go.")] = Path(),
    passphrase: Annotated[bool, typer.Option("--passphrase", help="Ask for a passphrase.")] = False,
) -> None:
    """Make an identity: an Ed25519 key that signs clearances and takes part in runs."""
    from ksdp.storage.keys import make_identity

    secret = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True).encode() if passphrase else None
    made = make_identity(folder, name, passphrase=secret)
    typer.echo(f"private  {made.private}  (readable by you alone)\npublic   {made.public}\n{made.fingerprint}")


@dataclass(frozen=True)
class ListingOptions:
    """Options that say how documents stand in a clearance."""

    salted: SaltedOption = False
    list_excluded: Annotated[
        bool, typer.Option("--list-excluded", help="Also list the excluded documents, by id.")
    ] = False


@dataclass(frozen=True)
class ClearingOptions:
    """Options that say which documents may be cleared, and when none are."""

    allow_undecided: Annotated[bool, typer.Option("--allow-undecided", help="Clear undecided documents too.")] = (
        False
    )
    proof: Annotated[
        bool,
        typer.Option("--proof/--no-proof", help="At the end, audit the documents to be cleared by themselves."),
    ] = True
    most: Annotated[
        float, typer.Option("--most", help="Stop if more than this share of the documents is sensitive.")
    ] = 0.5

    def rules(self, rounds: int) -> Rules:
        """Of so many rounds at most."""
        from ksdp.flows.screening.rounds import Rules

        allowed = ("clear", "undecided") if self.allow_undecided else ("clear",)
        return Rules(rounds, self.most, allowed, self.proof)


@with_options
def screen(
    *,
    spec: SpecArgument,
    signer: SignerOptions,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Most rounds of flag, exclude, audit again.")] = 5,
    listing: ListingOptions,
    clearing: ClearingOptions,
    store: StoreOption = Path("ksdp-store"),
    where: PlaceOptions,
    as_json: JsonOption = False,
) -> None:
    """Flag, exclude, audit the rest on fresh runs until nothing new is found; sign what may be used."""
    from ksdp.flows.prepare import read_spec_file
    from ksdp.flows.screening.screen import NO_HELP
    from ksdp.flows.screening.screen import screen as run_screen
    from ksdp.terminal import terminal

    place = where.place()
    read, base = read_spec_file(spec)
    signing = signer.signing(salted=listing.salted, list_excluded=listing.list_excluded)
    rules = clearing.rules(rounds)
    with terminal():
        out = run_screen(read, base, store, signing, rules, place)
    if as_json:
        typer.echo(json.dumps(out.to_json()))
    else:
        typer.echo(f"{out.outcome}: {out.reason}", err=True)
        if out.outcome in NO_HELP:
            typer.echo("`ksdp advise` searches the levers for a run that gives less away.", err=True)
        typer.echo(f"screen  {out.screen}\nreport  {out.report}", err=True)
    raise typer.Exit(_SCREENED.get(out.outcome, 3))


def verify(
    clearance: Annotated[Path, typer.Argument(help="A clearance file; or a store, or its review log.")],
    key: Annotated[Path | None, typer.Option("--key", help="The public key it must be signed with.")] = None,
    against: Annotated[
        list[Path] | None, typer.Option("--against", help="Clearances that a review log must agree with.")
    ] = None,
    spec: Annotated[Path | None, typer.Option("--spec", help="The spec it must have been made for.")] = None,
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", help="The party's ledger: also say what runs on its data have given away."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a clearance: whole, signed, in force, made for this corpus, mechanism and spec. Or a review log."""
    from datetime import UTC, datetime

    from ksdp.flows.prepare import read_spec_file
    from ksdp.flows.screening.verify import verify as run_verify
    from ksdp.flows.screening.verify import verify_log
    from ksdp.storage.keys import load_public

    public = load_public(key) if key else None
    if clearance.is_dir() or clearance.suffix == ".jsonl":
        tell_chain(verify_log(clearance, against or (), public), as_json)
        return
    read, base = read_spec_file(spec) if spec else (None, None)
    out = run_verify(clearance, now=datetime.now(UTC), public_key=public, spec=read, base=base)
    if ledger is not None:
        from ksdp.flows.runs.budget import spent, spent_words
        from ksdp.storage.runs.ledger import Ledger

        out["spent"] = spent_words(spent(Ledger(ledger)))
    if as_json:
        typer.echo(json.dumps(out, default=str))
        return
    typer.echo(
        "the clearance is whole, signed and in force."
        if key
        else "the clearance is whole and in force. Compare the fingerprint of its signer, or name --key:"
    )
    typer.echo(
        "\n".join(f"{name:12} {value}" for name, value in out.items() if not isinstance(value, list | dict | None))
    )
