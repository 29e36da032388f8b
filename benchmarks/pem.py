"""PEM with sparse vectors, and what a run costs: `python -m papers` has the paper's curves.

::

    python -m benchmarks.pem                     # both, some minutes
    python -m benchmarks.pem --only cost
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from papers.data import adult, one_hot
from papers.pem import SERVERS

from benchmarks import data_folder
from ksdp.audit.mechanisms.pem.algorithm import run_ideal
from ksdp.audit.mechanisms.pem.functions import PemKMeans, PemLogistic
from ksdp.audit.mechanisms.pem.noise import Budget, Simulated, Sparse, Vetted
from ksdp.extras.pem.local import run_pem
from ksdp.extras.pem.rounds import split


def data(name: str) -> pd.DataFrame:
    return pd.read_parquet(data_folder() / name / "table.parquet")


def run_sparse() -> None:
    """Adult with sparse vectors: each client sends 40 of 133 entries at most."""
    train, test = adult(data("adult"))
    algorithm = PemLogistic(train.shape[1], bound=14.0, cap=1.0, rate=2.0)
    order = np.random.default_rng(0).permutation(train.shape[0])
    print("\nAdult, 30 iterations, 40 of 133 entries above 20: accuracy, one seed")
    for clients in (3, 10, 100):
        parts = [train[np.sort(order[i::clients])] for i in range(clients)]
        for epsilon in (1.0, 10.0, 100.0, 10_000.0):
            budget = Budget(epsilon, 30, sparse=Sparse(20.0, 40))
            state = run_ideal(algorithm, parts, budget, Simulated(np.random.default_rng(1))).final
            print(f"  {clients:>4} clients, epsilon {epsilon:>6g}: {algorithm.accuracy(state, test):.3f}")


def run_cost() -> None:
    """Seconds for a vector of 100,000 entries on each role, by number of hosts; and a whole run."""
    print("\nCost of one vector of 100,000 entries seconds:")
    entries = 100_000
    vector = np.arange(entries)
    start = time.perf_counter()
    shares = split(vector, SERVERS)
    print(f"  a host shares it: {time.perf_counter() - start:.4f}")
    for hosts in (2, 100, 255):
        start = time.perf_counter()
        sum((shares[1] for _ in range(hosts)), np.zeros(entries, dtype=np.uint64))
        print(f"  a server adds {hosts} of them: {time.perf_counter() - start:.4f}")
    for sampler in (Vetted(), Simulated(np.random.default_rng(0))):
        sampler.draw(100.0, 10)
        start = time.perf_counter()
        sampler.draw(100.0, entries)
        print(f"  a server draws the noise, {sampler.label}: {time.perf_counter() - start:.4f}")
    rows = one_hot(data("nursery").iloc[:, :8])
    algorithm = PemKMeans(5, rows.shape[1], bound=8.0, fraction_bits=0)
    for clients in (100, 1000):
        parts = {f"{i:04}": rows[i::clients] for i in range(clients)}
        result = run_pem(algorithm, parts, Budget(10.0, 5))
        print(
            f"  Nursery, {clients} clients, {SERVERS} servers, aggregator, 5 iterations, in one process: "
            f"{result.seconds:.2f} s; the clients' host sent "
            f"{result.sent['clients'] / 1e6:.2f} MB; {result.sampler}"
        )


if __name__ == "__main__":
    tables = {"sparse": run_sparse, "cost": run_cost}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=tables, nargs="+", default=list(tables))
    for name in parser.parse_args().only:
        tables[name]()
