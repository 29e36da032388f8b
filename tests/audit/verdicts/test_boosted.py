from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from ksdp.audit.verdicts.boosted import boosted_scores


def test_a_nonlinear_difference_is_learnt_and_repeatable() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2, 500, 3))
    inclusion = np.abs(features[..., 1]) > 0.7
    inclusion[1] = rng.random(500) < 0.5
    train, test = np.arange(250), np.arange(250, 500)
    scores = boosted_scores(features, inclusion, train, test)
    assert roc_auc_score(inclusion[0, test], scores[0]) > 0.97
    assert abs(roc_auc_score(inclusion[1, test], scores[1]) - 0.5) < 0.12
    np.testing.assert_array_equal(boosted_scores(features, inclusion, train, test), scores)


def test_an_arm_of_one_teaches_nothing() -> None:
    features = np.random.default_rng(1).normal(size=(1, 40, 2))
    inclusion = np.zeros((1, 40), dtype=bool)
    inclusion[0, 3] = True
    np.testing.assert_array_equal(boosted_scores(features, inclusion, np.arange(20), np.arange(20, 40)), 0.0)
