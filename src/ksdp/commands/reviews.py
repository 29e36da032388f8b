"""Decide about documents and sign what follows: `decide`, `more`, `clear`, `approve`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ksdp.commands.options import (
    AuditArgument,
    JsonOption,
    PlaceOptions,
    SaltedOption,
    SignerOptions,
    SpecArgument,
    StoreOption,
    WhoOption,
    exit_code,
    signing_key,
    tell,
    with_options,
)
from ksdp.commands.review_log import entry_line, entry_row

if TYPE_CHECKING:
    from ksdp.audit.reviewing import Entry
    from ksdp.flows.audits.place import Place
    from ksdp.flows.reviews.decide import WantedRuns


@dataclass(frozen=True)
class EntryOptions:
    """Options of a command that writes entries of the review log."""

    documents: Annotated[list[str] | None, typer.Argument(help="Ids of documents.")] = None
    decision: Annotated[
        str, typer.Option("--decision", help="exclude, accept, more-runs, confirm or withdraw.")
    ] = ""
    reason: Annotated[
        str,
        typer.Option(
            "--reason",
            help="The reason; never a document's text. `-` reads it from standard input, unseen by `ps`.",
        ),
    ] = ""
    who: WhoOption = ""
    saw: Annotated[
        int | None,
        typer.Option(
            "--saw", min=0, help="Number of the newest entry you have seen; refused if there is a newer one."
        ),
    ] = None
    key: Annotated[
        Path | None, typer.Option("--key", help="Your private key (`ksdp keys`): it signs what you decide.")
    ] = None
    documents_from: Annotated[
        Path | None, typer.Option("--documents-from", help="A file of ids, one per line; `ps` does not show them.")
    ] = None

    def write(self, store: Path, audit: str) -> list[Entry]:
        """Record the decision about every document that is named."""
        from datetime import UTC, datetime

        from ksdp.flows.reviews.decide import Signer
        from ksdp.flows.reviews.decide import decide as record

        named = [*(self.documents or []), *(_lines(self.documents_from) if self.documents_from else [])]
        reason = sys.stdin.read() if self.reason == "-" else self.reason
        signer = Signer(self.who, signing_key(self.key) if self.key else None)
        return record(store, audit, named, self.decision, reason, signer, datetime.now(UTC), saw=self.saw)


@with_options
def decide(
    *,
    audit: Annotated[str | None, typer.Argument(help="Id of a finished audit (`ksdp list`).")] = None,
    entry: EntryOptions,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            help="Set how this store decides, and nothing else: one-person, four-eyes, or two-keys (signed).",
        ),
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="With more-runs: run them now, like `ksdp more`.")] = False,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Record a decision about documents, or set the store's policy."""
    from ksdp.audit.errors import InputError, StaleDecision
    from ksdp.flows.audits.place import ANYWHERE
    from ksdp.flows.reviews.decide import WantedRuns

    if policy is not None:
        if audit or entry.documents or entry.decision:
            raise InputError("`--policy` stands alone.")
        _set_policy(store, policy)
        return
    if audit is None:
        raise InputError("an audit and at least one document must be named.")
    if run and entry.decision != "more-runs":
        raise InputError("`--run` goes with `--decision more-runs`.")
    audit = _known(store, audit)
    try:
        made = entry.write(store, audit)
    except StaleDecision as error:
        if as_json:
            newer = entry_row(error.newer) if error.newer else None
            typer.echo(json.dumps({"refused": "stale", "message": str(error), "newer": newer}))
        raise
    if not as_json:
        typer.echo("\n".join(entry_line(one) for one in made))
    elif not run:
        typer.echo(json.dumps({"entries": [entry_row(one) for one in made]}))
    if run:
        _run_more(store, audit, WantedRuns(), ANYWHERE, as_json)
    elif entry.decision == "more-runs":
        typer.echo(f"`ksdp more {audit}` runs them.", err=True)


def _known(store: Path, audit: str) -> str:
    """The audit that an abbreviated id, or `latest`, means."""
    from ksdp.storage.audits.history import find_audit
    from ksdp.storage.store import Store

    return find_audit(Store.open(store, create=False), audit)


