"""The protocol among real parties: `agree`, `party`, `run`, `budget`."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ksdp.audit.errors import ClearanceError, InputError, StoreError
from ksdp.commands.options import JsonOption, MetricsOption, signing_key, with_options

if TYPE_CHECKING:
    from ksdp.flows.runs.budget import BudgetGuard, LedgerEntry
    from ksdp.flows.runs.party import ContributedDocuments, Node
    from ksdp.flows.runs.protocol_files import Run
    from ksdp.protocols.network.mesh import Address

MeOption = Annotated[str, typer.Option("--me", help="Name of this party, or of the server, in the protocol file.")]
IdentityOption = Annotated[Path, typer.Option("--key", help="Private key of this party (`ksdp keys`).")]
CheckOption = Annotated[
    float | None,
    typer.Option(
        "--check", min=0, help="Only check what would stop a run, and wait so many seconds for the other parties."
    ),
]
ProtocolArgument = Annotated[Path, typer.Argument(help="Protocol file, the same at every party.")]
UnclearedOption = Annotated[
    bool, typer.Option("--uncleared", help="Enter every document without a clearance. All parties learn of it.")
]
OwnStoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="Your store: what is excluded there stays out, and runs are recorded there. Default: KSDP_STORE, or "
        "ksdp-store if it exists. Without a store, only exclusions in the clearance count; the run says so.",
    ),
]


@dataclass(frozen=True)
class EnteringOptions:
    """Options of a command that says what a party enters, on what grounds, and what it may cost."""

    key: IdentityOption
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", help="Spec of the audit, or a count matrix (npz, mtx). A server has none."),
    ] = None
    clearance: Annotated[
        Path | None, typer.Option("--clearance", help="Signed list of the documents that may enter.")
    ] = None
    signer: Annotated[
        Path | None,
        typer.Option("--signer", help="Public key that signed the clearance. Default: that of the party."),
    ] = None
    uncleared: UnclearedOption = False
    store: OwnStoreOption = None


@with_options
def party(
    *,
    protocol: ProtocolArgument,
    me: MeOption,
    entering: EnteringOptions,
    check: CheckOption = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the result and the transcript.")] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", help="HOST:PORT to listen on, if the others use another address.")
    ] = None,
    metrics: MetricsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take part in a run: wait for the others, exchange what the protocol says, and write the result.

    `ksdp agree` comes before: it makes the file that all parties sign.
    """
    from ksdp.protocols.network.mesh import Address

    address = Address.parse(listen) if listen else None
    if check is not None:
        _check(protocol, me, entering, out, address, check, as_json=as_json)
    elif out is None:
        raise InputError("`--out` must name the folder of the result.")
    else:
        _take_part(protocol, me, entering, out, address, metrics, as_json=as_json)


