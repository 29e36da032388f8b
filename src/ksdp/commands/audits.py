"""Make audits: `demo`, `init`, `plan`, `audit`, `more-runs`, `test`, `power`, `mechanisms`, `claim`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ksdp.audit.errors import InputError
from ksdp.audit.verdicts.verdict import VERDICTS
from ksdp.commands.options import (
    AppetiteOption,
    AuditArgument,
    JsonOption,
    PipelineOptions,
    PlaceOptions,
    SpecArgument,
    StoreOption,
    opened_audit,
    read_asked,
    read_spec,
    with_options,
)
from ksdp.commands.present import appetite_code, exit_code, present

if TYPE_CHECKING:
    from ksdp.audit.results.appetite import Appetite
    from ksdp.audit.results.summary import Summary
    from ksdp.audit.specs.models import Spec
    from ksdp.flows.audits.place import Place


@with_options
def audit(
    *,
    specs: Annotated[
        list[Path], typer.Argument(help="The spec, a TOML file; several for one table.", metavar="SPEC")
    ],
    store: StoreOption = Path("ksdp-store"),
    where: PlaceOptions,
    pipeline: PipelineOptions,
    appetite: AppetiteOption = None,
    as_json: JsonOption = False,
) -> None:
    """Audit every document of a corpus. The same command resumes it."""
    opened = {str(spec): read_spec(spec) for spec in specs}  # a spec that is refused imports nothing heavy
    place = where.place()
    if len(specs) > 1:
        if (appetite, pipeline.junit, pipeline.sarif) != (None, None, None):
            raise InputError("`--appetite`, `--junit` and `--sarif` are for one spec: name no other.")
        summaries = {name: _audited(read, store, place, None)[0] for name, read in opened.items()}
        _report_several(summaries, pipeline.fail_on, as_json)
    ((name, read),) = opened.items()
    summary, limits = _audited(read, store, place, appetite)
    _report_audit(summary, pipeline, limits, as_json, shlex.quote(name))


@with_options
def more_runs(
    *,
    audit: AuditArgument,
    documents: Annotated[
        list[str] | None,
        typer.Argument(
            help="Documents that need more runs. Default: those that people decided `more-runs` about."
        ),
    ] = None,
    with_runs: Annotated[
        int | None,
        typer.Option(
            "--with-runs",
            min=2,
            help="Least number of runs in the smaller arm, reached by doubling. Default: the forecast.",
        ),
    ] = None,
    lock: Annotated[int | None, typer.Option("--lock", hidden=True)] = None,
    store: StoreOption = Path("ksdp-store"),
    where: PlaceOptions,
    pipeline: PipelineOptions,
    as_json: JsonOption = False,
) -> None:
    """Continue a finished audit with more runs for some documents. The same command resumes it."""
    from ksdp.flows.reviews import WantedRuns
    from ksdp.flows.reviews import more_runs as run_more
    from ksdp.terminal import terminal

    wanted, place = WantedRuns(tuple(documents) if documents else None, with_runs), where.place()
    with terminal():
        summary = run_more(store, opened_audit(store, audit)[1], wanted, place, lock=lock)
    _report_audit(summary, pipeline, None, as_json)


def _audited(
    spec: tuple[Spec, Path], store: Path, place: Place, appetite: Path | None
) -> tuple[Summary, Appetite | None]:
    """Audit a spec with its folder; return the summary and the limits that it is held to."""
    read, base = spec
    from ksdp.flows.audits.run import run_audit
    from ksdp.flows.prepare import open_spec
    from ksdp.terminal import terminal

    limits = read_asked(appetite, read)
    with terminal():
        return run_audit(open_spec(read, base), store, place, limits), limits


def _report_several(made: Mapping[str, Summary], fail_on: Sequence[str] | None, as_json: bool) -> NoReturn:
    """Print one table of audits, and leave with the exit code of the worst."""
    import pandas as pd

    rows = [{"spec": name, "audit": summary.audit, **summary.row} for name, summary in made.items()]
    typer.echo(json.dumps(rows) if as_json else pd.DataFrame(rows).to_string(index=False))
    codes = {exit_code(summary, fail_on) for summary in made.values()}
    raise typer.Exit(next((code for code in (5, 3, 4) if code in codes), 0))


def _report_audit(
    summary: Summary, pipeline: PipelineOptions, appetite: Appetite | None, as_json: bool, spec: str = "SPEC.toml"
) -> NoReturn:
    """Print a finished audit, write what pipelines read, and leave with its exit code."""
    from ksdp.dashboards.audits.result import audit_result

    result = audit_result(summary)
    present(result, as_json, spec=spec)
    pipeline.write(result)
    if appetite is None or result.record is None:
        raise typer.Exit(exit_code(summary, pipeline.fail_on))
    missed = appetite_code([criterion.name for criterion in result.record.missed])
    raise typer.Exit(missed or exit_code(summary, pipeline.fail_on or ()))


def plan(
    spec: SpecArgument,
    appetite: AppetiteOption = None,
    party: Annotated[
        list[str] | None,
        typer.Option("--party", help="NAME@HOST:PORT of a party whose NAME.pub is here; print the protocol file."),
    ] = None,
    columns: Annotated[
        Path | None,
        typer.Option(
            "--columns", help="File for the column names; read the data, print `[features]` of a protocol file."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Forecast runs, CPU hours and bytes of an audit, and what it can detect and call clear.

    With the parties named, print the protocol file that a run of this spec among them needs.
    """
    read, base = read_spec(spec)
    if party or columns is not None:
        _tell_features(read, base, party, columns, as_json)
        return
    from ksdp.flows.audits.forecast import forecast, forecast_words
    from ksdp.flows.prepare import open_spec

    read_asked(appetite, read)
    forecasts = forecast(open_spec(read, base))
    if as_json:
        typer.echo(json.dumps(forecasts))
        return
    typer.echo(forecast_words(forecasts))


