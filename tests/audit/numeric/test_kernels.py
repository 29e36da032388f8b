"""Products of sparse rows with panels: bit for bit what a loop in plain Python adds up."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from ksdp.audit.numeric.kernels import csr_times_panel, one_thread, panel_of, squared_csr_times_panel


def _slow(matrix: sp.csr_array, rows: NDArray[np.float64], precision: Any) -> NDArray[Any]:
    """One number after the other, rounded to `precision` at every step."""
    out = np.zeros((matrix.shape[0], len(rows)), dtype=precision)
    for i in range(matrix.shape[0]):
        for t in range(len(rows)):
            total = precision(0.0)
            for at in range(matrix.indptr[i], matrix.indptr[i + 1]):
                total += precision(matrix.data[at]) * precision(rows[t, matrix.indices[at]])
            out[i, t] = total
    return out


@pytest.mark.parametrize("rank", [1, 7, 8, 9, 17, 33, 70])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.uint32, np.int64])
def test_every_lane_is_a_plain_sum(rank: int, precision: Any, index: Any) -> None:
    rng = np.random.default_rng(rank)
    dense = rng.standard_normal((6, 40)) * (rng.random((6, 40)) < 0.3)
    dense[2] = 0.0  # an empty document
    matrix = sp.csr_array(dense)
    rows = rng.standard_normal((rank, 40))
    out = np.full((6, rank), np.nan, dtype=precision)
    csr_times_panel(matrix.indptr, matrix.indices.astype(index), matrix.data, panel_of(rows, precision), out)
    assert np.array_equal(out, _slow(matrix, rows, precision))


def test_a_row_does_not_hang_on_those_beside_it() -> None:
    rng = np.random.default_rng(0)
    matrix = sp.csr_array(sp.random_array((50, 300), density=0.2, rng=rng, data_sampler=rng.standard_normal))
    rows = rng.standard_normal((28, 300))
    whole, some = np.empty((50, 28)), np.empty((3, 5))
    csr_times_panel(matrix.indptr, matrix.indices, matrix.data, panel_of(rows), whole)
    part = sp.csr_array(matrix[[41, 7, 30]])
    csr_times_panel(part.indptr, part.indices, part.data, panel_of(rows[20:25]), some)
    assert np.array_equal(some, whole[[41, 7, 30], 20:25])


@pytest.mark.parametrize("lanes", [16, 32, 48, 64, 80])
def test_squared_entries_are_summed_and_the_largest_found(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    dense = rng.standard_normal((6, 40)) * (rng.random((6, 40)) < 0.3)
    dense[2] = 0.0
    matrix = sp.csr_array(dense)
    rows = rng.standard_normal((lanes, 40))
    panel = panel_of(rows, np.float32)
    out = np.full((6, lanes + 16), np.nan, dtype=np.float32)
    squared_csr_times_panel(matrix.indptr, matrix.indices, matrix.data, panel, out)
    assert np.array_equal(out[:, :lanes], _slow(matrix.multiply(matrix).tocsr(), rows, np.float32))
    for i in range(6):
        for lane in range(16):
            products = [np.float32(x * x) * panel[a, lanes - 16 + lane] for a, x in enumerate(dense[i]) if x]
            assert out[i, lanes + lane] == max(0.0, *products, 0.0)


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_products_are_by_one_thread_and_then_as_before() -> None:
    with threadpool_limits(2, user_api="blas"):
        assert threads() == {2}
        with one_thread():
            assert threads() == {1}
            with one_thread():
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == {2}
