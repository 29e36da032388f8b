"""Flows for one's own Prefect server: audits, clearances, approvals, and one party of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prefect import flow, get_run_logger, task
from prefect.blocks.system import Secret
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext

from ksdp.audit.errors import CorpusAway, InputError, InvalidAudit, SpecError
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.flows.audits.place import Place
from ksdp.flows.audits.run import run_audit
from ksdp.flows.interruption import listening
from ksdp.flows.prepare import open_spec
from ksdp.flows.reviews import Patience, run_approval
from ksdp.flows.runs.budget import budget_files
from ksdp.flows.runs.party import Node, enter_documents, guard_of, run_party, run_server
from ksdp.flows.runs.protocol_files import read_run
from ksdp.flows.screening.clear import DEFAULT_RULES, ClearRules, Signing, audit_and_clear
from ksdp.protocols.network.mesh import Address
from ksdp.storage.keys import load_private, private_key
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.tasks.cluster import dask_address

_RETRIES = 2
_WAIT_SECONDS: Any = [30, 300]
RESULTS: dict[str, Any] = {"persist_result": True, "result_serializer": "json", "validate_parameters": True}


class Logged:
    """Stages and messages as lines of the run's log."""

    def __init__(self) -> None:
        self._log = get_run_logger()

    def stage(self, name: str, total: int) -> None:
        """One line when it begins."""
        self._log.info("%s (%d)", name, total)

    def advance(self, units: int) -> None:
        """How far it is stands in the progress artifacts."""

    def say(self, text: str) -> None:
        """One line."""
        self._log.info("%s", text)


def _worth_another(_task: Any, _run: Any, state: Any) -> bool:
    try:
        state.result()
    except CorpusAway:
        return True
    except (InputError, InvalidAudit):
        return False
    except BaseException:
        return True
    return False


def tried_again(name: str) -> Any:
    """A task that is tried again."""
    return task(
        name=name,
        retries=_RETRIES,
        retry_delay_seconds=_WAIT_SECONDS,
        retry_condition_fn=_worth_another,
        cache_policy=NO_CACHE,
        persist_result=False,
    )


def tagged(*tags: str) -> None:
    """Tag the run under way, so that it is found on Prefect's pages."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    with get_client(sync_client=True) as client:
        client.update_flow_run(context.flow_run.id, tags={*context.flow_run.tags, "ksdp", *tags})


def _spec(given: str | dict[str, Any], kind: str) -> tuple[Spec, Path]:
    """A spec from its file, or from its tables, whose paths are absolute or relative to here; tags the run."""
    read, base = (_tables(given), Path.cwd()) if isinstance(given, dict) else read_spec_file(Path(given))
    tagged(kind, f"mechanism:{read.mechanism.name}")
    return read, base


def _tables(given: dict[str, Any]) -> Spec:
    """A spec that whoever starts a run sent: its cluster may start nothing here, and send nothing in the clear."""
    read = parse_spec(given)
    if read.cluster is not None and (read.cluster.cluster_class is not None or read.cluster.insecure):
        raise SpecError("`cluster.class` and `cluster.insecure` are taken from a spec's file, not from tables.")
    return read


_SECRET = "secret:"
_STORES = ("AWS_", "AZURE_", "GOOGLE_")


def _secret(text: str) -> str:
    if not text.startswith(_SECRET):
        return text
    block = text.removeprefix(_SECRET)
    try:
        return str(cast(Secret[str], Secret.load(block)).get())
    except ValueError:
        problem = f"this Prefect server has no Secret block {block!r}: `prefect block create secret` makes one."
        raise InputError(problem) from None


def _key(named: str) -> Ed25519PrivateKey:
    """A private key without passphrase, of a file or a Secret block."""
    if named.startswith(_SECRET):
        return private_key(_secret(named).encode(), f"the Secret block {named.removeprefix(_SECRET)!r}")
    return load_private(Path(named))


def _enter(environment: dict[str, str] | None) -> None:
    """Set variables for this run: those of stores alone, as others start programs."""
    given = environment or {}
    if wrong := [name for name in given if not name.startswith(_STORES)]:
        raise InputError(f"`environment` may set {', '.join(f'{store}*' for store in _STORES)}; got {wrong[0]!r}.")
    os.environ.update({name: _secret(text) for name, text in given.items()})


def _place(workers: int | None, dask: str | None) -> Place:
    return Place(workers, dask_address(dask))


@dataclass(frozen=True)
class _Signs:
    """The signer and the place of the clearance; the key itself is read where it is used."""

    clearance: str
    key: str
    who: str
    days: int

    def signing(self) -> Signing:
        now = datetime.now(UTC)
        return Signing(Path(self.clearance), _key(self.key), self.who, now, now + timedelta(days=self.days))


@tried_again("audit everything")
def _audit(spec: str | dict[str, Any], store: str, dask: str | None, workers: int | None) -> dict[str, Any]:
    read, base = _spec(spec, "audit")
    with listening(Logged()):
        summary = run_audit(open_spec(read, base), Path(store), _place(workers, dask))
    if not summary.valid:
        raise InvalidAudit(f"{summary.controls.reason}. No verdict of audit {summary.audit} may be used.")
    return dict(summary.to_json())


@flow(name="ksdp-audit", **RESULTS)
def audit_flow(
    spec: str | dict[str, Any],
    store: str,
    dask: str | None = None,
    workers: int | None = None,
    environment: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Audit every document of a corpus.

    Parameters
    ----------
    spec : str or dict
        Path of the spec, or its tables.
    store : str
        Folder of the store; made where there is none.
    dask : str, optional
        Address of a Dask scheduler with TLS whose workers see the store under the same path, or find its blocks at
        the URL that the spec's `[cluster]` names; by default what `[cluster]` says, or workers
        are started for the run.
    workers : int, optional
        How many; one a core by default.
    environment : dict, optional
        Variables for this run, such as a bucket's keys; `{"AWS_SECRET_ACCESS_KEY": "secret:NAME"}` takes what the
        Secret block of that name holds.

    Returns
    -------
    dict
        As `ksdp audit --json` prints it, and more: `verdicts`, `statistics`, `report`.

    Raises
    ------
    InputError
        If anything is refused, before work starts.
    InvalidAudit
        If the controls failed.
    """
    _enter(environment)
    return cast(dict[str, Any], _audit(spec, store, dask, workers))


