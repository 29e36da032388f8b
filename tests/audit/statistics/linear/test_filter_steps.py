"""Terms by their numbers against terms written out; filters by steps against plain conjugate gradients."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Documents, Observables, Pool
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD, SigmaSVD
from ksdp.audit.numeric.kernels import add_row_to_panel
from ksdp.audit.statistics.linear import solve as module
from ksdp.audit.statistics.linear.contributions import block_numbers, sweep_numbers
from ksdp.audit.statistics.linear.operator import FactoredContributions
from ksdp.audit.statistics.linear.releases import LinearBlocks, LinearSums
from ksdp.audit.statistics.linear.solve import by_steps, filtered

from .who_is_in import obvious

COINS = np.random.default_rng(0)
RULED = {"gamma": 0.2, "delta": 0.4}


def rows(n: int = 60, d: int = 30, seed: int = 1) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.integers(0, 5, (n, d)) * (rng.random((n, d)) < 0.3), dtype=np.float64)


def numbers_of(kind: str, matrix: sp.csr_array) -> FactoredContributions:
    """The terms of a run."""
    if kind.startswith("pd-nmf"):
        ruled = RULED if kind.endswith("ruled") else {}
        topics = PDNMF(rank=4, sweeps=3, tolerance=0.0, **ruled).run(Database((matrix,)), COINS)["topics"]
        return sweep_numbers(matrix, topics, *ruled.values())
    mechanism = PDPCA(rank=3) if kind.startswith("pd-pca") else PDSVD(rank=3)
    seen = mechanism.run(Database((matrix[::2],)), COINS)
    return block_numbers(matrix, seen["first_blocks"], seen.get("mean"), outside=not kind.endswith("whole sums"))


KINDS = ("pd-nmf", "pd-nmf, ruled", "pd-svd", "pd-pca", "pd-svd, whole sums", "pd-pca, whole sums")


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_give_the_terms_that_are_written_one_by_one(kind: str) -> None:
    numbers = numbers_of(kind, rows())
    written, rng = obvious(numbers), np.random.default_rng(3)
    size = np.abs(written).max()
    direction, shares = rng.normal(size=numbers.entries), rng.random(60)
    assert numbers.entries == written.shape[1]
    np.testing.assert_allclose(numbers.written(), written, atol=1e-12 * size)
    np.testing.assert_allclose(numbers.along(direction), written @ direction, atol=1e-10 * size)
    np.testing.assert_allclose(numbers.summed(shares), shares @ written, atol=1e-10 * size)
    np.testing.assert_allclose(numbers.mean, written.mean(axis=0), atol=1e-12 * size)
    np.testing.assert_allclose(numbers.variances, np.square(written).sum(axis=0), atol=1e-10 * size**2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_by_itself_has_the_same_bits(kind: str) -> None:
    numbers = numbers_of(kind, rows())
    direction = np.random.default_rng(3).normal(size=len(numbers.mean))
    whole = numbers.along(direction)
    for place in (0, 7, 59):
        alone = FactoredContributions(
            sp.csr_array(numbers.rows[[place]]),
            numbers.numbers[[place]],
            numbers.basis,
            numbers.weights[[place]],
            numbers.taken,
            numbers.scalars[[place]],
        )
        assert alone.along(direction)[0] == whole[place]


def test_variances_of_many_documents_come_from_every_so_many() -> None:
    numbers = numbers_of("pd-nmf", rows(n=4000, d=8))
    written = numbers.written()
    wanted = np.square(written[::3, : -numbers.scalars.shape[1]]).sum(axis=0) * 3
    np.testing.assert_allclose(numbers.variances[: len(wanted)], wanted, rtol=1e-9)
    assert (numbers.variances != np.square(written).sum(axis=0)).any()


def plain(written: np.ndarray, apart: np.ndarray, ridge: np.ndarray, steps: int) -> np.ndarray:
    """Textbook conjugate gradients with the written-out covariance, preconditioned by its diagonal."""
    less = written - written.mean(axis=0)
    covariance, weights = less.T @ less + np.diag(ridge), np.square(written).sum(axis=0) + ridge
    x, r = np.zeros_like(apart), apart.copy()
    z = r / weights
    p = z.copy()
    for _ in range(steps):
        length = (r @ z) / (p @ covariance @ p)
        x, before = x + length * p, r @ z
        r = r - length * (covariance @ p)
        z = r / weights
        p = z + (r @ z) / before * p
    return x


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_plain_conjugate_gradients(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEWEST_STEPS", 5)
    monkeypatch.setattr(module, "MOST_STEPS", 5)
    monkeypatch.setattr(module, "DENSE", 0)
    numbers = numbers_of(kind, rows())
    written = numbers.written()
    apart = (written[:20] - written.mean(axis=0)).sum(axis=0)
    noise = np.linspace(0.0, 0.1, len(apart)) * np.square(written).sum(axis=0).mean()
    ridge = noise + module.SHRINK * np.square(written).sum() / len(apart)
    wanted = written @ plain(written, apart, ridge, 5)
    found = written @ filtered(numbers, apart, noise)
    np.testing.assert_allclose(found, wanted, atol=1e-8 * np.abs(wanted).max())


def test_nothing_apart_is_no_direction() -> None:
    numbers = numbers_of("pd-nmf", rows())
    assert not filtered(numbers, np.zeros(len(numbers.mean))).any()


def test_steps_end_where_nothing_is_left() -> None:
    form = np.diag([1.0, 4.0])
    np.testing.assert_allclose(by_steps(lambda x: form @ x, np.array([0.0, 8.0]), 50), [0.0, 2.0])


@pytest.mark.parametrize(
    ("statistic", "mechanism"),
    [
        (LinearBlocks(), PDSVD(rank=3)),
        (LinearBlocks(), PDPCA(rank=3)),
        (LinearBlocks(), SigmaSVD(rank=3)),
        (LinearSums(), PDNMF(rank=2)),
    ],
)
@pytest.mark.parametrize("others", ["none", "fixed", "drawn"])
def test_of_large_corpora_who_is_in_is_told_as_well(
    statistic, mechanism, others: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DENSE", 0)
    matrix, fixed, rng = rows(24, 40), rows(10, 40, seed=5), np.random.default_rng(2)
    held = np.isin(np.arange(24), rng.choice(24, 12, replace=False))
    parties, pool = [sp.csr_array(matrix[held])], Pool(matrix, 0.5, mechanism=mechanism)
    if others != "none":
        parties.append(sp.csr_array(fixed[::2]) if others == "drawn" else fixed)
        pool = Pool(matrix, 0.5, fixed, mechanism, 0.5 if others == "drawn" else 1.0)
    seen = mechanism.run(Database(tuple(parties)), COINS)
    found = statistic.evaluate(Observables(seen), Documents(matrix, pool=pool))
    assert np.median(found[held]) > found[~held].max()


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("lines", [1, 2, 3, 4, 7])
def test_a_row_is_added_to_a_panel_as_its_outer_product(precision: type, lines: int) -> None:
    rng, matrix = np.random.default_rng(lines), rows(5, 9)
    width = lines * 64 // np.dtype(precision).itemsize
    panel, values = rng.normal(size=(9, width)).astype(precision), rng.normal(size=width).astype(precision)
    wanted = panel + matrix.toarray()[[2]].T.astype(precision) * values
    add_row_to_panel(matrix.indices, matrix.data, matrix.indptr[2], matrix.indptr[3], values, panel)
    np.testing.assert_array_equal(panel, wanted)


@pytest.mark.parametrize(("precision", "tiny"), [(np.float32, 1e-22), (np.float64, 1e-161)])
def test_steps_end_where_what_is_left_is_too_small_to_be_squared(precision, tiny: float) -> None:
    """Of few documents it takes fewer steps than there are."""
    apart = np.full(3, tiny, dtype=precision)
    assert apart @ apart > 0.0
    found = by_steps(lambda direction: direction * precision(1e-3), apart, 20)
    assert np.isfinite(found).all()
