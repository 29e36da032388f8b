"""The `ksdp` command.

`--json` prints one machine-readable object on standard output; people's text and progress go to standard
error. Exit codes: 0 done and nothing sensitive; 3 sensitive documents; 4 undecided ones left, none sensitive;
2 refused input (nothing was written); 5 controls failed, the audit is void; 1 anything else.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # workers are processes of one thread; so are we

import typer

from ksdp.audit.errors import InputError, InvalidAudit, KsdpError

__all__ = ["app", "exit_code", "main"]

_INTERRUPTED = 130
_UsageError: Any = typer.BadParameter.__mro__[2]  # ClickException, wherever Typer keeps it

app = typer.Typer(
    name="ksdp",
    help="Measure, document by document, what a private learning protocol gives away, before it is run.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)

StoreOption = Annotated[Path, typer.Option("--store", help="Folder of the store; made where there is none.")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Worker processes; one a core by default.")
]
DaskOption = Annotated[str | None, typer.Option("--dask", help="Address of a Dask scheduler to use instead.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]

_KEYS = ("audit", "corpus", "mechanism", "documents", "runs", "cached_runs", "seconds", "valid", "verdicts")


def exit_code(summary: dict[str, Any]) -> int:
    """What the verdicts of an audit mean to a shell."""
    if not summary["valid"]:
        return 5
    if summary["verdicts"]["sensitive"]:
        return 3
    return 4 if summary["verdicts"]["undecided"] else 0


def _tell(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        statistics = {
            name: {key: about[key] for key in ("version", "median_D", "max_D", "sensitive")}
            for name, about in summary["statistics"].items()
        }
        shown = {key: summary[key] for key in _KEYS}
        shown |= {"statistics": statistics, "store": summary["store"], "report": summary["report"]}
        typer.echo(json.dumps(shown))
        return
    counts = summary["verdicts"]
    if not summary["valid"]:
        typer.secho(
            f"VOID: {summary['controls']['reason']}. No verdict may be used.", err=True, fg="red", bold=True
        )
    typer.echo(
        f"{summary['documents']} documents: {counts['sensitive']} sensitive, {counts['clear']} clear, "
        f"{counts['undecided']} undecided ({summary['runs']} runs, {summary['seconds']:.1f} s)",
        err=True,
    )
    typer.echo(f"audit   {summary['audit']}\nreport  {summary['report']}", err=True)


@app.command()
def audit(
    spec: Annotated[Path, typer.Argument(help="The spec, a TOML file.")],
    store: StoreOption = Path("ksdp-store"),
    workers: WorkersOption = None,
    dask: DaskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Audit every document of a corpus; interrupted, the same command resumes."""
    from ksdp.flows.prepare import read_spec_file
    from ksdp.flows.run import run_audit
    from ksdp.terminal import terminal

    with terminal():
        summary = run_audit(*read_spec_file(spec), store, workers=workers, dask=dask)
    _tell(summary, as_json)
    raise typer.Exit(exit_code(summary))


@app.command()
def plan(
    spec: Annotated[Path, typer.Argument(help="The spec, a TOML file.")], as_json: JsonOption = False
) -> None:
    """Forecast before spending: runs, CPU hours, bytes, and what the audit can find and certify."""
    from ksdp.flows.forecast import forecast
    from ksdp.flows.prepare import read_spec_file

    said = forecast(*read_spec_file(spec))
    if as_json:
        typer.echo(json.dumps(said))
        return
    typer.echo(
        f"{said['documents']} documents, {said['runs']} runs in {said['blocks']} blocks, "
        f"{len(said['statistics'])} statistics\n"
        f"cost      {said['cpu_hours']:.2f} CPU hours ({said['seconds_a_run'] * 1e3:.1f} ms a run), "
        f"{said['bytes'] / 1e9:.1f} GB\n"
        f"finds     a leak of advantage {said['detectable_D']:.2f}, 8 times in 10, even as the only one\n"
        f"certifies a margin of {said['certifiable_margin']:.2f}, 8 times in 10, where there is no leak;\n"
        f"          the spec's {said['margin']:.2f} takes {said['runs_for_margin']} runs"
    )