@tried_again("clear")
def _clear(
    spec: str | dict[str, Any], store: str, signs: _Signs, rounds: int, hours: float | None, dask: str | None
) -> dict[str, Any]:
    read, base = _spec(spec, "clear")
    with listening(Logged()):
        where = (open_spec(read, base), Path(store), signs.signing())
        if hours is None:
            return dict(audit_and_clear(*where, ClearRules(rounds), _place(None, dask)).to_json())
        patience = Patience(timedelta(hours=hours))
        return dict(run_approval(*where, DEFAULT_RULES, patience, _place(None, dask)).to_json())


@flow(name="ksdp-clear", **RESULTS)
def clear_flow(
    spec: str | dict[str, Any],
    store: str,
    clearance: str,
    key: str,
    who: str,
    days: int = 90,
    rounds: int = 8,
    hours: float | None = None,
    dask: str | None = None,
    environment: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Audit, audit the clear documents by themselves until all of them hold, and sign the list.

    Parameters
    ----------
    spec, store, dask, environment
        As for `audit_flow`.
    clearance : str
        Where the signed list goes.
    key : str
        Private key of the person who decides, without a passphrase: a file on the machine that runs this, or
        `secret:NAME` for the Secret block of that name.
    who : str
        That person; stands in the clearance.
    days, rounds : int
        Days until the clearance expires; most audits of the list.
    hours : float, optional
        How long to wait for people to decide about every sensitive document; the time begins anew with every
        attempt. By default nobody is waited for.

    Returns
    -------
    dict
        As `ksdp clear --json` prints it: `outcome` is `signed`, or says why nothing was signed.
    """
    _enter(environment)
    signs = _Signs(clearance, key, who, days)
    return cast(dict[str, Any], _clear(spec, store, signs, rounds, hours, dask))


@flow(name="ksdp-party", retries=0, **RESULTS)
def party_flow(
    protocol: str,
    me: str,
    key: str,
    out: str,
    corpus: str | None = None,
    clearance: str | None = None,
    uncleared: bool = False,
    listen: str | None = None,
    ledger: str | None = None,
) -> dict[str, Any]:
    """Take part in a run among real parties, on this party's own machine. Prefect never tries it again.

    Ledger and budget are those beside the key, as of `ksdp party`.

    Parameters
    ----------
    protocol : str
        The protocol file, the same at every party.
    me, key : str
        Which of the parties this is, and its private key, as for `clear_flow`.
    out : str
        Folder of the result and the transcript.
    corpus : str, optional
        The audit's spec, or a count matrix; none for a server.
    clearance : str, optional
        The signed list of documents that may enter; its signer is the party's own key.
    uncleared : bool
        Enter every document without one; everybody is told.
    listen : str, optional
        `HOST:PORT`, where it is not the address that others dial.
    ledger : str, optional
        The party's ledger, with its budget beside it; needed where the key is a Secret block.

    Returns
    -------
    dict
        What `run.json` says.
    """
    tagged("party", f"party:{me}")
    if ledger is None and key.startswith(_SECRET):
        raise InputError("`ledger` must be given where `key` is a Secret block: there is no folder beside it.")
    run, private = read_run(Path(protocol)), _key(key)
    run.file.require_signed()
    node = Node(run, me, private, Path(out), Address.parse(listen) if listen else None)
    node.check()
    with listening(Logged()):
        if me == run.server:
            return run_server(node)
        if corpus is None:
            raise InputError(f"`corpus` must be given for {me}: only a server enters no documents.")
        entered = enter_documents(
            run,
            Path(corpus),
            clearance=None if clearance is None else Path(clearance),
            uncleared=uncleared,
            identity=private,
            now=datetime.now(UTC),
        )
        own, budget = budget_files(me, Path(ledger or key), None if ledger is None else Path(ledger))
        return run_party(node, entered, guard_of(run, entered, own, budget))
