"""The space that all announced blocks span, against iterating for real; and what blocks give away."""

import hashlib
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse.linalg import svds
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from ksdp.audit.contract import Database, Mechanism, Observables
from ksdp.audit.corpus.matrix import canonical, tf_idf, unit_rows
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.factorisation import pd_svd
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD, SigmaSVD, announced_span
from ksdp.audit.mechanisms.factorisation.power_iteration import (
    normed_sec_sum,
    orthonormalise,
    share_of,
    start_block,
)
from ksdp.audit.mechanisms.schema import recorded

RNG = np.random.default_rng(0)


def random_rows(rows: int, columns: int, seed: int) -> sp.csr_array:
    return canonical(sp.random_array((rows, columns), density=0.1, rng=np.random.default_rng(seed)))


def separated(rows: int, columns: int, seed: int) -> sp.csr_array:
    """Singular values 2^-i: every vector is well determined."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((n, 6)))[0] for n in (rows, columns))
    return canonical(sp.csr_array((left * 2.0 ** -np.arange(6)) @ right.T))


def test_sigma_is_hidden_unless_revealed() -> None:
    assert [a.name for a in recorded(PDSVD(opens="final"), 50)] == ["V"]
    assert [a.name for a in recorded(SigmaSVD(opens="final"), 50)] == ["V", "sigma"]
    assert [a.name for a in recorded(PDSVD(), 90)] == ["V", "span", "span_sigma", "first_blocks", "block_sums"]
    assert (PDSVD.name, SigmaSVD.name) == ("pd-svd", "sigma-svd")


@given(seed=st.integers(0, 10**6), tall=st.booleans(), cuts=st.sets(st.integers(0, 150), max_size=4))
@settings(max_examples=25, deadline=None)
def test_neither_the_order_nor_the_owner_of_rows_matters(seed: int, tall: bool, cuts: set[int]) -> None:
    matrix = separated(150, 140 if tall else 160, seed)
    shuffled = matrix[np.random.default_rng(seed).permutation(150)]
    bounds = [0, *sorted(cuts), 150]
    parties = tuple(shuffled[low:high] for low, high in pairwise(bounds))
    whole = Database((matrix,))
    for mechanism in (SigmaSVD(rank=4), SigmaSVD(rank=4, solver="power", iterations=40, tolerance=0)):
        one, two = mechanism.run(whole, RNG), mechanism.run(Database(parties), RNG)
        np.testing.assert_allclose(one["V"], two["V"], atol=1e-9)
        np.testing.assert_allclose(one["sigma"], two["sigma"], rtol=1e-10)


def test_the_same_bits_with_any_number_of_threads() -> None:
    digests = set()
    for threads in (1, 2, 4):
        here = hashlib.sha256()
        with threadpool_limits(threads):
            for shape in ((150, 400), (400, 150), (90, 60)):
                matrix = random_rows(*shape, 1)
                seen = SigmaSVD().run(Database((matrix[:50], matrix[50:])), RNG)
                here.update(seen["V"].tobytes() + seen["sigma"].tobytes())
        digests.add(here.hexdigest())
    assert len(digests) == 1


class TestDegenerate:
    @pytest.mark.parametrize("solver", ["limit", "power"])
    @pytest.mark.parametrize("rows", [3, 150])
    def test_rows_that_repeat(self, solver: str, rows: int) -> None:
        # Rank 2: rows 3 and 4 of V hold nothing but the start.
        base = random_rows(2, 200, 5)
        matrix = canonical(sp.vstack([base] * rows))
        mechanism = PDSVD(rank=4, reveal_sigma=True, solver=solver)  # type: ignore[arg-type]
        seen = mechanism.run(Database((matrix,)), RNG)
        np.testing.assert_allclose(seen["V"] @ seen["V"].T, np.eye(4), atol=1e-12)
        np.testing.assert_array_equal(seen["sigma"] > 0, [True, True, False, False])
        kept = base.toarray()
        np.testing.assert_allclose(kept @ seen["V"][:2].T @ seen["V"][:2], kept, atol=1e-12)
        start = start_block(0, 200, 4)[2:3]
        outside = start - (start @ seen["V"][:2].T) @ seen["V"][:2]
        np.testing.assert_allclose(seen["V"][2:3], outside / np.linalg.norm(outside), atol=1e-9)

    @pytest.mark.parametrize("solver", ["limit", "power"])
    def test_nothing_at_all(self, solver: str) -> None:
        database = Database((canonical(sp.csr_array((20, 30))),))
        seen = PDSVD(rank=4, reveal_sigma=True, solver=solver).run(database, RNG)  # type: ignore[arg-type]
        np.testing.assert_allclose(seen["V"] @ seen["V"].T, np.eye(4), atol=1e-12)
        assert not seen["sigma"].any()

    def test_too_few_rows_or_features(self) -> None:
        with pytest.raises(CorpusError, match=r"`rank` must be below the rows and the features .*\(5\); got 7"):
            PDSVD().run(Database((random_rows(3, 40, 0), random_rows(2, 40, 1))), RNG)
        with pytest.raises(CorpusError, match=r"\(7\); got 7"):
            PDSVD().run(Database((random_rows(30, 7, 0),)), RNG)
        with pytest.raises(SpecError, match=r"number of features \(7\); got 7"):
            recorded(PDSVD(), 7)


@pytest.mark.parametrize("name", ["enron-mail6", "kos"])
def test_real_text(data_folder: Path, name: str) -> None:
    corpus = unit_rows(tf_idf(canonical(sp.csr_array(sp.load_npz(data_folder / name / "counts.npz")))))
    rng = np.random.default_rng(11)
    rows = np.sort(rng.choice(corpus.shape[0], int(0.03 * corpus.shape[0]), replace=False))
    matrix = canonical(corpus[rows])
    mechanism = SigmaSVD()
    seen = mechanism.run(Database((matrix,)), rng)
    _, values, basis = svds(matrix, k=7, v0=np.ones(len(rows)))
    assert np.linalg.norm(basis - (basis @ seen["V"].T) @ seen["V"], 2) < 1e-8
    np.testing.assert_allclose(seen["sigma"], values[::-1], rtol=1e-10)
    # What three parties compute by the protocol, their blocks converged, is the same subspace.
    third = len(rows) // 3
    parties = (matrix[:third], matrix[third : 2 * third], matrix[2 * third :])
    power = PDSVD(solver="power", tolerance=1e-8, iterations=4000).run(Database(parties), rng)
    assert power["iterations"][0] < 4000
    assert np.linalg.norm(power["V"] - (power["V"] @ seen["V"].T) @ seen["V"], 2) < 1e-5


RNG_PD_PCA = np.random.default_rng(0)
Matrix = NDArray[np.float64]


def parties_of(dense: Matrix, *cuts: int) -> tuple[sp.csr_array, ...]:
    return tuple(canonical(sp.csr_array(part)) for part in np.split(dense, cuts))


def random_rows_of_pd_pca(rows: int, columns: int, seed: int) -> Matrix:
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
    dense = random_rows_of_pd_pca(*shape, 0)
    database = Database(parties_of(dense, shape[0] // 3, shape[0] // 2))
    mechanism = PDPCA(rank=2, reveal_sigma=True, solver=solver, iterations=3000, tolerance=1e-11)
    assert isinstance(mechanism, Mechanism)
    seen = mechanism.run(database, RNG_PD_PCA)
    schema = {a.name: a.shape for a in recorded(mechanism, shape[1])}
    assert schema == {name: array.shape for name, array in seen.items()}
    check_pca(seen, dense, 2)


def test_a_coalition_sees_the_mean_of_the_others() -> None:
    dense = random_rows_of_pd_pca(120, 40, 2)
    parties = parties_of(dense, 10, 70)
    coalition = PDPCA(rank=3).run(Database(parties, frozenset({1})), RNG_PD_PCA)
    alone = PDPCA(rank=3).run(Database(parties), RNG_PD_PCA)
    np.testing.assert_allclose(coalition["mean"], dense[[*range(10), *range(70, 120)]].mean(axis=0), atol=1e-14)
    np.testing.assert_allclose(alone["mean"], dense.mean(axis=0), atol=1e-14)
    # V is centred with the global mean, whoever looks.
    assert np.array_equal(coalition["V"], alone["V"])
    only = PDPCA(rank=3).run(Database(parties, frozenset({1, 2})), RNG_PD_PCA)
    np.testing.assert_allclose(only["mean"], dense[:10].mean(axis=0), atol=1e-14)


@pytest.mark.parametrize("cuts", [(), (20, 60)])
@pytest.mark.parametrize("solver", ["limit", "power"])
def test_own_means_are_subtracted_and_hidden(cuts: tuple[int, ...], solver: Literal["limit", "power"]) -> None:
    """Against the eigenvectors of the parties' centred products, written out."""
    dense = random_rows_of_pd_pca(120, 40, 3)
    mechanism = PDPCA(rank=2, centre="own", reveal_sigma=True, solver=solver, iterations=3000, tolerance=1e-11)
    seen = mechanism.run(Database(parties_of(dense, *cuts)), RNG_PD_PCA)
    products = sum(np.cov(part.T, bias=True) * len(part) for part in np.split(dense, cuts))
    values, vectors = np.linalg.eigh(products)
    np.testing.assert_allclose(np.abs(seen["V"] @ vectors[:, :-3:-1]), np.eye(2), atol=1e-7)
    np.testing.assert_allclose(seen["sigma"] ** 2, values[:-3:-1], rtol=1e-8)
    assert {a.name: a.shape for a in recorded(mechanism, 40)} == {n: array.shape for n, array in seen.items()}
    assert "mean" not in seen
    block = start_block(0, 40, 2)
    for announced, multiplied in zip(seen["block_sums"], seen["first_blocks"], strict=False):
        np.testing.assert_allclose(announced, multiplied @ products, atol=1e-9)
    np.testing.assert_allclose(seen["first_blocks"][0], orthonormalise(block, block), atol=1e-12)


