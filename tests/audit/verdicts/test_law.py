"""The exact null law against SciPy's, against exact integers, and against a count of every order."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from ksdp.audit.verdicts.laws import log10_p, smallest_log10_p


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


@pytest.mark.parametrize(("m", "n"), [(4, 5), (3, 6), (5, 5)])
def test_equals_an_enumeration_of_every_order(m: int, n: int) -> None:
    distances = []
    for chosen in itertools.combinations(range(m + n), m):
        x = np.array(chosen, dtype=float)
        y = np.setdiff1d(np.arange(m + n), chosen).astype(float)
        distances.append(round(ks_2samp(x, y).statistic * m * n))
    for h in set(distances):
        if h:
            p = np.mean(np.array(distances) >= h)
            assert 10 ** one(h, m, n) == pytest.approx(p, rel=1e-12)


def test_far_tail_does_not_underflow() -> None:
    assert one(200 * 6500, 200, 6500) == pytest.approx(smallest_log10_p(200, 6500), abs=1e-8)
    assert one(2000 * 2000, 2000, 2000) < -1200


def test_falls_with_the_distance_across_the_two_regimes() -> None:
    h = np.arange(1, 200 * 651, 53)
    p = log10_p(h, np.full(len(h), 200), np.full(len(h), 651))
    assert (np.diff(p) <= 1e-9).all()


def test_arms_may_be_swapped_and_empty() -> None:
    assert one(3000, 40, 300) == one(3000, 300, 40)
    assert one(0, 40, 300) == 0.0
    assert one(0, 0, 300) == 0.0
