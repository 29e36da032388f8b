"""Replay a Flower app on random halves of its clients' rows, and record what is seen of every run.

    python record.py APP CLIENT.csv ... --runs 1000 --to seen.npz

A client's file is what its SuperNode is given: `--node-config 'data="clinic0.csv"'`. Each row takes part in a run
with probability 1/2. ServerApp, strategy and ClientApp are the app's own, and run in this process.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.secure_aggregation.quantization import quantize
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.supercore.task_identity import TaskIdentity

SERVER = 1
SECAGG = SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2)
"""Its own clipping, levels and largest weight."""


class Replay:
    """What a strategy asks of Flower's Grid, answered in this process; what the clients trained is kept."""

    def __init__(self, app: ClientApp, clients: dict[int, Context]) -> None:
        self.app, self.clients = app, clients
        self.rounds: list[list[RecordDict]] = []

    def get_node_ids(self) -> list[int]:
        """Numbers of the clients."""
        return list(self.clients)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """The clients' answers, in the order of the clients."""
        sent = sorted(messages, key=lambda message: message.metadata.dst_node_id)
        replies = [self.app(message, self.clients[message.metadata.dst_node_id]) for message in sent]
        if sent and sent[0].metadata.message_type.startswith("train"):
            self.rounds.append([reply.content for reply in replies])
        return replies


def seen(rounds: list[list[RecordDict]], weight: str) -> dict[str, np.ndarray]:
    """`server/...`: all clients' updates, by round. `sum/...`: what SecAgg+ shows its server, sums of weighted
    updates in whole numbers, and each client's size, which Flower sends unmasked.
    """
    sizes = np.array([[_only(reply.metric_records)[weight] for reply in replies] for replies in rounds], float)
    weights = np.round(sizes / SECAGG.max_weight * SECAGG.quantization_range)
    found = {"server/size": sizes, "sum/size": sizes}
    for name in _only(rounds[0][0].array_records):
        updates = [[_only(reply.array_records)[name].numpy() for reply in replies] for replies in rounds]
        each = found[f"server/{name}"] = np.array(updates, float)
        parts = each * (weights / SECAGG.quantization_range).reshape(*weights.shape, *[1] * (each.ndim - 2))
        (whole,) = quantize([parts], SECAGG.clipping_range, SECAGG.quantization_range)
        found[f"sum/{name}"] = whole.sum(axis=1).astype(float)
    return found


def _only(records):
    (record,) = records.values()
    return record


def replayed(app: Path, files: list[Path], key: str) -> list[list[RecordDict]]:
    """One run of the app among clients with these files: what they answered, round by round."""
    about = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    server, client = (
        getattr(import_module(module), name)
        for module, name in (about["components"][part].split(":") for part in ("serverapp", "clientapp"))
    )
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, SERVER
    config = about.get("config", {})
    clients = {
        node: Context(1, node, {key: str(file)}, RecordDict(), dict(config))
        for node, file in enumerate(files, SERVER + 1)
    }
    grid = Replay(client, clients)
    server(grid, Context(1, SERVER, {}, RecordDict(), dict(config)))
    return grid.rounds


def main() -> None:
    """Draw who takes part, run the app, keep what is seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", type=Path, help="folder of the app's pyproject.toml")
    parser.add_argument("clients", type=Path, nargs="+", help="a CSV file each, with a header")
    parser.add_argument("--key", default="data", help="of the file in a node's configuration")
    parser.add_argument("--weight", default="num-examples", help="metric that updates are weighed by")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--share", type=float, default=0.5, help="of the rows that take part in a run")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--to", type=Path, default=Path("seen.npz"))
    given = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    app, target = given.app.resolve(), given.to.resolve()
    sys.path.insert(0, str(app))
    random.seed(given.seed)
    np.random.seed(given.seed)  # noqa: NPY002 -- the app's own draws
    tables = [path.read_text().splitlines() for path in given.clients]
    places = np.split(np.arange(sum(map(len, tables)) - len(tables)), np.cumsum([len(t) - 1 for t in tables])[:-1])
    bits = np.random.default_rng(given.seed).random((given.runs, sum(map(len, places)))) < given.share
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # an app may write where it runs
        files = [Path(folder, f"client-{place}.csv") for place in range(len(tables))]
        for held in bits:
            for file, (head, *rows), mine in zip(files, tables, places, strict=True):
                file.write_text("\n".join([head, *(rows[row] for row in np.flatnonzero(held[mine]))]) + "\n")
            runs.append(seen(replayed(app, files, given.key), given.weight))
    np.savez(target, inclusion=bits, **{name: np.array([run[name] for run in runs]) for name in runs[0]})


if __name__ == "__main__":
    main()
