"""What a basis keeps, against a dense reconstruction and against scikit-learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.corpus.matrix import Corpus, canonical, restrict
from ksdp.audit.learning.learners import Learnt
from ksdp.audit.learning.measures import energy


def dense_residual(matrix: np.ndarray, basis: np.ndarray, mean: np.ndarray | None = None) -> float:
    centred = matrix if mean is None else matrix - mean
    coefficients = np.linalg.lstsq(basis.T, centred.T, rcond=None)[0]
    return float(((centred.T - basis.T @ coefficients) ** 2).sum() / (centred**2).sum())


@given(seed=st.integers(0, 10_000), rank=st.integers(1, 6), repeated=st.booleans(), centre=st.booleans())
def test_equals_least_squares(seed: int, rank: int, repeated: bool, centre: bool) -> None:
    rng = np.random.default_rng(seed)
    matrix = np.where(rng.random((9, 7)) < 0.5, rng.standard_normal((9, 7)), 0.0) + 1e-3
    basis = rng.standard_normal((rank, 7))
    if repeated:
        basis = np.vstack([basis, 3 * basis[0]])
    mean = rng.standard_normal(7) if centre else None
    found = energy(Learnt(basis, mean, False), canonical(sp.csr_array(matrix)))
    assert found == pytest.approx(1 - dense_residual(matrix, basis, mean), abs=1e-10)


def test_ends_of_the_scale() -> None:
    matrix = sp.csr_array(np.diag([1.0, 2.0, 3.0]))
    for basis, rows, kept in ((np.eye(3), matrix, 1), (np.zeros((2, 3)), matrix, 0), (np.eye(3), matrix * 0, 1)):
        assert energy(Learnt(basis, None, False), rows) == pytest.approx(kept, abs=1e-12)


def test_restricting_a_corpus_keeps_ids_and_features() -> None:
    matrix = np.arange(1.0, 13.0).reshape(4, 3)
    documents = Corpus(canonical(sp.csr_array(matrix)), np.array(list("abcd")))
    some = restrict(documents, np.array([3, 1]))
    assert some.ids.tolist() == ["d", "b"]
    assert (some.matrix.toarray() == matrix[[3, 1]]).all()
    assert some.hash != documents.hash
    assert restrict(documents, np.arange(4)).hash == documents.hash
