"""Permutations and exact laws joined; how many permutations, for how many documents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.verdicts.ks import ks_table
from ksdp.audit.verdicts.multiplicity import adjust, bonferroni, weighted_minimum
from ksdp.audit.verdicts.over_statistics import documents_feasible, over_statistics, permutations_needed
from ksdp.audit.verdicts.permutation import max_t


def audit(leaks: list[float], seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    inclusion = rng.random((len(leaks), 300)) < 0.5
    one = rng.normal(size=inclusion.shape) + np.array(leaks)[:, None] * inclusion
    values = one + 0.05 * rng.normal(size=(10, *inclusion.shape))
    return values, inclusion, np.stack([ks_table(v, inclusion).log10_p for v in values], axis=1)


def test_is_both_tests_with_their_parts_of_the_level() -> None:
    values, inclusion, each = audit([0.0, 0.4, 5.0])
    p = over_statistics(values, inclusion, each, 2000, np.random.default_rng(1))
    permuted = max_t(values, inclusion, 2000, np.random.default_rng(1))
    assert p.tolist() == weighted_minimum(permuted, bonferroni(each), 0.2).tolist()
    assert p[2] < -50  # far below 1 / 2001
    assert p[1] < bonferroni(each)[1]


def test_a_clear_leak_needs_no_permutations() -> None:
    """So many would take hours."""
    values, inclusion, each = audit([5.0, 4.0])
    p = over_statistics(values, inclusion, each, 10**10, np.random.default_rng(1))
    assert p == pytest.approx(bonferroni(each) - np.log10(0.2))


@given(st.floats(0.001, 0.3), st.integers(1, 20_000), st.sampled_from(["by", "bh", "holm", "e-bh"]))
@settings(max_examples=60, deadline=None)
def test_so_many_permutations_are_enough_and_one_fewer_is_not(
    level: float, documents: int, procedure: str
) -> None:
    most = permutations_needed(level, documents, procedure)
    lone = np.zeros(documents)
    lone[0] = -np.log10(most + 1)
    assert adjust(lone, procedure)[0] <= np.log10(level) + 1e-9
    lone[0] = -np.log10(most)
    assert most == 1 or adjust(lone, procedure)[0] > np.log10(level) - 1e-9


@pytest.mark.parametrize("procedure", ["by", "bh", "holm", "e-bh"])
def test_so_many_documents_are_feasible_and_one_more_is_not(procedure: str) -> None:
    for permutations in (99, 5000, 100_000):
        most = documents_feasible(0.05, permutations, procedure)
        assert most == 0 or permutations_needed(0.05, most, procedure) <= permutations
        assert permutations_needed(0.05, most + 1, procedure) > permutations
    assert documents_feasible(0.05, 5, procedure) == 0


def test_refusals() -> None:
    values, inclusion, each = audit([0.0])
    rng = np.random.default_rng(1)
    with pytest.raises(ValueError, match="`log10_p` must be"):
        over_statistics(values, inclusion, each.T, 10, rng)
    with pytest.raises(ValueError, match="`share` in"):
        over_statistics(values, inclusion, each, 10, rng, share=1.0)
