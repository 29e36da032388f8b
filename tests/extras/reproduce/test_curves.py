"""DPdisPCA's curves on a small synthetic set."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ksdp.extras.reproduce.curves import (
    CLIENTS,
    NAMES,
    RANK,
    SITES,
    CurvePoints,
    adult_experiment,
    captured,
    captured_outcome,
    curve_outcome,
    error,
    figure_2,
    figure_3,
    figure_4,
    mushroom_experiment,
    nursery_experiment,
    one_hot,
    pem_curve,
    split,
    synthetic,
    top,
)


def test_synthetic_rows_have_norm_one_at_most_and_the_stated_spectrum() -> None:
    rows = synthetic(4000, 0, features=50)
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
    values = np.linalg.eigvalsh(rows.T @ rows)[::-1]
    assert 0.8 < np.log(values[0] / values[25]) < 1.2


def test_more_epsilon_and_more_rows_capture_more() -> None:
    rows = synthetic(20_000, 1, features=20)
    found = captured(rows, 3, CurvePoints((0.2, 50.0), (100, 2000), epsilon=1.0, size=500))
    by = {(axis, epsilon, size): shares for axis, epsilon, size, shares in found}
    assert by["epsilon", 50.0, 500]["DPdisPCA"] > by["epsilon", 0.2, 500]["DPdisPCA"]
    assert by["site size", 1.0, 2000]["DPdisPCA"] > by["site size", 1.0, 100]["DPdisPCA"]
    assert by["epsilon", 50.0, 500]["full"] > 0.99
    assert all(0 < share <= 1 + 1e-12 for shares in by.values() for share in shares.values())
    outcome = captured_outcome({"small": found})
    assert len(outcome.lines) == 8
    assert len(outcome.rows) == 4


def test_site_sizes_that_there_are_no_rows_for_are_left_out() -> None:
    rows = synthetic(SITES * 100, 1, features=10)
    found = captured(rows, 2, CurvePoints((1.0,), (100, 101), size=100))
    assert [size for axis, _, size, _ in found if axis == "site size"] == [100]


@pytest.fixture(scope="module")
def ratings() -> sp.csr_array:
    rng = np.random.default_rng(4)
    likely = rng.gamma(0.5, size=(400, 12)) @ rng.gamma(0.5, size=(12, 60))
    return sp.csr_array(np.clip(np.rint(likely), 0, 5))


def test_the_true_basis_is_numpys(ratings: sp.csr_array) -> None:
    values, basis = top(split(ratings, 4))
    dense = ratings.toarray()
    slow = np.linalg.eigvalsh(dense.T @ dense / len(dense))[::-1][: RANK + 1]
    np.testing.assert_allclose(values, slow, rtol=1e-9)
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(RANK, RANK)))[0]
    assert error(turned @ basis, basis) < 1e-7


def test_figure_3_has_every_form_at_every_number_of_iterations(ratings: sp.csr_array) -> None:
    outcome = figure_3(ratings, iterations=(2, 8), periods=(1,), devices=4)
    assert [line.name for line in outcome.lines] == [f"Algorithm {name}" for name in NAMES]
    by_name = {line.name: line.y for line in outcome.lines}
    assert by_name["Algorithm 2"][1] < by_name["Algorithm 2"][0]
    assert all(value <= np.sqrt(2 * RANK) for line in outcome.lines for value in line.y)
    assert outcome.rows[1][2:5:2] == (6.72, 2.74)


def test_figure_4_grows_with_sigma(ratings: sp.csr_array) -> None:
    outcome = figure_4(ratings, sigmas=(0.001, 10.0), iterations=4, period=2, devices=4)
    for line in outcome.lines[:3]:
        assert line.y[1] > line.y[0]
    assert outcome.lines[3].panel == "by the bound on rows"


def test_figure_2_says_where_it_stands_still() -> None:
    outcome = figure_2((4, 8, 12), devices=5)
    assert [row[0] for row in outcome.rows] == [4, 8, 12]
    assert "12" in outcome.found[0]


EPSILONS = (1.0, 60.0)


def table(rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(6)
    return pd.DataFrame({name: rng.choice(["a", "b", "c"], rows, p=[0.7, 0.2, 0.1]) for name in "wxyz"})


def test_one_column_a_value() -> None:
    rows = one_hot(table())
    assert rows.shape == (200, 12)
    np.testing.assert_array_equal(rows.sum(axis=1), 4)


def test_noise_at_every_client_loses_more_than_at_two_servers() -> None:
    curve = pem_curve(nursery_experiment(one_hot(table()), 3, seeds=3), EPSILONS)
    assert curve.exact == 0.0
    assert curve.every_client[1] > curve.pem[1]
    items = pem_curve(mushroom_experiment(one_hot(table()), 0.2, length=4), EPSILONS)
    assert items.exact == 0.0
    assert items.pem[1] < items.every_client[1]
    outcome = curve_outcome([curve, items])
    assert len(outcome.rows) == 2 * (1 + len(EPSILONS) + len(CLIENTS))
    assert len(outcome.lines) == 6


def test_folds_are_judged_on_records_that_they_did_not_learn_from() -> None:
    features = one_hot(table(300)).toarray()
    label = (features[:, 0] > 0).astype(float)  # told by one column
    records = sp.csr_array(np.column_stack([features, label]))
    curve = pem_curve(adult_experiment(records, 30, folds=3), (1.0, 1000.0))
    assert curve.exact > 0.95
    assert curve.pem[1] > 0.9
