"""Replay NVFlare clients' script on random halves of their rows, and record what an aggregator is handed.

python record.py client.py clinic0.csv clinic1.csv clinic2.csv

The script is the clients' own; averaging is NVFlare's. Each row takes part in a run with probability 1/2.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import nvflare.client as flare
from nvflare.app_common.aggregators.weighted_aggregation_helper import WeightedAggregationHelper

RUNS, ROUNDS, SHARE = 1000, 3, 0.5


def trained(script: str, file: Path, model: np.ndarray) -> tuple[np.ndarray, float]:
    """What a client sends in one round, and its weight: its script, between a receive and a send of ours."""
    sent: list[flare.FLModel] = []
    running = iter((True, False))
    ours = {
        "init": lambda: None,
        "is_running": lambda: next(running),
        "receive": lambda: flare.FLModel(params={"numpy_key": model.copy()}),
        "send": sent.append,
    }
    with patch.multiple(flare, **ours), patch.object(sys, "argv", [script, "--data", str(file)]):
        runpy.run_path(script, run_name="__main__")
    return sent[0].params["numpy_key"], sent[0].meta["NUM_STEPS_CURRENT_ROUND"]


def replayed(script: str, files: list[Path]) -> dict[str, np.ndarray]:
    """One run: each client's updates and their weighted sums, round by round."""
    model, updates, sums = np.zeros(31, np.float32), [], []
    for number in range(ROUNDS):
        answers = [trained(script, file, model) for file in files]
        average = WeightedAggregationHelper()
        for file, (update, weight) in zip(files, answers, strict=True):
            average.add({"numpy_key": update}, weight, file.stem, number)
        sums.append(average.total["numpy_key"])
        model = average.get_result()["numpy_key"]
        updates.append([update for update, _ in answers])
    sizes = np.array([float(weight) for _, weight in answers])
    server = {"server/update": np.array(updates), "server/size": sizes}
    return server | {"sum/update": np.array(sums), "sum/size": sizes.sum(), "model": model}


def main() -> None:
    """Draw who takes part, run, keep what is seen."""
    script, *names = sys.argv[1:]
    tables = [Path(name).read_text().splitlines() for name in names]
    bits = [np.random.default_rng((7, n)).random((RUNS, len(table) - 1)) < SHARE for n, table in enumerate(tables)]
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"client-{n}.csv") for n in range(len(tables))]
        for run in range(RUNS):
            for file, (head, *rows), held in zip(files, tables, bits, strict=True):
                file.write_text("\n".join([head, *(rows[row] for row in np.flatnonzero(held[run]))]) + "\n")
            runs.append(replayed(script, files))
    np.savez("seen.npz", inclusion=np.hstack(bits), **{n: np.array([run[n] for run in runs]) for n in runs[0]})


if __name__ == "__main__":
    main()