def test_own_means_of_many_columns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pd_svd, "OWN_ENTRIES", 100)
    with pytest.raises(CorpusError, match='`centre` must be "all" where several parties have more than 100 entr'):
        PDPCA(rank=2, centre="own").run(Database(parties_of(random_rows_of_pd_pca(12, 9, 0), 4)), RNG_PD_PCA)


def blocks_of(matrix, start, rounds, mean=None):
    """What NormedSecSum announces, iteration by iteration, and the blocks that it is applied to."""
    block, seen, before = orthonormalise(start, start), [], []
    for _ in range(rounds):
        announced, _ = normed_sec_sum([share_of(matrix, block, mean)])
        seen.append(announced)
        before.append(block)
        block = orthonormalise(announced, start)
    return seen, before


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("shape", [(60, 200), (200, 60), (30, 40), (40, 30)])
def test_it_is_what_the_blocks_span(shape: tuple[int, int], centred: bool) -> None:
    matrix = sp.csr_array(sp.random_array(shape, density=0.2, rng=np.random.default_rng(1), format="csr"))
    mean = np.asarray(matrix.mean(axis=0)).ravel() if centred else None
    start = start_block(0, shape[1], 3)
    seen, _ = blocks_of(matrix, start, 5, mean)
    _, lengths, rows = np.linalg.svd(np.vstack(seen), full_matrices=False)
    rows = rows[lengths > 1e-9 * lengths[0]]
    found = announced_span(matrix, start, 5, mean)
    np.testing.assert_allclose(found.rows.T @ found.rows, rows.T @ rows, atol=1e-8)
    dense = matrix.toarray() - (0.0 if mean is None else mean)
    image = dense @ rows.T
    np.testing.assert_allclose(found.values**2, np.linalg.eigvalsh(image.T @ image)[::-1], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.rows @ found.rows.T, np.eye(15), atol=1e-10)


