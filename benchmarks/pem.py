"""PEM with sparse vectors, and what a run costs: `python -m papers` has the paper's curves.

::

    python -m benchmarks.pem                     # both, some minutes
    python -m benchmarks.pem --only cost
"""

from __future__ import annotations

import argparse
import os
from functools import partial

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


import numpy as np
import pandas as pd
from papers.data import adult, one_hot
from papers.pem import SERVERS

from benchmarks import data_folder
from benchmarks.fastest import best
from ksdp.audit.mechanisms.pem.algorithm import run_ideal
from ksdp.audit.mechanisms.pem.functions import PemKMeans, PemLogistic
from ksdp.audit.mechanisms.pem.noise import Budget, Simulated, Sparse, Vetted
from ksdp.extras.pem.local import run_pem
from ksdp.extras.pem.rounds import split


def data(name: str) -> pd.DataFrame:
    return pd.read_parquet(data_folder() / name / "table.parquet")


SAMPLERS = (Vetted(), Simulated(np.random.default_rng(0)))


def _added(count: int, shares: np.ndarray) -> float:
    return best(lambda: sum((shares for _ in range(count)), np.zeros(len(shares), dtype=np.uint64)), 1)


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
    """Seconds of each role by dimensions and by vectors, what these take on a wire, and a whole run: Figure 3."""
    print("\nFigure 3 (b), (c): seconds of one vector by its entries; computation against 1 Gbit/s")
    print("  entries, a host shares it, a server adds 100, its noise discrete / fast, 100 vectors on the wire")
    for sampler in SAMPLERS:
        sampler.draw(100.0, 10)
    for entries in (100, 1000, 10_000, 100_000):
        shares = split(np.arange(entries), SERVERS)[1]
        shared, added = best(partial(split, np.arange(entries), SERVERS)), _added(100, shares)
        noises = [best(partial(sampler.draw, 100.0, entries), 1) for sampler in SAMPLERS]
        wire = 100 * entries * 64 / 1e9
        print(f"  {entries:>7,}: {shared:.5f}, {added:.5f}, {noises[0]:.4f} / {noises[1]:.5f}, {wire:.4f}")
    print("Figure 3 (a): seconds of a server that adds vectors of 1,000 entries, and of these on the wire")
    for clients in (100, 1000, 10_000):
        took = _added(clients, split(np.arange(1000), SERVERS)[1])
        print(f"  {clients:>6,} vectors: {took:.4f}, {clients * 1000 * 64 / 1e9:.3f}")
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
