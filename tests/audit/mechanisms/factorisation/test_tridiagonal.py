"""Eigenvalues and last components against LAPACK's whole decomposition."""

from __future__ import annotations

import numpy as np
import pytest

from ksdp.audit.mechanisms.factorisation.tridiagonal import last_components


@pytest.mark.parametrize("size", [1, 2, 3, 8, 40])
def test_last_components_are_those_of_whole_eigenvectors(size: int) -> None:
    rng = np.random.default_rng(size)
    diagonal, beside = rng.standard_normal(size), rng.standard_normal(max(size - 1, 0))
    values, last = last_components(diagonal, beside)
    wanted, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
    np.testing.assert_allclose(values, wanted, atol=1e-13)
    np.testing.assert_allclose(np.abs(last), np.abs(vectors[-1]), atol=1e-12)


def test_last_components_of_a_matrix_in_parts() -> None:
    values, last = last_components(np.array([3.0, 1.0, 2.0]), np.array([0.0, 0.0]))
    assert values.tolist() == [1.0, 2.0, 3.0]
    assert np.abs(last).tolist() == [0.0, 1.0, 0.0]