def test_a_small_matrix_ends_the_space() -> None:
    matrix = sp.csr_array(np.vstack([np.eye(3, 9), np.zeros((4, 9))]) * [[3], [2], [1], [0], [0], [0], [0]])
    found = announced_span(matrix, start_block(0, 9, 2), 4)
    np.testing.assert_allclose(found.values, [3, 2, 1, 0, 0, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(np.abs(found.rows[:3]), np.eye(3, 9), atol=1e-8)
    assert not found.rows[3:].any()
    assert not announced_span(sp.csr_array((5, 9)), start_block(0, 9, 2), 4).rows.any()


@pytest.mark.parametrize("solver", ["limit", "power"])
def test_every_round_or_the_final_output(solver: str) -> None:
    database = Database((sp.csr_array(sp.random_array((60, 40), density=0.3, rng=np.random.default_rng(4))),))
    rng = np.random.default_rng(0)
    whole = PDSVD(rank=2, solver=solver, iterations=4, tolerance=0).run(database, rng)
    final = PDSVD(rank=2, solver=solver, iterations=4, opens="final").run(database, rng)
    assert set(final) == {"V"}
    np.testing.assert_array_equal(final["V"], whole["V"])
    shown = SigmaSVD(rank=2).run(database, rng)
    np.testing.assert_allclose(shown["span_sigma"][:2], shown["sigma"], rtol=1e-3)
    stopped = PDSVD(rank=2, solver="power", iterations=9, tolerance=0.9).run(database, rng)
    done = int(stopped["iterations"][0])
    assert done < 9
    assert stopped["span"][2 * done - 1].any()
    assert not stopped["span"][2 * done :].any()


@pytest.mark.parametrize("kind", [PDSVD, PDPCA])
def test_hidden_norms_follow_from_what_is_opened_but_for_one_factor(kind: type[PDSVD]) -> None:
    """n_s (v_t . w_s) = n_t (v_s . w_t) for rows v that were multiplied and rows w of norm 1 that were opened."""
    matrix = sp.csr_array(sp.random_array((80, 40), density=0.3, rng=np.random.default_rng(6), format="csr"))
    seen = kind(rank=3).run(Database((matrix,)), np.random.default_rng(0))
    sums = seen["block_sums"].reshape(-1, 40)
    norms = np.linalg.norm(sums, axis=1)
    products = (sums / norms[:, None]) @ seen["first_blocks"][:-1].reshape(-1, 40).T
    misfit = np.diag(np.square(products).sum(axis=1)) - products * products.T
    found = np.abs(np.linalg.eigh(misfit)[1][:, 0])
    np.testing.assert_allclose(found / found.max(), norms / norms.max(), rtol=1e-6)
