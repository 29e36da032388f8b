"""The law given ties against an enumeration of every split, exact integers, and the law without ties."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.verdicts.laws import ks_table, ks_tables, log10_p
from ksdp.audit.verdicts.tails import tail_table
from ksdp.audit.verdicts.ties import _fill, tied_table


def conservative(h: int, m: int, n: int) -> float:
    return float(log10_p(np.array([h]), np.array([m]), np.array([n]))[0])


def tied_log10_p(h: int, m: int, n: int, counts: np.ndarray) -> float:
    """Of arms of m and n, of which so many values are equal each, in ascending order."""
    pooled = np.repeat(np.arange(len(counts), dtype=np.float64), counts)[None]
    log_p = np.array([conservative(h, m, n)]) * math.log(10)
    _fill(pooled, np.array([h]), np.array([min(m, n)]), log_p, 0.0, -np.inf)
    return float(log_p[0]) / math.log(10)


def exact(h: int, m: int, n: int, counts: Sequence[int]) -> float:
    """Log10 share of the splits that reach h at the end of a block, block by block in exact integers."""
    inside, seen = {0: 1}, 0
    for size in counts:
        seen += size
        after: dict[int, int] = {}
        for a, ways in inside.items():
            for more in range(size + 1):
                if abs((a + more) * (m + n) - seen * m) < h:
                    after[a + more] = after.get(a + more, 0) + ways * math.comb(size, more)
        inside = after
    total = math.comb(m + n, m)
    return (math.log(total - inside.get(m, 0)) - math.log(total)) / math.log(10)


def pattern(rng: np.random.Generator, runs: int, distinct: int) -> np.ndarray:
    return np.unique(rng.integers(0, distinct, runs), return_counts=True)[1]


def test_equals_the_published_example() -> None:
    """Schroeer & Trenkler (1995): x = 1 2 2 3 3, y = 1 2 3 3 4 5 6. R's psmirnov says 0.2424242."""
    assert 10 ** tied_log10_p(15, 5, 7, np.array([2, 3, 4, 1, 1, 1])) == pytest.approx(0.2424242, abs=1e-7)


@given(st.integers(0, 10_000), st.integers(2, 40), st.floats(0.02, 1.0))
@settings(max_examples=60, deadline=None)
def test_equals_exact_integers(seed: int, distinct: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, 60, 2)
    counts = pattern(rng, m + n, distinct)
    h = max(1, round(share * m * n))
    try:
        wanted = exact(h, m, n, counts.tolist())
    except ValueError:  # no split of this pattern reaches h
        return
    assert tied_log10_p(h, m, n, counts) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(("m", "n", "distinct"), [(200, 2000, 12), (300, 300, 30), (150, 1500, 2)])
@pytest.mark.parametrize("share", [0.05, 0.4, 0.95])
def test_equals_exact_integers_at_audit_sizes(m: int, n: int, distinct: int, share: float) -> None:
    # A value that splits the arms perfectly, so that every distance can be reached.
    counts = np.array([m, *pattern(np.random.default_rng(1), n, distinct)])
    h = round(share * m * n)
    assert tied_log10_p(h, m, n, counts) == pytest.approx(exact(h, m, n, counts.tolist()), abs=1e-9)


@pytest.mark.parametrize(("m", "n"), [(200, 6500), (400, 400), (2000, 2000), (37, 1000)])
def test_joins_the_law_without_ties_into_the_deep_tail(m: int, n: int) -> None:
    """One tie, where no path can have touched yet, changes nothing: so all the rest is counted here."""
    counts = np.array([2] + [1] * (m + n - 2))
    for share in (0.03, 0.12, 0.3, 0.5, 0.7, 0.9):
        h = round(share * m * n)
        assert tied_log10_p(h, m, n, counts) == pytest.approx(conservative(h, m, n), abs=1e-9)


def test_far_below_the_law_without_ties() -> None:
    """One threshold only, and not in the middle: hypergeometric, a thousand decades below the bound."""
    m = n = 2000
    p = tied_log10_p(m * n // 2, m, n, np.array([1000, 3000]))
    one_side = math.log10(math.comb(2000, 1000)) - math.log10(math.comb(4000, 1000))
    assert p == pytest.approx(one_side + math.log10(2), abs=1e-8)
    assert p < conservative(m * n // 2, m, n) - 90


def test_what_floats_do_not_reach_keeps_the_bound() -> None:
    m = n = 5000
    counts = np.array([2] + [1] * (m + n - 2))
    assert tied_log10_p(m * n, m, n, counts) == pytest.approx(conservative(m * n, m, n), abs=1e-9)


@given(st.integers(0, 10_000), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_never_above_the_law_without_ties_and_symmetric(seed: int, distinct: int) -> None:
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, 80, 2)
    counts = pattern(rng, m + n, distinct)
    h = int(rng.integers(1, m * n + 1))
    p = tied_log10_p(h, m, n, counts)
    assert p <= conservative(h, m, n)
    assert tied_log10_p(h, n, m, counts) == pytest.approx(p, abs=1e-9)
    assert tied_log10_p(h, m, n, counts[::-1]) == pytest.approx(p, abs=1e-9)


def test_a_rare_event_that_the_bound_does_not_see() -> None:
    """D = 0.04 is nothing between continuous values; between two values it is an event of one arm only."""
    inclusion = np.arange(4000)[None] % 2 == 0
    values = (inclusion & (np.arange(4000)[None] < 160)).astype(float)
    table = ks_table(values, inclusion)
    assert table.log10_p[0] > -2
    assert tied_table(values, inclusion, table)[0] < -20


def test_only_ties_change_the_law() -> None:
    rng = np.random.default_rng(5)
    inclusion = rng.random((3, 400)) < 0.5
    values = rng.normal(size=inclusion.shape) + np.array([[0.0], [0.5], [4.0]]) * inclusion
    table = ks_table(values, inclusion)
    assert (tied_table(values, inclusion, table) == table.log10_p).all()  # no ties
    coarse = values.round(0)
    table = ks_table(coarse, inclusion)
    assert (tied_table(coarse, inclusion, table) < table.log10_p).all()


def test_values_may_come_sorted_already() -> None:
    rng = np.random.default_rng(6)
    inclusion = rng.random((3, 200)) < 0.5
    values = (rng.normal(size=inclusion.shape) + 0.5 * inclusion).round(1)
    ordered = np.sort(values, axis=1)
    table, given_order = ks_table(values, inclusion), ks_tables([values], inclusion, [ordered])[0]
    assert given_order.log10_p.tolist() == table.log10_p.tolist()
    assert (tied_table(values, inclusion, table, ordered) == tied_table(values, inclusion, table)).all()
    assert (tail_table(values, inclusion, ordered).log10_p == tail_table(values, inclusion).log10_p).all()


def test_empty_arms_and_constants_say_nothing() -> None:
    values = np.ones((2, 6))
    inclusion = np.array([[False] * 6, [True, False] * 3])
    assert tied_table(values, inclusion, ks_table(values, inclusion)).tolist() == [0.0, 0.0]


def test_refuses_what_does_not_fit() -> None:
    table = ks_table(np.ones((1, 2)), np.array([[True, False]]))
    with pytest.raises(ValueError, match="must fit together"):
        tied_table(np.ones((2, 2)), np.ones((2, 2), bool), table)
