"""Review and decide: `review`, `decide`, `more`, `log`."""

from __future__ import annotations

import contextlib
import getpass
import json
import shlex
import socket
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ksdp.audit.errors import InputError, StoreError
from ksdp.audit.reviewing import StaleDecision
from ksdp.commands.options import JsonOption, StoreOption, WhoOption, opened_audit, read_spec, with_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ksdp.audit.reviewing import Entry
    from ksdp.storage.reviews.decisions import Subject
    from ksdp.storage.store import Store


@dataclass(frozen=True)
class EntryOptions:
    """Options of a command that writes entries of the review log."""

    documents: Annotated[list[str] | None, typer.Argument(help="Ids of documents.")] = None
    decision: Annotated[
        str, typer.Option("--decision", help="exclude, accept, more-runs, confirm, withdraw, assign or comment.")
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
    documents_from: Annotated[
        Path | None, typer.Option("--documents-from", help="A file of ids, one per line; `ps` does not show them.")
    ] = None
    owner: Annotated[str, typer.Option("--to", help="With assign: the person who is to decide.")] = ""
    days: Annotated[
        int | None, typer.Option("--days", min=0, help="With assign: days from today until it is due.")
    ] = None
    groups: Annotated[
        bool, typer.Option("--groups", help="With a spec: the ids are groups (`corpus.group`), one a person.")
    ] = False

    def write(self, store: Path, audit: str | Subject) -> list[Entry]:
        """Record the decision about every document that is named."""
        from ksdp.flows.reviews import decide as record

        named = [*(self.documents or []), *(_lines(self.documents_from) if self.documents_from else [])]
        reason = sys.stdin.read() if self.reason == "-" else self.reason
        now = datetime.now(UTC)
        due = "" if self.days is None else (now.date() + timedelta(days=self.days)).isoformat()
        by = (self.decision, reason, self.who, now)
        return record(store, audit, named, *by, saw=self.saw, owner=self.owner, due=due)


@with_options
def decide(
    *,
    audit: Annotated[
        str | None,
        typer.Argument(
            help="Id of a finished audit (`ksdp list`); or a spec, FILE.toml: excludes before there is an audit."
        ),
    ] = None,
    entry: EntryOptions,
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="Set how this store decides: one-person, four-eyes, or a file of roles."),
    ] = None,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Record a decision about documents, or set the store's policy."""
    from ksdp.storage.reviews.decisions import read_policy, set_policy
    from ksdp.storage.store import Store

    if policy is not None:
        if audit or entry.documents or entry.decision:
            raise InputError("`--policy` stands alone.")
        by = entry.who or getpass.getuser(), datetime.now(UTC)
        rules, change = set_policy(Store.open(store, create=False), policy, *by)
        if as_json:
            typer.echo(json.dumps({"policy": rules.model_dump(mode="json"), "entries": [entry_row(change)]}))
        else:
            typer.echo(f"{entry_line(change)}\nall entries of the log are judged by this policy from now on")
        return
    if audit is None:
        raise InputError("an audit and at least one document must be named.")
    before = audit.endswith(".toml")
    if entry.groups and not before:
        raise InputError("`--groups` goes with a spec: an audit's own unit is what its ids name.")
    subject = _subject(Path(audit), groups=entry.groups) if before else opened_audit(store, audit)[1]
    try:
        made = entry.write(store, subject)
    except StaleDecision as error:
        if as_json:
            newer = entry_row(error.newer) if error.newer else None
            typer.echo(json.dumps({"refused": "stale", "message": str(error), "newer": newer}))
        raise
    if as_json:
        typer.echo(json.dumps({"entries": [entry_row(decision) for decision in made]}))
    else:
        typer.echo("\n".join(entry_line(decision) for decision in made))
    if entry.decision in ("exclude", "accept") and read_policy(Store.open(store, create=False)).four_eyes:
        typer.echo(f"waits for another person: `--decision confirm --saw {made[-1].number}`", err=True)
    if entry.decision == "more-runs":
        typer.echo(f"`ksdp more-runs {subject}` runs them.", err=True)


def _subject(spec: Path, *, groups: bool) -> Subject:
    read, base = read_spec(spec)
    from ksdp.flows.reviews import corpus_subject

    return corpus_subject(read, base, groups=groups)


def _lines(path: Path) -> list[str]:
    from ksdp.storage.files import read_text

    return [line for line in read_text(path, "utf-8").splitlines() if line.strip()]


_NAMED = 20


