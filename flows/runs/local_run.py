"""All parties of a run on this machine, each a process of its own: for trying out, and for tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

from ksdp.audit.errors import InputError
from ksdp.flows.interruption import die_with_parent
from ksdp.flows.runs.terms import Run

__all__ = ["party_command", "run_local", "server_command", "wait_for_parties"]


def party_command(protocol: Path, name: str, folder: Path, out: Path, *, uncleared: bool) -> list[str]:
    """The command of one party, whose files are NAME.key, NAME.toml (or .npz) and NAME.clearance in a folder.

    Raises
    ------
    InputError
        If a file is missing.
    """
    key, clearance = folder / f"{name}.key", folder / f"{name}.clearance"
    corpus = next((path for path in (folder / f"{name}.toml", folder / f"{name}.npz") if path.is_file()), None)
    if corpus is None or not key.is_file():
        raise InputError(f"{folder} must hold {name}.key and {name}.toml or {name}.npz.")
    if not uncleared and not clearance.is_file():
        raise InputError(f"{folder} must hold {name}.clearance; or say `--uncleared`.")
    grounds = ["--uncleared"] if uncleared else ["--clearance", str(clearance)]
    return [*_command(protocol, name, key, out), "--corpus", str(corpus), *grounds]


def server_command(protocol: Path, name: str, folder: Path, out: Path) -> list[str]:
    """The command of the server, whose file is NAME.key in a folder.

    Raises
    ------
    InputError
        If it is missing.
    """
    key = folder / f"{name}.key"
    if not key.is_file():
        raise InputError(f"{folder} must hold {name}.key, of the server.")
    return _command(protocol, name, key, out)


def _command(protocol: Path, name: str, key: Path, out: Path) -> list[str]:
    base = [sys.executable, "-m", "ksdp", "party", str(protocol), "--me", name, "--key", str(key)]
    return [*base, "--out", str(out), "--json"]


def run_local(run: Run, protocol: Path, folder: Path, out: Path, *, uncleared: bool) -> dict[str, Any]:
    """Start a process for each party, and for the server where there is one, and wait for all.

    Returns
    -------
    dict
        By node: exit `code`, and what it `said`: `run.json` on one line, or why it failed.

    Raises
    ------
    InputError
        If a file is missing; nothing was started.
    """
    names = [party.name for party in run.terms.participants]
    commands = {n: party_command(protocol, n, folder, out / n, uncleared=uncleared) for n in names}
    if run.server:
        commands[run.server] = server_command(protocol, run.server, folder, out / run.server)
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    started: dict[str, subprocess.Popen[str]] = {}
    try:
        for name, command in commands.items():
            started[name] = subprocess.Popen(
                command, stderr=PIPE, stdout=PIPE, text=True, env=environment, preexec_fn=die_with_parent
            )
        ends = {name: process.communicate() for name, process in started.items()}
    finally:
        for process in started.values():
            if process.poll() is None:
                process.terminate()
                process.wait()
    return {
        name: {"code": started[name].returncode, "said": (error if started[name].returncode else output).strip()}
        for name, (output, error) in ends.items()
    }


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
