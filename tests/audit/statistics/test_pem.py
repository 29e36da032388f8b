"""PEM's statistics against the vectors that its clients compute."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.mechanisms.contract import Database, Observables
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState, contribution
from ksdp.audit.mechanisms.pem.mechanisms import PEMApriori, PEMKMeans, PEMLogistic
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.pem import own_counts, own_gradient, own_sum

ROWS = sp.csr_array((np.random.default_rng(1).random((40, 6)) < 0.5).astype(float))
DATABASE = Database((ROWS,))


def own(algorithm: PemAlgorithm, row: int, state: PemState) -> np.ndarray:
    steps = contribution(algorithm, ROWS[row : row + 1], state)
    return np.concatenate([steps[: state.blocks[0].size]]) * 2.0 ** -state.blocks[0].fraction_bits


def test_own_sum_is_the_clients_vector_against_the_sums() -> None:
    mechanism = PEMKMeans(clusters=2, iterations=3, bound=6.0, epsilon=5.0)
    seen = mechanism.run(DATABASE, np.random.default_rng(0))
    values = own_sum(seen, Documents(ROWS))
    algorithm = mechanism.algorithm(6)
    for row in range(40):
        states = [PemState(0, {"centres": c}, algorithm.init().blocks) for c in seen["centres"]]
        expected = sum(own(algorithm, row, s) @ t.ravel() for s, t in zip(states, seen["sums"], strict=True))
        assert values[row] == pytest.approx(expected)


def test_own_gradient_is_the_clients_vector_against_the_gradients() -> None:
    mechanism = PEMLogistic(iterations=4, bound=6.0, epsilon=5.0, label=2, fraction_bits=30)
    seen = mechanism.run(DATABASE, np.random.default_rng(0))
    assert seen["label"].tolist() == [2.0]
    values = own_gradient(seen, Documents(ROWS))
    algorithm = mechanism.algorithm(6)
    for row in range(40):
        states = [PemState(0, {"w": w}, algorithm.init().blocks) for w in seen["weights"]]
        expected = sum(own(algorithm, row, s) @ t for s, t in zip(states, seen["gradients"], strict=True))
        assert values[row] == pytest.approx(expected, abs=1e-4)


def test_own_counts_adds_up_what_a_record_holds() -> None:
    seen = PEMApriori(longest=6, support=0.01, epsilon=50.0).run(DATABASE, np.random.default_rng(0))
    values = own_counts(seen, Documents(ROWS))
    dense = ROWS.toarray()
    for row in range(40):
        items = np.flatnonzero(dense[row])
        expected = seen["items"][items].sum() + sum(seen["pairs"][i, j] for i in items for j in items if i < j)
        assert values[row] == pytest.approx(expected)


def test_an_empty_document_has_a_value() -> None:
    seen = Observables(PEMApriori(longest=6, support=0.01).run(DATABASE, np.random.default_rng(0)))
    assert own_counts(seen, Documents(sp.csr_array((1, 6)))).tolist() == [0.0]
