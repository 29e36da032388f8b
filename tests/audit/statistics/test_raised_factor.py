"""Factors of matrices that have none."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from ksdp.audit.statistics.linear.tilting import raised_factor


def test_what_rounding_leaves_without_a_factor_is_raised_until_it_has_one() -> None:
    bend = np.array([[1.0, 1.0 + 1e-6, 0.0], [1.0 + 1e-6, 1.0, 0.0], [0.0, 0.0, 1e-14]])
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(bend * (1.0 + np.eye(3) * 1e-10))
    found = scipy.linalg.cho_solve(
        raised_factor(bend.copy(), lambda times: bend.diagonal() * (1.0 + 1e-10 * times)),
        np.array([1.0, 1.0, 1e-14]),
    )
    np.testing.assert_allclose(found, [0.5, 0.5, 1.0], rtol=1e-4)


def test_where_no_raising_helps_each_is_by_itself() -> None:
    factor = raised_factor(np.ones((2, 2)), lambda times: np.full(2, -times))
    np.testing.assert_array_equal(scipy.linalg.cho_solve(factor, np.array([3.0, 4.0])), [3.0, 4.0])


def test_the_first_diagonal_is_the_one_that_is_given() -> None:
    matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
    found = scipy.linalg.cho_solve(
        raised_factor(matrix.copy(), lambda times: 2.0 * matrix.diagonal() * times), [1.0, 1.0]
    )
    np.testing.assert_allclose(found, np.linalg.solve([[8.0, 1.0], [1.0, 6.0]], [1.0, 1.0]))
