"""PEM's Figure 2: accuracy, relative loss and itemset loss, by epsilon and by number of clients.

Against no privacy and against noise at every client, in runs of the ideal functionality with simulated noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState
from ksdp.audit.mechanisms.pem.apriori import PemApriori, itemset_loss
from ksdp.audit.mechanisms.pem.budget import Budget
from ksdp.audit.mechanisms.pem.discrete_laplace import Simulated
from ksdp.audit.mechanisms.pem.ideal import run_ideal
from ksdp.audit.mechanisms.pem.kmeans import PemKMeans
from ksdp.audit.mechanisms.pem.logistic import PemLogistic
from ksdp.audit.reproducing.outcome import Line, Outcome

SERVERS = 2
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
CLIENTS = (100, 300, 1000)

Final = Callable[[float, int, int], PemState]
"""The last state of a run: epsilon, how many add noise, seed."""
Judge = Callable[[PemState], float]


def one_hot(table: pd.DataFrame) -> sp.csr_array:
    """One column of 0 and 1 for each value of each column."""
    return sp.csr_array(pd.get_dummies(table.astype(str)).to_numpy(dtype=np.float64))


ADULT_EDGES = {
    "age": (25, 35, 45, 60),
    "fnlwgt": (100_000, 150_000, 200_000, 300_000),
    "education-num": (8, 9, 10, 12),
    "capital-gain": (1, 5000, 10_000, 20_000),
    "capital-loss": (1, 1000, 1700, 2000),
    "hours-per-week": (30, 39, 41, 50),
}
"""Round numbers, chosen without the data: quantiles of it would be a release."""


def adult(table: pd.DataFrame) -> tuple[sp.csr_array, sp.csr_array]:
    """Records with the label in the last column, for training and for testing; 14 ones a record besides it."""
    table = table.copy()
    columns = {c.replace("_", "-"): c for c in table.columns}
    for name, edges in ADULT_EDGES.items():
        table[columns[name]] = np.digitize(table[columns[name]].astype(float), edges)
    label_name = next(c for c in columns.values() if table[c].astype(str).str.contains(">50K").any())
    label = table[label_name].astype(str).str.contains(">50K").to_numpy(dtype=np.float64)
    features = one_hot(table.drop(columns=[label_name, "split"]))
    every = sp.csr_array(sp.hstack((features, label[:, None]), format="csr"))
    train = (table["split"] == "train").to_numpy()
    return every[np.flatnonzero(train)], every[np.flatnonzero(~train)]


def simulated(algorithm: PemAlgorithm, rows: sp.csr_array, iterations: int, sampling: float = 1.0) -> Final:
    """Runs of the ideal functionality, their noise drawn by NumPy."""

    def final(epsilon: float, noises: int, seed: int) -> PemState:
        budget = Budget(epsilon, iterations, sampling=sampling)
        rng = np.random.default_rng(seed)
        return run_ideal(algorithm, [rows], budget, Simulated(rng), noises=noises, random=rng.bytes).final

    return final


def relative_loss(algorithm: PemKMeans, rows: sp.csr_array, best: float, state: PemState) -> float:
    """phi / phi_0 - 1."""
    return algorithm.loss(state, rows) / best - 1


def lost_itemsets(algorithm: PemApriori, true: dict[tuple[int, ...], float], state: PemState) -> float:
    """Of the itemsets of two and more."""
    return itemset_loss(algorithm.found(state, 2), true)


@dataclass(frozen=True)
class PemCurve:
    """Means over folds or seeds, and their deviations."""

    title: str
    exact: float
    pem: tuple[float, ...]
    """By epsilon, 100 clients."""
    every_client: tuple[float, ...]
    by_clients: tuple[float, ...]
    """Noise at every client, epsilon 1, by number of clients."""
    epsilons: tuple[float, ...]


def _curve(
    title: str, pairs: Sequence[tuple[Final, Judge]], epsilons: tuple[float, ...], say: Callable[[str], None]
) -> PemCurve:
    """One pair of run and judge a fold."""

    def mean(epsilon: float, noises: int) -> float:
        say(f"{title}: epsilon {epsilon:g}, noise drawn {noises} times")
        return float(np.mean([judge(final(epsilon, noises, seed)) for seed, (final, judge) in enumerate(pairs)]))

    pem, every = [mean(e, SERVERS) for e in epsilons], [mean(e, CLIENTS[0]) for e in epsilons]
    clients = [mean(1.0, count) for count in CLIENTS]
    return PemCurve(title, mean(math.inf, 0), tuple(pem), tuple(every), tuple(clients), epsilons)


def adult_curve(
    records: sp.csr_array,
    iterations: int,
    *,
    folds: int = 10,
    epsilons: tuple[float, ...] = EPSILONS,
    say: Callable[[str], None] = lambda _: None,
) -> PemCurve:
    """Accuracy of logistic regression, over folds; records carry their label in the last column."""
    algorithm = PemLogistic(records.shape[1], bound=14.0, cap=1.0, rate=2.0)
    order, pairs = np.random.default_rng(0).permutation(records.shape[0]), []
    for fold in range(folds):
        test, learn = order[fold::folds], np.setdiff1d(order, order[fold::folds])
        final = simulated(algorithm, sp.csr_array(records[learn]), iterations)
        pairs.append((final, partial(algorithm.accuracy, records=sp.csr_array(records[test]))))
    return _curve(f"Adult, {iterations} iterations, {folds} folds: accuracy", pairs, epsilons, say)


def nursery_curve(
    rows: sp.csr_array,
    iterations: int,
    *,
    seeds: int = 5,
    epsilons: tuple[float, ...] = EPSILONS,
    say: Callable[[str], None] = lambda _: None,
) -> PemCurve:
    """Relative loss of five clusters."""
    algorithm = PemKMeans(5, rows.shape[1], bound=8.0, fraction_bits=0)
    final = simulated(algorithm, rows, iterations)
    best = algorithm.loss(final(math.inf, 0, 0), rows)
    pairs = [(final, partial(relative_loss, algorithm, rows, best))] * seeds
    return _curve(f"Nursery, {iterations} iterations: relative loss", pairs, epsilons, say)


def mushroom_curve(
    rows: sp.csr_array,
    support: float,
    *,
    length: int = 22,
    seeds: int = 2,
    epsilons: tuple[float, ...] = EPSILONS,
    say: Callable[[str], None] = lambda _: None,
) -> PemCurve:
    """Loss of itemsets of two to four; `length` items a record."""
    algorithm = PemApriori(rows.shape[1], length, support)
    final = simulated(algorithm, rows, 4)
    true = algorithm.found(final(math.inf, 0, 0), 2)
    pairs = [(final, partial(lost_itemsets, algorithm, true))] * seeds
    return _curve(f"Mushroom, support {support:g}: loss of {len(true):,} itemsets", pairs, epsilons, say)


def curve_outcome(curves: Sequence[PemCurve]) -> Outcome:
    """One panel a curve; beside it what noise at every client costs by their number."""
    rows: list[tuple[str | float, ...]] = []
    lines, said = [], []
    for curve in curves:
        rows.append((curve.title, "no privacy", round(curve.exact, 3), round(curve.exact, 3)))
        rows += [
            (curve.title, f"epsilon {epsilon:g}, 100 clients", round(pem, 3), round(every, 3))
            for epsilon, pem, every in zip(curve.epsilons, curve.pem, curve.every_client, strict=True)
        ]
        at = curve.pem[curve.epsilons.index(1.0)]
        rows += [
            (curve.title, f"epsilon 1, {count:,} clients", round(at, 3), round(value, 3))
            for count, value in zip(CLIENTS, curve.by_clients, strict=True)
        ]
        flat = (curve.exact,) * len(curve.epsilons)
        for name, values in (("PEM", curve.pem), ("every client", curve.every_client), ("no privacy", flat)):
            lines.append(Line(curve.title, name, curve.epsilons, values))
        said.append(
            f"{curve.title}: {curve.exact:.3f} without privacy; at epsilon 1 PEM {at:.3f}, noise at each of "
            f"100 clients "
            f"{curve.by_clients[0]:.3f}, of 1,000 {curve.by_clients[-1]:.3f}."
        )
    columns = ("experiment", "setting", "PEM, 2 servers", "noise at every client")
    return Outcome(columns, tuple(rows), tuple(said), tuple(lines), "epsilon", "", ("x",))
