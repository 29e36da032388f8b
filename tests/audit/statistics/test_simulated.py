"""Statistics learnt from simulated runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp
from sklearn.linear_model import Ridge

from ksdp.audit.mechanisms.callables import function_mechanism
from ksdp.audit.mechanisms.contract import Database, Observables
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.simulated import STATISTICS, learn

MARKED = 3
RUNS = 400


def pool_of(announced: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Pool:
    rows = np.random.default_rng(5).normal(size=(20, 3))
    rows[MARKED, 0] = 9.0
    matrix = sp.csr_array(rows)
    mechanism = function_mechanism("own", lambda x, rng: announced(x.toarray(), rng), matrix[:10])
    return Pool(matrix, 0.5, None, mechanism)


def inside(rows: np.ndarray) -> int:
    return int((rows[:, 0] == 9.0).any())


def exclusive(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    bit = int(rng.integers(2))
    return np.array([bit, bit ^ inside(rows)], float)


def of_many(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = rng.normal(size=3000)
    noise[1234] += 3.0 * inside(rows)
    return noise


def position(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = rng.random(8)
    noise[2 + inside(rows)] += 1.0
    return rng.normal() * 10.0 + noise


def order(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    pair = np.sort(rng.normal(size=2))
    return pair if inside(rows) else pair[::-1].copy()


def nothing(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=30)


def distances(pool: Pool, runs: int = 600) -> np.ndarray:
    """D of each of the statistics (rows) and documents, on runs with a seed of their own."""
    documents, rng = Documents(pool.drawn, pool=pool), np.random.default_rng(77)
    bits, values = np.zeros((runs, pool.drawn.shape[0]), bool), []
    for run in range(runs):
        places, parts = pool.one_choice(rng)
        bits[run, places] = True
        seen = pool.mechanism.run(Database(parts), rng)
        values.append([one.over(tuple(seen), RUNS).evaluate(seen, documents) for one in STATISTICS])
    found = np.array(values)
    arms = [
        [ks_2samp(found[b, s, i], found[~b, s, i]) for i, b in enumerate(bits.T)] for s in range(len(STATISTICS))
    ]
    return np.array([[one.statistic for one in row] for row in arms])


@pytest.mark.parametrize("leak", [exclusive, of_many, position, order])
def test_a_leak_that_is_no_shift_of_a_sum_is_found_and_laid_on_nobody_else(leak: Callable) -> None:
    found = distances(pool_of(leak)).max(axis=0)
    assert found[MARKED] > 0.75
    assert np.delete(found, MARKED).max() < 0.3


def test_of_pure_noise_nothing_is_learnt() -> None:
    assert distances(pool_of(nothing)).max() < 0.18  # 600 runs: 60 columns of noise reach 0.15


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda one: one.kind)
def test_a_value_is_the_same_whoever_is_measured_beside(statistic) -> None:
    pool = pool_of(lambda rows, rng: np.cov(rows.T))
    every = Documents(pool.drawn, pool=pool)
    _, parts = pool.one_choice(np.random.default_rng(1))
    arrays = pool.mechanism.run(Database(parts), np.random.default_rng(1))
    one = statistic.over(tuple(arrays), 50)
    whole = one.evaluate(Observables(dict(arrays)), every)
    for some in ([4], [17, 4, 2], range(0, 20, 3)):
        chosen = np.array(list(some), np.int64)
        np.testing.assert_array_equal(one.evaluate(Observables(dict(arrays)), every.at(chosen)), whole[chosen])
        apart = Documents(pool.drawn[chosen], pool=pool)
        np.testing.assert_array_equal(one.evaluate(Observables(dict(arrays)), apart), whole[chosen])


def test_linear_weights_are_those_of_ridge_regression() -> None:
    rng = np.random.default_rng(0)
    found, bits = rng.normal(size=(60, 9)), (rng.random((60, 4)) < 0.5).astype(float)
    rules = learn(found, bits, ("a",))
    z = np.asarray((found - found.mean(axis=0)) / found.std(axis=0))
    gram = (z - z.mean(axis=0)) @ (z - z.mean(axis=0)).T / 9
    expected = Ridge(0.1 * np.trace(gram) / 60 * 9).fit(z, bits).coef_
    np.testing.assert_allclose((rules.vectors.T.astype(float) @ rules.linear / 9).T, expected, atol=1e-5)


def test_of_constant_numbers_nothing_is_said() -> None:
    assert distances(pool_of(lambda rows, rng: np.ones(4)), 40).max() == 0.0
