"""Figure 4 (b) of PD-ML-Lite on small ratings."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.reproducing.rated import AskedRatings, chosen_penalty, rating_uplift


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
