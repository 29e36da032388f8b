"""All nodes of a run on this machine, each a process of its own: for trying out, and for tests."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ksdp.audit.errors import InputError, KsdpError, ProtocolError
from ksdp.flows.interruption import interrupts_wait
from ksdp.flows.runs.party import Node, enter_documents, run_party, run_server
from ksdp.flows.runs.protocol_files import Run, read_run
from ksdp.storage.keys import load_private
from ksdp.tasks.local_workers import forked_from, interrupts_blocked


def run_in_process(pipe: Connection, work: Callable[[], dict[str, Any]]) -> None:
    """Do the work of a started process and send what came of it; where the parent dies, end at once."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        pipe.send(("done", work()))
    except Exception as error:  # the parent, not a traceback on this process's terminal, says what went wrong
        pipe.send(("failed", f"{type(error).__name__}: {error}"))


def _end_with_parent() -> None:
    """A parent that was killed could not end its parties, and they would go on among themselves."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class Launcher:
    """Processes with a pipe each; all are ended where the block ends.

    Every process runs a function whose first argument is its end of the pipe (`run_in_process`).
    """

    def __init__(self) -> None:
        self._processes: list[Any] = []

    def __enter__(self) -> Launcher:
        return self

    def start(self, target: Callable[..., None], *arguments: Any) -> Connection:
        """Start a party; its pipe."""
        ours, theirs = multiprocessing.Pipe()
        with interrupts_wait(), interrupts_blocked():
            process = forked_from(target.__module__).Process(target=target, args=(theirs, *arguments), daemon=True)
            process.start()
            self._processes.append(process)
        theirs.close()
        return ours

    def end(self, pipe: Connection) -> dict[str, Any]:
        """Receive the message of a party at its end."""
        try:
            sent, content = pipe.recv()
        except EOFError:
            raise ProtocolError("A party ended before its time.") from None
        if sent == "failed":
            raise ProtocolError(f"A party ended with an error: {content}")
        done: dict[str, Any] = content
        return done

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        for process in self._processes:
            if failed is None:
                process.join(5.0)
            process.terminate()
            process.join()


@dataclass(frozen=True)
class NodeFiles:
    """Files of one node in the folder of all nodes' files."""

    name: str
    key: Path
    corpus: Path | None = None
    """None: a server, which enters nothing."""
    clearance: Path | None = None
    """None: a party enters every document, and everybody is told."""
    reviews: Path | None = None
    """Store with decisions; by default as `reviews_of` says."""


def _files(name: str, folder: Path, *, enters: bool, uncleared: bool, reviews: Path | None) -> NodeFiles:
    key, clearance = folder / f"{name}.key", folder / f"{name}.clearance"
    corpus = next((path for path in (folder / f"{name}.toml", folder / f"{name}.npz") if path.is_file()), None)
    if not key.is_file() or (enters and corpus is None):
        more = f" and {name}.toml or {name}.npz" if enters else ", of the server"
        raise InputError(f"{folder} must hold {name}.key{more}.")
    if not enters:
        return NodeFiles(name, key)
    if not uncleared and not clearance.is_file():
        raise InputError(f"{folder} must hold {name}.clearance; or say `--uncleared`.")
    return NodeFiles(name, key, corpus, None if uncleared else clearance, reviews)


def run_local(
    run: Run, protocol: Path, folder: Path, out: Path, *, uncleared: bool, reviews: Path | None = None
) -> dict[str, Any]:
    """Start a process for each party, and for the server where there is one, and wait for all."""
    nodes = [
        _files(node.name, folder, enters=node.name != run.server, uncleared=uncleared, reviews=reviews)
        for node in run.terms.nodes
    ]
    with Launcher() as launcher:
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
                identity=key,
                now=datetime.now(UTC),
                reviews=node.reviews,
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
    """Knock at every party's address until all listen or the time is up; tell of each that comes or goes."""
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
