from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.mechanisms.factorisation.power_iteration import (
    block_power,
    limit_of_power,
    normed_sec_sum,
    orthonormalise,
    sec_sum,
    settle_signs,
    start_block,
    subspace_sine,
)

from .test_lanczos import with_spectrum as dense_with_spectrum

Matrix = NDArray[np.float64]


def with_spectrum(rows: int, columns: int, values: list[float], seed: int) -> sp.csr_array:
    return canonical(sp.csr_array(dense_with_spectrum(rows, columns, np.array(values), seed)))


def split(matrix: sp.csr_array, parties: int, seed: int = 0) -> list[sp.csr_array]:
    cuts = np.sort(np.random.default_rng(seed).choice(matrix.shape[0] + 1, parties - 1))
    bounds = [0, *cuts, matrix.shape[0]]
    return [matrix[low:high] for low, high in pairwise(bounds)]


def positive_qr(block: Matrix) -> Matrix:
    q, r = np.linalg.qr(block.T)
    return (q * np.sign(np.diag(r))).T


def algorithm_3(matrix: Matrix, start: Matrix, iterations: int) -> Matrix:
    """Algorithm 3 as printed: on S = X^T X, everything in one place."""
    s = matrix.T @ matrix
    block = start
    for _ in range(iterations):
        block = positive_qr(block @ s)
    return block


class TestStart:
    def test_is_fixed_by_the_seed_and_cannot_be_changed(self) -> None:
        block = start_block(5, 30, 4)
        assert block is start_block(5, 30, 4)
        assert not np.array_equal(block, start_block(6, 30, 4))
        with pytest.raises(ValueError, match="read-only"):
            block[0, 0] = 0

    def test_first_rows_do_not_depend_on_the_rank(self) -> None:
        assert np.array_equal(start_block(1, 30, 2), start_block(1, 30, 5)[:2])


class TestSums:
    def test_are_the_ideal_functionality(self) -> None:
        shares = list(np.random.default_rng(0).standard_normal((3, 4, 20)))
        np.testing.assert_allclose(sec_sum(shares), shares[0] + shares[1] + shares[2], atol=1e-14)
        announced, norms = normed_sec_sum(shares)
        np.testing.assert_allclose(np.linalg.norm(announced, axis=1), 1, atol=1e-14)
        np.testing.assert_allclose(announced * norms[:, None], sec_sum(shares), atol=1e-13)

    def test_zero_has_no_direction(self) -> None:
        announced, norms = normed_sec_sum([np.array([[1.0, 2.0]]), np.array([[-1.0, -2.0]])])
        assert not announced.any()
        assert norms[0] == 0


class TestOrthonormalise:
    @given(seed=st.integers(0, 10**6), rows=st.integers(1, 8), columns=st.integers(8, 40))
    @settings(max_examples=50, deadline=None)
    def test_is_qr_with_a_positive_diagonal(self, seed: int, rows: int, columns: int) -> None:
        block = np.random.default_rng(seed).standard_normal((rows, columns))
        block *= np.logspace(0, 6, rows)[:, None]
        ours = orthonormalise(block, block)
        np.testing.assert_allclose(ours, positive_qr(block), atol=1e-9)
        np.testing.assert_allclose(ours @ ours.T, np.eye(rows), atol=1e-14)

    def test_dependent_rows_take_the_start(self) -> None:
        rng = np.random.default_rng(1)
        block, start = rng.standard_normal((2, 4, 30))
        block[1] = 3 * block[0]
        block[3] = 0
        ours = orthonormalise(block, start)
        expected = positive_qr(np.array([block[0], start[1], block[2], start[3]]))
        np.testing.assert_allclose(ours, expected, atol=1e-12)


@given(seed=st.integers(0, 10**6), angle=st.floats(1e-12, 1.5))
@settings(max_examples=50, deadline=None)
def test_subspace_sine_is_the_sine_of_the_angle(seed: int, angle: float) -> None:
    axes = positive_qr(np.random.default_rng(seed).standard_normal((4, 9)))
    turned = np.array([axes[0], np.cos(angle) * axes[1] + np.sin(angle) * axes[3], axes[2]])
    assert subspace_sine(turned, axes[:3]) == pytest.approx(np.sin(angle), rel=1e-3, abs=1e-15)


