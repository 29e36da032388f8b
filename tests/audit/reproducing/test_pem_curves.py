"""PEM's curves on small tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ksdp.audit.reproducing.pem_curves import (
    CLIENTS,
    adult_curve,
    curve_outcome,
    mushroom_curve,
    nursery_curve,
    one_hot,
)

EPSILONS = (1.0, 60.0)


def table(rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(6)
    return pd.DataFrame({name: rng.choice(["a", "b", "c"], rows, p=[0.7, 0.2, 0.1]) for name in "wxyz"})


def test_one_column_a_value() -> None:
    rows = one_hot(table())
    assert rows.shape == (200, 12)
    np.testing.assert_array_equal(rows.sum(axis=1), 4)


def test_noise_at_every_client_loses_more_than_at_two_servers() -> None:
    curve = nursery_curve(one_hot(table()), 3, seeds=3, epsilons=EPSILONS)
    assert curve.exact == 0.0
    assert curve.every_client[1] > curve.pem[1]
    items = mushroom_curve(one_hot(table()), 0.2, length=4, epsilons=EPSILONS)
    assert items.exact == 0.0
    assert items.pem[1] < items.every_client[1]
    outcome = curve_outcome([curve, items])
    assert len(outcome.rows) == 2 * (1 + len(EPSILONS) + len(CLIENTS))
    assert len(outcome.lines) == 6


def test_folds_are_judged_on_records_that_they_did_not_learn_from() -> None:
    features = one_hot(table(300)).toarray()
    label = (features[:, 0] > 0).astype(float)  # told by one column
    import scipy.sparse as sp

    records = sp.csr_array(np.column_stack([features, label]))
    curve = adult_curve(records, 30, folds=3, epsilons=(1.0, 1000.0))
    assert curve.exact > 0.95
    assert curve.pem[1] > 0.9
