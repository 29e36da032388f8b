import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, nnls

from ksdp.audit.statistics.boxed import box_least_squares


def draw(seed: int, n: int, k: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    topics = rng.random((k, d)) * (rng.random((k, d)) < 0.5)
    documents = rng.exponential(size=(n, d)) * (rng.random((n, d)) < 0.4) * rng.choice([0.1, 1.0, 30.0], (n, 1))
    return documents, topics


@pytest.mark.parametrize("k", [1, 2, 7, 9, 14])
def test_coefficients_agree_with_scipy_in_the_unit_box_and_without_an_upper_bound(k: int) -> None:
    documents, topics = draw(k, 25, k, 40)
    found = box_least_squares(documents @ topics.T, topics @ topics.T)
    expected = [lsq_linear(topics.T, x, (0, 1), method="bvls", tol=1e-14).x for x in documents]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    assert (found == 0).any() or k == 1
    assert (found == 1).any()
    found = box_least_squares(documents @ topics.T, topics @ topics.T, upper=np.inf)
    np.testing.assert_allclose(found, [nnls(topics.T, x)[0] for x in documents], rtol=1e-9, atol=1e-9)


def excess(u: np.ndarray, p: np.ndarray, gram: np.ndarray, upper: float) -> np.ndarray:
    """How far from optimal: the gradient's part that a step inside the bounds could still use, a coordinate."""
    slope = u @ gram - p
    return np.where(u <= 0, np.minimum(slope, 0), np.where(u >= upper, np.maximum(slope, 0), slope))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(1, 10),
    closeness=st.sampled_from([1.0, 1e-2, 1e-4, 1e-6, 0.0]),
    scale=st.sampled_from([1e-4, 1.0, 1e4]),
    upper=st.sampled_from([1.0, np.inf]),
)
def test_conditions_of_optimality_hold_even_for_nearly_equal_topics(
    seed: int, k: int, closeness: float, scale: float, upper: float
) -> None:
    rng = np.random.default_rng(seed)
    topics = rng.random(12) + closeness * rng.random((k, 12))
    documents = scale * (topics[rng.integers(k, size=8)] + 0.3 * rng.random((8, 12)))
    p, gram = documents @ topics.T, topics @ topics.T
    found = box_least_squares(p, gram, upper=upper)
    assert ((found >= 0) & (found <= upper)).all()
    sizes = np.linalg.norm(documents, axis=1)[:, None] * np.linalg.norm(topics, axis=1)
    # Below about 1e-6 the Gram matrix is singular in double precision, and the choice among topics nearly free.
    allowed = 1e-6 if 0 < closeness <= 1e-6 else 1e-11
    assert (np.abs(excess(found, p, gram, upper)) <= allowed * sizes).all()


def test_empty_and_repeated_topics_give_finite_coefficients_and_the_same_fit() -> None:
    documents, topics = draw(5, 20, 3, 30)
    degenerate = np.vstack([topics, topics[1], np.zeros(30)])
    found = box_least_squares(documents @ degenerate.T, degenerate @ degenerate.T, upper=np.inf)
    assert np.isfinite(found).all()
    assert not found[:, 4].any()
    expected = [nnls(topics.T, x)[0] @ topics for x in documents]
    np.testing.assert_allclose(found @ degenerate, expected, rtol=1e-9, atol=1e-9)


def test_empty_document_and_no_documents() -> None:
    gram = np.array([[1.0, 0.5], [0.5, 1.0]])
    assert box_least_squares(np.zeros((1, 2)), gram).tolist() == [[0.0, 0.0]]
    assert box_least_squares(np.zeros((0, 2)), gram).shape == (0, 2)
