"""Commands that show what was found, from `list` and `show` to `export` and `sql`."""

from __future__ import annotations

import json
import math
import sys
from contextlib import nullcontext, redirect_stderr
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ksdp.audit.errors import InputError, NotFound, StoreError
from ksdp.audit.reviewing import visible
from ksdp.commands.options import (
    AppetiteOption,
    AuditArgument,
    JsonOption,
    PipelineOptions,
    StoreOption,
    WhoOption,
    opened_audit,
    read_asked,
    signing_key,
    with_options,
)
from ksdp.commands.present import KEYS, appetite_code, exit_code, present, tell_void

if TYPE_CHECKING:
    from ksdp.audit.results.appetite import Appetite, AppetiteRecord
    from ksdp.audit.results.summary import Summary
    from ksdp.audit.specs.models import DeclaredSpec
    from ksdp.storage.store import Store


def list_audits(store: StoreOption = Path("ksdp-store"), as_json: JsonOption = False) -> None:
    """List the finished audits of a store, newest first. The exit code is 1 if one cannot be read."""
    from ksdp.storage.audits.history import newest_first, read_summary
    from ksdp.storage.audits.ledger import lost_audits
    from ksdp.storage.store import Store

    opened = Store.open(store, create=False)
    summaries: list[Summary] = []
    lost = lost_audits(opened).values()
    for sentence in lost:
        typer.secho(sentence, err=True, fg="yellow")
    left_out = len(lost)
    for name in newest_first(opened):
        try:
            summaries.append(read_summary(opened.audit(name)))
        except StoreError as error:  # one that another version wrote hides none of the others
            typer.secho(f"left out: {error}", err=True, fg="yellow")
            left_out += 1
    _tell_list(summaries, as_json)
    raise typer.Exit(1 if left_out else 0)


def _tell_list(summaries: list[Summary], as_json: bool) -> None:
    if as_json:
        rows = [summary.to_json() for summary in summaries]
        typer.echo(json.dumps([{key: row[key] for key in KEYS} for row in rows]))
        return
    from ksdp.storage.audits.history import mechanism_of

    for summary in summaries:
        words = mechanism_of(summary.mechanism, summary.spec)
        counts = "  ".join(f"{count:>6} {word}" for word, count in summary.verdicts.as_dict().items())
        typer.echo(
            f"{summary.audit}  {summary.provenance.finished}  {words:12}  "
            f"{summary.documents:>7} {summary.design.unit}s  {counts}"
            f"{'' if summary.valid else '  VOID'}"
        )


