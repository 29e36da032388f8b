"""Sign and advise: `keys`, `clear`, `verify`, `gain`, `advise`."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ksdp.audit.errors import InputError
from ksdp.audit.verdicts.verdict import verdicts_code
from ksdp.commands.options import (
    JsonOption,
    PlaceOptions,
    SignerOptions,
    StoreOption,
    WorkersOption,
    opened_audit,
    read_spec,
    with_options,
)
from ksdp.commands.reviews import tell_chain, tell_exclusions

if TYPE_CHECKING:
    from ksdp.audit.screening.screen_summary import ScreenSummary


def keys(
    name: Annotated[str, typer.Argument(help="Name of the person or the party.")],
    folder: Annotated[Path, typer.Option("--folder", help="Folder for the two key files.")] = Path(),
    passphrase: Annotated[bool, typer.Option("--passphrase", help="Ask for a passphrase.")] = False,
) -> None:
    """Make an identity: an Ed25519 key that signs clearances and takes part in runs."""
    from ksdp.storage.keys import make_identity

    secret = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True).encode() if passphrase else None
    made = make_identity(folder, name, passphrase=secret)
    typer.echo(f"private  {made.private}  (readable by you alone)\npublic   {made.public}\n{made.fingerprint}")


@with_options
def clear(
    *,
    audit: Annotated[
        str,
        typer.Argument(
            help="A spec, FILE.toml; or an audit's id, its beginning, or `latest`.", metavar="SPEC|AUDIT"
        ),
    ],
    signer: SignerOptions,
    leave_out_waiting: Annotated[
        bool, typer.Option("--leave-out-waiting", help="Leave out documents that wait for a second person.")
    ] = False,
    only: Annotated[
        Path | None,
        typer.Option("--only", help="File with the ids of exactly the documents to list, one per line."),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option("--hours", min=0, help="With SPEC: hours to wait for people's decisions. Default: none."),
    ] = None,
    store: StoreOption = Path("ksdp-store"),
    where: PlaceOptions,
    as_json: JsonOption = False,
) -> None:
    """Sign the documents that may enter a run, once an audit of exactly these has proved them.

    What an audit proves clear and nobody excluded, and what people accepted, is audited by itself on fresh runs;
    what does not hold there is left out, and the rest is audited again, until all of it holds. Exit 0: signed.
    """
    given = read_spec(Path(audit)) if audit.endswith(".toml") else None
    from ksdp.flows.prepare import open_spec
    from ksdp.flows.reviews import Patience, run_approval
    from ksdp.flows.screening.clear import ClearRules, audit_and_clear
    from ksdp.flows.screening.clear import clear as run_clear
    from ksdp.storage.files import read_text
    from ksdp.terminal import terminal

    place = where.place()
    rules = ClearRules(
        leave_out_waiting=leave_out_waiting, only=None if only is None else read_text(only, "utf-8").splitlines()
    )
    if given is not None:
        read, base = given
        signing = signer.signing(read)
        with terminal():
            opened = open_spec(read, base)
            if hours is None:
                out = audit_and_clear(opened, store, signing, rules, place)
            else:
                out = run_approval(opened, store, signing, rules, Patience(timedelta(hours=hours)), place)
    else:
        if hours is not None:
            raise InputError("`--hours` goes with a spec.")
        named = opened_audit(store, audit)[1]
        signing = signer.signing()
        with terminal():
            out = run_clear(store, named, signing, rules, place)
    tell_cleared(out, as_json)


def tell_cleared(out: ScreenSummary, as_json: bool) -> NoReturn:
    """Print what was signed, or why nothing was, and leave with its exit code."""
    if as_json:
        typer.echo(json.dumps(out.to_json()))
    elif out.clearance is None:
        typer.secho(f"not signed: {out.reason}", err=True, fg="yellow")
        typer.echo("`ksdp advise` looks for a run that gives less away.", err=True)
    else:
        typer.echo(f"signed: {out.allowed} of {out.documents} documents. {out.reason}")
        typer.echo(f"{out.clearance}  {out.fingerprint}")
        measures = f"`ksdp gain SPEC --clearance {out.clearance}` measures what a party gains by these documents."
        typer.echo("".join(f"gain    {sentence}\n" for sentence in out.gain[:2] or [measures]), nl=False)
        typer.echo(f"next    hand the file over; `ksdp dossier {out.rounds[-1].audit}` writes it up", err=True)
    if not as_json:
        tell_exclusions(out.exclusions)
        typer.echo(f"report  {out.report}", err=True)
    if out.clearance or out.outcome == "void":
        raise typer.Exit(0 if out.clearance else 5)
    raise typer.Exit(verdicts_code(out.rounds[-1].verdicts.as_dict()) or 4)


def verify(
    clearance: Annotated[Path, typer.Argument(help="Clearance or signed dossier; or a store, or its review log.")],
    key: Annotated[Path | None, typer.Option("--key", help="Public key that must have signed it.")] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option("--against", help="Clearance that the review log must agree with; repeatable."),
    ] = None,
    spec: Annotated[Path | None, typer.Option("--spec", help="Spec that the clearance must be for.")] = None,
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", help="Ledger of the party: also print what its runs have given away."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a clearance is whole, signed, in force and for this spec; or a dossier, a store, a log."""
    from ksdp.flows.screening.clear import verify as run_verify
    from ksdp.flows.screening.clear import verify_log
    from ksdp.storage.clearances import signed_kind
    from ksdp.storage.keys import load_public

    public = load_public(key) if key else None
    if clearance.is_dir():
        _refuse_damage(clearance, as_json)
    if clearance.is_dir() or clearance.suffix == ".jsonl":
        tell_chain(verify_log(clearance, against or (), public), as_json)
        return
    named = clearance.name
    clearance = clearance.with_suffix(".json") if clearance.suffix in (".html", ".pdf") else clearance
    if signed_kind(clearance) == "dossier":
        from ksdp.dashboards.audits.dossier import verify_dossier

        if spec or ledger:
            raise InputError("`--spec` and `--ledger` are of clearances; this is a dossier.")
        verified = verify_dossier(clearance, public)
        if named not in (clearance.name, *verified["checked"]):
            raise InputError(f"{named} is not there, or is none of the files that {clearance.name} signs.")
        absent = f" (not beside it: {', '.join(verified['missing'])})" if verified["missing"] else ""
        _tell_verified(f"dossier{absent} is whole and signed, with every file beside it", verified, key, as_json)
        return
    read = read_spec(spec) if spec else None
    from ksdp.flows.prepare import open_spec

    opened = open_spec(*read) if read else None
    out = run_verify(clearance, now=datetime.now(UTC), public_key=public, against=opened)
    if ledger is not None:
        from ksdp.flows.runs.budget import spent, spent_words
        from ksdp.storage.runs.ledger import Ledger

        out["spent"] = spent_words(spent(Ledger(ledger)))
    _tell_verified("clearance is whole, signed and in force", out, key, as_json)


