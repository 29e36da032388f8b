import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.factorisation.nmf_kernels import project_simplex, simplex_threshold

unhurried = settings(deadline=None)  # the first call may compile
vectors = arrays(np.float64, st.integers(1, 40), elements=st.floats(-50, 50, allow_subnormal=False))


def by_sorting(v):
    """The textbook projection: sort, find the last index that stays positive."""
    u = np.sort(v)[::-1]
    excess = np.cumsum(u) - 1
    last = np.nonzero(u - excess / np.arange(1, len(u) + 1) > 0)[0][-1]
    return np.maximum(v - excess[last] / (last + 1), 0)


@given(vectors)
@unhurried
def test_agrees_with_sorting(v):
    np.testing.assert_allclose(project_simplex(v), by_sorting(v), atol=1e-12)


def test_rows_are_projected_one_by_one_and_the_input_is_kept():
    rows = np.random.default_rng(1).normal(size=(3, 500))
    before = rows.copy()
    np.testing.assert_allclose(project_simplex(rows), [by_sorting(row) for row in before], atol=1e-13)
    np.testing.assert_array_equal(rows, before)


@given(vectors, st.integers(0, 30), st.floats(-100, 100))
@settings(max_examples=200, deadline=None)
def test_threshold_from_any_guess_with_entries_that_are_not_stored(v, zeros, guess):
    theta = simplex_threshold(v, zeros, guess)
    x = np.maximum(np.concatenate([v, np.zeros(zeros)]) - theta, 0)
    np.testing.assert_allclose(x, by_sorting(np.concatenate([v, np.zeros(zeros)])), atol=1e-11)


@pytest.mark.parametrize("bad", [[], [np.nan, 1.0], [np.inf], 3.0, np.zeros((2, 2, 2)), np.zeros((3, 0))])
def test_refuses_what_has_no_projection(bad):
    with pytest.raises(InputError, match="`vectors` must"):
        project_simplex(bad)