@with_options
def show(
    *,
    audit: AuditArgument,
    document: Annotated[str | None, typer.Argument(help="Id of a document. Default: the whole audit.")] = None,
    again: Annotated[
        str | None, typer.Option("--again", help="Statistic of the document to compute again from the seed.")
    ] = None,
    worst: Annotated[int, typer.Option("--worst", min=0, help="Number of documents to list.")] = 10,
    html: Annotated[Path | None, typer.Option("--html", help="HTML file to write the report to.")] = None,
    store: StoreOption = Path("ksdp-store"),
    pipeline: PipelineOptions,
    appetite: AppetiteOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the findings of an audit, or of one document. The exit code is 0 without --fail-on and --appetite.

    With --again, one number is computed again, and the exit code is 1 if it differs from the stored one.
    """
    from ksdp.storage.audits.history import read_summary

    opened, audit = opened_audit(store, audit)
    if document is not None and (appetite, pipeline, html) != (None, PipelineOptions(), None):
        raise InputError(
            "`--html`, `--junit`, `--sarif`, `--fail-on` and `--appetite` are for a whole audit: name no document."
        )
    if again is not None:
        if document is None:
            raise InputError("`--again` computes a number of one document: name the document after the audit.")
        _show_again(store, audit, document, again, as_json)
    if document is None:
        limits = read_asked(appetite)
        from ksdp.dashboards.audits.result import audit_result

        summary = read_summary(opened.audit(audit))
        result = audit_result(summary, record=None if limits is None else _held_to(opened, limits, summary))
        with nullcontext() if as_json else redirect_stderr(sys.stdout):  # what is asked for goes down a pipe
            present(result, as_json, made=False)
            if not as_json:
                _tell_documents(opened.audit(audit), worst)
                typer.echo(f"by chance, {_by_chance(summary)}")
        pipeline.write(result)
        if html is not None:
            from ksdp.dashboards.audits.report import render_report
            from ksdp.storage.store import write_text

            write_text(html, render_report(result))
        missed = 0
        if limits is not None and result.record is not None:
            missed = appetite_code([criterion.name for criterion in result.record.missed])
        raise typer.Exit(missed or (exit_code(summary, pipeline.fail_on) if pipeline.fail_on else 0))
    _show_document(opened, audit, document, as_json=as_json)


def _held_to(store: Store, appetite: Appetite, summary: Summary) -> AppetiteRecord:
    from ksdp.storage.reviews.appetites import read_record  # numerics

    return read_record(store, appetite, summary)


def _p(log10_p: float) -> str:
    return f"{10**log10_p:.3f}" if log10_p >= -3 else f"10^{log10_p:.1f}"


def _by_chance(summary: Summary) -> str:
    chance = summary.chance
    return (
        f"where nothing leaks, half of the documents measure a D below {chance.median_D:.3f}, "
        f"19 in 20 below {chance.most_D:.3f}"
    )


def _show_document(store: Store, audit: str, document: str, *, as_json: bool) -> None:
    from ksdp.storage.audits.documents import held_out_distance  # imports numba
    from ksdp.storage.audits.history import read_summary
    from ksdp.storage.findings import place_of, read_document

    folder = store.audit(audit)
    try:
        evidence = read_document(folder, document)
    except StoreError:
        from ksdp.storage.mapped_corpus import open_corpus

        if document in open_corpus(store.corpus(read_summary(folder).corpus)).left_out:
            raise NotFound(f"document {document!r} is left out: empty, without any feature.") from None
        raise
    summary = read_summary(folder)
    held_out = held_out_distance(store, summary, document, place_of(folder, document))
    if as_json:
        row = {"held_out_distance": held_out, "valid": summary.valid}
        typer.echo(json.dumps(evidence.to_json() | row))
        return
    with redirect_stderr(sys.stdout):
        tell_void(summary)
    from ksdp.dashboards.audits.report import words_of

    said = {"evidence": evidence, "summary": summary, "held_out": held_out, "p": _p, "by_chance": _by_chance}
    typer.echo(words_of("evidence.txt.j2", document=document, **said), nl=False)


def _tell_documents(folder: Path, most: int) -> None:
    from ksdp.storage.audits.duckdb_query import strongest

    documents, total = strongest(folder, most)
    rows = [(visible(document), *others) for document, *others in documents]
    width = min(max((len(document) for document, *_ in rows), default=0), 60)
    for document, verdict, distance, log10_p, statistic in rows:
        typer.echo(f"{document:{width}}  {verdict:10} D {distance:.3f}  p {_p(log10_p)}  {statistic}")
    if total > most:
        typer.echo(f"... and {total - most} more: `--worst N`, or `ksdp sql --to`", err=True)


def _show_again(store: Path, audit: str, document: str, statistic: str, as_json: bool) -> NoReturn:
    """Print one number as it is stored and as the seed gives it again."""
    from ksdp.flows.audits.replay import replay
    from ksdp.terminal import terminal

    with terminal():
        out = replay(store, audit, document, statistic)
    if as_json:
        typer.echo(json.dumps(out))
    else:
        for name in ("stored", "replayed"):
            value = out[name]
            typer.echo(f"{name:9} D {value['distance']!r}  log10 p {value['log10_p']!r}  ({value['n_with']} with)")
        other = f" (other versions: {', '.join(out['other_versions'])})" if out["other_versions"] else ""
        typer.echo(f"{'equal' if out['equal'] else 'NOT equal'}{other}")
    raise typer.Exit(0 if out["equal"] else 1)


def dossier(
    audit: AuditArgument,
    key: Annotated[
        Path | None, typer.Option("--key", help="Private key that signs the dossier (`ksdp keys`).")
    ] = None,
    who: WhoOption = "",
    html: Annotated[
        Path | None, typer.Option("--html", help="HTML file to write. Default: a file beside the findings.")
    ] = None,
    pdf: Annotated[Path | None, typer.Option("--pdf", help="PDF file to write, in A4.")] = None,
    spec: Annotated[
        Path | None, typer.Option("--spec", help="Spec whose `[declared]` replaces that of the audit.")
    ] = None,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Write what was measured, declared and decided, as a web page or PDF, for a regulator or a board."""
    from dataclasses import replace

    from ksdp.dashboards.audits.dossier import read_audit, read_dossier, render_dossier, signed_file, write_dossier
    from ksdp.dashboards.audits.report import printer
    from ksdp.storage.audits.history import read_summary
    from ksdp.storage.keys import fingerprint
    from ksdp.storage.reviews.decisions import check_signer

    if (key is None) == bool(who.strip()):
        raise InputError("`--key` and `--who` go together: whose key it is, and who signs.")
    signer = None if key is None else signing_key(key)
    printed = None if pdf is None else printer()
    opened, audit = opened_audit(store, audit)
    if signer is not None:
        check_signer(opened, signer)
    summary = read_summary(opened.audit(audit))
    read = read_audit(opened, audit, None if spec is None else _declared(opened, spec, summary))
    record = read_dossier(opened, read, datetime.now(UTC))
    if signer is not None:
        record = replace(record, signed_by=who, key=fingerprint(signer))
    tell_void(summary)
    if as_json:
        typer.echo(json.dumps(record.to_json()))
    page, files = render_dossier(read, record), {}
    if html is not None or signer is not None or (pdf is None and not as_json):
        files[html or Path(summary.report).with_name("dossier.html")] = page.encode()
    if pdf is not None and printed is not None:
        files[pdf] = printed(page)
    write_dossier(record, files, signer)
    for path in [*([] if signer is None else [signed_file(next(iter(files)))]), *files]:
        typer.echo(str(path), err=as_json)


def _declared(store: Store, path: Path, summary: Summary) -> DeclaredSpec:
    from ksdp.storage.audits.history import read_summary
    from ksdp.storage.audits.ledger import read_ledger
    from ksdp.storage.readers.spec_files import read_spec_file

    read, _ = read_spec_file(path, own_code=False)
    stated = summary.provenance.spec
    if read.hash != stated and (proposing := read_ledger(store).proposing(summary.audit)) != summary.audit:
        stated = read_summary(store.audit(proposing)).provenance.spec
    if read.hash != stated:
        raise InputError(f"{path} is not the spec of audit {summary.audit}: more differs than `[declared]`.")
    return read.declared


def compare(
    before: Annotated[str, typer.Argument(help="The earlier audit: its id, or the beginning of it, or `latest`.")],
    after: Annotated[str, typer.Argument(help="The other audit.")],
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Count the documents whose verdict differs between two audits, and list the keys of the specs that differ."""
    from ksdp.dashboards.audits.pages import read_compare_page

    opened, first = opened_audit(store, before)
    page = read_compare_page(opened, {"a": first, "b": opened_audit(store, after)[1]})
    assert page.before is not None
    assert page.after is not None
    for summary in (page.before, page.after):
        tell_void(summary)
    moves = [
        {"before": was, "after": other, "documents": count}
        for (was, other), count in sorted(page.moves.items(), key=str)
        if was != other
    ]
    keys = [dict(zip(("key", "before", "after"), each, strict=True)) for each in page.differences]
    if as_json:
        out = {"before": page.before.audit, "after": page.after.audit, "same_corpus": page.same_corpus}
        typer.echo(json.dumps(out | {"verdicts": moves, "spec": keys}))
        return
    if not page.same_corpus:
        typer.echo("The corpora differ: documents of the same id may have changed.")
    for each in moves:
        was, other = each["before"] or "not audited", each["after"] or "not audited"
        typer.echo(f"{each['documents']:>7}  {was} -> {other}")
    if not moves:
        typer.echo("No document has another verdict.")
    for key in keys:
        typer.echo(f"{key['key']}: {key['before']} -> {key['after']}")


def sql(
    audit: AuditArgument,
    query: Annotated[str | None, typer.Argument(help="A query in SQL. Default: list the tables.")] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="A .csv, .json or .parquet file for the answer; without QUERY, all verdicts."),
    ] = None,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Query an audit's tables in SQL (DuckDB), with the values and who was in every run; list or export them."""
    from ksdp.storage.audits.history import read_summary
    from ksdp.storage.audits.sql import ask, described_tables, write_answer

    opened, audit = opened_audit(store, audit)
    if to is not None:
        written = write_answer(opened, audit, query or "select * from verdicts", to)
        tell_void(read_summary(opened.audit(audit)))
        typer.echo(json.dumps({"rows": written, "file": str(to)}) if as_json else f"{written} rows  {to}")
        return
    if query is None:
        told_tables = described_tables(opened, audit)
        if as_json:
            typer.echo(json.dumps([{"name": n, "rows": rows, "columns": cols} for n, rows, cols in told_tables]))
            return
        for name, count, columns in told_tables:
            typer.echo(f"{name} ({count} rows)\n  {', '.join(columns)}")
        return
    names, rows = ask(opened, audit, query)
    tell_void(read_summary(opened.audit(audit)))
    if as_json:
        records = [
            [None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row] for row in rows
        ]
        typer.echo(json.dumps([dict(zip(names, row, strict=True)) for row in records], default=str))
        return
    typer.echo("\t".join(names))
    for row in rows:
        typer.echo("\t".join("" if cell is None else visible(str(cell)) for cell in row))
