"""Eigenvalues and last components against LAPACK's whole decomposition."""

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.mechanisms.factorisation.lanczos import numerical_rank, singular_rows


def with_spectrum(rows: int, columns: int, values: np.ndarray, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.standard_normal((rows, len(values))))[0]
    right = np.linalg.qr(rng.standard_normal((columns, len(values))))[0]
    return np.asarray((left * values) @ right.T)


def check(dense: np.ndarray, rank: int, *, mean: np.ndarray | None = None, angle: float = 1e-7) -> None:
    """Against LAPACK on the whole matrix: values to 1e-10 relative, projectors to `angle`."""
    start = np.asarray(np.random.default_rng(9).standard_normal(dense.shape[1]))
    found = singular_rows(canonical(sp.csr_array(dense)), rank, start, mean)
    _, values, rows = np.linalg.svd(dense if mean is None else dense - mean, full_matrices=False)
    assert found.values.shape == (rank,)
    assert found.rows.shape == (rank, dense.shape[1])
    assert np.all(np.diff(found.values) <= 1e-12 * values[0])
    np.testing.assert_allclose(found.values, values[:rank], rtol=1e-10, atol=1e-13 * values[0])
    real = numerical_rank(values, dense.shape)
    ours, theirs = found.rows[: min(rank, real)], rows[: min(rank, real)]
    np.testing.assert_allclose(ours @ ours.T, np.eye(len(ours)), atol=1e-12)
    # || (I - P) V ||, without the features x features projectors.
    assert np.linalg.norm(theirs - (theirs @ ours.T) @ ours, 2) < angle


@pytest.mark.parametrize(
    ("rows", "columns"), [(300, 900), (900, 300), (200, 201), (500, 60), (60, 500), (20, 90), (12, 8), (2, 5)]
)
@pytest.mark.parametrize("centred", [False, True])
def test_shapes(rows: int, columns: int, centred: bool) -> None:
    rng = np.random.default_rng(rows)
    dense = sp.random_array((rows, columns), density=0.2, rng=rng).toarray() + 0.5 * (np.arange(columns) < 5)
    check(dense, min(5, rows - 1, columns - 1), mean=np.asarray(dense.mean(axis=0)) if centred else None)


@pytest.mark.parametrize("copies", [2, 3, 4])
@pytest.mark.parametrize("tall", [False, True])
def test_repeated_values(copies: int, tall: bool) -> None:
    block = sp.random_array((100, 170), density=0.08, rng=np.random.default_rng(copies)).toarray()
    dense = sp.block_diag([block] * copies).toarray()
    check(dense.T if tall else dense, 2 * copies)


def test_values_repeated_beyond_the_rank() -> None:
    dense = with_spectrum(200, 300, np.array([5.0, 4.0, *([3.0] * 100)]))
    start = np.ones(300)
    found = singular_rows(canonical(sp.csr_array(dense)), 6, start)
    np.testing.assert_allclose(found.values, [5, 4, 3, 3, 3, 3], rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(dense @ found.rows.T, axis=0), found.values, rtol=1e-12)
    np.testing.assert_allclose(found.rows @ found.rows.T, np.eye(6), atol=1e-12)


@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-7])
def test_small_gaps(gap: float) -> None:
    values = np.linspace(10, 1, 200)
    values[7] = values[6] * (1 - gap)
    check(with_spectrum(200, 260, values), 7, angle=max(1e-7, 1e-14 / gap))


@pytest.mark.parametrize("shape", [(200, 260), (260, 200), (300, 50)])
def test_ill_conditioned(shape: tuple[int, int]) -> None:
    # Squared, the last value wanted is 1e-18 of the first: X^T X alone does not hold it.
    check(with_spectrum(*shape, 10.0 ** -np.linspace(0, 14, 14)), 9, angle=1e-6)


@pytest.mark.parametrize("shape", [(200, 500), (500, 200), (30, 10), (10, 30)])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_rank_deficient(shape: tuple[int, int], rank: int) -> None:
    dense = with_spectrum(*shape, np.arange(rank, 0, -1.0))
    check(dense, 7)
    found = singular_rows(canonical(sp.csr_array(dense)), 7, np.ones(shape[1]))
    assert numerical_rank(found.values, shape) == rank


@pytest.mark.parametrize(("shape", "rank"), [((140, 200), 139), ((200, 140), 139), ((300, 400), 99), ((9, 4), 3)])
def test_rank_close_to_full(shape: tuple[int, int], rank: int) -> None:
    check(np.random.default_rng(0).standard_normal(shape), rank)


def test_high_rank_of_a_matrix_too_large_to_be_dense() -> None:
    matrix = canonical(sp.random_array((60, 150_000), density=1e-3, rng=np.random.default_rng(3)))
    mean = matrix.mean(axis=0)
    found = singular_rows(matrix, 25, np.ones(150_000), mean)
    gram = (matrix @ matrix.T).toarray()
    centre = np.eye(60) - 1 / 60
    expected = np.sqrt(np.linalg.eigvalsh(centre @ gram @ centre)[::-1][:25])
    np.testing.assert_allclose(found.values, expected, rtol=1e-10)
    np.testing.assert_allclose(found.rows @ found.rows.T, np.eye(25), atol=1e-10)


def test_numerical_rank_is_numpys() -> None:
    for seed in range(5):
        dense = with_spectrum(30, 20, np.array([1.0, 1e-3, 1e-15, 1e-17][: seed % 4 + 1]), seed)
        values = np.linalg.svd(dense)[1]
        assert numerical_rank(values, dense.shape) == np.linalg.matrix_rank(dense)
    assert numerical_rank(np.zeros(3), (5, 3)) == 0
