"""Levers of a corpus: columns, public units, a public basis, clipping, and the way back."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.corpus.levers import NONE, Levers, finished, lift, most_frequent, narrowed
from ksdp.audit.errors import SpecError


def rows(seed: int, features: int = 6) -> sp.csr_array:
    return sp.csr_array(np.random.default_rng(seed).random((5, features)))


def test_without_levers_nothing_changes() -> None:
    matrix = rows(0)
    assert narrowed(matrix, NONE) is matrix
    assert finished(matrix, NONE) is matrix
    np.testing.assert_array_equal(lift(NONE, 6).toarray(), np.eye(6))


@given(st.integers(0, 1000))
def test_what_rows_become_is_their_product_with_the_lift(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = rng.permutation(6)[:4]
    basis = np.linalg.qr(rng.standard_normal((4, 2)))[0]
    levers = Levers(columns=columns, basis=basis)
    matrix = rows(seed)
    # By hand: a column of the result is a sum over columns that stay, weighted by the basis.
    expected = np.zeros((5, 2))
    for place, column in enumerate(columns):
        expected += np.outer(matrix.toarray()[:, column], basis[place])
    np.testing.assert_allclose(finished(narrowed(matrix, levers), levers).toarray(), expected, atol=1e-12)
    np.testing.assert_allclose((matrix @ lift(levers, 6)).toarray(), expected, atol=1e-12)


def test_units_are_public_and_clipping_comes_last() -> None:
    levers = Levers(centre=np.array([1.0, 0.0]), scale=np.array([2.0, 0.5]), clip=1.0)
    matrix = sp.csr_array(np.array([[1.0, 0.25], [5.0, 0.0]]))
    np.testing.assert_allclose(
        finished(narrowed(matrix, levers), levers).toarray(), [[0.0, 0.5], [1.0, 0.0]], atol=1e-12
    )


def test_the_first_of_equally_frequent_columns_stays() -> None:
    assert most_frequent(np.array([2, 5, 2, 2]), 2).tolist() == [0, 1]


def test_a_basis_must_be_orthonormal_and_fit() -> None:
    with pytest.raises(SpecError, match="orthonormal"):
        Levers(basis=np.ones((3, 2)))
    with pytest.raises(SpecError, match="must have 6 rows"):
        finished(rows(1), Levers(basis=np.eye(3, 2)))
