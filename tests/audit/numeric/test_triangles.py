"""Symmetric matrices as vectors of the same length."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.numeric.triangles import isometric, of_isometric, symmetric


@given(st.integers(0, 10_000), st.integers(1, 9))
def test_products_of_triangles_are_those_of_matrices(seed: int, size: int) -> None:
    first, second = (half + half.T for half in np.random.default_rng(seed).normal(size=(2, size, size)))
    assert isometric(first) @ isometric(second) == pytest.approx(np.trace(first @ second))
    np.testing.assert_allclose(of_isometric(isometric(first)), first, rtol=1e-14)
    np.testing.assert_array_equal(symmetric(first[np.triu_indices(size)]), first)