def _tell_features(spec: Spec, base: Path, party: list[str] | None, columns: Path | None, as_json: bool) -> None:
    """The columns that a spec's levers leave and how rows are made, as a protocol file says it."""
    from ksdp.flows.prepare import open_spec
    from ksdp.flows.runs.protocol_files import features_hash, protocol_text
    from ksdp.storage.corpora import corpus_features, rows_hash

    names, rows = corpus_features(spec.corpus, base), rows_hash(spec.corpus, base)
    features: dict[str, str | int] = {"hash": features_hash(names), "count": len(names), "rows": rows}
    if columns is not None:
        open_spec(spec, base)  # refuses, before anybody signs, a table that no run takes
        columns.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(features))
    elif party:
        typer.echo(protocol_text(spec, features, party), nl=False)
    else:
        typer.echo("[features]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in features.items()))


@with_options
def evaluate_statistics(
    *,
    audit: Annotated[
        str,
        typer.Argument(
            help="A finished audit (`ksdp list`), the beginning of its id, or `latest`. With --data its spec; "
            "with --against a release (npy, npz or a table), or the name of a column of scores.",
            metavar="AUDIT|SPEC|RELEASE",
        ),
    ],
    statistics: Annotated[
        str, typer.Option("--statistics", help="Comma-separated statistics: names, or module:object.")
    ] = "",
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Edited versions of documents, by id; with --against those that were in."),
    ] = None,
    against: Annotated[
        Path | None, typer.Option("--against", help="Documents that were held out of the one release.")
    ] = None,
    store: StoreOption = Path("ksdp-store"),
    where: PlaceOptions,
    as_json: JsonOption = False,
) -> None:
    """Measure new statistics on stored releases, or on one release. Nothing is run, and there is no verdict.

    With --data and --against, it compares documents that were in one release with documents held out, and proves a
    lower bound of epsilon, of all together. The exit code is 5 if the files differ for another reason. With --data
    alone, it measures edited versions of documents beside the documents, on the runs of the spec's audit.
    """
    if against is not None:
        if data is None or statistics:
            raise InputError("`--against` goes with `--data`, and without `--statistics`.")
        from ksdp.flows.audits.released import release_of_files

        finding = release_of_files(audit, data, against)
        typer.echo(json.dumps(finding.as_json()) if as_json else repr(finding))
        raise typer.Exit(5 if finding.bound is None else 0)
    from ksdp.dashboards.audits.result import audit_result
    from ksdp.flows.audits.run import run_test, run_versions
    from ksdp.terminal import terminal

    names = tuple(name.strip() for name in statistics.split(",") if name.strip())
    place = where.place()
    if data is not None:
        read, base = read_spec(Path(audit))
        with terminal():
            edited = run_versions(read, base, data, store, names, place)
        out = {"audit": edited.versions.audit, "scope": "no verdict", "rows": edited.rows}
        typer.echo(json.dumps(out) if as_json else "\n".join(edited.lines()))
        raise typer.Exit(0 if edited.themselves.valid and edited.versions.valid else 5)
    if not names:
        raise InputError("`--statistics` must name what is measured: `ksdp plan` and reports list statistics.")
    with terminal():
        summary = run_test(store, opened_audit(store, audit)[1], names, place)
    if not as_json:
        for name, statistic in summary.statistics.items():
            typer.echo(
                f"{name:28} median D {statistic.median_D:.3f}, largest {statistic.max_D:.3f}   "
                f"(by chance half stay below {summary.chance.median_D:.3f})"
            )
    present(audit_result(summary), as_json)
    raise typer.Exit(exit_code(summary))


