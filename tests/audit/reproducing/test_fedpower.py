"""FedPower's figures on a small matrix: distances over rotations, and what noise does to them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.reproducing.drawn_ratings import split
from ksdp.audit.reproducing.fedpower import NAMES, RANK, error, figure_2, figure_3, figure_4, top


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
