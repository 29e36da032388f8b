"""All nodes of a run on this machine, each a process of its own: for trying out, and for tests."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ksdp.audit.errors import InputError, KsdpError, ProtocolError
from ksdp.flows.runs.launcher import Launcher
from ksdp.flows.runs.node_run import Node
from ksdp.flows.runs.party_run import enter_documents, run_party, run_server
from ksdp.flows.runs.terms import Run, read_run
from ksdp.protocols.network.party_process import run_in_process
from ksdp.storage.keys import load_private


@dataclass(frozen=True)
class NodeFiles:
    """What one node of a run has in the folder of all nodes' files."""

    name: str
    key: Path
    corpus: Path | None = None
    """None: a server, which enters nothing."""
    clearance: Path | None = None
    """None: a party enters every document, and everybody is told."""


def _party_files(name: str, folder: Path, *, uncleared: bool) -> NodeFiles:
    """NAME.key, NAME.toml (or .npz) and NAME.clearance."""
    key, clearance = folder / f"{name}.key", folder / f"{name}.clearance"
    corpus = next((path for path in (folder / f"{name}.toml", folder / f"{name}.npz") if path.is_file()), None)
    if corpus is None or not key.is_file():
        raise InputError(f"{folder} must hold {name}.key and {name}.toml or {name}.npz.")
    if not uncleared and not clearance.is_file():
        raise InputError(f"{folder} must hold {name}.clearance; or say `--uncleared`.")
    return NodeFiles(name, key, corpus, None if uncleared else clearance)


def _server_files(name: str, folder: Path) -> NodeFiles:
    key = folder / f"{name}.key"
    if not key.is_file():
        raise InputError(f"{folder} must hold {name}.key, of the server.")
    return NodeFiles(name, key)


def run_local(run: Run, protocol: Path, folder: Path, out: Path, *, uncleared: bool) -> dict[str, Any]:
    """Start a process for each party, and for the server where there is one, and wait for all.

    Returns
    -------
    dict
        By node: exit `code` as of `ksdp party`, and what it `said`: `run.json` on one line, or why it failed.

    Raises
    ------
    InputError
        If a file is missing; nothing was started.
    """
    nodes = [_party_files(party.name, folder, uncleared=uncleared) for party in run.terms.participants]
    if run.server:
        nodes.append(_server_files(run.server, folder))
    with Launcher(timeout=None) as launcher:
        pipes = {node.name: launcher.start(_node_process, protocol, node, out / node.name) for node in nodes}
        return {name: _end(launcher, pipe) for name, pipe in pipes.items()}


def _end(launcher: Launcher, pipe: Connection) -> dict[str, Any]:
    """How a node ended; one that was killed could not say so, and the others go on to their own ends."""
    try:
        return launcher.end(pipe)
    except ProtocolError as error:
        return {"code": 1, "said": f"error: {error}"}


def _node_process(pipe: Connection, protocol: Path, node: NodeFiles, out: Path) -> None:
    run_in_process(pipe, lambda: _run_node(protocol, node, out))


def _run_node(protocol: Path, node: NodeFiles, out: Path) -> dict[str, Any]:
    try:
        run, key = read_run(protocol), load_private(node.key)
        if node.corpus is None:
            result = run_server(Node(run, node.name, key, out))
        else:
            entered = enter_documents(
                run,
                node.corpus,
                clearance=node.clearance,
                uncleared=node.clearance is None,
                signer=key.public_key(),
                now=datetime.now(UTC),
                identity=key,
            )
            result = run_party(Node(run, node.name, key, out), entered)
    except InputError as error:
        return {"code": 2, "said": f"refused: {error}"}
    except KsdpError as error:
        return {"code": 1, "said": f"error: {error}"}
    except Exception as error:  # only this node failed: the others come to their own ends
        return {"code": 1, "said": f"error: {type(error).__name__}: {error}"}
    return {"code": 0, "said": json.dumps(result | {"out": str(out.resolve())})}


def wait_for_parties(run: Run, seconds: float, tell: Callable[[str, bool], None]) -> tuple[str, ...]:
    """Knock at every party's address until all listen or the time is up; tell of each that comes or goes.

    Nothing is said on these connections: who listens there, only its key can say, to the parties themselves.

    Returns
    -------
    tuple of str
        Names of those that did not answer.
    """
    names = [node.name for node in run.terms.nodes]
    seen: dict[str, bool] = dict.fromkeys(names, False)
    end = time.monotonic() + seconds
    while True:
        for name in names:
            address = run.address(name)
            try:
                socket.create_connection((address.host, address.port), timeout=1.0).close()
                answers = True
            except OSError:
                answers = False
            if answers != seen[name]:
                seen[name] = answers
                tell(name, answers)
        if all(seen.values()) or time.monotonic() >= end:
            return tuple(name for name in names if not seen[name])
        time.sleep(0.2)