@app.command("test")
def evaluate_statistics(
    audit: Annotated[str, typer.Argument(help="Id of a finished audit (`ksdp list`).")],
    statistics: Annotated[str, typer.Option("--statistics", help="Names, or module:object, comma-separated.")],
    store: StoreOption = Path("ksdp-store"),
    workers: WorkersOption = None,
    dask: DaskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate new statistics on cached observables, without a single run of the mechanism."""
    from ksdp.flows.run import run_test
    from ksdp.terminal import terminal

    names = tuple(name.strip() for name in statistics.split(",") if name.strip())
    with terminal():
        summary = run_test(store, audit, names, workers=workers, dask=dask)
    _tell(summary, as_json)
    raise typer.Exit(exit_code(summary))


@app.command()
def demo(
    store: StoreOption = Path("ksdp-demo"), workers: WorkersOption = None, as_json: JsonOption = False
) -> None:
    """Audit the docstrings of the installed numpy, scipy and pandas with PD-SVD and PD-NMF."""
    from ksdp.flows.demo import run_demo
    from ksdp.terminal import terminal

    with terminal():
        summaries = run_demo(store, workers=workers)
    for summary in summaries:
        _tell(summary, as_json)


@app.command()
def keys(
    name: Annotated[str, typer.Argument(help="Whose identity it is.")],
    folder: Annotated[Path, typer.Option("--folder", help="Where the two key files go.")] = Path(),
    passphrase: Annotated[bool, typer.Option("--passphrase", help="Ask for a passphrase.")] = False,
) -> None:
    """Make an identity: an Ed25519 key that signs clearances."""
    from ksdp.storage.keys import make_identity

    secret = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True).encode() if passphrase else None
    made = make_identity(folder, name, passphrase=secret)
    typer.echo(f"private  {made.private}  (readable by you alone)\npublic   {made.public}\n{made.fingerprint}")


_SCREENED = {"cleared": 0, "nothing-proved": 4, "void": 5}


@app.command()
def screen(
    spec: Annotated[Path, typer.Argument(help="The spec, a TOML file.")],
    clearance: Annotated[Path, typer.Option("--clearance", help="Where the signed clearance goes.")],
    key: Annotated[Path, typer.Option("--key", help="The private key of whoever decides (`ksdp keys`).")],
    who: Annotated[str, typer.Option("--who", help="Who decides; stands in the clearance.")],
    days: Annotated[int, typer.Option("--days", min=1, help="Days until the clearance expires.")] = 90,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Most rounds of flag, exclude, audit again.")] = 5,
    salted: Annotated[bool, typer.Option("--salted", help="Salted hashes in place of ids.")] = False,
    allow_undecided: Annotated[bool, typer.Option("--allow-undecided", help="Clear undecided ones too.")] = False,
    store: StoreOption = Path("ksdp-store"),
    workers: WorkersOption = None,
    dask: DaskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Flag, exclude, audit the rest on fresh runs until nothing new is found; sign what may be used."""
    from datetime import UTC, datetime, timedelta

    from ksdp.flows.prepare import read_spec_file
    from ksdp.flows.screen import screen as run_screen
    from ksdp.storage.keys import load_private
    from ksdp.terminal import terminal

    now = datetime.now(UTC)
    read, base = read_spec_file(spec)
    with terminal():
        out = run_screen(
            read,
            base,
            store,
            clearance,
            load_private(key),
            who=who,
            now=now,
            expires=now + timedelta(days=days),
            rounds=rounds,
            workers=workers,
            dask=dask,
            salted=salted,
            allow_undecided=allow_undecided,
        )
    if as_json:
        typer.echo(json.dumps(out))
    else:
        typer.echo(f"{out['outcome']}: {out['reason']}", err=True)
    raise typer.Exit(_SCREENED.get(out["outcome"], 3))


@app.command()
def verify(
    clearance: Annotated[Path, typer.Argument(help="A clearance file.")],
    key: Annotated[Path | None, typer.Option("--key", help="The public key it must be signed with.")] = None,
    spec: Annotated[Path | None, typer.Option("--spec", help="The spec it must have been made for.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a clearance: whole, signed, in force, and made for this corpus, mechanism and spec."""
    from datetime import UTC, datetime

    from ksdp.flows.prepare import read_spec_file
    from ksdp.flows.verify import verify as run_verify
    from ksdp.storage.keys import load_public

    read, base = read_spec_file(spec) if spec else (None, None)
    public = load_public(key) if key else None
    out = run_verify(clearance, now=datetime.now(UTC), public_key=public, spec=read, base=base)
    if as_json:
        typer.echo(json.dumps(out, default=str))
        return
    typer.echo(
        "the clearance is whole, signed and in force."
        if key
        else "the clearance is whole and in force. Compare the fingerprint of its signer, or name --key:"
    )
    typer.echo(
        "\n".join(f"{name:12} {value}" for name, value in out.items() if not isinstance(value, list | dict))
    )


@app.command("list")
def list_audits(store: StoreOption = Path("ksdp-store"), as_json: JsonOption = False) -> None:
    """List the finished audits of a store, newest first."""
    from ksdp.storage.findings import read_summary
    from ksdp.storage.store import Store

    opened = Store.open(store, create=False)
    summaries = [read_summary(opened.audit(name)) for name in opened.audits()]
    if as_json:
        typer.echo(json.dumps([{key: summary[key] for key in _KEYS} for summary in summaries]))
        return
    for summary in summaries:
        counts = summary["verdicts"]
        typer.echo(
            f"{summary['audit']}  {summary['provenance']['finished']}  {summary['mechanism']:12}  "
            f"{summary['documents']:>7} documents  {counts['sensitive']:>6} sensitive  "
            f"{counts['clear']:>6} clear  {counts['undecided']:>6} undecided{'' if summary['valid'] else '  VOID'}"
        )


@app.command()
def show(
    audit: Annotated[str, typer.Argument(help="Id of a finished audit.")],
    document: Annotated[str | None, typer.Argument(help="Id of a document; the whole audit without.")] = None,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Show what an audit found, or what it found of one document."""
    from ksdp.storage.findings import read_document, read_summary
    from ksdp.storage.store import Store

    folder = Store.open(store, create=False).audit(audit)
    if document is None:
        _tell(read_summary(folder), as_json)
        return
    found = read_document(folder, document)
    if as_json:
        typer.echo(json.dumps(found))
        return
    typer.echo(f"{document}: {found['verdict']}, adjusted p 10^{found['log10_adjusted_p']:.1f}")
    for row in found["statistics"]:
        typer.echo(
            f"  {row['statistic']:28} D {row['distance']:.3f} [{row['band_low']:.3f}, {row['band_high']:.3f}]  "
            f"p 10^{row['log10_p']:.1f}  ({row['n_with']} with, {row['n_without']} without)"
        )


@app.command()
def report(
    audit: Annotated[str, typer.Argument(help="Id of a finished audit.")],
    html: Annotated[
        Path | None, typer.Option("--html", help="Where to write it; beside the findings without.")
    ] = None,
    store: StoreOption = Path("ksdp-store"),
) -> None:
    """Render the report of a finished audit again."""
    from ksdp.dashboards.report import render_report
    from ksdp.storage.store import Store, write_whole

    opened = Store.open(store, create=False)
    page = render_report(opened, audit)
    target = html or opened.audit(audit) / "report.html"

    def write(part: Path) -> None:
        part.write_text(page, encoding="utf-8")

    write_whole(target, write)
    typer.echo(str(target))


def main() -> None:
    """Run the command and turn errors into one line and an exit code."""
    try:
        code = app(standalone_mode=False)
    except InputError as error:
        typer.secho(f"refused: {error}", err=True, fg="red")
        code = 2
    except InvalidAudit as error:
        typer.secho(f"VOID: {error}", err=True, fg="red", bold=True)
        code = 5
    except KsdpError as error:
        typer.secho(f"error: {error}", err=True, fg="red")
        code = 1
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except _UsageError as error:
        error.show()
        code = error.exit_code
    if code == _INTERRUPTED:  # Typer turns Ctrl-C into this code itself
        typer.echo("stopped; the same command resumes.", err=True)
    sys.exit(code if isinstance(code, int) else 0)
