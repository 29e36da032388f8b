"""The protocol among real parties, as a flow for one's own Prefect server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow

from ksdp.audit.errors import InputError
from ksdp.flows.clock import utc_now
from ksdp.flows.deployable.attempts import RESULTS, Logged, tagged
from ksdp.flows.progress import listening
from ksdp.flows.runs.budget import open_purse, purse_files
from ksdp.flows.runs.node_run import Node
from ksdp.flows.runs.party_run import enter_documents, run_party, run_server
from ksdp.flows.runs.terms import read_run
from ksdp.protocols.network.mesh import Address
from ksdp.storage.keys import load_private


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
) -> dict[str, Any]:
    """Take part in a run among real parties, on this party's own machine. Prefect never tries it again.

    Ledger and budget are those beside the key, as of `ksdp party`.

    Parameters
    ----------
    protocol : str
        The protocol file, the same at every party.
    me, key : str
        Which of the parties this is, and its private key, without a passphrase.
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

    Returns
    -------
    dict
        What `run.json` says.
    """
    tagged("party", f"party:{me}")
    run, private = read_run(Path(protocol)), load_private(Path(key))
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
            signer=private.public_key(),
            now=datetime.now(UTC),
            identity=private,
        )
        ledger, budget = purse_files(me, Path(key))
        purse = open_purse(run, entered.corpus.hash, len(entered.corpus), ledger, budget, utc_now)
        return run_party(node, entered, purse)
