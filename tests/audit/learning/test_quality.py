"""What a basis leaves over, against a dense reconstruction and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.corpus.matrix import Corpus, canonical, restrict
from ksdp.audit.learning.measures import residual_share


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
    found = residual_share(canonical(sp.csr_array(matrix)), basis, mean)
    assert found == pytest.approx(dense_residual(matrix, basis, mean), abs=1e-10)


def test_ends_of_the_scale() -> None:
    matrix = sp.csr_array(np.diag([1.0, 2.0, 3.0]))
    assert residual_share(matrix, np.eye(3)) == pytest.approx(0, abs=1e-12)
    assert residual_share(matrix, np.zeros((2, 3))) == 1
    assert residual_share(sp.csr_array((2, 3)), np.eye(3)) == 0
    with pytest.raises(ValueError, match=r"`basis` must have shape \(k, 3\)"):
        residual_share(matrix, np.eye(2))


def corpus() -> Corpus:
    rng = np.random.default_rng(4)
    rows = rng.dirichlet(np.full(12, 0.3), size=40) * 20
    rows[30:] = 0
    rows[30:, 11] = rng.uniform(5, 9, size=10)  # documents that live on a feature of their own
    return Corpus(canonical(sp.csr_array(rows)), np.array([f"d{i}" for i in range(40)]))


def test_restricting_a_corpus_keeps_ids_and_features() -> None:
    documents = corpus()
    some = restrict(documents, np.array([31, 2]))
    assert some.ids.tolist() == ["d31", "d2"]
    assert (some.matrix.toarray() == documents.matrix.toarray()[[31, 2]]).all()
    assert some.hash != documents.hash
    assert restrict(documents, np.arange(40)).hash == documents.hash
