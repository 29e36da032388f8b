"""PEM's curves: Adult (accuracy), Nursery (relative loss), Mushroom (itemset loss), and what a run costs.

Against no privacy and against noise at every client; by epsilon and by number of clients. Runs are of the ideal
functionality with simulated noise; the last table runs real processes with OpenDP's.

::

    python -m benchmarks.pem                     # all, some minutes
    python -m benchmarks.pem --only nursery --seeds 10
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

from benchmarks import data_folder
from ksdp.audit.mechanisms.pem.algorithm import PemState, run_ideal
from ksdp.audit.mechanisms.pem.functions import PemApriori, PemKMeans, PemLogistic
from ksdp.audit.mechanisms.pem.noise import Budget, Simulated, Sparse, Vetted, tight_epsilon
from ksdp.extras.pem.messages import PrimeField
from ksdp.extras.pem.processes import run_pem
from ksdp.extras.pem.spec import PemRunSpec
from ksdp.extras.reproduce.curves import (
    CLIENTS,
    EPSILONS,
    SERVERS,
    adult,
    lost_itemsets,
    one_hot,
    relative_loss,
    simulated,
)

Final = Callable[[float, int, int], PemState]
"""The last state of a run: epsilon, how many add noise, seed."""
Judge = Callable[[PemState], float]


def data(name: str) -> pd.DataFrame:
    return pd.read_parquet(data_folder() / name / "table.parquet")


def curves(title: str, final: Final, judge: Judge, seeds: int) -> None:
    """One table by epsilon (100 clients), one by number of clients (epsilon 1); mean of the seeds."""

    @lru_cache
    def mean(epsilon: float, noises: int) -> str:
        values = [judge(final(epsilon, noises, seed)) for seed in range(seeds)]
        return f"{np.mean(values):8.3f} +- {np.std(values):.3f}"

    print(f"\n{title}\n  no privacy: {judge(final(math.inf, 0, 0)):.3f}; {seeds} seeds, simulated noise")
    print("  epsilon (100 clients)   PEM, 2 servers        noise at every client")
    for epsilon in EPSILONS:
        print(f"  {epsilon:>20g}   {mean(epsilon, SERVERS):>18}   {mean(epsilon, 100):>18}")
    print("  clients (epsilon 1)     PEM, 2 servers        noise at every client")
    pem = mean(1.0, SERVERS)
    for clients in CLIENTS:
        print(f"  {clients:>20d}   {pem:>18}   {mean(1.0, clients):>18}")


def run_adult(seeds: int) -> None:
    train, test = adult(data("adult"))
    print(f"\nAdult: {train.shape[0]} + {test.shape[0]} records, {train.shape[1] - 1} columns, L = 28")
    for iterations, sampling in ((1000, 1.0), (30, 1.0), (30, 0.1)):
        algorithm = PemLogistic(train.shape[1], bound=14.0, cap=1.0, rate=2.0)
        final = simulated(algorithm, train, iterations, sampling=sampling)
        few = 1 if iterations > 100 else seeds
        curves(
            f"Adult: accuracy of logistic regression, {iterations} iterations, sampling {sampling:g}",
            final,
            partial(algorithm.accuracy, records=test),
            few,
        )
    budget = Budget(1.0, 30)
    print(f"  epsilon 1 over 30 iterations is {tight_epsilon(budget, 1e-5):.3f} at delta 1e-5")


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


def run_nursery(seeds: int) -> None:
    table = data("nursery")
    rows = one_hot(table.iloc[:, :8])
    for iterations in (50, 5):
        algorithm = PemKMeans(5, rows.shape[1], bound=8.0, fraction_bits=0)
        final = simulated(algorithm, rows, iterations)
        best = algorithm.loss(final(math.inf, 0, 0), rows)
        curves(
            f"Nursery: relative loss of k-means, {rows.shape[0]} records, {iterations} iterations",
            final,
            partial(relative_loss, algorithm, rows, best),
            seeds,
        )


def run_mushroom(seeds: int) -> None:
    table = data("mushroom")
    rows = one_hot(table.drop(columns="class"))
    for support in (0.01, 0.3):
        algorithm = PemApriori(rows.shape[1], 22, support)
        final = simulated(algorithm, rows, 4)
        true = algorithm.found(final(math.inf, 0, 0), 2)
        curves(
            f"Mushroom: loss of itemsets of 2 to 4, support {support:g}: {len(true)} of {rows.shape[1]} items",
            final,
            partial(lost_itemsets, algorithm, true),
            min(seeds, 2) if support < 0.1 else seeds,
        )


def run_cost() -> None:
    """Seconds for a vector of 100,000 entries on each role, by number of clients; and real processes."""
    print("\nCost of one vector of 100,000 entries (64-bit field), seconds:")
    field, entries = PrimeField(64), 100_000
    vector = np.arange(entries)
    start = time.perf_counter()
    shares = field.share(vector, SERVERS)
    print(f"  a client shares it: {time.perf_counter() - start:.4f}")
    for clients in (100, 1000, 10_000):
        start = time.perf_counter()
        field.total((shares[1] for _ in range(clients)), entries)
        print(f"  a server adds {clients} of them: {time.perf_counter() - start:.4f}")
    for sampler in (Vetted(), Simulated(np.random.default_rng(0))):
        sampler.draw(100.0, 10)
        start = time.perf_counter()
        sampler.draw(100.0, entries)
        print(f"  a server draws the noise, {sampler.label}: {time.perf_counter() - start:.4f}")
    rows = one_hot(data("nursery").iloc[:, :8])
    algorithm = PemKMeans(5, rows.shape[1], bound=8.0, fraction_bits=0)
    for clients in (100, 1000):
        parts = {f"{i:04}": rows[i::clients] for i in range(clients)}
        start = time.perf_counter()
        result = run_pem(algorithm, parts, Budget(10.0, 5), PemRunSpec(patience=60.0))
        whole = time.perf_counter() - start
        print(
            f"  Nursery, {clients} clients in 2 processes, {SERVERS} servers, aggregator, 5 iterations: "
            f"{result.seconds:.2f} s ({whole:.1f} s with starting); clients sent "
            f"{result.sent['clients'] / 1e6:.2f} MB; {result.sampler}"
        )


def run(only: Sequence[str] = ("adult", "sparse", "nursery", "mushroom", "cost"), seeds: int = 5) -> None:
    """Print the tables asked for."""
    for name, table in (("adult", run_adult), ("nursery", run_nursery), ("mushroom", run_mushroom)):
        if name in only:
            table(seeds)
    if "sparse" in only:
        run_sparse()
    if "cost" in only:
        run_cost()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ("adult", "sparse", "nursery", "mushroom", "cost")
    parser.add_argument("--only", choices=every, nargs="+", default=every)
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    run(chosen.only, chosen.seeds)