def agree(
    protocol: ProtocolArgument,
    me: MeOption,
    key: IdentityOption,
    join: Annotated[
        str | None, typer.Option("--join", help="HOST:PORT where this party listens; add the party to the file.")
    ] = None,
    server: Annotated[
        bool, typer.Option("--server", help="With --join: join as the server, which has no documents.")
    ] = False,
    invite: Annotated[
        bool, typer.Option("--invite", help="Sign the file first, and print its fingerprint, to be read out.")
    ] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Print the file, ask for its fingerprint, and sign it.")
    ] = False,
    fingerprint: Annotated[
        str | None,
        typer.Option("--fingerprint", help="With --accept: the fingerprint that was read to you by telephone."),
    ] = None,
    copies: Annotated[
        list[Path] | None,
        typer.Option(
            "--copy", help="Another party's copy of the file, whose parties and signatures to add; repeatable."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Agree on a protocol file: join it, invite to it, accept it; each party adds its own signature."""
    from ksdp.flows.runs.protocol_files import read_protocol_file, read_run, require_typed
    from ksdp.protocols.programs.run_terms import who_must_be_trusted

    if (steps := (join is not None) + invite + accept) > 1 or not (steps or copies):
        raise InputError("one of `--join`, `--invite`, `--accept` or `--copy` must say what to do.")
    file = read_protocol_file(protocol)
    if copies:
        file.merge([read_protocol_file(copy) for copy in copies])
        file = read_protocol_file(protocol)
    if join is not None:
        file.join(me, join, signing_key(key).public_key(), server=server)
        typer.echo(
            f"{me} is in {protocol.name}: send it to whoever invites, who reads out its fingerprint", err=True
        )
    elif invite or accept:
        trust = ""
        if "pem" not in file.tables:
            trust = who_must_be_trusted(read_run(protocol, stated=accept).terms)
        if invite and trust:
            file = file.state(trust)
        if accept:
            typer.echo(
                "\n".join(f"{name:32} {value}" for name, value in file.lines.items()) + f"\n{trust}", err=True
            )
            for signature in file.signatures:
                if signature.name == me and signature.content != file.content:
                    typer.echo(f"since {me} signed: {file.changed_since(signature)}", err=True)
            require_typed(fingerprint or typer.prompt("Fingerprint that was read out", err=True), file)
        file.sign(me, signing_key(key))
    _tell_signatures(protocol, invite, accept, as_json=as_json)


def _tell_signatures(protocol: Path, invite: bool, accept: bool, *, as_json: bool) -> None:
    """Print who signed the file, what is missing, and its fingerprint where that is read out."""
    from ksdp.flows.runs.protocol_files import read_protocol_file

    file = read_protocol_file(protocol)
    names, missing = [signature.name for signature in file.signatures], file.faults()
    if as_json:
        shown = {"fingerprint": file.fingerprint} if invite or accept else {}
        typer.echo(json.dumps({"protocol": str(protocol), "signed": names, "missing": list(missing)} | shown))
        return
    if invite:
        typer.echo(
            f"fingerprint  {file.fingerprint}\nread it to everybody by telephone; go on when each has accepted it"
        )
    typer.echo("\n".join(missing) if missing else f"{protocol.name} is signed by all: {', '.join(names)}")


def _check(
    protocol: Path,
    me: str,
    entering: EnteringOptions,
    out: Path | None,
    address: Address | None,
    wait: float,
    *,
    as_json: bool,
) -> None:
    """Do what a run does before data: what it would refuse is refused, and all peers are greeted."""
    from ksdp.storage.runs.results import require_no_result

    if out is not None:
        require_no_result(out)
    node = _node(protocol, me, entering.key, out or Path(), address)
    if me == node.run.server:
        _enters_nothing(node, entering)
    elif entering.corpus is None:
        typer.echo("documents: not looked at (no --corpus)", err=True)
    else:
        entered, _ = _entered(node, entering)
        on = "WITHOUT A CLEARANCE" if entering.uncleared else "on their clearance"
        typer.echo(f"{len(entered.corpus)} of {entered.of} enter {on}", err=True)
    check_node(node, wait, as_json=as_json)


def check_node(node: Node[Any], wait: float, *, as_json: bool) -> NoReturn:
    """Greet all peers; print what stands in the way of a run with each. The exit code says if it may begin."""
    from ksdp.flows.runs.party import check_peers

    said = check_peers(node, wait)
    faults = sum(map(bool, said.values()))
    if as_json:
        peers = {name: {"fine": not fault, "says": fault} for name, fault in said.items()}
        typer.echo(json.dumps({"fine": not faults, "peers": peers}))
    else:
        for name, fault in said.items():
            what = fault or "is there, with its key, and nothing stands in the way"
            typer.echo(f"{'FAIL' if fault else 'ok  '} {name:12} {what}")
        typer.echo(f"{faults} to mend" if faults else "nothing stands in the way of a run")
    raise typer.Exit(1 if faults else 0)


def _node(protocol: Path, me: str, key: Path, out: Path, address: Address | None) -> Node[Run]:
    """This party of the run, whose file and key are as they should be."""
    from ksdp.flows.runs.party import Node, RunLog
    from ksdp.flows.runs.protocol_files import read_run
    from ksdp.protocols.programs.run_terms import who_must_be_trusted

    read = read_run(protocol)
    read.file.require_signed()
    typer.echo(who_must_be_trusted(read.terms), err=True)
    log = RunLog(lambda line: typer.echo(line, err=True))
    node = Node(read, me, signing_key(key), out, address, log=log)
    node.check()
    return node


def _take_part(
    protocol: Path,
    me: str,
    entering: EnteringOptions,
    out: Path,
    address: Address | None,
    metrics: str | None,
    *,
    as_json: bool,
) -> None:
    import contextlib

    from ksdp.flows.metrics_port import serve_metrics
    from ksdp.flows.runs.party import reviews_of
    from ksdp.storage.runs.results import keep_party_run, require_no_result

    node = _node(protocol, me, entering.key, out, address)
    require_no_result(out)
    kept = reviews_of(entering.store)
    with contextlib.ExitStack() as stack:
        if metrics is not None:
            typer.echo(f"metrics: {stack.enter_context(serve_metrics(node.log, metrics))}", err=True)
        take_part = _as_server if me == node.run.server else _as_party
        outcome, spent_now = take_part(node, entering)
    if kept is not None:
        keep_party_run(kept, outcome, spent_now)
    if as_json:
        typer.echo(json.dumps(outcome | {"out": str(out.resolve())}))
    else:
        typer.echo(f"{_outcome_words(outcome)}\nwritten to {out}")


def _outcome_words(outcome: dict[str, Any]) -> str:
    from ksdp.flows.runs.party import guarantee_words

    others = [name for name, party in outcome["parties"].items() if not party["cleared"]]
    counts = [f"{count} x {what}" for what, count in outcome["asked"].items()]
    taken = ", ".join(counts) or f"{outcome['sums']} sums, {outcome['normed_sums']} normed sums"
    missing = (f"{name} left: it is in {n} of {outcome['sums']} sums\n" for name, n in outcome["departed"].items())
    return (
        f"done in {outcome['seconds']:.1f} s: {taken}\n{''.join(missing)}"
        f"result  {outcome['result']}\n"
        f"uncleared: {', '.join(others) or 'nobody'}\n{outcome['reveals']}\n{guarantee_words(outcome)}"
    )


def _enters_nothing(node: Node[Run], entering: EnteringOptions) -> None:
    if entering.corpus or entering.clearance or entering.signer or entering.uncleared:
        raise InputError(f"{node.name} is the server, which enters nothing: give no `--corpus` and no clearance.")


def _as_server(node: Node[Run], entering: EnteringOptions) -> tuple[dict[str, Any], str]:
    from ksdp.flows.runs.party import run_server

    _enters_nothing(node, entering)
    typer.echo(f"{node.name} collects and enters no documents; waiting.", err=True)
    return run_server(node), ""


_MENDS = {
    "file": "`--clearance` takes a file of `ksdp clear`.",
    "content": "Copy it again from where it was made.",
    "signature": "Copy it again from where it was made.",
    "signer": "Name who signed it (`--signer FILE.pub`), or sign with this key.",
    "early": "Correct the clock (`timedatectl set-ntp true`), or wait.",
    "expired": "`ksdp clear` signs it anew.",
}
"""Remedies for a clearance, by the check that failed; all other failures ask for another audit."""


def _entered(node: Node[Run], entering: EnteringOptions) -> tuple[ContributedDocuments, BudgetGuard]:
    """The documents that enter, on what grounds, and within which budget."""
    from ksdp.flows.runs.budget import budget_files
    from ksdp.flows.runs.party import enter_documents, guard_of
    from ksdp.storage.keys import load_public

    me, private = node.name, node.identity
    if entering.corpus is None:
        raise InputError(f"`--corpus` must be given for {me}: only a server enters no documents.")
    try:
        entered = enter_documents(
            node.run,
            entering.corpus,
            clearance=entering.clearance,
            uncleared=entering.uncleared,
            identity=private,
            now=datetime.now(UTC),
            signer=load_public(entering.signer) if entering.signer else None,
            reviews=entering.store,
        )
        for line in (entered.exclusions, *entered.excluded):
            typer.echo(f"excluded  {line}", err=True)
        written, limits = budget_files(me, entering.key)
        guard = guard_of(node.run, entered, written, limits)
    except ClearanceError as error:
        mend = _MENDS.get(error.failed, "Audit and clear what is run: `ksdp clear SPEC`.")
        raise InputError(f"{error} {mend}") from error
    except StoreError as error:  # damaged here: exit code 1 would blame another party
        raise InputError(str(error)) from error
    say_if_new(written)
    return entered, guard


def say_if_new(ledger: Path) -> None:
    """Say of a ledger that does not exist yet that no earlier run counts."""
    if not ledger.exists():
        words = "no earlier run counts. If you took part before, restore it first."
        typer.echo(f"ledger {ledger.name} is new: {words}", err=True)


def _as_party(node: Node[Run], entering: EnteringOptions) -> tuple[dict[str, Any], str]:
    """Enter documents; what came of it, and what all runs on them have given away."""
    from ksdp.flows.runs.budget import spent, spent_words
    from ksdp.flows.runs.party import run_party

    entered, guard = _entered(node, entering)
    grounds = "WITHOUT A CLEARANCE" if entering.uncleared else "on its clearance"
    typer.echo(f"{node.name} enters {len(entered.corpus)} of {entered.of} documents {grounds}; waiting.", err=True)
    outcome = run_party(node, entered, guard)
    spent_now = spent_words(spent(guard.ledger), guard.budget.delta)
    typer.echo(spent_now, err=True)
    return outcome, spent_now


def budget(
    ledger: Annotated[Path, typer.Argument(help="Ledger of the party.")],
    delta: Annotated[float, typer.Option("--delta", help="Delta for which epsilon is printed.")] = 1e-5,
    as_json: JsonOption = False,
) -> None:
    """Add up what all runs on the data of a party have given away: noise adds up, runs without it are counted."""
    from ksdp.flows.runs.budget import entries, spent, spent_words
    from ksdp.storage.runs.ledger import Ledger

    if not ledger.is_file():
        raise InputError(f"there is no ledger {ledger}.")
    runs, total = entries(Ledger(ledger)), spent(Ledger(ledger))
    if as_json:
        together: dict[str, float | None] = {"runs": total.runs, "delta": delta}
        together["epsilon"] = None if math.isinf(total.epsilon(delta)) else total.epsilon(delta)
        together |= {"advantage": total.advantage, "unbounded": total.unbounded, "drawn": total.drawn}
        typer.echo(json.dumps({"runs": list(map(_entry_row, runs)), "together": together}))
        return
    for entry in runs:
        cost = "nothing promised" if entry.price.mu is None else f"mu {entry.price.mu:.4g}"
        cost = cost if entry.price.draw is None else f"draw {entry.price.draw.share:g}"
        state = "" if entry.finished else "  (did not finish: counted at the most it may have given away)"
        typer.echo(f"{entry.time}  {entry.words:16} {cost:18} {entry.price.why}{state}")
    typer.echo(spent_words(total, delta))


def _entry_row(entry: LedgerEntry) -> dict[str, Any]:
    return {
        "run": entry.run,
        "time": entry.time,
        "corpus": entry.corpus,
        "mechanism": entry.mechanism,
        "computes": entry.words,
        "finished": entry.finished,
        "mu": entry.price.mu,
        "why": entry.price.why,
        "drawn": None if entry.price.draw is None else entry.price.draw.share,
    }


def run(
    protocol: ProtocolArgument,
    local: Annotated[
        Path | None,
        typer.Option(
            "--local", help="Folder with every node's files: start them all on this machine, to try the run out."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", help="With --local: folder for the results of the parties.")
    ] = Path("run"),
    uncleared: UnclearedOption = False,
    store: OwnStoreOption = None,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for the parties.")] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Check a protocol file and list which parties are up. With --local, start them all on this machine."""
    from ksdp.flows.runs.local import run_local, wait_for_parties
    from ksdp.flows.runs.party import guarantee_words
    from ksdp.flows.runs.protocol_files import read_run
    from ksdp.protocols.programs.run_terms import who_must_be_trusted

    read = read_run(protocol)
    if local is not None:
        ends = run_local(read, protocol, local, out, uncleared=uncleared, reviews=store)
        failed = [name for name, end in ends.items() if end["code"]]
        if as_json:
            typer.echo(json.dumps({"parties": ends, "out": str(out.resolve())}))
        else:
            for name, end in ends.items():
                typer.echo(f"{name:12} {_ended(end)}")
            ran = [json.loads(end["said"]) for end in ends.values() if not end["code"]]
            entered = (outcome["exclusions"] for outcome in ran if "exclusions" in outcome)
            for line in dict.fromkeys([*map(guarantee_words, ran), *entered]):
                typer.echo(line)
        raise typer.Exit(1 if failed else 0)
    trust = who_must_be_trusted(read.terms)
    agreed = {"agreement": read.terms.digest.hex(), "fingerprint": read.file.fingerprint}
    typer.echo(f"agreement    {agreed['agreement']}  (of the terms below; not of addresses, timeouts)", err=True)
    typer.echo(f"fingerprint  {agreed['fingerprint']}  (of every line of {protocol.name})\n{trust}", err=True)
    absent = wait_for_parties(
        read, wait, lambda name, here: typer.echo(f"{name} {'listens' if here else 'left'}", err=True)
    )
    if as_json:
        typer.echo(json.dumps(agreed | {"terms": read.terms.terms, "trust": trust, "absent": list(absent)}))
    else:
        typer.echo("\n".join(f"{name:26} {json.dumps(value)}" for name, value in read.terms.terms.items()))
        typer.echo(f"not there: {', '.join(absent) or 'nobody; all parties listen'}")


def _ended(end: dict[str, Any]) -> str:
    if end["code"]:
        return f"failed  {(end['said'].splitlines() or ['it said nothing'])[-1][:200]}"
    outcome = json.loads(end["said"])
    entered = (
        "collected" if outcome.get("collects") else f"entered {outcome['documents']} of {outcome['of']} documents"
    )
    return f"done in {outcome['seconds']:.1f} s  {entered}, result {outcome['result'][:16]}"
