"""Tests of documents and the judgement of controls."""

from __future__ import annotations

import numpy as np

from ksdp.audit.testing import compare_arms, judge_controls, shuffled_log10_p
from ksdp.audit.verdicts.laws import ArmTests, ks_table
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


def test_shuffled_bits_find_nothing_and_a_mix_up_is_noticed() -> None:
    """Values that carry the shuffled bits themselves: what a wrong run number would do."""
    rng = np.random.default_rng(5)
    inclusion = rng.random((8, 500)) < 0.5
    order = rng.permutation(500)
    leak = {"s": rng.normal(size=(8, 500)) + 4 * inclusion}
    sound = shuffled_log10_p(leak, inclusion, order)
    assert sound.shape == (8, 1)
    assert sound.min() > -4
    mixed = shuffled_log10_p({"s": rng.normal(size=(8, 500)) + 4 * inclusion[:, order]}, inclusion, order)
    controls = compare_arms({"s": rng.normal(size=(32, 500))}, rng.random((32, 500)) < 0.5)
    judged = judge_controls([controls], [sound, mixed])
    assert not judged.valid
    assert "dealt at random" in str(judged.reason)
