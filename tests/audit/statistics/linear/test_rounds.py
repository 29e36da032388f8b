"""Matched filters on rounds: terms against what mechanisms announce, filters against plain ones, who is in."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Observables
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD, SigmaSVD
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.statistic import Documents, Pool
from ksdp.audit.statistics.linear import expected, releases
from ksdp.audit.statistics.linear.contributions import block_numbers, part_terms, sweep_numbers
from ksdp.audit.statistics.linear.expected import FirstOrderTopics
from ksdp.audit.statistics.linear.operator import LOST
from ksdp.audit.statistics.linear.releases import LinearBasis, LinearBlocks, LinearSums
from ksdp.audit.statistics.linear.solve import lost

from .who_is_in import obvious, ratings, run_among

COINS = np.random.default_rng(0)
RATED = {"rank": 2, "weighted": True, "beta": 1.0, "delta": 1.0}
RULED = {"alpha": 0.1, "beta": 0.3, "gamma": 0.2, "delta": 0.4}


def rows(n: int = 30, d: int = 20, seed: int = 1) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.integers(0, 5, (n, d)) * (rng.random((n, d)) < 0.5), dtype=np.float64)


@pytest.mark.parametrize("ruled", [{"beta": 1.0, "delta": 1.0}, RULED])
@pytest.mark.parametrize("others", ["none", "fixed", "colluding", "drawn"])
def test_converged_topics_of_many_ratings_tell_who_is_in(
    ruled: dict[str, float], others: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expected, "UNCONVERGED", 0.0)
    matrix, fixed, rng = ratings(14, 30), ratings(8, 30, seed=5), np.random.default_rng(2)
    held = np.isin(np.arange(14), rng.choice(14, 7, replace=False))
    mechanism = PDNMF(rank=2, sweeps=5000, tolerance=0.0, weighted=True, opens="final", **ruled)
    found = FirstOrderTopics().evaluate(*run_among(mechanism, matrix, held, fixed, others))
    # The equations are solved: one value for who is in, and one for who is not.
    assert found[held].min() - found[~held].max() > 0.9 * (found[held].mean() - found[~held].mean()) > 0.0


@pytest.mark.parametrize("ruled", [{}, RULED])
def test_terms_of_sweeps_add_up_to_what_is_announced(ruled: dict[str, float]) -> None:
    matrix = rows()
    seen = PDNMF(rank=3, sweeps=3, tolerance=0.0, **ruled).run(Database((matrix,)), COINS)
    made = sweep_numbers(matrix, seen["topics"], ruled.get("gamma", 0.0), ruled.get("delta", 0.0))
    announced = np.concatenate([seen["sums"].ravel(), seen["weights"].ravel()])
    np.testing.assert_allclose(obvious(made).sum(axis=0), announced, atol=1e-9 * np.abs(announced).max())
    np.testing.assert_array_equal(seen["topics"][-1], seen["T"])


@pytest.mark.parametrize("mechanism", [PDSVD(rank=3), PDPCA(rank=3)])
def test_terms_of_blocks_add_up_to_nothing(mechanism: PDSVD) -> None:
    matrix = rows()
    seen = mechanism.run(Database((matrix,)), COINS)
    blocks = seen["first_blocks"]
    made = obvious(block_numbers(matrix, blocks, seen.get("mean")))
    np.testing.assert_allclose(made.sum(axis=0), 0.0, atol=1e-9 * np.abs(made).max() * len(made))
    less = matrix.toarray() - seen.get("mean", 0.0)
    before, after = blocks[:2]
    wanted = np.outer(before @ less[4], less[4] - after.T @ (after @ less[4]))
    np.testing.assert_allclose(made[4][: wanted.size], wanted.ravel(), atol=1e-12)


@pytest.mark.parametrize("mechanism", [SigmaSVD(rank=3), PDPCA(rank=3, reveal_sigma=True)])
def test_terms_of_sums_that_reveal_sigma_add_up_to_these(mechanism: PDSVD) -> None:
    matrix = rows()
    seen = mechanism.run(Database((matrix,)), COINS)
    made = obvious(block_numbers(matrix, seen["first_blocks"], seen.get("mean"), outside=False))
    sums = seen["block_sums"].ravel()
    np.testing.assert_allclose(made.sum(axis=0)[: sums.size], sums, rtol=1e-9, atol=1e-9 * sums.max())
    np.testing.assert_allclose(made.sum(axis=0)[sums.size :], 0.0, atol=1e-9 * np.abs(made).max() * len(made))


def test_squares_of_the_parts_of_a_start_add_up_to_these() -> None:
    matrix = rows()
    seen = PDNMF(rank=3, start="nnsvd").run(Database((sp.csr_array(matrix[:9]), sp.csr_array(matrix[9:]))), COINS)
    made = part_terms(matrix, seen["V"])
    np.testing.assert_allclose(made.sum(axis=0), seen["part_squares"].ravel(), rtol=1e-9, atol=1e-12)
    image = matrix.toarray()[4] @ seen["V"].T
    np.testing.assert_allclose(made[4], np.where([image > 0, image < 0], image**2, 0.0).ravel(), atol=1e-12)


SVD, NMF = PDSVD(rank=3), PDNMF(rank=2)


@pytest.mark.parametrize(
    ("statistic", "mechanism"),
    [
        (LinearBlocks(), SVD),
        (LinearBlocks(), PDPCA(rank=3)),
        (LinearBlocks(), PDPCA(rank=3, centre="own")),
        (LinearBlocks(), PDSVD(rank=3, solver="power", tolerance=0.5)),
        (LinearBlocks(), SigmaSVD(rank=3)),
        (LinearBlocks(), PDPCA(rank=3, reveal_sigma=True)),
        (LinearBlocks(), SigmaSVD(rank=3, solver="power", tolerance=0.5)),
        (LinearBlocks(), PDNMF(rank=3, start="nnsvd")),
        (LinearSums(), NMF),
        (LinearSums(), PDNMF(rank=2, **RULED)),
        (LinearSums(), PDNMF(rank=2, tolerance=0.9)),
        (LinearSums(), PDNMF(**RATED)),
        (LinearSums(), PDNMF(rank=2, weighted=True, gamma=0.1, alpha=0.1)),
        (LinearSums(), Noisy("pd-nmf", 1.0, RATED, scale=1e-9)),
        (LinearSums(), Noisy("pd-nmf", 1.0, {"rank": 2}, scale=1e-9)),
    ],
)
@pytest.mark.parametrize("others", ["none", "fixed", "colluding", "drawn"])
def test_where_numbers_are_many_they_tell_who_is_in(statistic, mechanism, others: str) -> None:
    """As many linear equations as documents have one solution: everybody in is above everybody out."""
    if others == "colluding" and isinstance(mechanism, Noisy):
        pytest.skip("topics are worked out from the others' noisy sums alone")
    matrix, fixed, rng = rows(24), rows(10, seed=5), np.random.default_rng(2)
    held = np.isin(np.arange(24), rng.choice(24, 12, replace=False))
    found = statistic.evaluate(*run_among(mechanism, matrix, held, fixed, others))
    assert found[held].min() > found[~held].max()


@pytest.mark.parametrize("others", ["none", "fixed", "colluding"])
def test_a_mean_that_is_hidden_hides_nobody(others: str) -> None:
    """Equations of V hold about, with what is expected of the mean; first-order sees 0.3 less."""
    apart = []
    for seed in range(6):
        matrix, fixed, rng = rows(24, seed=seed), rows(10, seed=50 + seed), np.random.default_rng(seed)
        held = np.isin(np.arange(24), rng.choice(24, 12, replace=False))
        mechanism = PDPCA(rank=3, centre="own", opens="final")
        found = LinearBasis().evaluate(*run_among(mechanism, matrix, held, fixed, others))
        apart.append((found[held][:, None] > found[~held]).mean())
    assert min(apart) > 0.9


def test_who_knows_the_noise_sees_more() -> None:
    """The same runs with noise: how far those in are above those out, on average."""
    matrix, rng = rows(60), np.random.default_rng(4)
    held = np.isin(np.arange(60), rng.choice(60, 30, replace=False))
    noisy = Noisy("pd-nmf", 1.0, {"rank": 2, "tolerance": 0.0}, scale=30.0)
    database = Database((sp.csr_array(matrix[held]),))
    gaps = []
    for mechanism in (noisy, noisy.inner):
        documents = Documents(matrix, pool=Pool(matrix, 0.5, mechanism=mechanism))
        runs = (Observables(noisy.run(database, np.random.default_rng(seed))) for seed in range(20))
        found = np.array([LinearSums().evaluate(seen, documents) for seen in runs])
        gaps.append(np.mean((found[:, held].mean(axis=1) - found[:, ~held].mean(axis=1)) / found.std(axis=1)))
    assert gaps[0] > 1.1 * gaps[1]
    assert gaps[0] > 0.3


@pytest.mark.parametrize("honest", [None, rows(7, seed=6)])
def test_a_coalition_knows_the_mean_of_everybody(honest: sp.csr_array | None) -> None:
    mine, own = rows(12), rows(10, seed=5)
    parties = (mine, own) if honest is None else (mine, honest, own)
    seen = PDPCA(rank=3).run(Database(parties, frozenset({len(parties) - 1})), COINS)
    coalition = {} if honest is None else {"honest": honest, "coalition": own}
    pool = Pool(rows(24), 0.5, sp.csr_array(sp.vstack(parties[1:])), colluding=True, **coalition)
    wanted = sp.vstack(parties).mean(axis=0)
    np.testing.assert_allclose(releases.mean_of_all(seen["mean"], pool), wanted)


def test_exact_sums_of_ratings_miss_what_single_precision_rounds_off() -> None:
    matrix, mechanism = ratings(), PDNMF(**RATED)
    seen = Observables(mechanism.run(Database((matrix,)), COINS))
    _, known = LinearSums().linear_model(seen, Pool(matrix, 0.5, mechanism=mechanism))
    np.testing.assert_allclose(known.noise, lost(known.sums))


def test_an_empty_pool_and_one_document_say_nothing_that_is_not_finite() -> None:
    seen = PDSVD(rank=2).run(Database((rows(),)), COINS)
    for matrix in (sp.csr_array((3, 20)), rows(1)):
        assert np.isfinite(LinearBlocks().evaluate(Observables(seen), Documents(matrix))).all()


@pytest.mark.parametrize("users", [24, 120])
def test_exact_rounds_are_read_until_they_have_two_numbers_a_document_and_three_noisy_ones_at_least(
    users: int,
) -> None:
    matrix = rows(users)
    held = Database((sp.csr_array(matrix[: users // 2]),))
    exact: Any = PDNMF(rank=2, sweeps=12, tolerance=0.0)
    noisy: Any = Noisy("pd-nmf", 1.0, {"rank": 2, "sweeps": 12, "tolerance": 0.0}, scale=1e-3)
    for mechanism, least in ((exact, 1), (noisy, 3)):
        seen = Observables(mechanism.run(held, np.random.default_rng(0)))
        _, known = LinearSums().equations(seen, Pool(matrix, 0.5, mechanism=mechanism))
        a_round = seen["sums"][0].size
        rounds = max(least, -(-2 * users // a_round))
        whole = seen["sums"][:rounds].size + seen["weights"][:rounds].size
        assert known.sums.size == whole


def test_blocks_that_noise_blurs_are_read_for_three_rounds() -> None:
    matrix = rows(120)
    noisy: Any = Noisy("pd-svd", 1.0, {"rank": 2, "solver": "power", "iterations": 8}, scale=1e-3)
    seen = Observables(noisy.run(Database((sp.csr_array(matrix[:60]),)), np.random.default_rng(0)))
    _, known = LinearBlocks().equations(seen, Pool(matrix, 0.5, mechanism=noisy))
    assert seen["first_blocks"].shape[0] > 4
    assert known.sums.size // seen["first_blocks"][0].size == 3


def test_the_variance_of_added_noise_is_that_of_its_scale() -> None:
    """Normal noise of twice the scale has four times the variance, in every entry."""
    matrix, found = rows(24), []
    for scale in (30.0, 60.0):
        noisy: Any = Noisy("pd-nmf", 1.0, {"rank": 2, "tolerance": 0.0}, scale=scale)
        seen = Observables(noisy.run(Database((sp.csr_array(matrix[:12]),)), np.random.default_rng(0)))
        _, known = LinearSums().equations(seen, Pool(matrix, 0.5, mechanism=noisy))
        assert known.lost == LOST  # single precision, as what is stored
        found.append(np.broadcast_to(known.noise, known.sums.shape))
    assert found[0].min() > 0.0
    np.testing.assert_allclose(found[1], 4.0 * found[0])
