import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import Database
from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.controls import NullMechanism, PlantedLeak
from ksdp.audit.mechanisms.schema import recorded

Matrix = NDArray[np.float64]


def rows(count: int, columns: int, seed: int) -> sp.csr_array:
    return canonical(sp.random_array((count, columns), density=0.3, rng=np.random.default_rng(seed)))


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


def test_rows_without_features_leave_nothing_to_show() -> None:
    seen = PlantedLeak(rank=3).run(Database((canonical(sp.csr_array((4, 20))),)), np.random.default_rng(0))
    np.testing.assert_allclose(seen["V"] @ seen["V"].T, np.eye(3), atol=1e-13)


@pytest.mark.parametrize("mechanism", [NullMechanism, PlantedLeak])
def test_refuse_a_rank_out_of_range(mechanism: type[NullMechanism]) -> None:
    with pytest.raises(SpecError, match=r"`rank` must be a whole number of at least 1; got 0\."):
        mechanism(rank=0)
    with pytest.raises(SpecError, match=r"number of features \(7\); got 7"):
        recorded(mechanism(rank=7), 7)
    with pytest.raises(SpecError, match=r"number of features \(7\); got 7"):
        mechanism(rank=7).run(Database((rows(9, 7, 0),)), np.random.default_rng(0))
