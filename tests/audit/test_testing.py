"""Tests of documents and the judgement of controls."""

from __future__ import annotations

import numpy as np

from ksdp.audit.testing import ArmTests, compare_arms
from ksdp.audit.verdicts.ks import ks_table
from ksdp.audit.verdicts.tails import tail_table


def test_p_has_its_parts() -> None:
    rng = np.random.default_rng(0)
    inclusion = rng.random((6, 500)) < 0.3
    values = {name: rng.normal(size=(6, 500)) + inclusion * shift for name, shift in (("a", 0.5), ("b", 0.0))}
    tests = compare_arms(values, inclusion)
    for column, array in enumerate(values.values()):
        distance, tail = ks_table(array, inclusion), tail_table(array, inclusion)
        p = np.minimum(10**distance.log10_p / 0.8, 10**tail.log10_p / 0.2).clip(max=1)
        np.testing.assert_allclose(10 ** tests.log10_p[:, column], p)
        np.testing.assert_array_equal(tests.distance[:, column], distance.distance)
        np.testing.assert_array_equal(tests.log10_tail[:, column], tail.log10_p)


def test_a_rare_certain_leak_is_found_where_the_distance_is_blind() -> None:
    rng = np.random.default_rng(1)
    inclusion = rng.random((1, 4000)) < 0.5
    values = rng.normal(size=(1, 4000)) + 50 * (inclusion & (rng.random((1, 4000)) < 0.02))
    tests = compare_arms({"s": values}, inclusion)
    assert ks_table(values, inclusion).log10_p[0] > -3
    assert tests.log10_p[0, 0] < -8


def test_slices_join_in_order() -> None:
    rng = np.random.default_rng(2)
    inclusion, values = rng.random((9, 60)) < 0.5, rng.normal(size=(9, 60))
    whole = compare_arms({"s": values}, inclusion)
    joined = ArmTests.join([compare_arms({"s": values[:4]}, inclusion[:4]), whole[4:]])
    assert len(joined) == 9
    for name in ("n_with", "n_without", "distance", "log10_p", "log10_tail"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
