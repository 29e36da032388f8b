"""Runs of three processes over TLS on enron-mail6, two mailboxes a party: time, bytes, the centralised result."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks import data_folder
from ksdp.audit.contract import Database
from ksdp.audit.mechanisms.factorisation.power_iteration import subspace_sine
from ksdp.flows.runs.local import run_local
from ksdp.flows.runs.party import enter_documents
from ksdp.flows.runs.protocol_files import Run, read_run
from ksdp.storage.keys import load_private, make_identity

NAMES = ("ada", "bob", "cyd")
MECHANISMS = {
    "pd-nmf": "rank = 7\nsweeps = 20\ntolerance = 0.0",
    "sigma-svd": 'rank = 7\nsolver = "power"\niterations = 50\ntolerance = 0.0',
}


def run(names: tuple[str, ...] = tuple(MECHANISMS)) -> None:
    """Print one line a mechanism."""
    data = data_folder() / "enron-mail6"
    with tempfile.TemporaryDirectory() as folder:
        write_parties(data, Path(folder), NAMES)
        for name in names:
            _one(name, MECHANISMS[name], Path(folder))


def write_parties(data: Path, folder: Path, names: tuple[str, ...], most: int | None = None) -> None:
    """Mailboxes dealt out to parties; of the vocabulary as many of the most frequent terms as asked for."""
    counts = sp.csr_array(sp.load_npz(data / "counts.npz"))
    mailbox = pd.read_parquet(data / "labels.parquet")["mailbox"].to_numpy()
    terms = (data / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    columns = np.sort(np.argsort(-np.asarray(counts.sum(axis=0)), kind="stable")[:most])
    for name, some in zip(names, np.array_split(np.unique(mailbox), len(names)), strict=True):
        make_identity(folder, name)
        rows = counts[np.flatnonzero(np.isin(mailbox, some))]
        sp.save_npz(folder / f"{name}.npz", sp.csr_array(rows[:, columns]))
    (folder / "vocabulary.txt").write_text("".join(f"{terms[i]}\n" for i in columns), encoding="utf-8")


def write_protocol(folder: Path, name: str, parameters: str, names: tuple[str, ...], server: str = "") -> Path:
    """A protocol file for a mechanism, with ports of this machine that are free."""
    nodes = (*names, server) if server else names
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in nodes]
        ports = [each.getsockname()[1] for each in held]
    tables = "".join(
        f'{"[server]" if n == server else "[[parties]]"}\nname = "{n}"\naddress = "127.0.0.1:{p}"\n'
        f'key = "{n}.pub"\n'
        for n, p in zip(nodes, ports, strict=True)
    )
    protocol = folder / f"{name}.toml"
    protocol.write_text(
        f'protocol = 1\n[mechanism]\nname = "{name}"\n{parameters}\n'
        f'[features]\nvocabulary = "vocabulary.txt"\n{tables}'
    )
    return protocol


@dataclass(frozen=True)
class Played:
    """A run that is over, of processes on this machine."""

    read: Run
    abouts: dict[str, dict[str, Any]]
    """What each node says of the run."""
    lines: dict[str, list[dict[str, Any]]]
    """What each has noted."""
    found: dict[str, NDArray[Any]]
    """The first one's result."""

    @property
    def seconds(self) -> float:
        """From when all were there to the end, for the first."""
        noted = next(iter(self.lines.values()))
        moment = {line["what"]: datetime.fromisoformat(line["time"]) for line in noted}
        return (moment["done"] - moment["all present"]).total_seconds()

    @property
    def results(self) -> str:
        """Whether all have the same."""
        return "equal" if len({about["result"] for about in self.abouts.values()}) == 1 else "DIFFERENT"


def played(protocol: Path, out: Path, names: tuple[str, ...]) -> Played:
    """Run what a protocol file says, uncleared, with everybody's files beside it; its nodes in this order."""
    read = read_run(protocol)
    ends = run_local(read, protocol, protocol.parent, out, uncleared=True)
    if any(end["code"] for end in ends.values()):
        raise SystemExit("\n".join(f"{node}: {end['said']}" for node, end in ends.items()))
    noted = {node: (out / node / "transcript.jsonl").read_text().splitlines() for node in names}
    return Played(
        read,
        {node: json.loads((out / node / "run.json").read_text()) for node in names},
        {node: [json.loads(line) for line in lines] for node, lines in noted.items()},
        dict(np.load(out / names[0] / "result.npz")),
    )


def _one(name: str, parameters: str, folder: Path) -> None:
    ended = played(write_protocol(folder, name, parameters, NAMES), folder / f"{name}-out", NAMES)
    read, found, seconds = ended.read, ended.found, ended.seconds
    rounds = int(found["sweeps" if "sweeps" in found else "iterations"][0])
    volume: dict[str, int] = {}
    for line in ended.lines[NAMES[0]]:
        if line["what"] in ("sent", "received"):
            volume[line["kind"]] = volume.get(line["kind"], 0) + line["bytes"]
    m, d, k = len(NAMES), read.terms.features, 7
    entries = d + (name == "pd-nmf")
    formula = 2 * (m - 1) * entries * 4 * k
    summed = volume.get("sum", 0) / rounds
    matrices = [entered_rows(read, folder, party, "npz") for party in NAMES]
    central: Any = read.terms.mechanism.run(
        Database((sp.csr_array(sp.vstack(matrices, format="csr")),)), np.random.default_rng(0)
    )
    what = "T" if name == "pd-nmf" else "V"
    print(
        f"{name}: {m} parties, documents {[about['documents'] for about in ended.abouts.values()]} x {d}, "
        f"rank {k}, {rounds} iterations in {seconds:.1f} s ({seconds / rounds:.2f} s each), all results "
        f"{ended.results}\n"
        f"  a party's bytes an iteration, sent and received: {summed:,.0f}; "
        f"the paper's 2 (M - 1) {'(d + 1)' if name == 'pd-nmf' else 'd'} 4 k is {formula:,} "
        f"(x {summed / formula:.2f})\n"
        f"  off the centralised {what} by {np.abs(found[what] - central[what]).max():.1e} at most "
        f"(largest entry {np.abs(central[what]).max():.2g})"
        + ("" if what == "T" else f"; sine of the largest angle {subspace_sine(found[what], central[what]):.1e}"),
        flush=True,
    )


def entered_rows(read: Run, folder: Path, party: str, kind: str) -> sp.csr_array:
    """The rows that a party enters without a clearance, from its file of a kind: npz, or the toml of a spec."""
    return enter_documents(
        read,
        folder / f"{party}.{kind}",
        clearance=None,
        uncleared=True,
        identity=load_private(folder / f"{party}.key"),
        now=datetime.now().astimezone(),
    ).corpus.matrix


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    run()
