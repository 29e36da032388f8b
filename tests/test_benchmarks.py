"""What only `python -m benchmarks` imports is imported here too, and what its numbers are counted by."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks import bounds, kernel_costs, kernels
from numpy.typing import NDArray

from ksdp.audit.kernels import panel_of
from ksdp.audit.mechanisms.factorisation.lanczos import CentredRows, unsigned
from ksdp.audit.sparse_rows import arrays_of

ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__init__")
ROWS = sp.csr_array(np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0], [4.0, 5.0, 6.0]]))


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_finds_what_it_measures(name: str) -> None:
    importlib.import_module(f"benchmarks.{name}")


def peak(precision: type[np.floating]) -> float:
    return 100.0 if precision is np.float64 else 200.0


def bandwidth(size: int, written: bool = False) -> float:
    """A machine with caches of 4 KiB and of 64 KiB."""
    speed = 1000.0 if size <= 4096 else 100.0 if size <= 65536 else 10.0
    return speed / 2.0 if written else speed


def test_operations_and_bytes_of_products_are_those_of_all_lanes() -> None:
    panel, out = panel_of(np.ones((9, 3)), np.float32), np.empty((3, 9), np.float32)
    cost = kernel_costs.times_panel(*arrays_of(ROWS), panel, out)
    assert cost.operations == 2 * 6 * 16
    assert [part.size for part in cost.moved] == [4 * 4 + 6 * (4 + 8) + out.nbytes, 6 * 64]
    squared = kernel_costs.squared_times_panel(*arrays_of(ROWS), panel, np.empty((3, 32), np.float32))
    assert squared.operations == 6 * (1 + 2 * 16 + 16)
    added = kernel_costs.add_rows(*arrays_of(ROWS), np.ones((3, 8)), np.zeros((3, 8)))
    assert (added.operations, added.moved[1].size) == (2 * 6 * 8, 2 * 6 * 64)
    indptr, indices, data = arrays_of(ROWS)
    rows = CentredRows(unsigned(indptr), unsigned(indices), data, np.zeros(0))
    assert kernel_costs.lanczos_step(rows, 3).operations == 4 * 6


def test_a_limit_is_of_operations_or_of_bytes_where_they_are_held() -> None:
    arrays = kernel_costs.Moved("arrays", 50.0, 1e6)
    assert kernel_costs.limit(kernel_costs.Cost("", 1e3, (arrays,)), peak, bandwidth) == (10.0, "operations")
    assert kernel_costs.limit(kernel_costs.Cost("", 1e2, (arrays,)), peak, bandwidth) == (5.0, "arrays")
    # Of 32 rows of 4 KiB the one that is read most is nearest, 30 are in the larger cache, and one is in none.
    often = np.concatenate([np.ones(31), [69.0]])
    panel = kernel_costs.Moved("panel", 1000.0, 32 * 4096.0, often=often)
    assert panel.seconds(bandwidth) == pytest.approx(690.0 / 1000.0 + 300.0 / 100.0 + 10.0 / 10.0)


@pytest.mark.parametrize(("distances", "m", "n"), [([9], 4, 7), ([20, 35, 50], 9, 13), ([5, 8], 5, 5)])
def test_points_inside_a_band_are_those_that_the_law_passes_over(distances: list[int], m: int, n: int) -> None:
    def low(i: int) -> int:
        return min(max(0, (i * n - h) // m + 1) for h in distances)

    def high(i: int) -> int:
        return max(min(n, -((-((i - 1) * n + h)) // m) - 1) for h in distances)

    seen = [(i, j) for i in range(2, m + 1) for j in range(low(i - 1), high(i) + 1)]
    assert kernel_costs.points_inside(np.array(distances), m, n) == len(seen)


def test_tails_count_pairs_of_points_and_leave_out_what_is_body() -> None:
    h, small, large = np.array([10, 90, 40]), np.array([10, 10, 10]), np.array([20, 20, 20])
    cost = kernel_costs.tails_summed(h, small, large, np.array([0.0, -30.0, -5.0]))
    points = [(200 - 90) // 20 + 1, (200 - 40) // 20 + 1]
    assert cost.operations == 2 * sum(n * (n - 1) // 2 for n in points)


def test_a_round_counts_who_is_asked_and_writes_for_who_moves() -> None:
    csr = arrays_of(ROWS.astype(np.float32))
    about = np.ones((3, 2), np.float32), np.zeros((3, 0)), np.ones(3)
    pairs = np.array([0, 2, 2, 5]), np.zeros(5, np.uint32), np.zeros((5, 3), np.float32)
    panel: NDArray[np.float32] = panel_of(np.ones((2, 3)), np.float32)
    asked, moves = np.array([True, True, False]), np.array([True, False, True])
    cost = kernel_costs.fit_round(csr, about, pairs, panel, asked, moves)
    assert cost.operations == 2 * 16 * (3 + 2) + 4 * (2 + 2) + 4 * 3
    assert [part.size for part in cost.moved[1:]] == [3 * 64, 2 * 2 * 64]


def test_a_line_of_the_table_has_rates_and_the_share_of_the_limit() -> None:
    cost = kernel_costs.Cost("6 entries", 2e6, (kernel_costs.Moved("arrays", 4e6, 4e6),))
    head, rule, row = kernels.table([kernels.Line("a kernel", cost, 1e-3, 2.5e-4, "arrays")])
    assert head.count("|") == rule.count("|") == row.count("|") == len(kernels.HEAD) + 1
    assert row == "| a kernel | 6 entries | 2.00 | 4.00 | 1.000 | 2.0 | 4.0 | 0.250 | 25% | arrays |"


def test_a_bound_is_kept_where_now_is_small_enough_or_then_was_large_enough() -> None:
    rows = [
        bounds.Bound("CPU s", 100.0, 450.0, fewer=4.6),
        bounds.Bound("CPU s", 100.0, 460.0, fewer=4.6),
        bounds.Bound("GB", 2.004, 6.54, most=2.0),
        bounds.Bound("clock s", 9.96, most=15.0),
        bounds.Bound("clock s", 80.0, 120.0),
    ]
    assert [bounds.row(bound) for bound in rows] == [
        "| CPU s | 450 | 100 | 4.50 | 4.6 times fewer | **no** |",
        "| CPU s | 460 | 100 | 4.60 | 4.6 times fewer | yes |",
        "| GB | 6.54 | 2 | 3.26 | at most 2 | **no** |",
        "| clock s |  | 9.96 |  | at most 15 | yes |",
        "| clock s | 120 | 80 | 1.50 |  |  |",
    ]


def test_a_small_corpus_has_the_most_frequent_terms_and_no_empty_document() -> None:
    counts = sp.csr_array(np.array([[1, 0, 2, 0], [0, 3, 0, 0], [4, 0, 1, 0], [0, 0, 5, 1]]))
    small = bounds.small_corpus(counts, 3, 2)
    assert small.toarray().tolist() == [[1, 2], [4, 1], [0, 5]]
