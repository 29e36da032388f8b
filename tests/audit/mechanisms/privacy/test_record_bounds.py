"""What one record changes, against every pair that a search finds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.privacy.record_bounds import (
    check_adjacency,
    clip_rows,
    second_moment_change,
    worst_pair,
)

ROWS = arrays(np.float64, (5, 4), elements=st.floats(-1e3, 1e3, allow_subnormal=False))


@given(ROWS, st.floats(0.1, 100))
def test_no_row_is_longer_than_the_bound_and_short_rows_stay(rows: np.ndarray, bound: float) -> None:
    clipped = clip_rows(sp.csr_array(rows), bound).toarray()
    for before, after in zip(rows, clipped, strict=True):
        assert math.fsum(after**2) <= bound**2 * (1 + 1e-12)
        if np.linalg.norm(before) <= bound * (1 - 1e-9):
            assert np.array_equal(before, after)
        else:
            assert np.allclose(after / np.linalg.norm(after), before / np.linalg.norm(before))


@given(ROWS)
def test_no_two_records_change_the_moments_by_more(rows: np.ndarray) -> None:
    a, b = clip_rows(sp.csr_array(rows[:2]), 2.0).toarray()
    change = np.linalg.norm(np.outer(a, a) - np.outer(b, b))
    assert change <= second_moment_change(2.0, "replace-one") * (1 + 1e-12)
    assert np.linalg.norm(np.outer(a, a)) <= second_moment_change(2.0, "add-remove") * (1 + 1e-12)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_the_worst_pair_reaches_the_bound_and_differs_in_one_row(adjacency: str) -> None:
    pair = worst_pair(6, 9, 1.5, adjacency)
    a, b = (database.parties[0].toarray() for database in pair)
    assert np.flatnonzero((a != b).any(axis=1)).tolist() == [0]
    change = np.linalg.norm(a.T @ a - b.T @ b)
    assert change == pytest.approx(second_moment_change(1.5, adjacency), rel=1e-12)


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(SpecError, match="adjacency"):
        check_adjacency("swap")
