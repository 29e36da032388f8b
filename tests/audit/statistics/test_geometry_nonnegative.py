from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.geometry import row_space_energy
from ksdp.audit.statistics.geometry_nonnegative import (
    FLOOR,
    GEOMETRY_NONNEGATIVE,
    mixture_log_density,
    nonnegative_coefficients,
    nonnegative_residual,
)


def draw(seed: int, k: int, n: int = 20, d: int = 24) -> tuple[np.ndarray, Documents]:
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
def test_residual_is_that_of_nnls(k: int) -> None:
    topics, documents = draw(k, k)
    found = nonnegative_residual(Observables({"T": topics}), documents)
    expected = [nnls(topics.T, x)[1] ** 2 for x in documents.matrix.toarray()]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("k", [1, 7, 8, 10, 17])
def test_log_density_is_that_of_the_nnls_mixture(k: int) -> None:
    topics, documents = draw(k, k)
    found = mixture_log_density(Observables({"T": topics}), documents)
    expected = []
    for x in documents.matrix.toarray():
        mixture = nnls(topics.T, x)[0] @ topics
        total = sum(mixture) or 1.0
        expected.append(sum(v * math.log(max(p / total, FLOOR)) for v, p in zip(x, mixture, strict=True) if v))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    assert found[0] == 0.0
    assert found[1] == pytest.approx(3 * math.log(FLOOR))


def test_topics_need_not_be_on_the_simplex() -> None:
    topics, documents = draw(3, 4)
    scaled = topics * [[5.0], [0.1], [1.0], [200.0]]
    for statistic in GEOMETRY_NONNEGATIVE:
        np.testing.assert_allclose(
            statistic.evaluate(Observables({"T": scaled}), documents),
            statistic.evaluate(Observables({"T": topics}), documents),
            rtol=1e-8,
            atol=1e-10,
        )


@pytest.mark.parametrize("statistic", GEOMETRY_NONNEGATIVE, ids=lambda s: s.name)
def test_empty_and_repeated_topics_change_nothing(statistic: Statistic) -> None:
    topics, documents = draw(4, 3)
    degenerate = np.vstack([topics, topics[0], np.zeros(24)])
    np.testing.assert_allclose(
        statistic.evaluate(Observables({"T": degenerate}), documents),
        statistic.evaluate(Observables({"T": topics}), documents),
        rtol=1e-8,
        atol=1e-10,
    )
    assert np.isfinite(statistic.evaluate(Observables({"T": np.zeros((2, 24))}), documents)).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 9), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_residual_lies_between_subspace_and_whole_document(seed: int, k: int, scale: float) -> None:
    topics, documents = draw(seed, k)
    documents = Documents(sp.csr_array(documents.matrix * scale))
    observables = Observables({"T": topics})
    squares = documents.squared_norms
    residual = nonnegative_residual(observables, documents)
    slack = 1e-9 * squares
    assert (residual <= squares + slack).all()
    assert (residual >= squares - row_space_energy(observables, documents) - slack).all()
    assert (residual >= 0).all()
    assert np.isfinite(mixture_log_density(observables, documents)).all()


def test_documents_in_the_cone_have_no_residual() -> None:
    topics, _ = draw(5, 4)
    inside = np.random.default_rng(0).random((10, 4)) @ topics
    residual = nonnegative_residual(Observables({"T": topics}), Documents(sp.csr_array(inside)))
    np.testing.assert_allclose(residual, 0, atol=1e-14)


def test_coefficients_are_computed_once_a_run_and_again_for_other_documents() -> None:
    topics, documents = draw(6, 4)
    _, others = draw(7, 4)
    observables = Observables({"T": topics})
    first = nonnegative_coefficients(observables, documents)
    assert nonnegative_coefficients(observables, documents) is first
    assert not np.allclose(nonnegative_coefficients(observables, others), first)


@pytest.mark.parametrize("statistic", GEOMETRY_NONNEGATIVE, ids=lambda s: s.name)
def test_a_document_has_the_same_value_wherever_it_stands(statistic: Statistic) -> None:
    topics, documents = draw(8, 5)
    order = np.random.default_rng(0).permutation(len(documents))
    np.testing.assert_array_equal(
        statistic.evaluate(Observables({"T": topics}), Documents(documents.matrix[order])),
        statistic.evaluate(Observables({"T": topics}), documents)[order],
    )


def test_names_and_needs() -> None:
    assert [(s.name, s.version, s.family, s.needs) for s in GEOMETRY_NONNEGATIVE] == [
        ("nonnegative-residual", 1, "geometry", ("T",)),
        ("mixture-log-density", 1, "geometry", ("T",)),
    ]
    assert all(isinstance(s, Statistic) for s in GEOMETRY_NONNEGATIVE)