def _refuse_damage(store: Path, as_json: bool) -> None:
    from ksdp.flows.upkeep import damage
    from ksdp.storage.store import Store

    damages = damage(Store.open(store, create=False))
    if not damages:
        return
    if as_json:
        typer.echo(json.dumps({"whole": False, "damaged": [asdict(fault) for fault in damages]}))
    else:
        typer.secho("\n".join(f"{fault.where}: {fault.sentence}" for fault in damages), err=True, fg="red")
    raise typer.Exit(1)


_SENTENCE_ENDS = re.compile(r"(?<=\.) (?=[A-Z0-9])")


def _tell_verified(said: str, out: dict[str, Any], key: Path | None, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(out, default=str))
        return
    from ksdp.audit.reviewing import visible

    compare = "" if key else " Nobody says by whom: compare the fingerprint of its signer, or name --key."
    typer.echo(f"the {said}.{compare}")
    for name, value in out.items():
        if not isinstance(value, list | dict | None):
            typer.echo(f"{name:15} " + f"\n{'':16}".join(_SENTENCE_ENDS.split(visible(str(value)))))


def gain(
    spec: Annotated[Path, typer.Argument(help="The spec, a TOML file; `[gain]` says how to measure.")],
    clearance: Annotated[
        Path | None, typer.Option("--clearance", help="Let only the documents of this clearance enter the run.")
    ] = None,
    store: StoreOption = Path("ksdp-store"),
    as_json: JsonOption = False,
) -> None:
    """Measure what a party gains over working alone: on its own documents, on the others', and on all."""
    read, base = read_spec(spec)
    from ksdp.flows.learning import measure_gain

    summary = measure_gain(read, base, store, clearance)
    if as_json:
        typer.echo(json.dumps(summary.to_json()))
        return
    typer.echo("\n".join(summary.sentences))
    for measure in summary.measures:
        public = "" if measure.public is None else f"   public {measure.public.mean:.4f}"
        kept = (
            ""
            if measure.kept is None
            else f"   kept {measure.kept.mean:.0%} ({measure.kept.low:.0%} to {measure.kept.high:.0%})"
        )
        typer.echo(
            f"\n{measure.measure}: alone {measure.alone.mean:.4f}   run {measure.run.mean:.4f}   "
            f"exact {measure.exact.mean:.4f}{public}{kept}"
        )
        for party in measure.parties:
            typer.echo(
                f"  {party.party:24} own documents: alone {party.alone.mean:.4f}, run {party.run.mean:.4f}, "
                f"gain {party.gain.mean:+.4f} ({party.gain.low:+.4f} to {party.gain.high:+.4f})"
            )


