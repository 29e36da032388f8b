"""Figure 5 and 4 of PD-ML-Lite on small data: against plain decompositions, and what must come out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.nmf_starts import STARTS
from ksdp.extras.reproduce.learning import (
    PRINTED,
    Asked,
    AskedRatings,
    AskedStarts,
    LowRank,
    Regression,
    Topics,
    chosen_penalty,
    parties_of_size,
    perplexity,
    rating_uplift,
    splits,
    starts_outcome,
    starts_scores,
    uplift,
    uplift_outcome,
)


@pytest.fixture(scope="module")
def rows() -> sp.csr_array:
    """400 rows of unit length about three directions."""
    rng = np.random.default_rng(0)
    found = rng.gamma(0.4, size=(400, 3)) @ rng.gamma(0.5, size=(3, 20)) + 0.05 * rng.random((400, 20))
    return sp.csr_array(found / np.linalg.norm(found, axis=1)[:, None])


def test_what_is_held_out_is_learnt_by_nobody(rows: sp.csr_array) -> None:
    for part in splits(rows.shape[0], 0.25, 3, seed=1):
        assert len(part.test) == 100
        assert not np.intersect1d(part.test, part.learn).size
        parties = parties_of_size(rows, part.learn, 0.1, 5)
        assert [party.shape[0] for party in parties] == [40] * 5
    with pytest.raises(SpecError, match="`share`"):
        parties_of_size(rows, part.learn, 0.9, 1)


def test_the_error_of_a_basis_is_that_of_a_dense_projection(rows: sp.csr_array) -> None:
    task, dense = LowRank(rows), rows.toarray()
    basis = task.learn([rows], 2)
    _, _, right = np.linalg.svd(dense, full_matrices=False)
    np.testing.assert_allclose(np.abs(np.sum(basis * right[:2], axis=1)), 1.0)
    test = np.arange(50)
    left = dense[test] - dense[test] @ right[:2].T @ right[:2]
    assert task.error(basis, test, test) == pytest.approx(np.linalg.norm(left))


def test_small_parties_gain_more_and_noise_loses(rows: sp.csr_array) -> None:
    asked = Asked(ranks=(2,), shares=(0.01, 0.3), splits=2, asked=2)
    found = uplift(LowRank(rows), asked)
    assert found[0].together > found[1].together > 0
    assert found[0].private < found[0].together
    outcome = uplift_outcome({"rows": found}, "Hardt-Roth")
    assert [row[2] for row in outcome.rows] == ["1.0%", "30.0%"]
    assert outcome.found[0].startswith("rows, k = 2: together +")


def test_regression_uses_everybodys_components_and_a_partys_own_coefficients(rows: sp.csr_array) -> None:
    rng = np.random.default_rng(1)
    directions = np.linalg.svd(rows.toarray(), full_matrices=False)[2][:2]
    target = rows @ directions.T @ np.array([3.0, -2.0]) + 1e-3 * rng.normal(size=400)
    task = Regression(rows, target)
    test, held = np.arange(100), np.arange(100, 200)
    assert task.error(directions, held, test) < 2e-3
    assert task.error(np.linalg.svd(rows.toarray())[2][-2:], held, test) > 0.05


def test_topics_are_judged_by_their_nonnegative_fit(rows: sp.csr_array) -> None:
    task = Topics(rows, 0.25, 0.01)
    T = task.learn([rows[:300]], 3)
    dense = rows[300:].toarray()
    from scipy.optimize import nnls

    slow = sum(nnls(T.T, row)[1] ** 2 for row in dense)
    assert task.error(T, np.arange(3), np.arange(300, 400)) == pytest.approx(np.sqrt(slow), rel=1e-3)


def words(rows: int = 300) -> sp.csr_array:
    rng = np.random.default_rng(2)
    topics = rng.dirichlet(np.full(30, 0.1), size=3)
    mixtures = rng.dirichlet(np.full(3, 0.3), size=rows) @ topics
    return sp.csr_array(np.array([rng.multinomial(40, row / row.sum()) for row in mixtures], dtype=float))


def test_perplexity_of_known_mixtures() -> None:
    """Documents of one topic each; a topic is uniform on its own terms, so that perplexity is their number."""
    T = np.kron(np.eye(2), np.full((1, 4), 0.25))
    counts = sp.csr_array(np.kron(np.eye(2), np.full((1, 4), 5.0)))
    assert perplexity(T, counts, counts) == pytest.approx(1 / (0.99 / 4 + 0.01 / 8))


def test_a_term_that_no_topic_has_costs_what_the_smoothing_leaves() -> None:
    T, counts = np.array([[1.0, 0.0]]), sp.csr_array([[1.0, 1.0]])
    assert perplexity(T, counts, counts) == pytest.approx(np.exp(-(np.log(0.995) + np.log(0.005)) / 2))


def test_every_start_is_scored_in_the_same_settings() -> None:
    found = starts_scores(words(), AskedStarts((2,), (0.2, 0.4), (3,), trials=1))
    assert set(found) == set(STARTS) == set(PRINTED)
    assert {len(scores) for scores in found.values()} == {2}
    errors = {name: np.mean([score[0] for score in scores]) for name, scores in found.items()}
    assert all(0 < error < 1 for error in errors.values())
    assert errors["pd-nmf-init"] < 1.1 * errors["nnsvd"]
    outcome = starts_outcome({"words": found})
    assert [row[1] for row in outcome.rows] == list(STARTS)
    assert [row[2] for row in outcome.rows][STARTS.index("random")] == pytest.approx(3.96)


@pytest.fixture(scope="module")
def ratings() -> sp.csr_array:
    """150 users of 25 items, two in three rated, about two tastes."""
    rng = np.random.default_rng(5)
    likes = 1 + 4 * rng.dirichlet((0.5, 0.5), 150) @ rng.random((2, 25))
    return sp.csr_array(np.clip(np.rint(likes), 1, 5) * (rng.random((150, 25)) < 0.66))


def test_the_penalty_is_one_of_those_asked_for_and_not_the_absurd_one(ratings: sp.csr_array) -> None:
    asked = AskedRatings(ranks=(2,), penalties=(0.1, 1.0, 1e4), sweeps=8)
    assert chosen_penalty(ratings, 2, asked) in (0.1, 1.0)


def test_small_parties_gain(ratings: sp.csr_array) -> None:
    asked = AskedRatings(ranks=(2,), shares=(0.05, 0.5), penalties=(0.1, 1.0), sweeps=8)
    outcome = rating_uplift(ratings, asked)
    small, large = (row[-1] for row in outcome.rows)
    assert isinstance(small, float)
    assert isinstance(large, float)
    assert small > max(0.0, large)
    assert outcome.lines[0].x == (5.0, 50.0)
