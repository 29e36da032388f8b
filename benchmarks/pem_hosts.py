"""PEM between hosts: thousands of clients in one process, servers and the aggregator, each a command of its own.

::

    python -m benchmarks pem-hosts --clients 1000 10000 --servers 3

Nursery's 12,960 records dealt out to the clients, k-means of 5 clusters, 3 iterations, exact noise, TLS between
all.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp

from benchmarks import data_folder
from ksdp.storage.keys import make_identity

_ITERATIONS = 3


def run(clients: list[int], servers: int) -> None:
    """Print one line a number of clients."""
    counts = _one_hot(data_folder() / "nursery" / "table.parquet")
    for count in clients:
        with tempfile.TemporaryDirectory() as folder:
            _one(Path(folder), counts, count, servers)


def _one_hot(path: Path) -> sp.csr_array:
    table = pq.read_table(path)
    columns = [table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names]
    parts = [np.equal.outer(column, np.unique(column)).astype(float) for column in columns]
    return sp.csr_array(np.hstack(parts))


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in held]


def _one(folder: Path, counts: sp.csr_array, clients: int, servers: int) -> None:
    hosts = {"field": "holder", **{f"server{j + 1}": "server" for j in range(servers)}, "hub": "aggregator"}
    sp.save_npz(folder / "field.npz", counts)
    parties = ""
    for name, port in zip(hosts, _free_ports(len(hosts)), strict=True):
        make_identity(folder, name)
        parties += f'[[parties]]\nname = "{name}"\naddress = "127.0.0.1:{port}"\nkey = "{name}.pub"\n'
    names = [name for name, role in hosts.items() if role == "server"]
    (folder / "protocol.toml").write_text(
        f'pem = 1\nservers = {names}\naggregator = "hub"\n[records]\nfeatures = {counts.shape[1]}\n'
        f'[algorithm]\nname = "k-means"\nclusters = 5\niterations = {_ITERATIONS}\nbound = 8.0\n'
        f"fraction_bits = 0\n[budget]\nepsilon = 1.0\n[run]\nrows = 100\npatience = 600\n{parties}"
    )
    running = {}
    for name, role in hosts.items():
        command = [sys.executable, "-m", "ksdp", "pem", "protocol.toml", "--me", name, "--key", f"{name}.key"]
        command += ["--out", f"out-{name}", "--json"]
        if role == "holder":
            command += ["--data", "field.npz", "--clients", str(clients)]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        running[name] = subprocess.Popen(command, cwd=folder, env=environment, stdout=-1, stderr=-1, text=True)
    outputs = {name: process.communicate() for name, process in running.items()}
    for name, process in running.items():
        if process.returncode:
            raise RuntimeError(f"{name}: {outputs[name][1]}")
    ends = {name: json.loads(out) for name, (out, _) in outputs.items()}
    moved = ends["field"]["bytes"]["sent"] / 1e6
    per_server = float(np.mean([ends[name]["bytes"]["sent"] for name in names])) / 1e6
    print(
        f"{clients:6} clients, {servers} servers: {ends['hub']['records']} records, "
        f"{ends['hub']['present']} clients there at the end, {ends['hub']['seconds']:.1f} s in all, the clients "
        f"sent {moved:.1f} MB, each server {per_server:.1f} MB",
        flush=True,
    )
