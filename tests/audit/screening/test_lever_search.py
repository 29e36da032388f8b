"""Grid, search and the limit of a share, each against something slower or older."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, hypergeom

from ksdp.audit.errors import InputError
from ksdp.audit.screening.lever_search import first_good, geometric, most_allowed, share_upper_limit


@given(first=st.integers(1, 500), last=st.integers(1, 5000), steps=st.integers(1, 6))
def test_the_grid_goes_from_first_to_last_in_small_enough_steps(first: int, last: int, steps: int) -> None:
    values = geometric(first, last, steps)
    assert (values[0], values[-1]) == (first, last)
    assert list(values) == sorted(set(values), reverse=last < first)
    factor = 2 ** (1 / steps)
    assert all(max(a, b) <= (min(a, b) + 0.5) * factor + 0.5 for a, b in pairwise(values))


@pytest.mark.parametrize(("first", "last", "steps"), [(0, 5, 2), (6, 0, 2), (1, 5, 0)])
def test_no_grid(first: int, last: int, steps: int) -> None:
    with pytest.raises(InputError, match="must be at least 1"):
        geometric(first, last, steps)


@given(count=st.integers(1, 60), data=st.data(), stride=st.integers(1, 7))
def test_the_search_finds_what_a_scan_finds_and_asks_little(count: int, data: st.DataObject, stride: int) -> None:
    values = list(range(100, 100 + count))
    bar = data.draw(st.integers(100, 101 + count))
    asked: list[int] = []

    def good(value: int) -> bool:
        asked.append(value)
        return value >= bar

    assert first_good(values, good, stride) == next((v for v in values if v >= bar), None)
    assert len(asked) == len(set(asked)) <= count // stride + 2 + stride.bit_length()


@given(good=st.lists(st.booleans(), min_size=1, max_size=30), stride=st.integers(1, 5))
def test_without_order_what_is_found_is_good_still(good: list[bool], stride: int) -> None:
    found = first_good(range(len(good)), good.__getitem__, stride)
    if found is not None:
        assert good[found]
        assert found == 0 or not good[found - 1]


@given(data=st.data(), population=st.integers(1, 60), level=st.floats(1e-4, 0.5))
def test_the_limit_is_what_a_scan_over_every_share_finds(
    data: st.DataObject, population: int, level: float
) -> None:
    drawn = data.draw(st.integers(1, population))
    found = data.draw(st.integers(0, drawn))
    possible = range(found, population - drawn + found + 1)
    scanned = max(k for k in possible if hypergeom.cdf(found, population, k, drawn) > level or k == found)
    assert share_upper_limit(found, drawn, level, population) == scanned / population


@pytest.mark.parametrize(("found", "drawn"), [(0, 30), (3, 200), (17, 20)])
def test_of_a_large_population_it_is_clopper_and_pearsons(found: int, drawn: int) -> None:
    interval = binomtest(found, drawn, alternative="less").proportion_ci(0.99, method="exact")
    limit = share_upper_limit(found, drawn, 0.01, 2_000_000)
    assert limit == pytest.approx(interval.high, abs=1e-4)
    assert share_upper_limit(found, drawn, 0.01, drawn + 5) < interval.high


def test_the_limit_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    population, truly, drawn, level = 300, 24, 60, 0.1
    found = rng.hypergeometric(truly, population - truly, drawn, size=4000)
    limits = {int(f): share_upper_limit(int(f), drawn, level, population) for f in np.unique(found)}
    missed = np.mean([limits[int(f)] < truly / population for f in found])
    assert 0.02 < missed <= level + 0.015


@pytest.mark.parametrize(
    ("found", "drawn", "level", "population"),
    [(-1, 5, 0.05, 9), (6, 5, 0.05, 9), (0, 0, 0.05, 9), (1, 5, 1.0, 9), (1, 5, 0.5, 4)],
)
def test_no_limit(found: int, drawn: int, level: float, population: int) -> None:
    with pytest.raises(ValueError, match="found <= drawn <= population"):
        share_upper_limit(found, drawn, level, population)


def test_how_many_may_be_found() -> None:
    allowed = most_allowed(200, 0.01, 5000, 0.05)
    assert allowed is not None
    assert share_upper_limit(allowed, 200, 0.01, 5000) <= 0.05 < share_upper_limit(allowed + 1, 200, 0.01, 5000)
    assert most_allowed(20, 0.01, 5000, 0.05) is None
    assert most_allowed(20, 0.01, 20, 0.05) == 1  # everybody was asked
