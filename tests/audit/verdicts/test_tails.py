"""The tails' p against SciPy's, and the level with ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import fisher_exact, hypergeom

from ksdp.audit.verdicts.tails import tail_sizes, tail_table


def reference(values: np.ndarray, held: np.ndarray) -> float:
    """Straight from the definition, one document: smallest doubled Fisher p times the number of tails."""
    runs = len(values)
    tails = set()
    for side, x in enumerate((values, -values)):
        order = np.sort(x)[::-1]
        for size in tail_sizes(runs):
            edge = order[size - 1]
            strict, whole = x > edge, x >= edge
            if whole.sum() - size > size - strict.sum() and strict.sum() >= 3:
                tails.add((side, tuple(strict)))
            elif 2 * whole.sum() <= runs:
                tails.add((side, tuple(whole)))
    smallest = 1.0
    for _, members in tails:
        tail = np.array(members)
        a, b = (tail & held).sum(), (tail & ~held).sum()
        table = [[a, b], [held.sum() - a, (~held).sum() - b]]
        sides = [fisher_exact(table, alternative=side).pvalue for side in ("less", "greater")]
        smallest = min(smallest, 2 * min(sides) * len(tails))
    return smallest


@given(
    st.integers(0, 10_000), st.sampled_from([None, 1, 0]), st.floats(0.05, 0.9), st.sampled_from([40, 150, 400])
)
@settings(max_examples=40, deadline=None)
def test_equals_fishers_test_of_each_tail(seed: int, decimals: int | None, share: float, runs: int) -> None:
    rng = np.random.default_rng(seed)
    inclusion = rng.random((3, runs)) < share
    inclusion[:, 0], inclusion[:, 1] = True, False
    values = rng.normal(size=(3, runs)) * (1 + inclusion)
    if decimals is not None:
        values = values.round(decimals)
    ours = tail_table(values, inclusion).log10_p
    for row in range(3):
        assert 10 ** ours[row] == pytest.approx(reference(values[row], inclusion[row]), rel=1e-9)


def test_far_tails_do_not_underflow() -> None:
    inclusion = np.arange(40_000)[None] < 20_000
    values = np.where(inclusion & (np.arange(40_000) < 2000), 5.0, 0.0)
    table = tail_table(values, inclusion)
    exact = hypergeom.logsf(1999, 40_000, 20_000, 2000) / np.log(10)
    assert (table.size[0], table.inside[0], table.highest[0]) == (2000, 2000, True)
    assert table.log10_p[0] == pytest.approx(exact + np.log10(2), abs=1e-6)
    assert table.log10_p[0] < -600


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_monotone_maps_and_swapped_arms_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inclusion = rng.random((3, 200)) < 0.4
    values = rng.normal(size=(3, 200)).round(1)
    p = tail_table(values, inclusion).log10_p
    assert tail_table(np.exp(values), inclusion).log10_p == pytest.approx(p)
    assert tail_table(-values, inclusion).log10_p == pytest.approx(p)
    assert tail_table(values, ~inclusion).log10_p == pytest.approx(p, abs=1e-9)
    assert tail_table(values.astype(np.float32), inclusion).log10_p == pytest.approx(p)


def test_nothing_to_look_at() -> None:
    inclusion = np.array([[True] * 100, [True, False] * 50])
    table = tail_table(np.ones((2, 100)), inclusion)
    assert table.log10_p.tolist() == [0.0, 0.0]
    assert table.size.tolist() == [0, 0]
    assert len(tail_sizes(5)) == 0
    assert tail_table(np.ones((1, 4)), np.array([[True, False, True, False]])).log10_p[0] == 0.0


def test_refuses_nan_and_wrong_shapes() -> None:
    with pytest.raises(ValueError, match="must not hold NaN"):
        tail_table(np.array([[np.nan, 1.0]]), np.array([[True, False]]))
    with pytest.raises(ValueError, match="must have the same shape"):
        tail_table(np.ones((1, 3)), np.array([[True, False]]))