@with_options
def power(
    *,
    audit: AuditArgument,
    store: StoreOption = Path("ksdp-store"),
    where: PlaceOptions,
    as_json: JsonOption = False,
) -> None:
    """Plant leaks of known size for documents that an audit called clear, audit again, and say what it missed."""
    from ksdp.flows.audits.strength import measure_strength
    from ksdp.flows.interruption import utc_now
    from ksdp.terminal import terminal

    place = where.place()
    with terminal():
        strength = measure_strength(store, opened_audit(store, audit)[1], utc_now, place)
    if as_json:
        typer.echo(json.dumps(strength.to_json()))
        return
    typer.echo(f"{'leak':32} advantage" + "".join(f"{word:>11}" for word in VERDICTS))
    for row in strength.rows:
        counts = "".join(f"{row.called[word]:11}" for word in VERDICTS)
        typer.echo(f"{row.kind:32} {row.advantage:9.2f}{counts}")
    typer.echo(strength.sentence())


@with_options
def demo(*, store: StoreOption = Path("ksdp-demo"), where: PlaceOptions, as_json: JsonOption = False) -> None:
    """Audit docstrings of the installed numpy, scipy and pandas: every verdict, and a list that is signed."""
    from ksdp.dashboards.audits.result import audit_result
    from ksdp.flows.screening.demo import demo_words, run_demo
    from ksdp.terminal import terminal

    with terminal():
        demo_summary = run_demo(store, where.place())
    if as_json:
        for summary in demo_summary.audits:
            present(audit_result(summary), as_json)
    else:
        typer.echo(demo_words(demo_summary), err=True)


