"""PEM on this machine, or between hosts: `pem`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ksdp.audit.errors import InputError
from ksdp.commands.options import JsonOption, signing_key, with_options
from ksdp.commands.runs import CheckOption, check_node, say_if_new

if TYPE_CHECKING:
    from ksdp.extras.pem.records import OwnFunctions


@dataclass(frozen=True)
class HostOptions:
    """Options of a command that takes part as one of several hosts."""

    me: Annotated[str | None, typer.Option("--me", help="Name of this host in a run between hosts.")] = None
    key: Annotated[Path | None, typer.Option("--key", help="Its private key (`ksdp keys`).")] = None
    listen: Annotated[
        str | None,
        typer.Option("--listen", help="With --me: HOST:PORT to listen on, if the others use another address."),
    ] = None


@dataclass(frozen=True)
class RecordsOptions:
    """Options that say which records a host holds, and whose they are."""

    data: Annotated[
        Path | None, typer.Option("--data", help="With --me: file with the records of the clients.")
    ] = None
    client: Annotated[
        str | None, typer.Option("--client", help="Column of --data that names the client of each record.")
    ] = None
    clients: Annotated[
        int | None,
        typer.Option(
            "--clients",
            min=1,
            help="Number of clients to deal the records out to, if there is no such column. Default: 1.",
        ),
    ] = None


@with_options
def pem(
    *,
    spec: Annotated[Path, typer.Argument(help="Spec, or with --me the protocol file; TOML.")],
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the result; it must not hold an earlier one.")
    ] = Path("pem-result"),
    functions: Annotated[
        str | None,
        typer.Option("--functions", help="Your own three functions as MODULE:OBJECT, from a file in this folder."),
    ] = None,
    host: HostOptions,
    records: RecordsOptions,
    check: CheckOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run PEM, clients, servers and aggregator: all on this machine, or as one of several hosts (--me)."""
    from ksdp.extras.pem.records import load_functions

    if host.me is not None and host.key is None:
        raise InputError("`--key` must be given with `--me`.")
    if check is not None and host.me is None:
        raise InputError("`--check` goes with `--me`.")
    own = load_functions(functions, Path.cwd()) if functions else None
    if host.me is not None:
        _between_hosts(spec, out, own, host, records, check, as_json=as_json)
        return
    if host != HostOptions() or records != RecordsOptions():
        raise InputError("`--key`, `--listen`, `--data`, `--client` and `--clients` go with `--me`.")
    _on_this_machine(spec, out, own, as_json=as_json)


def _on_this_machine(spec: Path, out: Path, own: OwnFunctions | None, *, as_json: bool) -> None:
    from ksdp.extras.pem.local import prepare_pem, read_pem_spec, run_prepared
    from ksdp.flows.interruption import utc_now
    from ksdp.storage.runs.results import require_no_result
    from ksdp.terminal import terminal

    require_no_result(out)
    prepared = prepare_pem(*read_pem_spec(spec), own.algorithm if own else None)
    with terminal():
        done = run_prepared(prepared, out, utc_now)
    _say(done, f"found   {done['found']}\nnoise   {done['sampler']}", out, as_json=as_json)


def _say(done: dict[str, Any], result: str, out: Path, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(done | {"out": str(out.resolve())}))
        return
    claimed, tight = done["claimed"]["epsilon"], done["tight"]
    typer.echo(
        f"{done['iterations']} of {done['planned_iterations']} iterations in {done['seconds']:.1f} s, "
        f"{done['clients']} clients; lost: {', '.join(done.get('lost', ())) or 'nobody'}\n"
        f"{result}\n"
        f"cost    epsilon {claimed:.4g} at delta 0; {tight['epsilon']:.4g} at delta {tight['delta']:g}\n"
        f"        for {done['promise']}\n"
        f"written to {out}"
    )


def _between_hosts(
    protocol: Path,
    out: Path,
    own: OwnFunctions | None,
    me: HostOptions,
    options: RecordsOptions,
    check: float | None,
    *,
    as_json: bool,
) -> None:
    from ksdp.extras.pem.hosts import PemPrices, hold_records, read_pem_hosts, run_pem_host
    from ksdp.flows.interruption import utc_now
    from ksdp.flows.runs.budget import budget_files, open_guard, spent, spent_words
    from ksdp.flows.runs.party import Node, RunLog
    from ksdp.protocols.network.mesh import Address
    from ksdp.storage.runs.results import require_no_result

    name, key = me.me, me.key
    assert name is not None
    assert key is not None
    hosts, log = read_pem_hosts(protocol), RunLog(lambda line: typer.echo(line, err=True))
    address = Address.parse(me.listen) if me.listen else None
    host = Node(hosts, name, signing_key(key), out, address, log=log)
    host.check()
    require_no_result(out)
    role, guard, records = hosts.terms.role(name), None, None
    algorithm = None
    if role != "server":
        algorithm = hosts.spec.functions(own.algorithm if own else None, own.code if own else "")
    if role != "holder" and options != RecordsOptions():
        raise InputError(f"{name} holds no clients: give no records.")
    if role == "holder" and (options.data is not None or check is None):
        records = hold_records(hosts, options.data, options.client, options.clients)
        written, limits = budget_files(name, key)
        guard = open_guard(PemPrices(hosts.spec), records.hash, records.count, written, limits, utc_now)
        say_if_new(written)
        typer.echo(f"{records.count} records of {len(records.clients)} clients enter", err=True)
    if check is not None:
        check_node(host, check, as_json=as_json)
    typer.echo(f"{name} takes part as {role}; waiting.", err=True)
    done = run_pem_host(host, algorithm=algorithm, records=records, guard=guard)
    if guard is not None:
        typer.echo(spent_words(spent(guard.ledger), guard.budget.delta), err=True)
    _say(done, f"result  {done['result']}", out, as_json=as_json)
