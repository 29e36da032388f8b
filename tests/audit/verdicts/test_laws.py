"""The exact null law against SciPy's, against exact integers, and against a count of every order."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, ks_2samp

from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.laws import (
    ArmTests,
    in_order,
    ks_distances,
    ks_table,
    log10_p,
    smallest_log10_p,
    widest_gap,
)
from ksdp.audit.verdicts.power import critical_distance, event_power, first_true


def one(h: int, m: int, n: int) -> float:
    return float(log10_p(np.array([h]), np.array([m]), np.array([n]))[0])


def inside_paths(h: int, m: int, n: int) -> int:
    """Paths that never reach |i n - j m| >= h, counted cell by cell in exact integers."""
    row = [1 if j * m < h else 0 for j in range(n + 1)]
    for j in range(1, n + 1):
        row[j] = row[j] and row[j - 1]
    for i in range(1, m + 1):
        new = []
        for j in range(n + 1):
            inside = abs(i * n - j * m) < h
            new.append((row[j] + (new[j - 1] if j else 0)) if inside else 0)
        row = new
    return row[n]


def exact(h: int, m: int, n: int) -> float:
    total = math.comb(m + n, m)
    outside = total - inside_paths(h, m, n)
    return (math.log(outside) - math.log(total)) / math.log(10)


@given(st.integers(1, 40), st.integers(1, 90), st.floats(0.01, 1.0))
@settings(max_examples=150, deadline=None)
def test_equals_exact_integer_counts(m: int, n: int, share: float) -> None:
    h = max(1, round(share * m * n))
    assert one(h, m, n) == pytest.approx(exact(h, m, n), abs=1e-9)


@pytest.mark.parametrize(("m", "n"), [(200, 200), (200, 6500), (37, 1000), (150, 151), (3, 500)])
def test_equals_exact_integer_counts_at_audit_sizes(m: int, n: int) -> None:
    for share in (0.03, 0.08, 0.12, 0.15, 0.2, 0.35, 0.6, 0.95):
        h = max(1, round(share * m * n))
        assert one(h, m, n) == pytest.approx(exact(h, m, n), abs=1e-9)


def test_far_tail_does_not_underflow() -> None:
    assert one(200 * 6500, 200, 6500) == pytest.approx(smallest_log10_p(200, 6500), abs=1e-8)
    assert one(2000 * 2000, 2000, 2000) < -1200


def test_arms_may_be_swapped_and_empty() -> None:
    assert one(3000, 40, 300) == one(3000, 300, 40)
    assert one(0, 40, 300) == 0.0
    assert one(0, 0, 300) == 0.0


def table_of(seed: int, documents: int, runs: int, share: float, decimals: int | None, dtype: str = "float32"):
    rng = np.random.default_rng(seed)
    inclusion = rng.random((documents, runs)) < share
    values = rng.normal(size=(documents, runs)) + rng.uniform(0, 2, size=(documents, 1)) * inclusion
    if decimals is not None:
        values = values.round(decimals)
    return values.astype(dtype), inclusion


@pytest.mark.parametrize("share", [0.03, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equals_scipy_without_ties(share: float, dtype: str) -> None:
    values, inclusion = table_of(1, 30, 900, share, None, dtype)
    table = ks_table(values, inclusion)
    for row in range(len(values)):
        result = ks_2samp(values[row][inclusion[row]], values[row][~inclusion[row]], method="exact")
        assert table.distance[row] == pytest.approx(result.statistic, abs=1e-12)
        assert table.log10_p[row] == pytest.approx(np.log10(result.pvalue), abs=1e-9)


@given(st.integers(0, 10_000), st.integers(0, 1), st.floats(0.1, 0.9))
@settings(max_examples=60, deadline=None)
def test_distance_equals_scipy_with_ties(seed: int, decimals: int, share: float) -> None:
    values, inclusion = table_of(seed, 4, 60, share, decimals)
    h = ks_distances(values, inclusion)
    for row in range(len(values)):
        with_, without = values[row][inclusion[row]], values[row][~inclusion[row]]
        if len(with_) and len(without):
            result = ks_2samp(with_, without)
            assert h[row] / (len(with_) * len(without)) == pytest.approx(result.statistic, abs=1e-12)


def test_an_empty_arm_says_nothing() -> None:
    table = ks_table(np.ones((1, 5), np.float32), np.zeros((1, 5), bool))
    assert np.isnan(table.distance[0])
    assert table.log10_p[0] == 0.0


def test_refuses_nan_and_wrong_shapes() -> None:
    inclusion = np.array([[True, False]])
    with pytest.raises(ValueError, match="must not hold NaN"):
        ks_distances(np.array([[np.nan, 1.0]]), inclusion)
    with pytest.raises(ValueError, match="must not hold NaN"):
        ks_distances(-np.array([[1.0, np.nan]], np.float32), inclusion)
    with pytest.raises(ValueError, match="must have the same shape"):
        ks_distances(np.ones((1, 3)), inclusion)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_values_are_in_order_whatever_they_are(precision: type[np.floating]) -> None:
    rng = np.random.default_rng(3)
    limits = np.finfo(precision)
    extremes = [0.0, -0.0, np.inf, -np.inf, limits.max, limits.min, limits.tiny, -limits.smallest_subnormal]
    values = rng.normal(size=(5, 700)) * 10.0 ** rng.integers(-30, 30, size=(5, 700))
    values[:, 100:200] = values[:, :1]
    values = values.astype(precision)
    values[:, 300:308] = extremes
    assert np.array_equal(in_order(values), np.sort(values, axis=1))
    assert np.array_equal(in_order(values.T[::2]), np.sort(values.T[::2], axis=1))
    assert in_order(values[:, :0]).shape == (5, 0)


@pytest.mark.parametrize(("m", "n"), [(12, 12), (9, 15), (7, 40), (30, 31)])
@pytest.mark.parametrize("wanted", [-0.7, -1.3, -2.5])
def test_critical_distance_is_the_first_that_is_rare_enough(m: int, n: int, wanted: float) -> None:
    possible = sorted({abs(i * n - j * m) for i in range(m + 1) for j in range(n + 1)})
    scan = next(h for h in possible if log10_p(np.array([h]), np.array([m]), np.array([n]))[0] <= wanted)
    ours = round(critical_distance(m, n, wanted) * m * n)
    assert next(h for h in possible if h >= ours) == scan  # no attainable distance lies between
    assert critical_distance(n, m, wanted) == critical_distance(m, n, wanted)


def test_asymptotic_above_the_exact_arms_joins_on() -> None:
    below, above = critical_distance(1500, 1501, -6.0), critical_distance(1501, 1502, -6.0)
    assert above == pytest.approx(below, rel=0.01)


def test_no_distance_is_enough_for_small_arms() -> None:
    assert critical_distance(5, 5, -3.0) == math.inf
    assert critical_distance(0, 50, -1.0) == math.inf
    assert event_power(0.9, 5, 5, -3.0) == 0.0


@pytest.mark.parametrize("edge", [1, 2, 17, 100, 999, 1000])
@pytest.mark.parametrize("near", [1, 16, 120, 1000, 5000])
def test_first_true(edge: int, near: int) -> None:
    assert first_true(lambda k: k >= edge, near, 1000) == edge


@pytest.mark.parametrize(("m", "n", "advantage"), [(200, 200, 0.3), (100, 800, 0.35)])
def test_event_power_is_the_worst_of_all_events(m: int, n: int, advantage: float) -> None:
    wanted = -3.0
    critical = critical_distance(m, n, wanted)
    exact = []
    for rarer in np.linspace(0, 1 - advantage, 15):
        without = np.arange(n + 1)
        needed = np.ceil((critical + without / n) * m - 1e-9)
        exact.append((binom.pmf(without, n, rarer) * binom.sf(needed - 1, m, rarer + advantage)).sum())
    assert event_power(advantage, m, n, wanted) == pytest.approx(min(exact), abs=0.04)


ARM = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30)


@pytest.mark.filterwarnings("ignore::RuntimeWarning:scipy")  # about its p-value, which is not used
@settings(max_examples=80, deadline=None)
@given(ARM, ARM)
def test_it_is_the_distance_and_lies_where_it_says(one: list[float], other: list[float]) -> None:
    gap = widest_gap(np.array(one), np.array(other))
    assert gap.distance == pytest.approx(ks_2samp(one, other, method="asymp").statistic, abs=1e-12)
    assert gap.share_with == sum(value <= gap.place for value in one) / len(one)
    assert gap.share_without == sum(value <= gap.place for value in other) / len(other)


def test_an_empty_arm_has_none() -> None:
    assert widest_gap(np.array([]), np.array([1.0])) is None
    assert widest_gap(np.array([1.0]), np.array([])) is None


def test_slices_join_in_order() -> None:
    rng = np.random.default_rng(2)
    inclusion, values = rng.random((9, 60)) < 0.5, rng.normal(size=(9, 60))
    whole = compare_arms({"s": values}, inclusion)
    joined = ArmTests.join([compare_arms({"s": values[:4]}, inclusion[:4]), whole[4:]])
    assert len(joined) == 9
    for name in ("n_with", "n_without", "distance", "log10_p", "log10_tail"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))


def test_columns_stand_beside_one_another() -> None:
    rng = np.random.default_rng(3)
    inclusion = rng.random((5, 80)) < 0.5
    values = {name: rng.normal(size=(5, 80)) for name in "abc"}
    whole = compare_arms(values, inclusion)
    parts = [compare_arms({n: values[n] for n in some}, inclusion) for some in ("a", "bc")]
    beside = ArmTests.beside(parts)
    for name in ("n_with", "n_without", "distance", "log10_p", "log10_tail"):
        np.testing.assert_array_equal(getattr(beside, name), getattr(whole, name))
    np.testing.assert_array_equal(whole.columns([2, 0]).distance, whole.distance[:, [2, 0]])
    np.testing.assert_array_equal(whole[np.array([4, 1])].n_with, whole.n_with[[4, 1]])
