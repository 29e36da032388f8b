"""Figure 2 of PEM: noise of two servers against noise at every client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import Observables
from papers.outcome import Line, Outcome, released, say

SERVERS = 2
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
CLIENTS = (100, 300, 1000)
NO_PRIVACY = 1e9
"""An epsilon at which every noise is 0."""

Judge = Callable[[Observables], float]
Itemsets = dict[tuple[int, ...], float]


@dataclass(frozen=True, eq=False)
class Experiment:
    """A mechanism that is repeated under every noise."""

    title: str
    mechanism: str
    parameters: Mapping[str, Any]
    folds: Sequence[tuple[sp.csr_array, Judge]]
    """Records that are learnt from, and how a run of them is judged; the number of a fold is its seed."""

    def mean(self, epsilon: float, servers: int) -> float:
        """Over the folds."""
        say(f"{self.title}: epsilon {epsilon:g}, noise drawn {servers} times")
        noise = {"epsilon": epsilon, "servers": servers, "colluding": 0}
        return float(
            np.mean(
                [
                    judge(released(self.mechanism, [records], seed, **self.parameters, **noise))
                    for seed, (records, judge) in enumerate(self.folds)
                ]
            )
        )


def accuracy(seen: Observables, records: sp.csr_array) -> float:
    """Share of the records whose label, the last column, is the likelier one."""
    V = seen["V"][0]
    label = records @ np.eye(1, len(V), len(V) - 1)[0]
    return float(np.mean((records @ V > 0) == (label > 0.5)))


def squares(seen: Observables, records: sp.csr_array) -> float:
    """Sum of the records' squared distances to their nearest centre."""
    T = seen["T"]
    nearest = ((T**2).sum(axis=1) - 2.0 * (records @ T.T)).min(axis=1)
    return float(records.multiply(records).sum() + nearest.sum())


def relative_loss(best: float, records: sp.csr_array, seen: Observables) -> float:
    """phi / phi_0 - 1."""
    return squares(seen, records) / best - 1


def frequent_itemsets(seen: Observables, support: float, rows: int) -> Itemsets:
    """The noisy counts of frequent itemsets of two items or more, by their items."""
    first, second = np.nonzero(seen["pairs"] >= support * rows)
    found: Itemsets = {(int(a), int(b)): float(seen["pairs"][a, b]) for a, b in zip(first, second, strict=True)}
    for table, counts in zip(seen["itemsets"], seen["longer"], strict=True):
        for at in np.flatnonzero((table[:, 0] > 0) & (counts >= support * rows)):
            found[tuple(int(item) for item in table[at] if item)] = float(counts[at])
    return found


def lost_itemsets(true: Itemsets, support: float, rows: int, seen: Observables) -> float:
    """The paper's loss: sum |a - b| / sum |a + b| over itemsets of either run; 1 where none is in both."""
    found = frequent_itemsets(seen, support, rows)
    pairs = np.array([(true.get(name, 0.0), found.get(name, 0.0)) for name in true.keys() | found.keys()])
    return float(np.abs(pairs[:, 0] - pairs[:, 1]).sum() / np.abs(pairs.sum(axis=1)).sum()) if len(pairs) else 0.0


def adult_experiment(records: sp.csr_array, iterations: int, folds: int = 10) -> Experiment:
    """Accuracy of logistic regression, over folds; records carry their label in the last column."""
    order, pairs = np.random.default_rng(0).permutation(records.shape[0]), []
    for fold in range(folds):
        test, learn = order[fold::folds], np.setdiff1d(order, order[fold::folds])
        pairs.append((sp.csr_array(records[learn]), partial(accuracy, records=sp.csr_array(records[test]))))
    title = f"Adult, {iterations} iterations, {folds} folds: accuracy"
    return Experiment(title, "pem-logistic", {"iterations": iterations, "bound": 14.0, "rate": 2.0}, pairs)


def nursery_experiment(rows: sp.csr_array, iterations: int, seeds: int = 5) -> Experiment:
    """Relative loss of five clusters."""
    parameters: dict[str, Any] = {"clusters": 5, "iterations": iterations, "bound": 8.0, "fraction_bits": 0}
    best = squares(released("pem-kmeans", [rows], epsilon=NO_PRIVACY, **parameters), rows)
    title = f"Nursery, {iterations} iterations: relative loss"
    return Experiment(title, "pem-kmeans", parameters, [(rows, partial(relative_loss, best, rows))] * seeds)


def mushroom_experiment(rows: sp.csr_array, support: float, longest: int = 22, keep: int = 200_000) -> Experiment:
    """Loss of frequent itemsets of two to four items; at most `longest` items a record."""
    parameters: dict[str, Any] = {"support": support, "longest": longest, "length": 4, "keep": keep}
    true = frequent_itemsets(
        released("pem-apriori", [rows], epsilon=NO_PRIVACY, **parameters), support, rows.shape[0]
    )
    title = f"Mushroom, support {support:g}: loss of {len(true):,} itemsets"
    return Experiment(
        title, "pem-apriori", parameters, [(rows, partial(lost_itemsets, true, support, rows.shape[0]))] * 2
    )


def outcome(experiments: Sequence[Experiment], epsilons: tuple[float, ...] = EPSILONS) -> Outcome:
    """One panel an experiment; beside it what noise at every client costs by their number."""
    rows: list[tuple[str | float, ...]] = []
    lines, notes = [], []
    for experiment in experiments:
        title, exact = experiment.title, experiment.mean(NO_PRIVACY, SERVERS)
        servers = [experiment.mean(epsilon, SERVERS) for epsilon in epsilons]
        every = [experiment.mean(epsilon, CLIENTS[0]) for epsilon in epsilons]
        by_clients = [experiment.mean(1.0, count) for count in CLIENTS]
        at = servers[epsilons.index(1.0)]
        rows.append((title, "no privacy", round(exact, 3), round(exact, 3)))
        rows += [
            (title, f"epsilon {epsilon:g}, 100 clients", round(a, 3), round(b, 3))
            for epsilon, a, b in zip(epsilons, servers, every, strict=True)
        ]
        rows += [
            (title, f"epsilon 1, {count:,} clients", round(at, 3), round(value, 3))
            for count, value in zip(CLIENTS, by_clients, strict=True)
        ]
        flat = [exact] * len(epsilons)
        for name, values in (("PEM", servers), ("every client", every), ("no privacy", flat)):
            lines.append(Line(title, name, epsilons, tuple(values)))
        notes.append(
            f"{title}: {exact:.3f} without privacy; at epsilon 1 PEM {at:.3f}, noise at each of 100 clients "
            f"{by_clients[0]:.3f}, of 1,000 {by_clients[-1]:.3f}."
        )
    columns = "experiment | setting | PEM, 2 servers | noise at every client"
    return Outcome(columns, rows, notes, lines, "epsilon", "", ("x",))
