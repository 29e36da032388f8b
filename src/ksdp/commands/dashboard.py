"""The dashboard: `review`."""

from __future__ import annotations

import getpass
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ksdp.audit.errors import InputError
from ksdp.commands.options import StoreOption, with_options

if TYPE_CHECKING:
    from ksdp.storage.store import Store

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class ListeningOptions:
    """Options that say where the dashboard is served, and over TLS or not."""

    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 8700
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="Certificate chain, PEM.")] = None
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its key, PEM.")] = None


@dataclass(frozen=True)
class SignInOptions:
    """Options that say by what a reviewer is known."""

    reviewer_header: Annotated[
        str | None, typer.Option("--reviewer-header", help="Header in which a proxy names who signed in (OIDC).")
    ] = None
    proxy: Annotated[
        list[str] | None,
        typer.Option("--proxy", help="Address of that proxy. Whoever connects from there may name any reviewer."),
    ] = None
    tokens: Annotated[
        Path | None, typer.Option("--tokens", help="File of `token name` lines, readable by its owner only.")
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
        typer.Option("--resolver", help="Program that reads an id on standard input and writes the text."),
    ] = None,
    start_runs: Annotated[
        bool,
        typer.Option(
            "--start-runs/--no-start-runs",
            help="Start `ksdp more` when more runs are decided and the store may be written.",
        ),
    ] = True,
) -> None:
    """Serve the dashboard, to read findings and take decisions; on this machine only by default."""
    import uvicorn

    from ksdp.dashboards.app import create_app
    from ksdp.dashboards.connections import PatientProtocol
    from ksdp.storage.store import Store

    host, port = listening.host, listening.port
    tls_cert, tls_key = listening.tls_cert, listening.tls_key
    source = _source(host, tls_cert, tls_key, sign_in.reviewer_header, sign_in.proxy, sign_in.tokens)
    origins = _origins(host, port, tls_cert is not None, origin or [])
    opened = Store.open(store, create=False)
    app = create_app(opened, actions=_actions(opened, resolver, start_runs), source=source, origins=origins)
    scheme = "https" if tls_cert else "http"
    typer.echo(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/", err=True)
    uvicorn.run(
        app,
        host=host,
        port=port,
        ssl_certfile=tls_cert,
        ssl_keyfile=tls_key,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=PatientProtocol,
    )


def _source(
    host: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    header: str | None,
    proxy: list[str] | None,
    tokens: Path | None,
) -> Any:
    """Who says who looks; refused where strangers could."""
    from ksdp.dashboards.reviewers import HeaderReviewer, LocalReviewer, TokenReviewers, read_tokens

    if (tls_cert is None) != (tls_key is None):
        raise InputError("`--tls-cert` and `--tls-key` go together.")
    if header is not None and tokens is not None:
        raise InputError("`--reviewer-header` and `--tokens` exclude each other.")
    if host not in _LOOPBACK and (tls_cert is None or (header is None and tokens is None)):
        raise InputError(
            f"`--host` {host} is not this machine alone: give `--tls-cert` and `--tls-key`, and "
            "`--reviewer-header` or `--tokens`."
        )
    if header is not None and not proxy:
        raise InputError(
            "`--reviewer-header` needs `--proxy`, the address of the proxy that signs people in: without one, "
            "every program of this machine could decide under any name."
        )
    if header is not None:
        return HeaderReviewer(header, frozenset(proxy or ()))
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
    from datetime import UTC, datetime

    from ksdp.dashboards.reviews.actions import Actions
    from ksdp.flows.reviews.start_continuation import start_more_runs
    from ksdp.storage.reviews.document_text import TextCommand

    command = TextCommand(tuple(shlex.split(resolver))) if resolver else None

    def clock() -> datetime:
        return datetime.now(UTC)

    def start(audit: str) -> str:
        return start_more_runs(store, audit, clock)

    may = start_runs and os.access(store.root, os.W_OK | os.X_OK)
    return Actions(command, start if may else None, clock)
