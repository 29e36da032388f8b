"""Options that several commands share."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ksdp.audit.errors import InputError
from ksdp.audit.verdicts.verdict import FAILING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ksdp.audit.results.appetite import Appetite
    from ksdp.audit.specs.models import Spec
    from ksdp.dashboards.audits.result import AuditResult
    from ksdp.flows.audits.place import Place
    from ksdp.flows.screening.clear import Signing
    from ksdp.storage.store import Store

SpecArgument = Annotated[Path, typer.Argument(help="The spec, a TOML file.")]
AuditArgument = Annotated[
    str, typer.Argument(help="Id of a finished audit (`ksdp list`), the beginning of an id, or `latest`.")
]
StoreOption = Annotated[
    Path, typer.Option("--store", envvar="KSDP_STORE", help="Folder of the store. Audits create it if needed.")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Worker processes of Prefect and Dask.")
]
HereOption = Annotated[
    int | None,
    typer.Option(
        "--here", min=1, help="Processes here, without Prefect and Dask. Default: as many as the work is worth."
    ),
]
DaskOption = Annotated[
    str | None,
    typer.Option("--dask", help="Use Prefect and Dask, with so many workers or the scheduler at tls://HOST:PORT."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
AppetiteOption = Annotated[
    Path | None,
    typer.Option("--appetite", help="Risk appetite, a TOML file. The exit code is 0 only if it is met."),
]
ClearanceOption = Annotated[Path, typer.Option("--clearance", help="File to write the signed clearance to.")]
KeyOption = Annotated[Path, typer.Option("--key", help="Private key of the person who decides (`ksdp keys`).")]
WhoOption = Annotated[
    str, typer.Option("--who", help="Name of the person who decides, for the log and the clearance.")
]
DaysOption = Annotated[int, typer.Option("--days", min=1, help="Days until the clearance expires.")]
MetricsOption = Annotated[
    str | None,
    typer.Option("--metrics", help="[HOST:]PORT on which to serve Prometheus metrics; port 0 is any free port."),
]


class FailOn(StrEnum):
    """Verdicts that a pipeline may fail by, besides failed controls."""

    sensitive = "sensitive"
    undecided = "undecided"
    uncovered = "uncovered"


def signing_key(path: Path) -> Ed25519PrivateKey:
    """The reviewer's key; asks for its passphrase, on the terminal, where it has one."""
    from ksdp.storage.keys import load_private, needs_passphrase

    secret = None
    if needs_passphrase(path):
        secret = typer.prompt(f"Passphrase of {path.name}", hide_input=True, err=True).encode()
    return load_private(path, passphrase=secret)


def read_asked(path: Path | None, spec: Spec | None = None) -> Appetite | None:
    """The appetite of a file (`read_appetite`); None without one."""
    if path is None:
        return None
    from ksdp.storage.reviews.appetites import read_appetite  # numerics

    return read_appetite(path, spec)


def read_spec(path: Path) -> tuple[Spec, Path]:
    """A spec, and the folder that its paths are relative to (`read_spec_file`); numerics are not imported yet."""
    from ksdp.storage.readers.spec_files import read_spec_file

    return read_spec_file(path)


def opened_audit(store: Path, audit: str) -> tuple[Store, str]:
    """The store of an audit, and the id that its beginning, or `latest`, means."""
    from ksdp.storage.audits.history import opened_audit as opened

    return opened(store, audit)


@dataclass(frozen=True)
class PlaceOptions:
    """Options of a command that says where the work is done."""

    here: HereOption = None
    dask: DaskOption = None

    def place(self) -> Place:
        """Where it is done, before anything is read or written."""
        from ksdp.flows.audits.place import Place
        from ksdp.tasks.cluster import dask_address

        if self.here is None:
            workers = int(self.dask) if self.dask is not None and self.dask.isdecimal() else None
            if workers == 0:
                raise InputError("`--dask` must be at least 1 worker, or the address of a scheduler; got 0.")
            return Place(workers, dask_address(None if workers else self.dask))
        if self.dask is not None:
            raise InputError("`--here` is without Dask, `--dask` is with it: name one of them.")
        return Place(self.here, here=True)


@dataclass(frozen=True)
class PipelineOptions:
    """Options of a command whose result a pipeline reads."""

    junit: Annotated[Path | None, typer.Option("--junit", help="JUnit XML file to write.")] = None
    sarif: Annotated[Path | None, typer.Option("--sarif", help="SARIF 2.1.0 file to write.")] = None
    fail_on: Annotated[
        list[FailOn] | None,
        typer.Option("--fail-on", help="What the exit code reports, besides a void audit; repeatable."),
    ] = None

    def write(self, result: AuditResult) -> None:
        """Write what is asked for, and a few lines of Markdown to the file that `GITHUB_STEP_SUMMARY` names."""
        page, summary = os.environ.get("GITHUB_STEP_SUMMARY"), result.summary
        if not (self.junit or self.sarif or page):
            return
        from ksdp.dashboards.audits import pipelines
        from ksdp.storage.store import append_synced, write_json, write_text

        results = pipelines.checks(result, FAILING if self.fail_on is None else self.fail_on)
        criteria = [] if result.record is None else pipelines.appetite_checks(result.record)
        if self.junit:
            write_text(self.junit, pipelines.junit(results + criteria, summary))
        if self.sarif:
            write_json(self.sarif, pipelines.sarif(results, summary))
        os.umask(mask := os.umask(0))
        for path in filter(None, (self.junit, self.sarif)):
            path.chmod(0o666 & ~mask)  # whoever uploads them may be another user
        if page:
            append_synced(Path(page), pipelines.markdown(results + criteria, summary).encode())


@dataclass(frozen=True)
class SignerOptions:
    """Options of a command that signs a clearance."""

    clearance: ClearanceOption
    key: KeyOption
    who: WhoOption
    days: DaysOption = 90
    appetite: AppetiteOption = None

    def signing(self, spec: Spec | None = None) -> Signing:
        """Return the signer of a clearance from now on; it asks for the key's passphrase, as `signing_key`."""
        from ksdp.flows.screening.clear import Signing

        limits = read_asked(self.appetite, spec)
        now = datetime.now(UTC)
        expires = now + timedelta(days=self.days)
        key = signing_key(self.key)
        return Signing(self.clearance, key, self.who, now, expires, limits)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Take the options of each dataclass among a command's parameters, and hand the command the dataclass."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint) and isinstance(hint, type)}
    taken: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        group = groups.get(parameter.name)
        own = [parameter] if group is None else list(inspect.signature(group).parameters.values())
        types = hints if group is None else get_type_hints(group, include_extras=True)
        taken += [p.replace(annotation=types[p.name], kind=inspect.Parameter.KEYWORD_ONLY) for p in own]

    @wraps(command)
    def typed(**given: Any) -> None:
        made = {
            name: group(**{f.name: given.pop(f.name) for f in fields(group)}) for name, group in groups.items()
        }
        command(**given, **made)

    vars(typed)["__signature__"] = inspect.Signature(taken)
    typed.__annotations__ = {p.name: p.annotation for p in taken}
    return typed