def advise(
    spec: Annotated[Path, typer.Argument(help="The spec, a TOML file: where the search starts.")],
    write: Annotated[
        Path | None, typer.Option("--write", help="The recommended spec; SPEC.advised.toml by default.")
    ] = None,
    quota: Annotated[
        float, typer.Option("--quota", help="Largest share of documents that may stay out of the run.")
    ] = 1 / 3,
    store: StoreOption = Path("ksdp-store"),
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the setting that is within the margin and gains most, audit it, and write it as a spec to sign.

    Exit 0: a spec is recommended, and `ksdp clear` signs it. 4: none is within reach, and why.
    """
    read, base = read_spec(spec)
    from ksdp.flows.learning import Limits, advise_spec
    from ksdp.terminal import terminal

    limits, to = Limits(quota), write or spec.with_suffix(".advised.toml")
    with terminal():
        out = advise_spec(read, base, store, limits, write=to, workers=workers)
    if as_json:
        typer.echo(json.dumps(out))
    else:
        typer.echo("\n".join(_advised(out)))
        typer.echo(f"report  {out['report']}", err=True)
    raise typer.Exit(0 if out["best"] is not None else 4)


def _advised(out: dict[str, Any]) -> list[str]:
    """Return the lines of advice: the settings that were tried, and the command to type next."""
    lines = [*out["sentences"], "", *out["gain"]["sentences"], ""]
    baselines = out["baselines"]
    lines.append(_row("gain", "kept", "proved", "above", f"setting ({baselines['measure']}, over working alone)"))
    for place, setting in enumerate(out["tried"]):
        if setting["gain"] is None:
            continue
        gain = f"{setting['gain']['mean']:+.4f}{' ' if setting['gain']['low'] > 0 else '?'}"
        kept = "" if setting["kept"] is None else f"{setting['kept']['mean']:.0%}"
        proved = "" if setting["promised"] is None else f"{setting['promised']:.2g}"
        above = f"{setting['absent']}/{out['documents']}" if setting["absent"] else ""
        above = above if setting["leak"] is None else f"{setting['leak']['above']}/{setting['leak']['documents']}"
        mark = {out["best"]: "  (recommended)", out["nearest"]: "  (nearest miss)"}.get(place, "")
        lines.append(_row(gain, kept, proved, above, setting["name"] + mark))
    if out["missed"]:
        lines += ["", f"The nearest miss is written as {out['missed']}."]
    if out["spec"]:
        lines += ["", f"The recommended spec is {out['spec']}. Next:"]
        lines += [f"  {step['command']}\n      {step['why']}" for step in out["commands"]]
    return lines


def _row(gain: str, kept: str, proved: str, above: str, named: str) -> str:
    return f"{gain:>9}  {kept:>5}  {proved:>6}  {above:>7}  {named}"