class TestBlockPower:
    @pytest.mark.parametrize("parties", [1, 2, 3, 5])
    @pytest.mark.parametrize("iterations", [1, 7, 60])
    def test_theorem_3(self, parties: int, iterations: int) -> None:
        matrix = canonical(sp.random_array((80, 50), density=0.2, rng=np.random.default_rng(parties)))
        start = start_block(3, 50, 5)
        run = block_power(split(matrix, parties), start, iterations=iterations, tolerance=0)
        assert run.iterations == iterations
        np.testing.assert_allclose(run.block, algorithm_3(matrix.toarray(), start, iterations), atol=1e-9)

    @pytest.mark.parametrize("parties", [1, 3])
    def test_implicit_centring_is_centring(self, parties: int) -> None:
        matrix = canonical(sp.random_array((80, 50), density=0.2, rng=np.random.default_rng(1)))
        mean = matrix.mean(axis=0) + 0.1  # whatever the parties agree on, not only their mean
        start = start_block(3, 50, 4)
        run = block_power(split(matrix, parties), start, iterations=30, tolerance=0, mean=mean)
        np.testing.assert_allclose(run.block, algorithm_3(matrix.toarray() - mean, start, 30), atol=1e-9)

    def test_stops_by_its_rule(self) -> None:
        matrix = with_spectrum(60, 40, [4.0, 3.0, 2.0, 1.0], 0)
        start = start_block(0, 40, 3)
        run = block_power([matrix], start, iterations=500, tolerance=1e-6)
        counts = (run.iterations - 1, run.iterations - 2)
        before, first = (block_power([matrix], start, iterations=n, tolerance=0).block for n in counts)
        movement = subspace_sine(run.block, before)
        assert movement < 1e-6 <= subspace_sine(before, first)
        # The movement shrinks by (1/2)^2 an iteration here, so the error left is a third of it.
        limit = limit_of_power(matrix, start)
        assert subspace_sine(run.block, limit.block) == pytest.approx(movement / 3, rel=0.05)


class TestLimit:
    @pytest.mark.parametrize("shape", [(40, 25), (25, 40), (150, 200), (200, 150)])
    @pytest.mark.parametrize(
        "values",
        [
            [8.0, 6.0, 4.5, 3.0, 2.0, 1.2, 0.5],
            *([4.0, 4, 2, 2, 2, 1, 0.5], [4.0, 4, 4, 4, 4, 1], [5.0, 3, 3, 2, 1, 0.3], [5.0, 4, 3, 2, 2, 1]),
            *([], [3.0], [3.0, 2.0, 1.0]),
        ],
        ids=str,
    )
    def test_is_where_the_iteration_goes_signs_included(self, shape: tuple[int, int], values: list[float]) -> None:
        """Also where values are repeated, or fewer than the vectors."""
        matrix = with_spectrum(*shape, values, 3)
        start = start_block(1, shape[1], 5)
        run = block_power(split(matrix, 3), start, iterations=400, tolerance=0)
        limit = limit_of_power(matrix, start)
        np.testing.assert_allclose(limit.block @ limit.block.T, np.eye(5), atol=1e-12)
        np.testing.assert_allclose(run.block, limit.block, atol=1e-9)
        np.testing.assert_allclose(run.values, limit.values, rtol=1e-9, atol=1e-12)
        assert np.count_nonzero(limit.values) == min(len(values), 5)

    @given(seed=st.integers(0, 10**6), rank=st.integers(1, 6))
    @settings(max_examples=50, deadline=None)
    def test_signs_are_ratios_of_leading_minors(self, seed: int, rank: int) -> None:
        rng = np.random.default_rng(seed)
        rows = positive_qr(rng.standard_normal((rank, 20)))
        start = rng.standard_normal((rank, 20))
        minors = [1.0, *(np.linalg.det((rows @ start.T)[: i + 1, : i + 1]) for i in range(rank))]
        signs = np.sign(np.array(minors[1:]) / np.array(minors[:-1]))
        values = np.arange(rank, 0, -1.0)
        np.testing.assert_array_equal(settle_signs(rows, values, start), rows * signs[:, None])
