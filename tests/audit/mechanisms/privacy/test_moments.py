"""Second moments with noise of public scale: what they announce, what one record changes, what is promised."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from ksdp.audit.contract import Database
from ksdp.audit.mechanisms.privacy.moments import DPdisPCA, Moments, TermCounts
from ksdp.audit.mechanisms.schema import Certifiable
from ksdp.audit.numeric.triangles import isometric


def database(parties: int = 2, coalition: frozenset[int] = frozenset()) -> Database:
    rng = np.random.default_rng(0)
    parts = tuple(sp.csr_array(rng.normal(size=(300, 5)) * [0.5, 0.4, 0.3, 0.1, 0.1]) for _ in range(parties))
    return Database(parts, coalition)


def clipped(matrix: sp.csr_array) -> np.ndarray:
    rows = matrix.toarray()
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1))


def test_with_little_noise_it_is_the_moments_of_clipped_rows_and_their_eigenvectors() -> None:
    data = database()
    seen = Moments(rank=2, noise=1e-6).run(data, np.random.default_rng(1))
    rows = np.vstack([clipped(part) for part in data.parties])
    np.testing.assert_allclose(seen["moments"], isometric(rows.T @ rows), atol=1e-4)
    true = np.linalg.svd(rows, full_matrices=False)[2][:2]
    np.testing.assert_allclose(np.abs(seen["V"] @ true.T), np.eye(2), atol=1e-5)


def test_the_noise_is_the_promise_and_every_party_draws_all_of_it() -> None:
    """Of three, an attacker that takes part knows its own."""
    mechanism = Moments(rank=2, advantage=0.2)
    assert mechanism.bound(5) == pytest.approx(0.2)
    apart = mechanism.sensitivity(5) / mechanism.scale(5)
    assert 2 * norm.cdf(apart / 2) - 1 == pytest.approx(0.2)  # total variation of two normals, written again
    for data, noises in ((database(1), 1), (database(3), 2), (database(3, frozenset({1, 2})), 1)):
        told = mechanism.transcript(data, np.random.default_rng(0))
        assert [announcement.deviation for announcement in told] == [
            pytest.approx(mechanism.scale(5) * np.sqrt(noises))
        ]


def test_noise_made_together_leaves_as_much_to_those_who_know_most() -> None:
    mechanism, data = Moments(rank=2, noise=3.0, colluders=1), database(3)
    for asked in (database(1), data, database(3, frozenset({2}))):
        assert [told.deviation for told in mechanism.transcript(asked, np.random.default_rng(0))] == [
            pytest.approx(3.0)
        ]
    numbers = []
    for seed in range(400):
        with_noise = mechanism.run(data, np.random.default_rng(seed), made_by=3)["moments"]
        numbers.append(with_noise - Moments(rank=2, noise=1e-9).run(data, np.random.default_rng(seed))["moments"])
    assert np.std(numbers) == pytest.approx(3.0 * np.sqrt(3 / 2), rel=0.04)  # of three, two are not known
    assert mechanism.holds_against == 1
    assert "of whom no 2 may" in mechanism.guarantee.trust


@pytest.mark.parametrize("features", [120, 520])
def test_numbers_that_are_mostly_noise_are_moved_to_zero_before_v(features: int) -> None:
    """Of few columns by LAPACK, of many by Lanczos."""
    rng = np.random.default_rng(2)
    rows = np.zeros((4000, features))
    rows[:, :3] = rng.normal(size=(4000, 3)) * [0.6, 0.5, 0.4]
    data = Database((sp.csr_array(rows),))
    kept = []
    for shrink in (1.0, 0.0):
        mechanism = Moments(rank=3, noise=25.0, shrink=shrink)
        seen = mechanism.run(data, np.random.default_rng(3))
        moved = [np.sign(m) * max(abs(m) - 25.0 * shrink, 0.0) for m in seen["moments"]]
        upper = np.zeros((features, features))
        upper[np.triu_indices(features)] = moved
        whole = upper + np.triu(upper, 1).T
        whole[~np.eye(features, dtype=bool)] /= np.sqrt(2)
        wanted = np.linalg.eigh(whole)[1][:, ::-1][:, :3]
        np.testing.assert_allclose(np.abs(seen["V"] @ wanted), np.eye(3), atol=1e-8)
        kept.append(float(np.square(seen["V"][:, :3]).sum()))
    assert kept[0] > kept[1] + 0.1


def test_a_coalition_is_left_with_the_victims_moments() -> None:
    data = database(3, frozenset({1, 2}))
    seen = Moments(rank=2, noise=1e-6).run(data, np.random.default_rng(0))
    rows = clipped(data.parties[0])
    np.testing.assert_allclose(seen["moments"], isometric(rows.T @ rows), atol=1e-4)


def test_its_noise_is_public_and_its_basis_adds_nothing() -> None:
    mechanism = Moments(rank=2)
    assert isinstance(mechanism, Certifiable)
    assert mechanism.uncertified(5) is None
    one, other = mechanism.neighbours()
    coins = partial(np.random.default_rng, 0)
    worst = mechanism.paired(one, coins)(other)
    assert mechanism.paired(one, coins, ("V",))(other) == worst
    assert worst == pytest.approx(mechanism.bound(one.parties[0].shape[1]), rel=1e-3)


def texts(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = (rng.random((count, 30)) < np.geomspace(0.9, 0.02, 30)) * rng.uniform(0.1, 9.0, (count, 30))
    rows[:, 0] += 1.0
    return np.asarray(rows)


def test_terms_are_counted_about_right_whatever_their_weights() -> None:
    rows, mechanism = texts(4000), TermCounts(noise=2.0, colluders=1)
    seen = mechanism.run(Database((sp.csr_array(rows),)), np.random.default_rng(1))["totals"]
    truly = (rows > 0).sum(axis=0)
    slow = [sum(1 / np.sqrt((row > 0).sum()) for row in rows if row[j] > 0) for j in range(30)]
    assert np.abs(seen - slow).max() < 4 * 2.0
    counts = mechanism.counted(seen, 4000)
    assert np.abs(np.log(counts / truly)).max() < 0.25
    assert counts.max() <= 4000
    assert mechanism.counted(np.array([-3.0, 9.0]), 2).tolist() == [0.0, 2.0]
    again = mechanism.run(Database((sp.csr_array(rows > 0),)), np.random.default_rng(1))["totals"]
    np.testing.assert_array_equal(seen, again)


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
    assert np.einsum("id,de,ie->", V, moments, V) == pytest.approx(best, rel=1e-3)


def test_negative_eigenvalues_are_dropped() -> None:
    """Noise that drowns everything: an SVD would keep large negative eigenvalues, turned positive."""
    mechanism = DPdisPCA(rank=2, intermediate=6, epsilon=0.01)
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
