"""Second moments with noise of public scale: what they announce, what one record changes, what is promised."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from ksdp.audit.certifying import Certifiable
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.privacy.moments import Moments

from .neighbours import neighbours, of_any_neighbours


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
    np.testing.assert_allclose(seen["moments"], (rows.T @ rows)[np.triu_indices(5)], atol=1e-4)
    true = np.linalg.svd(rows, full_matrices=False)[2][:2]
    np.testing.assert_allclose(np.abs(seen["V"] @ true.T), np.eye(2), atol=1e-5)


@of_any_neighbours
def test_no_record_changes_the_triangle_by_more_than_the_sensitivity(seed: int, adjacency: str) -> None:
    rng = np.random.default_rng(seed)
    mechanism = Moments(rank=2, adjacency=adjacency, row_bound=0.7)
    X, Y = neighbours(rng, adjacency)
    # The same noise in both runs: their difference is the record's.
    runs = (mechanism.run(Database((sp.csr_array(Z),)), np.random.default_rng(seed)) for Z in (X, Y))
    one, other = (run["moments"] for run in runs)
    assert np.linalg.norm(one - other) <= mechanism.sensitivity(5) + 1e-9


def test_the_noise_is_the_promise_and_every_party_draws_all_of_it() -> None:
    mechanism = Moments(rank=2, advantage=0.2)
    assert mechanism.bound(5) == pytest.approx(0.2)
    apart = mechanism.sensitivity(5) / mechanism.scale(5)
    assert 2 * norm.cdf(apart / 2) - 1 == pytest.approx(0.2)  # total variation of two normals, written again
    for data, noises in ((database(1), 1), (database(3), 3), (database(3, frozenset({1, 2})), 1)):
        told = mechanism.transcript(data, np.random.default_rng(0))
        assert [announcement.deviation for announcement in told] == [
            pytest.approx(mechanism.scale(5) * np.sqrt(noises))
        ]


def test_a_coalition_is_left_with_the_victims_moments() -> None:
    data = database(3, frozenset({1, 2}))
    seen = Moments(rank=2, noise=1e-6).run(data, np.random.default_rng(0))
    rows = clipped(data.parties[0])
    np.testing.assert_allclose(seen["moments"], (rows.T @ rows)[np.triu_indices(5)], atol=1e-4)


def test_its_noise_is_public_and_its_basis_adds_nothing() -> None:
    mechanism = Moments(rank=2)
    assert isinstance(mechanism, Certifiable)
    assert mechanism.uncertified(5) is None
    one, other = mechanism.neighbours()
    coins = partial(np.random.default_rng, 0)
    worst = mechanism.paired(one, coins)(other)
    assert mechanism.paired(one, coins, ("V",))(other) == worst
    assert worst == pytest.approx(mechanism.bound(one.parties[0].shape[1]), rel=1e-3)


def test_every_advantage_over_the_worst_pair_stays_below_the_bound() -> None:
    """The likelihood ratio is the best attack there is: its advantage is the bound, not more."""
    mechanism = Moments(rank=2, advantage=0.3)
    pair = mechanism.neighbours()
    ratios = []
    for side in (0, 1):
        rng = np.random.default_rng(side)
        ratios.append(
            [mechanism.log_likelihood_ratio(mechanism.transcript(pair[side], rng), pair) for _ in range(600)]
        )
    advantage = np.mean(np.array(ratios[0]) > 0) - np.mean(np.array(ratios[1]) > 0)
    assert advantage == pytest.approx(0.3, abs=0.11)  # four deviations of a difference of shares


@pytest.mark.parametrize("wrong", [{"advantage": 0.0}, {"advantage": 1.0}, {"noise": 0.0}, {"rank": 0}])
def test_refuses(wrong: dict) -> None:
    with pytest.raises(SpecError):
        Moments(**wrong)
