"""What a basis leaves over, against a dense reconstruction and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from ksdp.audit.contract import Database, Observables, Release
from ksdp.audit.corpus.matrix import Corpus, canonical, restrict
from ksdp.audit.learning.measures import LearningCost, NotLearnt, learning_cost, residual_share
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD


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


def test_the_svd_of_all_documents_is_the_best_there_is_and_exclusion_costs() -> None:
    documents = corpus()
    cost = learning_cost(PDSVD(rank=3), documents, np.arange(30), seed=1)
    assert isinstance(cost, LearningCost)
    singular = np.linalg.svd(documents.matrix.toarray(), compute_uv=False)
    assert cost.learnt_from_all == pytest.approx(1 - (singular[:3] ** 2).sum() / (singular**2).sum(), abs=1e-6)
    dense = documents.matrix.toarray()
    kept_only = np.linalg.svd(dense[:30])[2][:3]
    assert cost.learnt_from_cleared == pytest.approx(dense_residual(dense, kept_only), abs=1e-6)
    assert cost.learnt_from_cleared > cost.learnt_from_all + 0.05
    nothing_left_out = learning_cost(PDSVD(rank=3), documents, np.arange(40), seed=1)
    assert isinstance(nothing_left_out, LearningCost)
    assert nothing_left_out.learnt_from_cleared == nothing_left_out.learnt_from_all


def test_pca_is_judged_around_its_mean() -> None:
    documents = corpus()
    cost = learning_cost(PDPCA(rank=3), documents, np.arange(40), seed=1)
    assert isinstance(cost, LearningCost)
    explained = PCA(3).fit(documents.matrix.toarray()).explained_variance_ratio_.sum()
    assert cost.learnt_from_all == pytest.approx(1 - explained, abs=1e-6)


def test_nmf_is_no_better_than_the_svd() -> None:
    documents = corpus()
    nmf, svd = (learning_cost(m, documents, np.arange(30), seed=1) for m in (PDNMF(rank=3), PDSVD(rank=3)))
    assert isinstance(nmf, LearningCost)
    assert isinstance(svd, LearningCost)
    assert svd.learnt_from_all - 1e-9 <= nmf.learnt_from_all < 1


class NoBasis:
    name, version = "none", 1

    def releases(self, features: int) -> tuple[Release, ...]:
        return (Release("total", (features,)),)

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        return Observables({"total": np.zeros(database.parties[0].shape[1])})


def test_without_a_basis_there_is_no_number() -> None:
    assert learning_cost(NoBasis(), corpus(), np.arange(3), seed=1) is None


def test_too_few_documents_to_learn_from_are_said_to_be() -> None:
    cost = learning_cost(PDSVD(rank=5), corpus(), np.arange(3), seed=1)
    assert isinstance(cost, NotLearnt)
    assert cost.refused


def test_restricting_a_corpus_keeps_ids_and_features() -> None:
    documents = corpus()
    some = restrict(documents, np.array([31, 2]))
    assert some.ids.tolist() == ["d31", "d2"]
    assert (some.matrix.toarray() == documents.matrix.toarray()[[31, 2]]).all()
    assert some.hash != documents.hash
    assert restrict(documents, np.arange(40)).hash == documents.hash
