"""What the number of copies tells: against every database there is, and against attacks that count."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.verdicts.certificates import count_laws, count_laws_independent


def variation(held: Counter[int], left_out: Counter[int]) -> Fraction:
    """Between the laws of the number of copies in a run, by counting runs."""
    both = [Fraction(1, sum(arm.values())) for arm in (held, left_out)]
    return sum((abs(held[c] * both[0] - left_out[c] * both[1]) for c in {*held, *left_out}), Fraction(0)) / 2


@settings(deadline=None)
@given(st.data())
def test_the_bound_is_the_variation_over_all_databases(data: st.DataObject) -> None:
    documents = data.draw(st.integers(2, 9))
    copies, size = data.draw(st.integers(1, documents)), data.draw(st.integers(1, documents - 1))
    # Documents 0 to copies - 1 are the same; 0 is at stake.
    arms = Counter[int](), Counter[int]()
    for run in combinations(range(documents), size):
        arms[0 not in run][sum(one < copies for one in run)] += 1
    assert count_laws(copies, documents, size).told == pytest.approx(float(variation(*arms)), abs=1e-12)


@pytest.mark.parametrize("copies", [1, 2, 5])
@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(1, 2), Fraction(4, 5)])
def test_the_bound_of_independent_draws_is_the_variation_over_all_databases(copies: int, share: Fraction) -> None:
    others: dict[int, Fraction] = {}
    for run in product((0, 1), repeat=copies - 1):
        likely = np.prod([share if one else 1 - share for one in run], initial=Fraction(1))
        others[sum(run)] = others.get(sum(run), Fraction(0)) + likely
    truth = sum(abs(others.get(c - 1, Fraction(0)) - others.get(c, Fraction(0))) for c in range(copies + 1)) / 2
    assert count_laws_independent(copies, float(share)).told == pytest.approx(float(truth), abs=1e-12)


def test_nobody_who_counts_does_better_and_somebody_does_as_well() -> None:
    """An attack by a threshold on the count, over many runs: the bound is reached, not passed."""
    rng, documents, copies, size, runs = np.random.default_rng(5), 300, 40, 60, 40_000
    with_it = 1 + rng.hypergeometric(copies - 1, documents - copies, size - 1, runs)
    without = rng.hypergeometric(copies - 1, documents - copies, size, runs)
    advantages = [(with_it >= c).mean() - (without >= c).mean() for c in range(copies + 1)]
    assert max(advantages) == pytest.approx(count_laws(copies, documents, size).told, abs=4 * np.sqrt(0.5 / runs))


def test_many_copies_hide_each_other_and_one_document_is_not_hidden() -> None:
    bounds = [count_laws(copies, 17_706, 531).told for copies in (1, 2, 10, 100, 188, 800)]
    assert bounds[0] == pytest.approx(1.0, abs=1e-12)
    assert np.all(np.diff(bounds) < 0)
    assert bounds[4] < 0.2
    apart = [count_laws_independent(copies, 0.03).told for copies in (1, 2, 10, 100, 188, 800)]
    np.testing.assert_allclose(apart, bounds, atol=0.01)
