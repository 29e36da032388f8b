from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus import canonical
from ksdp.audit.mechanisms.factorisation.krylov import (
    CentredRows,
    dot,
    lanczos,
    noise,
    orthogonalise,
    recover,
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
    # Mean 0 and variance 1/3, five standard errors; neighbours and streams uncorrelated.
    assert abs(values.mean()) < 5 * np.sqrt(1 / 3 / 20_000)
    assert abs(values.var() - 1 / 3) < 5 * np.sqrt(4 / 45 / 20_000)
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 5 / np.sqrt(20_000)
    assert abs(np.corrcoef(values, noise(20_000, 4))[0, 1]) < 5 / np.sqrt(20_000)


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


def test_too_few_steps_give_nothing() -> None:
    matrix = sparse(150, 400, 0.05, 1)
    found, squares = lanczos(
        CentredRows(*parts(matrix), NOTHING), 400, noise(150, 0), np.zeros((0, 150)), NOTHING, 5, 8
    )
    assert len(found) == len(squares) == 0
