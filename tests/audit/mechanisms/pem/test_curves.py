"""PEM on the paper's three data sets: near no privacy as epsilon grows, and better than noise at every client."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.pem import data

from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState
from ksdp.audit.mechanisms.pem.apriori import PemApriori, itemset_loss
from ksdp.audit.mechanisms.pem.budget import Budget
from ksdp.audit.mechanisms.pem.discrete_laplace import Simulated
from ksdp.audit.mechanisms.pem.ideal import run_ideal
from ksdp.audit.mechanisms.pem.kmeans import PemKMeans
from ksdp.audit.mechanisms.pem.logistic import PemLogistic
from ksdp.extras.reproduce.curves import adult, one_hot

pytestmark = pytest.mark.usefixtures("data_folder")

SERVERS, CLIENTS = 2, (100, 1000)
EPSILONS = (0.3, 3.0, 100.0)


def final(algorithm: PemAlgorithm, rows: sp.csr_array, iterations: int, epsilon: float, noises: int) -> PemState:
    rng = np.random.default_rng(7)
    return run_ideal(
        algorithm, [rows], Budget(epsilon, iterations), Simulated(rng), noises=noises, random=rng.bytes
    ).final


def losses(
    name: str, algorithm: PemAlgorithm, rows: sp.csr_array, iterations: int, loss: Callable[[PemState], float]
) -> tuple[float, list[float], list[float]]:
    """Without privacy; by epsilon with PEM; at epsilon 3 with noise at so many clients. Printed."""
    exact = loss(final(algorithm, rows, iterations, math.inf, 0))
    pem = [loss(final(algorithm, rows, iterations, epsilon, SERVERS)) for epsilon in EPSILONS]
    clients = [loss(final(algorithm, rows, iterations, 3.0, count)) for count in CLIENTS]
    shown = [[round(value, 3) for value in values] for values in ([exact], pem, clients)]
    print(f"{name}: no privacy {shown[0]}, epsilon {EPSILONS} {shown[1]}, clients {CLIENTS} {shown[2]}")
    return exact, pem, clients


def ordered(exact: float, pem: list[float], clients: list[float]) -> bool:
    """More epsilon loses less, down to nothing; noise at clients loses more, the more of them there are."""
    return (
        pem[0] > pem[1] > pem[2] - 0.005 and abs(pem[2] - exact) < 0.02 and pem[1] < clients[0] < clients[1] + 0.02
    )


def test_logistic_regression_on_adult() -> None:
    train, test = adult(data("adult"))
    algorithm = PemLogistic(train.shape[1], bound=14.0, cap=1.0, rate=2.0)
    found = losses("Adult", algorithm, train, 15, lambda state: 1 - algorithm.accuracy(state, test))
    assert ordered(*found)
    exact, pem, _ = found
    assert pem[1] - exact < 0.01
    assert exact < 0.18  # always "no" is wrong in 0.236


def test_k_means_on_nursery() -> None:
    rows = one_hot(data("nursery").iloc[:, :8])
    algorithm = PemKMeans(5, rows.shape[1], bound=8.0, fraction_bits=0)
    best = algorithm.loss(final(algorithm, rows, 5, math.inf, 0), rows)
    found = losses("Nursery", algorithm, rows, 5, lambda state: algorithm.loss(state, rows) / best - 1)
    assert ordered(*found)
    assert found[1][2] < 0.03


def test_itemsets_of_mushroom() -> None:
    rows = one_hot(data("mushroom").drop(columns="class"))
    algorithm = PemApriori(rows.shape[1], 22, 0.3)
    true = algorithm.found(final(algorithm, rows, 4, math.inf, 0), 2)
    found = losses("Mushroom", algorithm, rows, 4, lambda state: itemset_loss(algorithm.found(state, 2), true))
    assert ordered(*found)
    assert found[1][2] < 0.03


def test_the_number_of_clients_is_nothing_to_pem() -> None:
    """Servers add the noise: the same records, held by 10 clients or by 1,000, are announced alike."""
    rows = one_hot(data("nursery").iloc[:, :8])
    algorithm = PemKMeans(5, rows.shape[1], bound=8.0, fraction_bits=0)
    found = []
    for clients in (10, 1000):
        rng = np.random.default_rng(3)
        parts = [sp.csr_array(rows[i::clients]) for i in range(clients)]
        state = run_ideal(algorithm, parts, Budget(3.0, 5), Simulated(rng), random=rng.bytes).final
        found.append(algorithm.loss(state, rows))
    assert found[0] == pytest.approx(found[1], rel=1e-9)
