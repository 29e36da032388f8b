import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from ksdp.audit.contract import Database
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.factorisation.nmf_kernels import project_simplex
from ksdp.audit.mechanisms.factorisation.nmf_starts import STARTS, random_topics
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.rri_nmf import pd_nmf_iter

from .nmf_cases import PENALTIES, split, synthetic

RNG = np.random.default_rng(0)


class PaperParty:
    """One party's side of Algorithm 1: it sees its own rows, T, and nothing else."""

    def __init__(self, X, k):
        self.X, self.W = X.toarray(), np.zeros((X.shape[0], k))

    def share(self, t, T, gamma, delta):
        R = self.X - self.W @ T + np.outer(self.W[:, t], T[t])
        self.W[:, t] = np.maximum(R @ T[t] - gamma, 0) / (T[t] @ T[t] + delta)
        return self.W[:, t] @ R, self.W[:, t] @ self.W[:, t]


def algorithm_1(parties, T, sweeps, outside, alpha=0.0, beta=0.0, gamma=0.0, delta=0.0):
    """The messages of the protocol, line by line; returns T and the sums over the `outside` parties."""
    T, k = T.copy(), len(T)
    sides = [PaperParty(X, k) for X in parties]
    for _ in range(sweeps):
        numerators, denominators = np.zeros_like(T), np.zeros(k)
        for t in range(k):
            shares = [side.share(t, T, gamma, delta) for side in sides]
            numerator, denominator = (sum(parts) for parts in zip(*shares, strict=True))
            numerators[t] = sum(shares[m][0] for m in outside)
            denominators[t] = sum(shares[m][1] for m in outside)
            T[t] = np.maximum(numerator - alpha, 0) / (denominator + beta)
            if alpha == beta == gamma == delta == 0:
                T[t] = project_simplex(T[t])
    return T, numerators, denominators


@pytest.mark.parametrize("penalties", PENALTIES, ids=str)
@pytest.mark.parametrize("coalition", [set(), {2}, {1, 2}, {1, 2, 3}])
@pytest.mark.parametrize("sweeps", [1, 8])
def test_the_view_is_that_of_algorithm_1_less_the_coalitions_share(penalties, coalition, sweeps):
    parties = split(synthetic(60, 70, seed=2), 20, 35, 50)
    database = Database(parties, frozenset(coalition))
    mechanism = PDNMF(rank=3, sweeps=sweeps, tolerance=0, start_seed=4, **penalties)
    seen = mechanism.run(database, RNG)
    expected = algorithm_1(parties, random_topics(70, 3, 4), sweeps, database.outside, **penalties)
    for name, theirs in zip(("T", "numerators", "denominators"), expected, strict=True):
        np.testing.assert_allclose(seen[name], theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())


def test_the_start_is_announced_where_it_holds_data():
    database = Database(split(synthetic(40, 30, seed=6), 20))
    mechanism = PDNMF(rank=3, start="pd-nmf-init")
    seen = mechanism.run(database, RNG)
    again = pd_nmf_iter(database.parties, seen["start"])
    np.testing.assert_array_equal(seen["T"], again.T)


@pytest.mark.parametrize("start", STARTS)
def test_same_bits_with_any_number_of_threads_and_after_pickling(start):
    database = Database((synthetic(600, 900, seed=7),))
    mechanism = PDNMF(rank=4, start=start, sweeps=3)
    with threadpool_limits(1):
        one = mechanism.run(database, np.random.default_rng(1))
    with threadpool_limits(2):
        two = pickle.loads(pickle.dumps(mechanism)).run(database, np.random.default_rng(2))
    assert [array.tobytes() for array in one.values()] == [array.tobytes() for array in two.values()]


def test_refuses_data_that_is_not_for_it():
    with pytest.raises(CorpusError, match="non-negative"):
        PDNMF(rank=2).run(Database((sp.csr_array(-np.eye(5)),)), RNG)
    with pytest.raises(CorpusError, match="same features"):
        PDNMF(rank=2).run(Database((sp.csr_array(np.eye(5)), sp.csr_array(np.eye(4)))), RNG)
    with pytest.raises(SpecError, match="smallest party"):
        PDNMF(rank=6, start="best-of-m").run(Database((sp.csr_array(np.eye(5)),)), RNG)


@pytest.mark.parametrize("coalition", [set(), {2}])
@pytest.mark.parametrize("penalties", [{}, {"beta": 0.5}])
def test_sums_of_every_sweep_are_those_of_algorithm_1(coalition, penalties):
    parties = split(synthetic(60, 70, seed=2), 20, 35, 50)
    database = Database(parties, frozenset(coalition))
    seen = PDNMF(rank=3, sweeps=6, tolerance=0, start_seed=4, **penalties).run(database, RNG)
    start = random_topics(70, 3, 4)
    each = [algorithm_1(parties, start, sweeps, database.outside, **penalties) for sweeps in range(1, 7)]
    for name, place in (("sums", 1), ("weights", 2)):
        expected = np.stack([sweep[place] for sweep in each])
        np.testing.assert_allclose(seen[name], expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
        total = seen["total" if name == "sums" else "total_weights"]
        np.testing.assert_allclose(total, expected.sum(axis=0), rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(seen["numerators"], each[-1][1], atol=1e-9 * np.abs(each[-1][1]).max())


def test_a_run_that_opens_its_topics_alone_does_all_sweeps():
    database = Database((synthetic(40, 30, seed=4),))
    final = PDNMF(rank=3, tolerance=0.5, opens="final").run(database, RNG)
    assert set(final) == {"T"}
    np.testing.assert_array_equal(final["T"], PDNMF(rank=3, tolerance=0).run(database, RNG)["T"])
