"""DP-NMF against PD-NMF, and its sensitivity against records that try hard."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.contract import Database
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.factorisation.nmf_starts import random_topics
from ksdp.audit.mechanisms.factorisation.rri_nmf import pd_nmf_iter
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.audit.mechanisms.privacy.transcript import Announcer, Replay


def parties(seed: int = 0, scale: float = 1.0) -> tuple[sp.csr_array, ...]:
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(12, 0.2), size=3)
    X = rng.dirichlet(np.full(3, 0.3), size=60) @ topics + 0.01 * rng.random((60, 12))
    return sp.csr_array(scale * X[:25]), sp.csr_array(scale * X[25:])


def test_without_clipping_and_noise_it_is_pd_nmf() -> None:
    class Silent(DPNMF):
        def deviation(self, features: int) -> float:
            return 0.0

    data = parties()
    mechanism = Silent(rank=3, sweeps=6, row_bound=1e6, contribution=1e9)
    found = mechanism.transcribe(Database(data), Announcer((0, 1), "fast", np.random.default_rng(0)))
    reference = pd_nmf_iter(data, random_topics(12, 3, 0), sweeps=6, tolerance=0.0)
    assert np.allclose(found["T"], reference.T, atol=1e-9)
    assert np.allclose(found["denominators"], reference.denominators, rtol=1e-9)


def test_of_ratings_every_feature_has_sums_of_its_own() -> None:
    """Against the formulas on dense arrays, feature by feature, over the records that have rated it."""

    class Silent(DPNMF):
        def deviation(self, features: int) -> float:
            return 0.0

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


@given(
    st.integers(0, 10_000),
    st.sampled_from([0.01, 0.3, 3.0]),
    st.sampled_from(["add-remove", "replace-one"]),
    st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_no_record_changes_a_release_by_more_than_the_sensitivity(
    seed: int, c: float, adjacency: str, weighted: bool
) -> None:
    rng = np.random.default_rng(seed)
    how = {"contribution": c, "adjacency": adjacency, "row_bound": 2.0, "weighted": weighted}
    mechanism = DPNMF(rank=3, sweeps=2, **how)  # type: ignore[arg-type]
    X = rng.exponential(size=(6, 5)) * rng.choice([0.1, 1.0, 20.0])
    Y = X.copy()
    Y[0] = 0 if adjacency == "add-remove" else rng.exponential(size=5) * 20
    pair = [Database((sp.csr_array(rows),)) for rows in (X, Y)]
    transcript = mechanism.transcript(pair[0], rng)
    replay = Replay((0,), transcript)
    mechanism.transcribe(pair[1], replay)
    for was, now in zip(transcript, replay.transcript, strict=True):
        assert np.linalg.norm(was.exact - now.exact) <= mechanism.sensitivity(5)


def test_topics_are_on_the_simplex_and_the_error_falls_with_epsilon() -> None:
    data = parties(scale=3.0)
    X = np.vstack([part.toarray() for part in data])
    errors = []
    for epsilon in (0.25, 1e4):
        T = DPNMF(rank=3, sweeps=5, epsilon=epsilon, row_bound=3.0).run(Database(data), np.random.default_rng(1))[
            "T"
        ]
        assert np.allclose(T.sum(axis=1), 1)
        assert T.min() >= 0
        W = np.linalg.lstsq(T.T, X.T, rcond=None)[0].T
        errors.append(float(np.linalg.norm(X - W @ T)))
    assert errors[1] < 0.7 * errors[0]


def test_negative_entries_and_bad_parameters_are_refused() -> None:
    with pytest.raises(CorpusError, match="non-negative"):
        DPNMF(rank=2).run(Database((sp.csr_array(np.array([[1.0, -1.0, 0.0]])),)), np.random.default_rng(0))
    for parameters in ({"rank": 0}, {"sweeps": 0}, {"contribution": 0.0}, {"row_bound": np.inf}, {"epsilon": 0.0}):
        with pytest.raises(SpecError):
            DPNMF(**parameters)  # type: ignore[arg-type]


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