def tell_exclusions(rows: Sequence[Mapping[str, str]]) -> None:
    """Name documents that people excluded: in which audit, who, when and why."""
    from ksdp.audit.reviewing import excluded_words, visible

    for row in rows[:_NAMED]:
        typer.echo(f"excluded  {visible(row['document'])}  {excluded_words(row)}", err=True)
    if len(rows) > _NAMED:
        typer.echo(f"and {len(rows) - _NAMED} more; `ksdp log` has all.", err=True)


def entry_row(entry: Entry) -> dict[str, Any]:
    """An entry for machines."""
    from dataclasses import asdict

    return asdict(entry) | {"at": entry.at.isoformat()}


def entry_line(entry: Entry) -> str:
    """An entry for people: one line, and nothing in it that is not seen."""
    from ksdp.audit.reviewing import visible

    when, to = entry.at.isoformat(timespec="seconds"), f" {entry.owner} {entry.due}".rstrip()
    return visible(
        f"{entry.number:>6}  {when}  {entry.audit or '-'}  {entry.document}  {entry.decision}{to}  "
        f"{entry.reviewer}: {' '.join(entry.reason.split())}"
    )


def log(
    audit: Annotated[str | None, typer.Argument(help="Print only the entries of this audit.")] = None,
    document: Annotated[str | None, typer.Argument(help="Print only the entries of this document.")] = None,
    earlier: Annotated[
        str | None,
        typer.Option("--known", help="NUMBER:HASH that this command printed earlier; fail if the log lacks it."),
    ] = None,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Print the review log and the NUMBER:HASH of its newest entry. The exit code is 1 if the log is damaged."""
    from ksdp.storage.audits.ledger import read_ledger
    from ksdp.storage.reviews.decisions import read_log
    from ksdp.storage.reviews.log import LogHead, check_chain
    from ksdp.storage.store import Store

    opened = Store.open(store, create=False)
    number, _, digest = (earlier or "").partition(":")
    if earlier is not None and (not number.isdecimal() or len(digest) != 64):
        raise InputError("`--known` must be NUMBER:HASH as `ksdp log` prints it.")
    report = check_chain(opened.root, [] if earlier is None else [LogHead(int(number), digest)])
    if not report.whole:
        raise StoreError(f"the review log is broken: {report.reason}")
    entries = read_log(opened, audit=audit, document=document)
    newest = f"{report.head.number}:{report.head.hash}"
    if as_json:
        typer.echo(json.dumps({"entries": [entry_row(entry) for entry in entries], "newest": newest}))
        return
    for entry in entries:
        typer.echo(entry_line(entry))
    typer.echo(f"newest entry: {newest}" if report.entries else "no decision is recorded in this store.", err=True)
    for digest, audits in read_ledger(opened).signed.items() if audit is None and document is None else ():
        typer.echo(f"signed: clearance {digest[:12]}, of audit {audits[-1]}", err=True)


def tell_chain(out: dict[str, Any], as_json: bool) -> None:
    """Print what checking a review log found, and leave with 1 where it is not whole."""
    if as_json:
        typer.echo(json.dumps(out))
    elif out["whole"]:
        many = "1 entry" if out["entries"] == 1 else f"{out['entries']} entries"
        typer.echo(f"the review log is whole: {many}, the newest is {out['head']}")
        if out["torn"]:
            typer.echo(f"a last line of {out['torn']} bytes was cut short; it is no entry.", err=True)
        if not out["anchors"]:
            typer.echo("--against CLEARANCE compares it with what was signed.", err=True)
    else:
        typer.secho(f"the review log is NOT whole: {out['reason']}", err=True, fg="red", bold=True)
    raise typer.Exit(0 if out["whole"] else 1)


_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class ListeningOptions:
    """Options that say where the dashboard is served, and over TLS or not."""

    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on.")] = 8700
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="Certificate chain, a PEM file.")] = None
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", help="Private key of the certificate, a PEM file.")
    ] = None


@dataclass(frozen=True)
class SignInOptions:
    """Options that say by what a reviewer is known."""

    reviewer_header: Annotated[
        str | None,
        typer.Option(
            "--reviewer-header", help="HTTP header in which a proxy names the user who signed in (OIDC)."
        ),
    ] = None
    proxy: Annotated[
        list[str] | None,
        typer.Option("--proxy", help="Address of that proxy. A connection from there may name any reviewer."),
    ] = None
    tokens: Annotated[
        Path | None, typer.Option("--tokens", help="File of lines `token name`, readable by its owner only.")
    ] = None


@with_options
def review(
    *,
    store: StoreOption = Path("ksdp-store"),
    listening: ListeningOptions,
    sign_in: SignInOptions,
    origin: Annotated[
        list[str] | None,
        typer.Option("--origin", help="https://name[:port] that browsers use, if it differs from host and port."),
    ] = None,
    resolver: Annotated[
        str | None,
        typer.Option(
            "--resolver", help="Program that reads an id on standard input and prints the document's text."
        ),
    ] = None,
    start_runs: Annotated[
        bool,
        typer.Option(
            "--start-runs/--no-start-runs",
            help="Continue an audit as soon as more runs are decided, if the store is writable.",
        ),
    ] = True,
) -> None:
    """Serve the dashboard, to read findings and take decisions; on this machine only by default."""
    import uvicorn

    from ksdp.dashboards.app import create_app
    from ksdp.dashboards.security import LIMITS, LocalReviewer
    from ksdp.storage.store import Store

    host, port = listening.host, listening.port
    tls_cert, tls_key = listening.tls_cert, listening.tls_key
    source = _source(listening, sign_in)
    origins = _origins(host, port, tls_cert is not None, origin or [])
    opened = Store.open(store, create=False)
    app = create_app(opened, actions=_actions(opened, resolver, start_runs), source=source, origins=origins)
    scheme = "https" if tls_cert else "http"
    with _bound(host, port) as bound:
        typer.echo(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/ shows {opened.root}", err=True)
        if isinstance(source, LocalReviewer):
            alone = "Every user of this machine can read and decide here; if there are others, give `--tokens`."
            typer.echo(alone, err=True)
        config = uvicorn.Config(
            app,
            ssl_certfile=tls_cert,
            ssl_keyfile=tls_key,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            **LIMITS,
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[bound])


def _bound(host: str, port: int) -> socket.socket:
    """A listening socket; one that another program has is refused before anybody is sent to it."""
    try:
        kind = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=kind)
    except OSError as error:
        why = str(error.strerror or error).partition(" (while")[0]
        raise InputError(
            f"{host} port {port} cannot be used: {why}. Perhaps `ksdp review` of another store has it; "
            "`--port` names another."
        ) from error


def _source(listening: ListeningOptions, sign_in: SignInOptions) -> Any:
    from ksdp.dashboards.security import HeaderReviewer, LocalReviewer, TokenReviewers, read_tokens

    tls, header, tokens = listening.tls_cert, sign_in.reviewer_header, sign_in.tokens
    if (tls is None) != (listening.tls_key is None):
        raise InputError("`--tls-cert` and `--tls-key` go together.")
    if header is not None and tokens is not None:
        raise InputError("`--reviewer-header` and `--tokens` exclude each other.")
    if listening.host not in _LOOPBACK and (tls is None or (header is None and tokens is None)):
        raise InputError(
            f"`--host` {listening.host} is not this machine alone: give `--tls-cert` and `--tls-key`, and "
            "`--reviewer-header` or `--tokens`."
        )
    if header is not None and not sign_in.proxy:
        raise InputError(
            "`--reviewer-header` needs `--proxy`, the address of the proxy that signs people in: without one, "
            "every program of this machine could decide under any name."
        )
    if header is not None:
        return HeaderReviewer(header, frozenset(sign_in.proxy or ()))
    return TokenReviewers(read_tokens(tokens)) if tokens is not None else LocalReviewer(getpass.getuser())


def _origins(host: str, port: int, tls: bool, named: list[str]) -> frozenset[str]:
    from urllib.parse import urlsplit

    from ksdp.dashboards.security import origins_of

    for origin in named:
        parts = urlsplit(origin)
        if (
            parts.scheme not in ("http", "https")
            or not parts.netloc
            or origin != f"{parts.scheme}://{parts.netloc}"
        ):
            raise InputError(f"`--origin` must be https://name or https://name:port; got {origin!r}.")
    if host in ("0.0.0.0", "::") and not named:
        raise InputError("`--host` is every address: name with `--origin` what browsers call it.")
    return origins_of(host, port, tls=tls) | frozenset(named)


def _actions(store: Store, resolver: str | None, start_runs: bool) -> Any:
    import os

    from ksdp.dashboards.reviews import Actions
    from ksdp.flows.interruption import utc_now
    from ksdp.storage.reviews.document_text import TextCommand

    command = TextCommand(tuple(shlex.split(resolver))) if resolver else None

    def start(audit: str) -> None:
        from ksdp.flows.reviews import start_more_runs

        start_more_runs(store, audit, utc_now)

    may = start_runs and os.access(store.root, os.W_OK | os.X_OK)
    return Actions(command, start if may else None, utc_now)