def init(
    data: Annotated[
        str,
        typer.Argument(help="Path or URL of the corpus: Parquet, CSV, JSON, xlsx, npy, npz, mtx, UCI docword."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Spec to write. Default: the name of the data file with .toml.")
    ] = None,
    margin: Annotated[
        float, typer.Option("--margin", min=0.01, max=0.99, help="Largest advantage that is accepted.")
    ] = 0.2,
    check: Annotated[bool, typer.Option("--check", help="Write nothing: only look at the columns.")] = False,
) -> None:
    """Write a commented spec for a data file, with enough runs to prove documents clear; print its columns."""
    from ksdp.flows.audits.first_spec import first_spec, profile, spec_beside
    from ksdp.storage.store import write_text

    target = out or spec_beside(data)
    if target.exists() and not check:
        raise InputError(f"{target} exists; name another file with `--out`.")
    text = first_spec(data, target.resolve().parent, margin)
    for line in profile(text, target.resolve().parent):
        typer.echo(line, err=not check)
    if check:
        return
    write_text(target, text)
    typer.echo(f"{target}\nnext: ksdp advise {target}", err=True)


_REFUTED = 3


def mechanisms(
    names: Annotated[list[str] | None, typer.Argument(help="Names of mechanisms. Default: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List every mechanism, or those named, with its guarantee, parameters and source."""
    from ksdp.audit.registry import described_mechanisms

    every = described_mechanisms()
    all_names = [entry["name"] for entry in every]
    if unknown := [name for name in names or () if name not in all_names]:
        raise InputError(f"there is no mechanism {unknown[0]!r}; there are {', '.join(all_names)}.")
    entries = [entry for entry in every if not names or entry["name"] in names]
    if as_json:
        typer.echo(json.dumps(entries))
        return
    for entry in entries:
        promise = entry["guarantee"]
        named = " without `scale`" if "scale" in entry["parameters"] else ""
        unsound = "" if promise["sound"] else f"  UNSOUND{named}"
        typer.echo(f"{entry['name']}  {promise['kind']}{_budget(promise)}{unsound}")
        for key in ("unit", "trust", "source", "notes"):
            if promise[key]:
                typer.echo(f"  {key:11} {promise[key]}")
        if promise["sampler"]:
            typer.echo(f"  {'noise':11} {promise['sampler']['name']}: {promise['sampler']['is']}")
        shown = ", ".join(f"{name} = {value}" for name, value in entry["parameters"].items())
        typer.echo(f"  {'parameters':11} {shown}{'' if 'noise' in entry['parameters'] else ', noise = 0'}")


def claim(
    spec: Annotated[Path, typer.Argument(help="Spec, a TOML file; its corpus is read only with --one-run.")],
    runs: Annotated[int, typer.Option(min=20, help="Number of runs in each arm.")] = 2000,
    one_run: Annotated[
        bool,
        typer.Option("--one-run", help="Guess the members of one run on the corpus instead; nothing is stored."),
    ] = False,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Compare the epsilon that a mechanism claims with a lower bound from runs on its worst case.

    The exit code is 3 if the claim is refuted. The finding is stored, and audits show it.
    """
    parsed, base = read_spec(spec)
    from ksdp.flows.audits.claims import run_claim, run_once
    from ksdp.terminal import terminal

    if one_run:
        with terminal():
            once = run_once(parsed, base)
        typer.echo(json.dumps(once.as_json()) if as_json else once.sentence())
        if once.refuted:
            raise typer.Exit(_REFUTED)
        return
    with terminal():
        done = run_claim(parsed, store, runs=runs, clock=lambda: datetime.now(UTC))
    finding = done.finding
    if finding.refuted:
        typer.secho(f"REFUTED: {finding.mechanism} does not keep its claim.", err=True, fg="red", bold=True)
    if as_json:
        where = {"finished": done.finished, "read": done.read, "file": str(done.path)}
        typer.echo(json.dumps(finding.as_json() | where))
    else:
        ways = ", ".join(f"{way.epsilon:.3g} {way.way} (delta {way.delta:.1g})" for way in finding.counted)
        typer.echo(finding.sentence())
        typer.echo(f"  counted: {ways}\n  unit: {finding.guarantee.unit}\n  trust: {finding.guarantee.trust}")
        if finding.guarantee.notes:
            typer.echo(f"  note: {finding.guarantee.notes}")
        how = "read from the store: the same inputs and code, run" if done.read else "stored"
        typer.echo(f"  {how} {done.finished}, {done.path}")
    if finding.refuted:
        raise typer.Exit(_REFUTED)


def _budget(promise: dict[str, Any]) -> str:
    if promise["delta"] is None:
        return ""
    epsilon = "by the sizes" if promise["epsilon"] is None else f"{promise['epsilon']:g}"
    return f"  epsilon {epsilon}, delta {promise['delta']:g}"