def _lines(path: Path) -> list[str]:
    from ksdp.storage.readers.files import read_text

    return [line for line in read_text(path, "utf-8").splitlines() if line.strip()]


def _set_policy(store: Path, policy: str) -> None:
    from ksdp.audit.errors import InputError
    from ksdp.storage.reviews.decisions import Policy, write_policy
    from ksdp.storage.store import Store

    if policy not in {"two-keys", "four-eyes", "one-person"}:
        raise InputError(f"`--policy` must be four-eyes or one-person; got {policy!r}.")
    write_policy(Store.open(store, create=False), Policy(policy != "one-person", policy == "two-keys"))
    typer.echo(f"{policy}: entries of the log are judged by this from now on.", err=True)


@with_options
def more(
    *,
    audit: AuditArgument,
    documents: Annotated[
        list[str] | None, typer.Argument(help="Ids. Default: those with the decision more-runs.")
    ] = None,
    with_runs: Annotated[
        int | None, typer.Option("--with-runs", min=2, help="Runs in the smaller arm. Default: as forecast.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for another audit that is running in the store.")
    ] = False,
    held: Annotated[int | None, typer.Option("--held", hidden=True)] = None,
    store: StoreOption = Path("ksdp-store"),
    where: PlaceOptions,
    as_json: JsonOption = False,
) -> None:
    """Continue an audit with more runs, where a decision asked for them."""
    from ksdp.flows.reviews.decide import WantedRuns

    wanted = WantedRuns(tuple(documents) if documents else None, with_runs)
    _run_more(store, _known(store, audit), wanted, where.place(), as_json, wait=wait, held=held)


def _run_more(store: Path, audit: str, wanted: WantedRuns, place: Place, as_json: bool, **lock: Any) -> NoReturn:
    from ksdp.flows.reviews.decide import more_runs
    from ksdp.terminal import terminal

    with terminal():
        out = more_runs(store, audit, wanted, place, **lock)
    tell(out, as_json)
    raise typer.Exit(exit_code(out))


@with_options
def clear(
    *,
    audit: AuditArgument,
    signer: SignerOptions,
    salted: SaltedOption = False,
    leave_out_waiting: Annotated[
        bool, typer.Option("--leave-out-waiting", help="Leave out what waits for a second person.")
    ] = False,
    superseded: Annotated[
        bool, typer.Option("--superseded", help="Sign even if a newer audit asked the same question.")
    ] = False,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Sign what may be used: what was proved clear and not excluded, and what was accepted."""
    from ksdp.flows.screening.clear import clearance_from_decisions

    signing = signer.signing(salted=salted)
    out = clearance_from_decisions(
        store, _known(store, audit), signing, leave_out_waiting=leave_out_waiting, superseded=superseded
    )
    _tell_cleared(out, as_json)


def _tell_cleared(out: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(out))
        return
    typer.echo(
        f"{out['listed']} documents listed: {out['proved']} proved clear, {out['accepted']} accepted; "
        f"{out['excluded']} excluded, {out['left_open']} left open\n{out['clearance']}  {out['fingerprint']}"
    )


@with_options
def approve(
    *,
    spec: SpecArgument,
    signer: SignerOptions,
    hours: Annotated[float, typer.Option("--hours", min=0, help="Hours to wait for decisions.")] = 72.0,
    store: StoreOption = Path("ksdp-store"),
    where: PlaceOptions,
    as_json: JsonOption = False,
) -> None:
    """Audit, wait until every sensitive document is decided, sign what may be used. The same command resumes."""
    from datetime import timedelta

    from ksdp.flows.prepare import read_spec_file
    from ksdp.flows.reviews.approval import Patience, run_approval
    from ksdp.terminal import terminal

    read, base = read_spec_file(spec)
    signing = signer.signing()
    place = where.place()
    with terminal():
        patience = Patience(timedelta(hours=hours))
        out = run_approval(read, base, store, signing, patience, place)
    _tell_cleared(out, as_json)
