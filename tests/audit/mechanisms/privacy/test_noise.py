"""Calibrations against the definition, accountants against each other, samplers against their laws."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import kstest, norm

from ksdp.audit.corpus.matrix import clip_rows
from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.mechanisms.privacy.noise import (
    account,
    analytic_multiplier,
    check_adjacency,
    check_sampler,
    classical_multiplier,
    draw,
    on_grid,
    rounded_sensitivity,
    second_moment_change,
    worst_pair,
)


def delta_of(multiplier: float, epsilon: float) -> float:
    """Balle & Wang 2018, theorem 8: what delta the Gaussian mechanism of sensitivity 1 really has."""
    a, b = 1 / (2 * multiplier), epsilon * multiplier
    return float(norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b))


@given(st.floats(0.05, 20), st.floats(1e-9, 0.1), st.integers(1, 50))
@settings(deadline=None, max_examples=40)
def test_the_analytic_calibration_meets_delta_exactly(epsilon: float, delta: float, releases: int) -> None:
    multiplier = analytic_multiplier(epsilon, delta, releases) / math.sqrt(releases)
    assert delta_of(multiplier, epsilon) == pytest.approx(delta, rel=1e-3)


def test_the_printed_calibration_breaks_above_one() -> None:
    assert delta_of(classical_multiplier(0.9, 1e-5), 0.9) < 1e-5
    assert delta_of(classical_multiplier(20.0, 1e-5), 20.0) == pytest.approx(1.5e-3, rel=0.05)


def test_accountants_agree_where_they_should() -> None:
    found = account([3.0, 5.0, 5.0, 8.0], 1e-5)
    assert found.pld == pytest.approx(found.exact, rel=1e-3)
    assert found.exact < found.rdp < found.added


def test_a_calibrated_ledger_gives_the_epsilon_back() -> None:
    assert account([analytic_multiplier(0.7, 1e-6, 9)] * 9, 1e-6).exact == pytest.approx(0.7, rel=1e-4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: analytic_multiplier(0.0, 1e-5),
        lambda: analytic_multiplier(1.0, 1.0),
        lambda: analytic_multiplier(1.0, 1e-5, releases=0),
        lambda: account([], 1e-5),
        lambda: account([1.0, 0.0], 1e-5),
        lambda: check_sampler("laplace"),
        lambda: draw("fast", (2,), -1.0, np.random.default_rng(0)),
        lambda: draw("discrete", (2,), 1e-10, np.random.default_rng(0)),
    ],
)
def test_bad_input_is_refused(call: object) -> None:
    with pytest.raises(SpecError):
        call()  # type: ignore[operator]


def test_the_vetted_sampler_draws_normals_on_the_grid() -> None:
    noise = draw("discrete", (3000,), 0.5, np.random.default_rng(0))
    steps = noise * 2.0**31
    assert np.array_equal(steps, np.rint(steps))
    assert kstest(noise, "norm", args=(0, 0.5)).pvalue > 1e-4


def test_no_seed_gives_the_vetted_noise_back() -> None:
    first, second = (draw("discrete", (8,), 1.0, np.random.default_rng(1)) for _ in range(2))
    assert not np.array_equal(first, second)
    fast = [draw("fast", (8,), 1.0, np.random.default_rng(1)) for _ in range(2)]
    assert np.array_equal(fast[0], fast[1])


def test_rounding_moves_a_difference_by_no_more_than_is_counted() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 200, 16))
    moved = np.linalg.norm((on_grid(a, 4) - on_grid(b, 4)) / 16.0, axis=1)
    exact = np.linalg.norm(a - b, axis=1)
    assert all(m <= rounded_sensitivity(e, 16, 4) for m, e in zip(moved, exact, strict=True))
    assert (moved > exact).any()


def test_values_that_do_not_fit_the_grid_are_refused() -> None:
    with pytest.raises(InputError, match="finite and below"):
        on_grid(np.array([1.0, np.nan]))
    with pytest.raises(InputError, match="finite and below"):
        on_grid(np.array([3e9]))


ROWS = arrays(np.float64, (5, 4), elements=st.floats(-1e3, 1e3, allow_subnormal=False))


@given(ROWS, st.floats(0.1, 100))
def test_no_row_is_longer_than_the_bound_and_short_rows_stay(rows: np.ndarray, bound: float) -> None:
    clipped = clip_rows(sp.csr_array(rows), bound).toarray()
    for before, after in zip(rows, clipped, strict=True):
        assert math.fsum(after**2) <= bound**2 * (1 + 1e-12)
        if np.linalg.norm(before) <= bound * (1 - 1e-9):
            assert np.array_equal(before, after)
        else:
            assert np.allclose(after / np.linalg.norm(after), before / np.linalg.norm(before))


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_the_worst_pair_reaches_the_bound_and_differs_in_one_row(adjacency: str) -> None:
    pair = worst_pair(6, 9, 1.5, adjacency)
    a, b = (database.parties[0].toarray() for database in pair)
    assert np.flatnonzero((a != b).any(axis=1)).tolist() == [0]
    change = np.linalg.norm(a.T @ a - b.T @ b)
    assert change == pytest.approx(second_moment_change(1.5, adjacency), rel=1e-12)


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(SpecError, match="adjacency"):
        check_adjacency("swap")
