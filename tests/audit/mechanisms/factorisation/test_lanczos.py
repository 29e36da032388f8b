"""Eigenvalues and last components against LAPACK's whole decomposition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.mechanisms.factorisation.lanczos import (
    CentredRows,
    dot,
    lanczos,
    last_components,
    noise,
    numerical_rank,
    orthogonalise,
    recover,
    singular_rows,
    times,
    transposed,
    unsigned,
)

Matrix = NDArray[np.float64]
NOTHING = np.zeros(0)


def sparse(rows: int, columns: int, density: float, seed: int) -> sp.csr_array:
    return canonical(sp.random_array((rows, columns), density=density, rng=np.random.default_rng(seed)))


def parts(matrix: sp.csr_array) -> tuple[NDArray[np.unsignedinteger], NDArray[np.unsignedinteger], Matrix]:
    return unsigned(matrix.indptr), unsigned(matrix.indices), matrix.data


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 1000])
def test_dot_is_the_inner_product(length: int) -> None:
    rng = np.random.default_rng(length)
    a, b = rng.standard_normal((2, length))
    assert dot(a, b) == pytest.approx(sum(x * y for x, y in zip(a, b, strict=True)), abs=1e-11)


def test_noise_is_fixed_and_looks_uniform() -> None:
    values = noise(20_000, 3)
    assert np.array_equal(values, noise(20_000, 3))
    assert not np.array_equal(values, noise(20_000, 4))
    assert np.abs(values).max() < 1
    assert abs(values.mean()) < 5 * np.sqrt(1 / 3 / 20_000)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("centred", [False, True])
def test_products_are_those_of_the_dense_matrix(index: type, centred: bool) -> None:
    matrix = sparse(40, 60, 0.1, 0)
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    mean = matrix.mean(axis=0) if centred else NOTHING
    dense = matrix.toarray() - (mean if centred else 0)
    u, v = noise(40, 0), noise(60, 0)
    out, back = np.empty(60), np.empty(40)
    rows = CentredRows(*parts(matrix), mean)
    transposed(rows, u, out)
    times(rows, v, back)
    np.testing.assert_allclose(out, dense.T @ u, atol=1e-13)
    np.testing.assert_allclose(back, dense @ v, atol=1e-13)


def test_orthogonalise_survives_cancellation() -> None:
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 6)))[0].T.copy()
    outside = noise(50, 0)
    outside -= basis.T @ (basis @ outside)
    vector = 1e9 * basis.sum(axis=0) + outside
    c = np.zeros(6)
    left = orthogonalise(basis, basis.T.copy(), 6, vector, c)
    assert left == pytest.approx(np.linalg.norm(outside), rel=1e-6)
    assert np.abs(basis @ vector).max() < 1e-14
    np.testing.assert_allclose(c, 1e9, rtol=1e-14)


@pytest.mark.parametrize("shape", [(150, 400), (400, 150)])
def test_lanczos_finds_the_leading_pairs(shape: tuple[int, int]) -> None:
    matrix = sparse(*shape, 0.05, 1)
    left, values, right = np.linalg.svd(matrix.toarray(), full_matrices=False)
    small = left.T if shape[0] < shape[1] else right
    found, squares = lanczos(
        CentredRows(*parts(matrix), NOTHING), shape[1], noise(150, 0), np.zeros((0, 150)), NOTHING, 5, 150
    )
    np.testing.assert_allclose(squares, values[:5] ** 2, rtol=1e-12)
    np.testing.assert_allclose(np.abs(found @ small[:5].T), np.eye(5), atol=1e-9)
    rows, singular = np.empty((5, shape[1])), np.empty(5)
    recover(CentredRows(*parts(matrix), NOTHING), found, rows, singular)
    np.testing.assert_allclose(singular, values[:5], rtol=1e-13)
    np.testing.assert_allclose(np.abs(rows @ right[:5].T), np.eye(5), atol=1e-9)


def test_a_second_space_sees_that_nothing_is_missing_or_finds_the_copy() -> None:
    block = sparse(100, 120, 0.1, 2)
    matrix = canonical(sp.block_diag([block, block], format="csr"))
    left, values, _ = np.linalg.svd(matrix.toarray())
    arguments = (CentredRows(*parts(matrix), NOTHING), 240, noise(200, 0))
    complete = left[:, :4].T.copy()
    _, square = lanczos(*arguments, complete, values[:4] ** 2, 4, 200)
    assert square[0] < values[3] ** 2
    # Without the second copy of the largest value, this is what it must come back with.
    missing = left[:, [0, 2, 3]].T.copy()
    copy, square = lanczos(*arguments, missing, values[[0, 2, 3]] ** 2, 4, 200)
    assert square[0] == pytest.approx(values[0] ** 2, rel=1e-12)
    assert abs(copy[0] @ left[:, 1]) == pytest.approx(1, abs=1e-9)


Matrix_SINGULAR = NDArray[np.float64]


def with_spectrum(rows: int, columns: int, values: Matrix_SINGULAR, seed: int = 0) -> Matrix_SINGULAR:
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.standard_normal((rows, len(values))))[0]
    right = np.linalg.qr(rng.standard_normal((columns, len(values))))[0]
    return np.asarray((left * values) @ right.T)


def check(dense: Matrix_SINGULAR, rank: int, *, mean: Matrix_SINGULAR | None = None, angle: float = 1e-7) -> None:
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


@pytest.mark.parametrize("size", [1, 2, 3, 8, 40])
def test_last_components_are_those_of_whole_eigenvectors(size: int) -> None:
    rng = np.random.default_rng(size)
    diagonal, beside = rng.standard_normal(size), rng.standard_normal(max(size - 1, 0))
    values, last = last_components(diagonal, beside)
    wanted, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
    np.testing.assert_allclose(values, wanted, atol=1e-13)
    np.testing.assert_allclose(np.abs(last), np.abs(vectors[-1]), atol=1e-12)


def test_last_components_of_a_matrix_in_parts() -> None:
    values, last = last_components(np.array([3.0, 1.0, 2.0]), np.array([0.0, 0.0]))
    assert values.tolist() == [1.0, 2.0, 3.0]
    assert np.abs(last).tolist() == [0.0, 1.0, 0.0]
