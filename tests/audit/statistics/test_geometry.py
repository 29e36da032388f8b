import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import orth
from scipy.optimize import nnls

from ksdp.audit.contract import Observables
from ksdp.audit.statistic import Documents
from ksdp.audit.statistics.geometry import (
    FLOOR,
    NEAR_ZERO,
    log_support,
    missing_weight,
    mixture_log_density,
    row_space_energy,
    whitening,
)


def signed(seed: int, n: int = 30, d: int = 14) -> Documents:
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    dense[0] = 0.0
    return Documents(sp.csr_array(dense))


def counts(seed: int, n: int = 30, d: int = 14) -> Documents:
    return Documents(sp.csr_array(np.random.default_rng(seed).poisson(0.7, (n, d)).astype(float)))


def topics(seed: int, k: int = 4, d: int = 14) -> np.ndarray:
    drawn = np.random.default_rng(seed).random((k, d)) ** 3
    return drawn / drawn.sum(1, keepdims=True)


def projected(documents: Documents, basis: np.ndarray) -> np.ndarray:
    """Squared length of every document's projection, by an orthonormal basis of the row space."""
    return np.array([np.linalg.norm(orth(basis.T, rcond=1e-6).T @ x) ** 2 for x in documents.matrix.toarray()])


def test_energy_of_topics_is_that_of_the_projection() -> None:
    documents, basis = counts(1), topics(2)
    found = row_space_energy(Observables({"T": basis}), documents)
    np.testing.assert_allclose(found, projected(documents, basis), rtol=1e-10)


@pytest.mark.parametrize("mean", [False, True])
def test_energy_of_singular_vectors_is_that_of_the_projection(mean: bool) -> None:
    documents, basis = signed(1), np.linalg.qr(np.random.default_rng(2).normal(size=(14, 4)))[0].T
    arrays = {"V": basis}
    shifted = documents
    if mean:
        arrays["mean"] = np.random.default_rng(3).normal(size=14)
        shifted = Documents(sp.csr_array(documents.matrix.toarray() - arrays["mean"]))
    found = row_space_energy(Observables(arrays), documents)
    np.testing.assert_allclose(found, projected(shifted, basis), rtol=1e-10, atol=1e-14)


def test_energy_of_repeated_empty_and_tiny_topics() -> None:
    documents, basis = counts(3), topics(4, 3)
    degenerate = np.vstack([basis, basis[0], np.zeros(14), 1e-9 * topics(5, 1)])
    found = row_space_energy(Observables({"T": degenerate}), documents)
    np.testing.assert_allclose(found, projected(documents, np.vstack([basis, topics(5, 1)])), rtol=1e-9)
    nothing = row_space_energy(Observables({"T": np.zeros((3, 14))}), documents)
    assert nothing.tolist() == [0.0] * len(documents)


def test_repeated_topics_stored_in_single_precision_count_once() -> None:
    documents, basis = counts(3), topics(4, 3)
    nearly = np.vstack([basis, basis[0] * (1 + 6e-8 * np.random.default_rng(0).uniform(-1, 1, 14))])
    assert whitening(nearly @ nearly.T).shape == (4, 3)
    found = row_space_energy(Observables({"T": nearly.astype(np.float32)}), documents)
    np.testing.assert_allclose(found, projected(documents, basis), rtol=1e-5)


def drawn_cone(seed: int, k: int, n: int = 20, d: int = 24) -> tuple[np.ndarray, Documents]:
    """Sparse topics on the simplex; documents of counts, one empty, one that no topic touches."""
    rng = np.random.default_rng(seed)
    topics = rng.random((k, d)) * (rng.random((k, d)) < 0.5)
    topics[:, -1] = 0.0
    topics[:, 0] += 0.1
    topics /= topics.sum(1, keepdims=True)
    dense = rng.poisson(0.6, (n, d)).astype(float)
    dense[0] = 0.0
    dense[1] = 0.0
    dense[1, -1] = 3.0
    return topics, Documents(sp.csr_array(dense))


@pytest.mark.parametrize("k", [1, 7, 8, 10, 17])
def test_log_density_is_that_of_the_nnls_mixture(k: int) -> None:
    topics, documents = drawn_cone(k, k)
    found = mixture_log_density(Observables({"T": topics}), documents)
    expected = []
    for x in documents.matrix.toarray():
        mixture = nnls(topics.T, x)[0] @ topics
        total = sum(mixture) or 1.0
        expected.append(sum(v * math.log(max(p / total, FLOOR)) for v, p in zip(x, mixture, strict=True) if v))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    assert found[0] == 0.0
    assert found[1] == pytest.approx(3 * math.log(FLOOR))


def test_what_support_says_is_that_of_plain_loops() -> None:
    documents, v = counts(26), np.random.default_rng(1).normal(size=(3, 14))
    v[:, [2, 7, 11]] = 0.0
    found, logs = (support(Observables({"V": v}), documents) for support in (missing_weight, log_support))
    covered = np.log(np.maximum(np.abs(v).max(axis=0), NEAR_ZERO * np.abs(v).max()))
    for row, x in enumerate(documents.matrix.toarray()):
        assert logs[row] == pytest.approx(sum(value**2 * covered[j] for j, value in enumerate(x)), abs=1e-3)
        whole = sum(value**2 for value in x) or 1.0
        left = sum(value**2 for j, value in enumerate(x) if max(abs(v[:, j])) <= NEAR_ZERO * np.abs(v).max())
        assert found[row] == pytest.approx(left / whole)
    assert found.max() > 0


def test_a_lifted_topic_leaves_out_what_is_at_its_smallest_entry() -> None:
    documents, lifted = counts(27), np.random.default_rng(2).random((2, 14))
    lifted[:, 5] = 0.0
    x = documents.matrix.toarray()
    expected = x[:, 5] ** 2 / np.maximum((x**2).sum(axis=1), 1e-300)
    assert missing_weight(Observables({"T": lifted + 0.3}), documents) == pytest.approx(expected)
    assert expected.max() > 0


def test_a_document_that_took_part_misses_nothing() -> None:
    """Every feature of a document in the sample is in the row space."""
    documents = counts(28)
    rows = np.linalg.svd(documents.matrix.toarray()[:3], full_matrices=False)[2]
    assert missing_weight(Observables({"V": rows}), documents)[:3] == pytest.approx(0.0)
