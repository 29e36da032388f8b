"""Max-T against an enumeration of every choice of runs, and what it must not depend on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.verdicts.ks import ks_distances, ks_table
from ksdp.audit.verdicts.multiplicity import bonferroni
from ksdp.audit.verdicts.permutation import _distance, _prepare, max_t

ALL = 10**9


def every_split(values: np.ndarray, m: int) -> np.ndarray:
    """D of each column under every choice of m runs, shape (splits, columns); values (columns, runs)."""
    runs = values.shape[1]
    splits = np.array([np.isin(np.arange(runs), x) for x in itertools.combinations(range(runs), m)])
    return np.stack([ks_distances(np.tile(v, (len(splits), 1)), splits) for v in values], axis=1)


@given(st.integers(0, 10_000), st.sampled_from([None, 1, 0]), st.integers(2, 200), st.floats(0.05, 0.95))
@settings(max_examples=60, deadline=None)
def test_distances_are_those_of_ks(seed: int, decimals: int | None, runs: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(3, runs))
    if decimals is not None:
        values = values.round(decimals)
    held = rng.random(runs) < share
    prepared = _prepare(values, held)
    wanted = ks_distances(values, np.tile(held, (3, 1)))
    if prepared is None:
        assert (wanted == 0).all()
        return
    place, start, end, _, chosen, m, words = prepared
    ours = [_distance(place[s], start[s], end[s], chosen, m, words) for s in range(3)]
    assert ours == wanted.tolist()


@pytest.mark.parametrize(("runs", "m"), [(11, 4), (10, 5), (12, 9)])
def test_equals_an_enumeration_of_every_choice_of_runs(runs: int, m: int) -> None:
    rng = np.random.default_rng(1)
    draws = 10_000
    for _ in range(2):
        held = rng.permutation(runs) < m
        values = rng.normal(size=(3, 1, runs)) + 0.8 * held
        values[1] = values[1].round(0)
        observed = [ks_distances(v, held[None])[0] for v in values]
        # Too few runs for p = 0.001: no column is scaled.
        all_splits = every_split(values[:, 0], m)
        wanted = (all_splits.max(axis=1) >= max(observed)).mean()
        noise = 5 * np.sqrt(wanted / draws)
        p = 10 ** max_t(values, held[None], draws, rng, exceedances=ALL)[0]
        assert p == pytest.approx(wanted, abs=noise)


def test_stopping_early_changes_noise_only() -> None:
    rng = np.random.default_rng(2)
    inclusion = rng.random((3, 200)) < 0.4
    values = rng.normal(size=(2, 3, 200)) + np.linspace(0, 0.4, 3)[:, None] * inclusion
    whole = 10 ** max_t(values, inclusion, 20_000, rng, exceedances=ALL)
    early = np.array([10 ** max_t(values, inclusion, 20_000, rng, exceedances=50) for _ in range(40)])
    assert early.mean(axis=0) == pytest.approx(whole, rel=0.15)
    assert (np.abs(early / whole - 1).std(axis=0) < 0.4).all()


@pytest.mark.parametrize("exceedances", [3, ALL])
def test_superuniform_with_few_permutations(exceedances: int) -> None:
    """Exact for any number of permutations, so the level holds with 39 of them, and is nearly reached."""
    rng = np.random.default_rng(3)
    inclusion = rng.random((1500, 101)) < 0.3
    values = rng.normal(size=(1, 1500, 101)) + 0.3 * rng.normal(size=(2, 1500, 101))
    p = 10 ** max_t(values, inclusion, 39, rng, exceedances=exceedances)
    for level in (0.025, 0.05, 0.1, 0.2):
        rate = (p <= level + 1e-12).mean()
        assert 0.8 * level - 3 * np.sqrt(level / len(p)) <= rate <= level + 3 * np.sqrt(level / len(p))
    assert p.min() == pytest.approx(1 / 40)


def test_many_statistics_that_see_the_same_cost_next_to_nothing() -> None:
    rng = np.random.default_rng(4)
    inclusion = rng.random((12, 300)) < 0.5
    leak = rng.normal(size=(12, 300)) + 0.45 * inclusion
    values = leak + 0.05 * rng.normal(size=(10, 12, 300))
    each = np.stack([ks_table(v, inclusion).log10_p for v in values], axis=1)
    permuted = max_t(values, inclusion, 5000, rng)
    usual = each.min(axis=1) > -3.2
    assert np.median((permuted - each.min(axis=1))[usual]) < np.log10(4)
    assert np.median((bonferroni(each) - permuted)[usual]) > np.log10(3)


def test_a_coarse_statistic_is_not_drowned_by_fine_ones() -> None:
    """Of two values: its distances are small, unless measured by its own law."""
    rng = np.random.default_rng(6)
    inclusion = rng.random((30, 400)) < 0.5
    event = rng.random((30, 400)) < np.where(inclusion, 0.12, 0.01)
    values = np.stack([event.astype(float), *rng.normal(size=(4, 30, 400))])
    p = max_t(values, inclusion, 3000, rng)
    assert np.median(p) < -2.5
    raw = np.array([ks_distances(v, inclusion) for v in values])
    assert (raw[0] < raw[1:].max(axis=0)).any()  # others do have larger distances


def test_a_document_does_not_depend_on_those_beside_it() -> None:
    rng = np.random.default_rng(7)
    inclusion = rng.random((5, 150)) < 0.3
    values = rng.normal(size=(2, 5, 150))
    whole = max_t(values, inclusion, 500, np.random.default_rng(1))
    some = max_t(values, inclusion, 500, np.random.default_rng(1), rows=np.array([1, 3]))
    assert some[[1, 3]].tolist() == whole[[1, 3]].tolist()
    assert some[[0, 2, 4]].tolist() == [0.0, 0.0, 0.0]
    assert (max_t(values, inclusion, 500, np.random.default_rng(1)) == whole).all()


def test_swapped_arms_and_monotone_maps_change_nothing() -> None:
    rng = np.random.default_rng(8)
    inclusion = rng.random((3, 150)) < 0.3
    values = rng.normal(size=(2, 3, 150)).round(1)
    whole = max_t(values, inclusion, 300, np.random.default_rng(1))
    assert (max_t(values, ~inclusion, 300, np.random.default_rng(1)) == whole).all()
    assert (max_t(np.exp(values), inclusion, 300, np.random.default_rng(1)) == whole).all()


def test_nothing_to_see() -> None:
    inclusion = np.array([[False] * 6, [True, False] * 3])
    values = np.ones((2, 2, 6))
    assert max_t(values, inclusion, 10, np.random.default_rng(1)).tolist() == [0.0, 0.0]


def test_refusals() -> None:
    rng = np.random.default_rng(1)
    inclusion = np.array([[True, False]])
    with pytest.raises(ValueError, match="`values` must be of shape"):
        max_t(np.ones((2, 2, 2)), inclusion, 10, rng)
    with pytest.raises(ValueError, match="`permutations` must be at least 1; got 0"):
        max_t(np.ones((2, 1, 2)), inclusion, 0, rng)
    with pytest.raises(ValueError, match="`exceedances` must be at least 1; got 0"):
        max_t(np.ones((2, 1, 2)), inclusion, 10, rng, exceedances=0)
    with pytest.raises(ValueError, match="must not hold NaN"):
        max_t(np.full((2, 1, 2), np.nan), inclusion, 10, rng)
