"""Predictions from topics, against plain least squares and by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls

from ksdp.audit.learning.learners import Predictor, predicts
from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF


def drawn(users: int = 30, items: int = 14) -> tuple[np.ndarray, sp.csr_array, sp.csr_array]:
    rng = np.random.default_rng(8)
    T = rng.random((3, items))
    T[:, -1] = 0.0
    kind = rng.random((users, items))
    stars = rng.integers(1, 6, (users, items)).astype(float)
    return T, sp.csr_array(np.where(kind < 0.5, stars, 0.0)), sp.csr_array(kind > 0.8)


@pytest.mark.parametrize("delta", [0.0, 0.3])
def test_predictions_are_those_of_least_squares_and_the_users_mean_of_what_nobody_knows(delta: float) -> None:
    T, given, wanted = drawn()
    found = Predictor(T, 1.0, 5.0, Penalties(delta=delta)).predicted(given, wanted)
    assert (found.indices == wanted.indices).all()
    for user in range(given.shape[0]):
        items = given.indices[given.indptr[user] : given.indptr[user + 1]]
        design = np.vstack([T[:, items].T, np.sqrt(delta) * np.eye(len(T))])
        w = nnls(design, np.append(given.data[given.indptr[user] : given.indptr[user + 1]], np.zeros(len(T))))[0]
        asked = slice(wanted.indptr[user], wanted.indptr[user + 1])
        columns = wanted.indices[asked]
        mean = given.data[given.indptr[user] : given.indptr[user + 1]].mean()
        said = np.where(columns == T.shape[1] - 1, mean, w @ T[:, columns])
        np.testing.assert_allclose(found.data[asked], np.clip(said, 1, 5), atol=1e-4)


def test_what_is_suggested_is_the_best_that_is_not_rated() -> None:
    T, given, _ = drawn()
    predictor = Predictor(T, 1.0, 5.0)
    everything = predictor.predicted(given, sp.csr_array(np.ones(given.shape, dtype=bool))).toarray()
    suggested = list(predictor.suggested(given, 4))
    assert [each.user for each in suggested] == list(range(given.shape[0]))
    for each in suggested:
        rated = set(given.indices[given.indptr[each.user] : given.indptr[each.user + 1]].tolist())
        free = [item for item in range(T.shape[1] - 1) if item not in rated]
        assert not rated & set(each.items.tolist())
        assert len(each.items) == min(4, len(free))
        best = np.sort(everything[each.user, free])[::-1][: len(each.items)]
        np.testing.assert_allclose(each.ratings, best, atol=1e-12)


def test_the_range_is_that_of_the_ratings_there_are() -> None:
    T, given, _ = drawn()
    found = Predictor.of(PDNMF(weighted=True, delta=0.2), T, given)
    assert (found.low, found.high, found.penalties.delta) == (1.0, 5.0, 0.2)


def test_who_predicts() -> None:
    assert predicts(PDNMF(weighted=True))
    assert not predicts(PDNMF())
