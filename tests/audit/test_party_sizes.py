"""Grid, search and the limit of a share, each against something slower or older."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from ksdp.audit.errors import InputError
from ksdp.audit.party_sizes import share_upper_limit, size_grid, smallest_good


@given(first=st.integers(1, 500), more=st.integers(0, 5000), steps=st.integers(1, 6))
def test_the_grid_ascends_from_first_to_last_in_small_enough_steps(first: int, more: int, steps: int) -> None:
    sizes = size_grid(first, first + more, steps)
    assert (sizes[0], sizes[-1]) == (first, first + more)
    assert list(sizes) == sorted(set(sizes))
    assert all(b <= (a + 0.5) * 2 ** (1 / steps) + 0.5 for a, b in pairwise(sizes))


@pytest.mark.parametrize(("first", "last", "steps"), [(0, 5, 2), (6, 5, 2), (1, 5, 0)])
def test_no_grid(first: int, last: int, steps: int) -> None:
    with pytest.raises(InputError, match="1 <= `first` <= `last`"):
        size_grid(first, last, steps)


@given(count=st.integers(1, 60), data=st.data(), stride=st.integers(1, 7))
def test_the_search_finds_what_a_scan_finds_and_asks_little(count: int, data: st.DataObject, stride: int) -> None:
    sizes = list(range(100, 100 + count))
    bar = data.draw(st.integers(100, 101 + count))
    asked: list[int] = []

    def good(size: int) -> bool:
        asked.append(size)
        return size >= bar

    assert smallest_good(sizes, good, stride) == next((s for s in sizes if s >= bar), None)
    assert len(asked) == len(set(asked)) <= count // stride + 2 + stride.bit_length()


@given(good=st.lists(st.booleans(), min_size=1, max_size=30), stride=st.integers(1, 5))
def test_without_order_what_is_found_is_good_still(good: list[bool], stride: int) -> None:
    found = smallest_good(range(len(good)), good.__getitem__, stride)
    if found is not None:
        assert good[found]
        assert found == 0 or not good[found - 1]


@given(drawn=st.integers(1, 400), data=st.data(), level=st.floats(1e-4, 0.5))
def test_the_limit_is_scipys(drawn: int, data: st.DataObject, level: float) -> None:
    found = data.draw(st.integers(0, drawn))
    interval = binomtest(found, drawn, alternative="less").proportion_ci(1 - level, method="exact")
    limit = share_upper_limit(found, drawn, level)
    assert limit == pytest.approx(interval.high, abs=1e-9)
    if found < drawn:  # what it means: at the limit, so few or fewer are seen with probability `level`
        assert binom.cdf(found, drawn, limit) == pytest.approx(level, rel=1e-6)


@pytest.mark.parametrize(("found", "drawn", "level"), [(-1, 5, 0.05), (6, 5, 0.05), (0, 0, 0.05), (1, 5, 1.0)])
def test_no_limit(found: int, drawn: int, level: float) -> None:
    with pytest.raises(ValueError, match="found <= drawn"):
        share_upper_limit(found, drawn, level)
