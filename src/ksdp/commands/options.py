"""Options that several commands share, and how an audit's result is printed."""

from __future__ import annotations

import inspect
import json
import os
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ksdp.audit.errors import InputError
from ksdp.audit.verdicts.verdict import FAILING, verdicts_code

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ksdp.audit.results.appetite import Appetite, AppetiteRecord
    from ksdp.audit.results.summary import Summary
    from ksdp.audit.specs.models import Spec
    from ksdp.flows.audits.place import Place
    from ksdp.flows.screening.clear import Signing
    from ksdp.storage.learning import GainAndAdvice
    from ksdp.storage.store import Store

_BEGAN = time.monotonic()
"""When the command did: what a person waited for is more than the last stage."""

SpecArgument = Annotated[Path, typer.Argument(help="The spec, a TOML file.")]
AuditArgument = Annotated[
    str, typer.Argument(help="Id of a finished audit (`ksdp list`), the beginning of an id, or `latest`.")
]
StoreOption = Annotated[
    Path, typer.Option("--store", envvar="KSDP_STORE", help="Folder of the store. Audits create it if needed.")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Number of worker processes of Prefect and Dask.")
]
HereOption = Annotated[
    int | None,
    typer.Option(
        "--here", min=1, help="Number of worker processes, without Prefect and Dask; 1 uses this process."
    ),
]
DaskOption = Annotated[
    str | None,
    typer.Option("--dask", help="Use Prefect and Dask, with so many workers or the scheduler at tls://HOST:PORT."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
AppetiteOption = Annotated[
    Path | None, typer.Option("--appetite", help="Risk appetite, a TOML file. The exit code is 0 if it is met.")
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

    _ignore_ = "word"
    for word in FAILING:
        vars()[word] = word
    uncovered = "uncovered"


KEYS = (
    "version",
    "audit",
    "corpus",
    "mechanism",
    "documents",
    "runs",
    "cached_runs",
    "seconds",
    "valid",
    "verdicts",
    "detected",
    "unread",
)
"""Keys of a summary that `--json` prints and that keep their meaning; `version` is that of the format."""


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

    def place(self, performance: Path | None = None) -> Place:
        """Where it is done, before anything is read or written; and where Dask's performance report goes."""
        from ksdp.flows.audits.place import Place
        from ksdp.tasks.cluster import dask_address

        if self.here is None:
            if performance is not None and not performance.parent.is_dir():
                raise InputError(f"`--performance-report`: there is no folder {performance.parent}.")
            workers = int(self.dask) if self.dask is not None and self.dask.isdecimal() else None
            if workers == 0:
                raise InputError("`--dask` must be at least 1 worker, or the address of a scheduler; got 0.")
            return Place(workers, dask_address(None if workers else self.dask), performance=performance)
        if performance is not None:
            raise InputError("`--here` is without Dask, `--performance-report` is Dask's: leave one of them out.")
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
        typer.Option(
            "--fail-on", help="Verdict that the exit code reports; repeatable. A void audit always fails."
        ),
    ] = None

    def write(self, summary: Summary, record: AppetiteRecord | None) -> None:
        """Write what is asked for, and a few lines of Markdown to the file that `GITHUB_STEP_SUMMARY` names."""
        page = os.environ.get("GITHUB_STEP_SUMMARY")
        if not (self.junit or self.sarif or page):
            return
        from ksdp.dashboards.audits import pipelines
        from ksdp.storage.store import Store, append_synced, write_json, write_text

        fail_on = FAILING if self.fail_on is None else self.fail_on
        results = pipelines.checks(Store.open(Path(summary.store), create=False), summary, fail_on)
        criteria = [] if record is None else pipelines.appetite_checks(record)
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


def exit_code(summary: Summary, fail_on: Sequence[str] | None = None) -> int:
    """Return the exit code of an audit; by default all verdicts that a pipeline may fail by count."""
    judged = FAILING if fail_on is None else fail_on
    if not summary.valid:
        return 5
    code = verdicts_code(summary.verdicts.as_dict(), judged)
    if code or "uncovered" not in judged:
        return code
    from ksdp.dashboards.audits.pipelines import uncovered

    return 4 if uncovered(summary) else 0


def kept_record(summary: Summary) -> AppetiteRecord | None:
    """An audit held to the appetite that is kept with it; None where none is."""
    from ksdp.storage.store import Store

    store = Store.open(Path(summary.store), create=False)
    if not store.appetite(summary.audit).is_file():
        return None
    from ksdp.storage.reviews.appetites import kept_record as read  # numerics

    return read(store, summary.audit)


def appetite_code(missed: Collection[str]) -> int:
    """Return the exit code for the names of missed criteria, in the words of `exit_code`."""
    return 5 if "controls" in missed else verdicts_code(dict.fromkeys(missed, 1)) or (4 if missed else 0)


def tell_record(record: AppetiteRecord) -> None:
    """Print every criterion, the missed ones with what to do."""
    typer.echo(f"appetite  {'met' if record.met else 'NOT met'}", err=True)
    for criterion in record.criteria:
        typer.echo(f"  {'ok  ' if criterion.met else 'FAIL'} {criterion.sentence()}", err=True)


def tell(
    summary: Summary,
    as_json: bool,
    *,
    made: bool = True,
    record: AppetiteRecord | None = None,
    spec: str = "SPEC.toml",
) -> None:
    """Print an audit's summary: one object for machines, a few lines for people, and what to type next."""
    if as_json:
        statistics = {
            name: {key: getattr(statistic, key) for key in ("version", "median_D", "max_D", "sensitive")}
            for name, statistic in summary.statistics.items()
        }
        out = summary.to_json()
        shown = {key: out[key] for key in KEYS}
        shown |= {"statistics": statistics, "store": summary.store, "report": summary.report}
        shown |= {"share": out["share"], "risk": summary.risk.to_json()}
        if record is not None:
            shown["appetite"] = record.to_json()
        typer.echo(json.dumps(shown))
        return
    gained = _gained(summary)
    if gained.nothing_gained:
        typer.echo(gained.nothing_gained, err=True)
    tell_void(summary)
    waited = f", {time.monotonic() - _BEGAN:.1f} s" if made else ""
    if not summary.spec.decides:
        from ksdp.dashboards.audits.sentences import explored

        typer.echo(explored(summary), err=True)
    typer.echo(
        f"{summary.documents} {summary.design.unit}s: {summary.verdicts.words}; leaks detected in "
        f"{summary.detected} ({summary.runs} runs{waited})",
        err=True,
    )
    if summary.spec.decision_in_run.margin_at_low_fpr is not None:
        typer.echo(f"margin  {summary.spec.decision_in_run.limits}", err=True)
    if gained.gain and not gained.nothing_gained:
        typer.echo(f"gain    {gained.gain['sentences'][0]}", err=True)
    _tell_claim(summary)
    _tell_certificate(summary)
    if summary.share is not None:
        from ksdp.dashboards.audits.sentences import drawn_share

        typer.echo(f"of all    {drawn_share(summary)}", err=True)
    if record is not None:
        tell_record(record)
    typer.echo(f"audit   {summary.audit}\nreport  {summary.report}", err=True)
    if made and summary.spec.decides:
        _tell_next(summary, gained, spec)


def _tell_next(summary: Summary, learning: GainAndAdvice, spec: str) -> None:
    from ksdp.dashboards.audits.sentences import next_steps
    from ksdp.storage.audits.queries import Findings
    from ksdp.storage.store import Store

    needed = Findings(Store(Path(summary.store)).audit(summary.audit)).totals().runs_to_decide
    for step in next_steps(summary, needed, learning, spec):
        typer.echo(f"next    {re.sub('[“”]', '`', step)}", err=True)


def tell_void(summary: Summary) -> None:
    """Say of a void audit that it is: whatever is shown of it comes after."""
    if not summary.valid:
        typer.secho(f"VOID: {summary.controls.reason}. No verdict may be used.", err=True, fg="red", bold=True)


def _gained(summary: Summary) -> GainAndAdvice:
    from ksdp.storage.learning import learning_of
    from ksdp.storage.store import Store

    return learning_of(Store.open(Path(summary.store), create=False), summary.spec.hash, summary.corpus)


def _tell_certificate(summary: Summary) -> None:
    from ksdp.dashboards.audits.sentences import absent, certified, copied, kept_promise, stronger

    for label, sentence in (
        ("absence", absent(summary)),
        ("proof", kept_promise(summary)),
        ("bound", certified(summary)),
        ("copies", copied(summary)),
        ("limit", stronger(summary)),
    ):
        if sentence is not None:
            typer.echo(f"{label:9} {sentence}", err=True)


def _tell_claim(summary: Summary) -> None:
    claim = summary.guarantee
    if claim.kind != "(epsilon, delta)":
        return
    epsilon = "by the sizes" if claim.epsilon is None else f"{claim.epsilon:g}"
    low = f"{summary.fresh.largest_epsilon_low:.2f}" if summary.fresh else "none: no fresh runs"
    typer.echo(
        f"claims  epsilon {epsilon}, delta {claim.delta:g}{'' if claim.sound else ' (UNSOUND)'}; noise "
        f"{claim.sampler.name if claim.sampler else 'none'}; proved on fresh runs, at delta 0: {low}",
        err=True,
    )
    _tell_worst_case(summary)


def _tell_worst_case(summary: Summary) -> None:
    from ksdp.dashboards.audits.sentences import proved
    from ksdp.storage.audits.claims import shown_claim
    from ksdp.storage.store import Store

    claim = shown_claim(Store.open(Path(summary.store), create=False), summary)
    if claim is None:
        typer.echo("        its worst case was not tried in this store (ksdp claim)", err=True)
    elif claim.finding.refuted:
        typer.secho(f"        REFUTED: {proved(claim)}", err=True, fg="red", bold=True)
    else:
        typer.echo(f"        not refuted: {proved(claim)}", err=True)
