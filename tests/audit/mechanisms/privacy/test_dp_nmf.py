"""DP-NMF against PD-NMF, and its sensitivity against records that try hard."""

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.errors import CorpusError
from ksdp.audit.mechanisms.factorisation.nmf_starts import random_topics
from ksdp.audit.mechanisms.factorisation.rri_nmf import pd_nmf_iter
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.audit.mechanisms.privacy.transcript import Announcer, Replay


def parties(seed: int = 0, scale: float = 1.0) -> tuple[sp.csr_array, ...]:
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(12, 0.2), size=3)
    X = rng.dirichlet(np.full(3, 0.3), size=60) @ topics + 0.01 * rng.random((60, 12))
    return sp.csr_array(scale * X[:25]), sp.csr_array(scale * X[25:])


class Silent(DPNMF):
    """Adds no noise."""

    def deviation(self, features: int) -> float:
        return 0.0


def test_without_clipping_and_noise_it_is_pd_nmf() -> None:
    data = parties()
    mechanism = Silent(rank=3, sweeps=6, row_bound=1e6, contribution=1e9)
    found = mechanism.transcribe(Database(data), Announcer((0, 1), "fast", np.random.default_rng(0)))
    reference = pd_nmf_iter(data, random_topics(12, 3, 0), sweeps=6, tolerance=0.0)
    assert np.allclose(found["T"], reference.T, atol=1e-9)
    assert np.allclose(found["denominators"], reference.denominators, rtol=1e-9)


def test_of_ratings_every_feature_has_sums_of_its_own() -> None:
    """Against the formulas on dense arrays, feature by feature, over the records that have rated it."""
    rng = np.random.default_rng(3)
    X = np.where(rng.random((9, 6)) < 0.6, rng.integers(1, 6, (9, 6)), 0).astype(float)
    X[:, 0], mechanism = 3.0, Silent(rank=2, sweeps=3, row_bound=1e6, contribution=4.0, weighted=True)
    parts = (sp.csr_array(X[:4]), sp.csr_array(X[4:]))
    found = mechanism.transcribe(Database(parts), Announcer((0, 1), "fast", np.random.default_rng(0)))
    T, W, rated = 6 * random_topics(6, 2, 0), np.zeros((9, 2)), X > 0
    for sweep in range(3):
        for t in range(2):
            above, below = np.zeros(6), np.zeros(6)
            for i in range(9):
                left = np.where(rated[i], X[i] - W[i, 1 - t] * T[1 - t], 0.0)
                W[i, t] = max(left @ T[t], 0.0) / (T[t, rated[i]] @ T[t, rated[i]])
                record = np.concatenate([W[i, t] * left, W[i, t] ** 2 * rated[i]])
                record *= min(1.0, 4.0 / max(np.linalg.norm(record), 1e-300))
                above, below = above + record[:6], below + record[6:]
            assert np.allclose(found["sums"][sweep, t], above, rtol=1e-6)
            assert np.allclose(found["weights"][sweep, t], below, rtol=1e-6)
            T[t] = np.where(below > 0, np.maximum(above, 0) / np.where(below > 0, below, 1), T[t])
    assert np.allclose(found["T"], T, rtol=1e-5)
    assert found["denominators"].shape == (2, 6)


def test_negative_entries_are_refused() -> None:
    with pytest.raises(CorpusError, match="non-negative"):
        DPNMF(rank=2).run(Database((sp.csr_array(np.array([[1.0, -1.0, 0.0]])),)), np.random.default_rng(0))


@pytest.mark.parametrize("mechanism", [DPNMF(rank=2, sweeps=2, epsilon=4.0), DPNMF(rank=2, sweeps=5, epsilon=1.0)])
def test_the_worst_pair_reaches_the_sensitivity_in_every_release(mechanism: DPNMF) -> None:
    pair = mechanism.neighbours()
    sensitivity = mechanism.sensitivity(pair[0].parties[0].shape[1])
    for seed in range(5):
        announced = mechanism.transcript(pair[seed % 2], np.random.default_rng(seed))
        exact = []
        for database in pair:
            replay = Replay(database.outside, announced)
            mechanism.transcribe(database, replay)
            exact.append([a.exact for a in replay.transcript])
        changes = [np.linalg.norm(a - b) for a, b in zip(*exact, strict=True)]
        assert 0.99 * sensitivity < min(changes) <= max(changes) <= sensitivity
