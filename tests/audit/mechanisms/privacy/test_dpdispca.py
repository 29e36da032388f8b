"""DPdisPCA: what a site sends, and what the slides show on MNIST."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.privacy.dpdispca import DPdisPCA, captured_energy


def sites(seed: int = 0, sizes: tuple[int, ...] = (300, 500)) -> tuple[sp.csr_array, ...]:
    rng = np.random.default_rng(seed)
    return tuple(sp.csr_array(rng.normal(size=(n, 6)) * [0.5, 0.4, 0.1, 0.1, 0.05, 0.05]) for n in sizes)


def test_with_a_large_budget_and_all_directions_it_is_pooled_pca() -> None:
    data = sites()
    V = DPdisPCA(rank=2, intermediate=6, epsilon=1e6).run(Database(data), np.random.default_rng(0))["V"]
    X = np.vstack([part.toarray() for part in data])
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
    moments = X.T @ X / len(X)
    best = np.linalg.eigvalsh(moments)[-2:].sum()
    assert captured_energy(V, moments) == pytest.approx(best, rel=1e-3)


def test_negative_eigenvalues_are_dropped() -> None:
    """Noise that drowns everything: an SVD would keep large negative eigenvalues, turned positive."""
    mechanism = DPdisPCA(rank=2, intermediate=6, epsilon=0.01, announce=("P",))
    for seed in range(5):
        data = Database(sites(sizes=(30,)))
        P = mechanism.run(data, np.random.default_rng(seed))["P"]
        (announced,) = mechanism.transcript(data, np.random.default_rng(seed))
        noisy = np.zeros((6, 6))
        noisy[np.triu_indices(6)] = announced.seen
        noisy = noisy + noisy.T - np.diag(np.diag(noisy))
        values, vectors = np.linalg.eigh(noisy)
        assert values[0] < 0
        positive = (vectors * np.maximum(values, 0)) @ vectors.T
        assert np.allclose(P.T @ P, positive)


@given(st.integers(0, 10_000), st.sampled_from(["replace-one", "add-remove"]))
@settings(deadline=None, max_examples=40)
def test_no_record_changes_what_is_sent_by_more_than_the_sensitivity(seed: int, adjacency: str) -> None:
    rng = np.random.default_rng(seed)
    mechanism = DPdisPCA(rank=1, intermediate=2, adjacency=adjacency, row_bound=0.7)
    X = rng.normal(size=(5, 4)) * rng.choice([0.1, 1.0, 10.0])
    Y = X.copy()
    Y[0] = 0 if adjacency == "add-remove" else rng.normal(size=4)
    a, b = (mechanism.transcript(Database((sp.csr_array(rows),)), rng)[0].exact for rows in (X, Y))
    assert np.linalg.norm(a - b) <= mechanism.sensitivity(5, 4)


def test_sites_weigh_as_their_size() -> None:
    """Two sites along different axes: the larger one's axis leads."""
    first, second = np.zeros((10, 4)), np.zeros((90, 4))
    first[:, 0], second[:, 1] = 0.9, 0.6
    data = Database((sp.csr_array(first), sp.csr_array(second)))
    V = DPdisPCA(rank=1, intermediate=2, epsilon=1e6).run(data, np.random.default_rng(0))["V"]
    assert abs(V[0, 1]) > 0.999  # 0.9 * 0.36 against 0.1 * 0.81; unweighted it would be the first


def test_the_printed_calibration_says_where_it_holds() -> None:
    assert DPdisPCA(calibration="printed", epsilon=0.5, adjacency="add-remove").guarantee.sound
    assert not DPdisPCA(calibration="printed", epsilon=0.5).guarantee.sound
    assert not DPdisPCA(calibration="printed", epsilon=5.0, adjacency="add-remove").guarantee.sound


@pytest.mark.parametrize(
    "parameters", [{"rank": 0}, {"rank": 30}, {"row_bound": 0.0}, {"calibration": "x"}, {"announce": ("W",)}]
)
def test_bad_parameters_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(SpecError):
        DPdisPCA(**parameters)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def digits(data_folder: Path) -> np.ndarray:
    """MNIST at half its resolution, so that the test is quick: 196 features, rows of norm at most 1."""
    images = np.load(data_folder / "mnist" / "mnist.npz")["train_images"][:20_000]
    small = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4), dtype=np.float32).reshape(-1, 196)
    return np.asarray(small / np.linalg.norm(small, axis=1).max(), dtype=float)


def energy(digits: np.ndarray, epsilon: float, size: int, n_sites: int = 5) -> tuple[float, float]:
    """Share of the pooled energy that DPdisPCA captures, and that one site captures with the same noise."""
    rows = digits[: size * n_sites]
    moments = rows.T @ rows / len(rows)
    best = float(np.linalg.eigvalsh(moments)[-10:].sum())
    parts = tuple(sp.csr_array(rows[i * size : (i + 1) * size]) for i in range(n_sites))
    mechanism = DPdisPCA(rank=10, intermediate=40, epsilon=epsilon)
    together = mechanism.run(Database(parts), np.random.default_rng(1))["V"]
    alone = mechanism.run(Database(parts[:1]), np.random.default_rng(1))["V"]
    return captured_energy(together, moments) / best, captured_energy(alone, moments) / best


def test_on_mnist_energy_rises_with_epsilon_and_size_and_beats_one_site(digits: np.ndarray) -> None:
    by_epsilon = [energy(digits, epsilon, 2000) for epsilon in (0.5, 2.0, 8.0)]
    by_size = [energy(digits, 2.0, size) for size in (500, 1500, 4000)]
    for found in (by_epsilon, by_size):
        together = [pair[0] for pair in found]
        assert together[0] < together[1] < together[2] <= 1 + 1e-9
        assert all(both > alone for both, alone in found)
