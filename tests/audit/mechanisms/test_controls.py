from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from ksdp.audit.contract import Database, Mechanism
from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.controls import NullMechanism, PlantedLeak
from ksdp.audit.mechanisms.schema import recorded

Matrix = NDArray[np.float64]


def rows(count: int, columns: int, seed: int) -> sp.csr_array:
    return canonical(sp.random_array((count, columns), density=0.3, rng=np.random.default_rng(seed)))


def arms(mechanism: NullMechanism, runs: int, seed: int) -> tuple[Matrix, Matrix]:
    """Energy of one document in V, in databases of ten rows with and without it."""
    corpus, rng = rows(200, 30, 0), np.random.default_rng(seed)
    document = corpus[[0]].toarray()[0]
    values = np.empty((2, runs))
    for arm in (0, 1):
        for run in range(runs):
            others = 1 + rng.choice(199, 10, replace=False)
            if arm == 0:
                others[0] = 0
            seen = mechanism.run(Database((corpus[np.sort(others)],)), rng)
            values[arm, run] = np.sum((seen["V"] @ document) ** 2)
    return values[0], values[1]


@pytest.mark.parametrize(
    "mechanism", [NullMechanism(rank=3), PlantedLeak(rank=3), PlantedLeak(rank=3, strength=0.4)]
)
def test_keep_the_contract(mechanism: NullMechanism) -> None:
    assert isinstance(mechanism, Mechanism)
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    for seed in range(5):
        seen = mechanism.run(Database((rows(9, 20, 0), rows(5, 20, 1))), np.random.default_rng(seed))
        assert {a.name: a.shape for a in recorded(mechanism, 20)} == {"V": seen["V"].shape} == {"V": (3, 20)}
        np.testing.assert_allclose(seen["V"] @ seen["V"].T, np.eye(3), atol=1e-13)


def test_null_ignores_the_data_and_follows_the_generator() -> None:
    def run(data: int, seed: int) -> Matrix:
        return NullMechanism(rank=3).run(Database((rows(9, 20, data),)), np.random.default_rng(seed))["V"]

    assert np.array_equal(run(0, 5), run(1, 5))
    assert not np.array_equal(run(0, 5), run(0, 6))


def test_null_bases_are_uniform() -> None:
    rng = np.random.default_rng(0)
    database = Database((rows(9, 12, 0),))
    entries = np.array([NullMechanism(rank=3).run(database, rng)["V"] for _ in range(3000)])
    # Mean 0 and mean square 1/d of every entry: six standard errors, for 36 entries each.
    assert np.abs(entries.mean(axis=0)).max() < 6 * np.sqrt(1 / 12 / 3000)
    assert np.abs((entries**2).mean(axis=0) - 1 / 12).max() < 6 * np.sqrt(2) / 12 / np.sqrt(3000)


def test_an_audit_of_null_finds_nothing_and_of_the_leak_finds_it() -> None:
    assert ks_2samp(*arms(NullMechanism(rank=3), 200, 1)).pvalue > 1e-3
    assert ks_2samp(*arms(PlantedLeak(rank=3, strength=0.0), 200, 2)).pvalue > 1e-3
    assert ks_2samp(*arms(PlantedLeak(rank=3, strength=1.0), 200, 3)).pvalue < 1e-6


def test_strength_is_how_often_the_mean_row_is_shown() -> None:
    parties = rows(9, 20, 0), rows(5, 20, 1)
    mean = sp.vstack(parties).mean(axis=0)
    mean /= np.linalg.norm(mean)
    rng = np.random.default_rng(0)
    database = Database(parties)
    for strength in (0.0, 0.3, 1.0):
        mechanism = PlantedLeak(rank=3, strength=strength)
        shown = [np.allclose(mechanism.run(database, rng)["V"][0], mean, atol=1e-12) for _ in range(1000)]
        assert abs(np.mean(shown) - strength) <= 5 * np.sqrt(strength * (1 - strength) / 1000)


def test_a_leak_of_no_strength_is_the_null_mechanism() -> None:
    database = Database((rows(9, 20, 0),))
    one = PlantedLeak(rank=3, strength=0.0).run(database, np.random.default_rng(0))
    two = NullMechanism(rank=3).run(database, np.random.default_rng(0))
    assert np.array_equal(one["V"], two["V"])


def test_rows_without_features_leave_nothing_to_show() -> None:
    seen = PlantedLeak(rank=3).run(Database((canonical(sp.csr_array((4, 20))),)), np.random.default_rng(0))
    np.testing.assert_allclose(seen["V"] @ seen["V"].T, np.eye(3), atol=1e-13)


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
def test_refuses_a_strength_that_is_no_probability(strength: float) -> None:
    with pytest.raises(SpecError, match=r"`strength` must be in \[0, 1\]"):
        PlantedLeak(strength=strength)


@pytest.mark.parametrize("mechanism", [NullMechanism, PlantedLeak])
def test_refuse_a_rank_out_of_range(mechanism: type[NullMechanism]) -> None:
    with pytest.raises(SpecError, match=r"`rank` must be a whole number of at least 1; got 0\."):
        mechanism(rank=0)
    with pytest.raises(SpecError, match=r"number of features \(7\); got 7"):
        recorded(mechanism(rank=7), 7)
    with pytest.raises(SpecError, match=r"number of features \(7\); got 7"):
        mechanism(rank=7).run(Database((rows(9, 7, 0),)), np.random.default_rng(0))
