from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from ksdp.audit.corpus import canonical
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.contract import Database, Mechanism, Observables
from ksdp.audit.mechanisms.factorisation.pd_pca import PDPCA
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD

RNG = np.random.default_rng(0)
Matrix = NDArray[np.float64]


def parties_of(dense: Matrix, *cuts: int) -> tuple[sp.csr_array, ...]:
    return tuple(canonical(sp.csr_array(part)) for part in np.split(dense, cuts))


def random_rows(rows: int, columns: int, seed: int) -> Matrix:
    rng = np.random.default_rng(seed)
    dense = sp.random_array((rows, columns), density=0.15, rng=rng).toarray()
    dense[: rows // 3] += 0.2  # parties that differ, so that local means would not do
    return np.asarray(dense)


def check_pca(seen: Observables, dense: Matrix, rank: int) -> None:
    """Against scikit-learn: mean, explained variance, and components up to sign."""
    pca = PCA(n_components=rank, svd_solver="full").fit(dense)
    scale = np.abs(dense).max()
    np.testing.assert_allclose(seen["mean"], pca.mean_, atol=1e-12 * scale)
    np.testing.assert_allclose(seen["sigma"] ** 2 / (len(dense) - 1), pca.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(np.abs(seen["V"] @ pca.components_.T), np.eye(rank), atol=1e-7)


@pytest.mark.parametrize("shape", [(120, 40), (200, 300), (300, 200), (30, 200)])
@pytest.mark.parametrize("solver", ["limit", "power"])
def test_is_the_centralised_pca(shape: tuple[int, int], solver: Literal["limit", "power"]) -> None:
    dense = random_rows(*shape, 0)
    database = Database(parties_of(dense, shape[0] // 3, shape[0] // 2))
    mechanism = PDPCA(rank=2, reveal_sigma=True, solver=solver, iterations=3000, tolerance=1e-11)
    assert isinstance(mechanism, Mechanism)
    seen = mechanism.run(database, RNG)
    schema = {a.name: a.shape for a in mechanism.observables(shape[1])}
    assert schema == {name: array.shape for name, array in seen.items()}
    check_pca(seen, dense, 2)


def test_the_printed_algorithm_is_another_thing() -> None:
    # Centring each party with its own mean misses what differs between parties.
    dense = random_rows(120, 40, 1)
    parties = parties_of(dense, 40)
    local = np.vstack([part.toarray() - part.mean(axis=0) for part in parties])
    theirs = np.linalg.svd(local)[2][:2]
    ours = PDPCA(rank=2).run(Database(parties), RNG)["V"]
    assert np.linalg.norm(ours - (ours @ theirs.T) @ theirs, 2) > 0.1


def test_both_solvers_agree_in_sign() -> None:
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    dense = 3 + rng.standard_normal((90, 6)) * [8, 4, 2, 1, 0.5, 0.2] @ turn
    database = Database(parties_of(dense, 20, 50))
    limit = PDPCA(rank=3).run(database, RNG)
    power = PDPCA(rank=3, solver="power", tolerance=0, iterations=300).run(database, RNG)
    np.testing.assert_allclose(limit["V"], power["V"], atol=1e-9)


def test_a_coalition_sees_the_mean_of_the_others() -> None:
    dense = random_rows(120, 40, 2)
    parties = parties_of(dense, 10, 70)
    coalition = PDPCA(rank=3).run(Database(parties, frozenset({1})), RNG)
    alone = PDPCA(rank=3).run(Database(parties), RNG)
    np.testing.assert_allclose(coalition["mean"], dense[[*range(10), *range(70, 120)]].mean(axis=0), atol=1e-14)
    np.testing.assert_allclose(alone["mean"], dense.mean(axis=0), atol=1e-14)
    # V is centred with the global mean, whoever looks.
    assert np.array_equal(coalition["V"], alone["V"])
    only = PDPCA(rank=3).run(Database(parties, frozenset({1, 2})), RNG)
    np.testing.assert_allclose(only["mean"], dense[:10].mean(axis=0), atol=1e-14)


def test_centred_rows_are_left_as_pd_svd_finds_them() -> None:
    rng = np.random.default_rng(0)
    half = rng.standard_normal((40, 30))
    dense = np.vstack((half, -half))
    database = Database(parties_of(dense, 25))
    pca, svd = PDPCA(rank=3).run(database, RNG), PDSVD(rank=3).run(database, RNG)
    np.testing.assert_allclose(pca["V"], svd["V"], atol=1e-9)


def test_shifting_all_rows_moves_the_mean_only() -> None:
    dense = random_rows(150, 60, 3)
    one = PDPCA(rank=3).run(Database(parties_of(dense, 50)), RNG)
    two = PDPCA(rank=3).run(Database(parties_of(dense + 100, 50)), RNG)
    np.testing.assert_allclose(two["mean"] - one["mean"], 100, atol=1e-10)
    np.testing.assert_allclose(two["V"], one["V"], atol=1e-8)


@pytest.mark.parametrize("solver", ["limit", "power"])
def test_equal_rows_have_no_direction(solver: Literal["limit", "power"]) -> None:
    dense = np.tile(np.array([0.1, 0.7, 0.0, 3.3, 1.1, 0.0]), (20, 1))
    seen = PDPCA(rank=2, reveal_sigma=True, solver=solver).run(Database(parties_of(dense, 7)), RNG)
    np.testing.assert_allclose(seen["V"] @ seen["V"].T, np.eye(2), atol=1e-12)
    assert seen["sigma"].max() < 1e-12


def test_refuses_as_pd_svd_does() -> None:
    with pytest.raises(SpecError, match="number of features"):
        PDPCA(rank=5).observables(5)
    with pytest.raises(CorpusError, match="`rank` must be below"):
        PDPCA(rank=5).run(Database(parties_of(random_rows(5, 30, 0))), RNG)
    with pytest.raises(SpecError, match="`rank` must be a whole number of at least 1"):
        PDPCA(rank=0)


def test_census(data_folder: Path) -> None:
    """Columns of very different scales, parties of unequal sizes."""
    table = pd.read_parquet(data_folder / "adult" / "table.parquet").select_dtypes("number").to_numpy(np.float64)
    dense = table[np.sort(np.random.default_rng(0).choice(len(table), 5000, replace=False))]
    seen = PDPCA(rank=5, reveal_sigma=True).run(Database(parties_of(dense, 150, 1150)), RNG)
    check_pca(seen, dense, 5)


def test_songs(data_folder: Path) -> None:
    table = pd.read_parquet(data_folder / "yearpredictionmsd" / "table.parquet").filter(like="timbre_")
    dense = table.to_numpy(np.float64)
    assert dense.shape == (8162, 90)
    seen = PDPCA(rank=7, reveal_sigma=True).run(Database(parties_of(dense, 300, 3000)), RNG)
    check_pca(seen, dense, 7)
