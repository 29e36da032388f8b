"""The review log as a person sees it: `log`, and whether its chain is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ksdp.commands.options import JsonOption, StoreOption

if TYPE_CHECKING:
    from ksdp.audit.reviewing import Entry
    from ksdp.storage.store import Store


def entry_row(entry: Entry) -> dict[str, Any]:
    """An entry for machines."""
    from dataclasses import asdict

    return asdict(entry) | {"at": entry.at.isoformat()}


def entry_line(entry: Entry) -> str:
    """An entry for people: one line, and nothing in it that is not seen."""
    from ksdp.audit.visible_text import visible

    when = entry.at.isoformat(timespec="seconds")
    return visible(
        f"{entry.number:>6}  {when}  {entry.audit}  {entry.document}  {entry.decision}  {entry.reviewer}: "
        f"{' '.join(entry.reason.split())}"
    )


def log(
    audit: Annotated[str | None, typer.Argument(help="Only entries of this audit.")] = None,
    document: Annotated[str | None, typer.Argument(help="Only entries of this document.")] = None,
    set_torn_aside: Annotated[
        bool,
        typer.Option("--set-torn-aside", help="Move a last line that a crash cut short into a file of its own."),
    ] = False,
    head: Annotated[
        bool, typer.Option("--head", help="Print the newest entry's number and hash, to be kept elsewhere.")
    ] = False,
    known: Annotated[
        str | None, typer.Option("--known", help="NUMBER:HASH that was printed before: check that it is there.")
    ] = None,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Print the review log, or its head. Exit 1: the log is damaged."""
    from ksdp.storage.reviews.decisions import read_log
    from ksdp.storage.store import Store

    opened = Store.open(store, create=False)
    if head or known is not None:
        _tell_head(opened, known, as_json)
        return
    if set_torn_aside:
        from datetime import UTC, datetime

        from ksdp.storage.reviews.log import set_torn_aside as move

        aside = move(opened.root, datetime.now(UTC))
        typer.echo(f"kept in {aside}" if aside else "nothing is torn.", err=True)
        return
    entries = read_log(opened, audit=audit, document=document)
    if as_json:
        typer.echo(json.dumps({"entries": [entry_row(entry) for entry in entries]}))
        return
    for entry in entries:
        typer.echo(entry_line(entry))
    if not entries:
        typer.echo("nobody has decided anything here.", err=True)


def _tell_head(store: Store, known: str | None, as_json: bool) -> None:
    """The log's newest entry, checked from the file itself, with the keys that signed it."""
    from ksdp.audit.errors import InputError
    from ksdp.storage.reviews.log import LogHead, check_chain, log_file, read_signatures

    anchors = []
    if known is not None:
        number, _, digest = known.partition(":")
        if not number.isdecimal() or len(digest) != 64:
            raise InputError("`--known` must be NUMBER:HASH as `ksdp log --head` prints it.")
        anchors.append(LogHead(int(number), digest))
    report = check_chain(store.root, anchors)
    keys = sorted({one.key for one in read_signatures(log_file(store.root)) if one.hash == report.head.hash})
    if as_json:
        head = {"number": report.head.number, "hash": report.head.hash, "signed_by": keys, "whole": report.whole}
        typer.echo(json.dumps(head | {"reason": report.reason}))
    elif report.whole:
        typer.echo(f"{report.head.number}:{report.head.hash}")
        typer.echo("signed by " + ", ".join(keys) if keys else "signed by nobody", err=True)
    else:
        typer.secho(f"the review log is NOT whole: {report.reason}", err=True, fg="red", bold=True)
    raise typer.Exit(0 if report.whole else 1)


def tell_chain(out: dict[str, Any], as_json: bool) -> None:
    """Print what checking a review log found, and leave with 1 where it is not whole."""
    if as_json:
        typer.echo(json.dumps(out))
    elif out["whole"]:
        typer.echo(f"the review log is whole: {out['entries']} entries, the newest is {out['head']}")
        if not out["anchors"]:
            typer.echo("--against CLEARANCE compares it with what was signed.", err=True)
    else:
        typer.secho(f"the review log is NOT whole: {out['reason']}", err=True, fg="red", bold=True)
    raise typer.Exit(0 if out["whole"] else 1)
