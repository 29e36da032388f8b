"""Figure 5 and 4 of PD-ML-Lite on small data: against plain decompositions, and what must come out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import SpecError
from ksdp.audit.reproducing.held_out import parties_of_size, splits
from ksdp.audit.reproducing.uplift import Asked, LowRank, Regression, Topics, uplift, uplift_outcome


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
