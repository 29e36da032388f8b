"""Gradient-boosted trees, one model a document: for leaks that no Gaussian sees, at a price."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits


def boosted_scores(
    features: NDArray[np.floating],
    inclusion: NDArray[np.bool_],
    training: NDArray[np.int64],
    testing: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Log odds of the test runs under small boosted trees, arms weighted alike, shape (n_documents, len(testing)).

    scikit-learn's HistGradientBoostingClassifier with 40 trees of at most 8 leaves, learning rate 0.1, no early
    stopping and a fixed seed; one thread, as workers are processes. A document with fewer than two training runs
    in an arm gets 0.

    Parameters
    ----------
    features : shape (n_documents, n_runs, n_features)
    inclusion : bool, shape (n_documents, n_runs)
    training, testing : indices of runs
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    out = np.zeros((len(features), len(testing)))
    with threadpool_limits(1):
        for i, (rows, bits) in enumerate(zip(features, inclusion, strict=True)):
            arm = bits[training]
            if min(arm.sum(), (~arm).sum()) < 2:
                continue
            smallest = int(min(20, max(2, min(arm.sum(), (~arm).sum()) // 4)))
            model: Any = HistGradientBoostingClassifier(
                max_iter=40,
                max_leaf_nodes=8,
                min_samples_leaf=smallest,
                class_weight="balanced",
                early_stopping=False,
                random_state=0,
            )
            model.fit(rows[training], arm)
            out[i] = model.decision_function(rows[testing])
    return out
