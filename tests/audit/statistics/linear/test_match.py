"""The matched filter on V: first-order theory, its covariances, and what it sees that energies do not."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls

from ksdp.audit.contract import Database, Observables
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.registry import make_mechanism
from ksdp.audit.statistic import Documents, Pool
from ksdp.audit.statistics.linear import expected as module
from ksdp.audit.statistics.linear.expected import (
    FirstOrderBasis,
    FirstOrderMean,
    FirstOrderTopics,
    expected,
    expected_topics,
)
from ksdp.audit.statistics.linear.operator import MOST_ROWS

RANK = 3


def rows(n: int = 400, d: int = 20, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.random((n, d)) * (rng.random((n, d)) < 0.4) @ np.diag(np.linspace(2, 0.5, d))


def leading(moments: np.ndarray, rank: int = RANK) -> np.ndarray:
    return np.linalg.eigh(moments)[1][:, ::-1][:, :rank].T


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("held", [0, 60])
def test_a_little_of_a_document_moves_the_vectors_as_it_says(centred: bool, held: int) -> None:
    """Against eigenvectors of the second moments, written out, with a thousandth of one more document."""
    dense, others = rows(), rows(held, seed=9)
    picture = expected(Pool(sp.csr_array(dense), 0.3, sp.csr_array(others) if held else None), RANK, centred)
    weights = np.r_[np.full(len(dense), 0.3), np.ones(held)]
    everybody = np.vstack([dense, others])
    mean = weights @ everybody / weights.sum() if centred else np.zeros(dense.shape[1])
    moments = (everybody - mean).T @ np.diag(weights) @ (everybody - mean)
    base = leading(moments)
    np.testing.assert_allclose(picture.basis.T @ picture.basis, base.T @ base, atol=1e-9)
    np.testing.assert_allclose(picture.sums(base), 0.0, atol=1e-8)
    x = dense[5] - mean
    moved = leading(moments + 1e-3 * np.outer(x, x))
    outside = x - base.T @ (base @ x)
    wanted = 1e-3 * (picture.basis @ x)[:, None] * outside
    np.testing.assert_allclose(picture.sums(moved), wanted, atol=2e-3 * np.abs(wanted).max())
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(RANK, RANK)))[0] @ moved
    np.testing.assert_allclose(picture.sums(turned), picture.sums(moved), atol=1e-9)


@pytest.mark.parametrize("columns", [7, 20, 2048])
@pytest.mark.parametrize("empty", [False, True])
def test_sums_are_those_of_the_whole_formula(columns: int, empty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some columns after others, and where a run's V has a row of zeros."""
    monkeypatch.setattr(module, "_COLUMNS", columns)
    monkeypatch.setattr(module, "BEYOND", 5)
    picture = expected(Pool(sp.csr_array(rows()), 0.3), RANK, False)
    found = leading(rows(90, seed=3).T @ rows(90, seed=3))
    found[1] *= not empty
    v, u = picture.rows[:RANK], picture.rows[RANK:]
    turned = np.linalg.pinv(found @ v.T) @ found
    apart = turned - turned @ v.T @ v
    wanted = (picture.values[:RANK, None] - picture.rest) * apart - apart @ u.T * (
        picture.values[RANK:] - picture.rest
    ) @ u
    np.testing.assert_allclose(picture.sums(found), wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(("step", "documents"), [(1, 300), (5, 300), (1, 1500), (5, 6000)])
@pytest.mark.parametrize("centred", [False, True])
def test_filtered_sums_are_those_by_the_inverse_covariance(
    centred: bool, step: int, documents: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all documents, of some at even steps, or of more than are multiplied at once."""
    monkeypatch.setattr(module, "ROWS_PER_ENTRY", documents // (60 * step))
    monkeypatch.setattr(module, "FEWEST_ROWS", 1)
    dense = rows(documents)
    picture = expected(Pool(sp.csr_array(dense)), RANK, centred)
    less = dense[::step] - picture.additions.mean
    outside = less - less @ picture.basis.T @ picture.basis
    terms = np.stack([np.outer(picture.basis @ x, x_out).ravel() for x, x_out in zip(less, outside, strict=True)])
    covariance = np.cov(terms.T, bias=True)
    size = RANK * dense.shape[1]
    shrunk = covariance + 0.01 * np.trace(covariance) / size * np.eye(size)
    wanted = np.linalg.solve(shrunk, terms[7]).reshape(RANK, -1)
    found = picture.additions.filtered(terms[7].reshape(RANK, -1))
    np.testing.assert_allclose(found / np.linalg.norm(found), wanted / np.linalg.norm(wanted), atol=1e-4)
    # One run's filter beside another's: the factor is the same for all.
    larger = picture.additions.filtered(1e6 * terms[7].reshape(RANK, -1))
    np.testing.assert_allclose(larger, 1e6 * found, rtol=1e-5, atol=1e-5 * np.abs(larger).max())
    assert not picture.additions.filtered(np.zeros((RANK, 20))).any()


def test_many_entries_are_weighed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENTRIES", 10)
    dense = rows()
    for centred in (False, True):
        picture = expected(Pool(sp.csr_array(dense), 0.4), RANK, centred)
        less = dense - picture.additions.mean
        left = less - less @ picture.basis.T @ picture.basis
        spread = np.array([[(less @ v) ** 2 @ left[:, f] ** 2 for f in range(20)] for v in picture.basis])
        wanted = 1.0 / (spread + 0.01 * spread.mean(axis=1, keepdims=True))
        np.testing.assert_allclose(picture.additions.filtered(np.ones((RANK, 20))), wanted, rtol=1e-9)


def test_entries_that_the_basis_explains_wholly_are_weighed_by_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of such documents is nothing; no entry then counts a million times more than another."""
    monkeypatch.setattr(module, "MOST_ENTRIES", 10)
    rng = np.random.default_rng(4)
    dense = rng.random((300, RANK)) @ rng.random((RANK, 20))
    picture = expected(Pool(sp.csr_array(dense), 0.4), RANK, False)
    whole = np.array([[(dense @ v) ** 2 @ dense[:, f] ** 2 for f in range(20)] for v in picture.basis])
    found = picture.additions.filtered(np.ones((RANK, 20)))
    np.testing.assert_allclose(found * 2.0**-44 * whole.mean(axis=1, keepdims=True), 1.0, rtol=0.3)


def test_of_many_columns_the_same_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    dense = rows(300, 60)
    for centred in (False, True):
        plain = expected(Pool(sp.csr_array(dense), 0.4, sp.csr_array(dense[:9])), RANK, centred)
        with monkeypatch.context() as patch:
            patch.setattr(module, "DENSE", 10)
            patch.setattr(module, "BEYOND", 20)
            other = expected(Pool(sp.csr_array(dense), 0.4, sp.csr_array(dense[:9])), RANK, centred)
        np.testing.assert_allclose(other.basis.T @ other.basis, plain.basis.T @ plain.basis, atol=1e-5)
        np.testing.assert_allclose(other.values, plain.values[:23], rtol=1e-6)
        assert other.rest == pytest.approx((plain.values[23:].sum() + plain.rest) / 37, rel=1e-5)


def test_a_part_of_a_large_pool_stands_for_it() -> None:
    dense = np.repeat(rows(MOST_ROWS // 2), 4, axis=0)
    some, whole = (expected(Pool(sp.csr_array(m), 0.2), RANK, False) for m in (dense, dense[::2]))
    np.testing.assert_allclose(some.values, 2 * whole.values, rtol=1e-9)


def test_one_pool_is_asked_about_several_ranks_and_means() -> None:
    some = sp.csr_array(texts())
    pool = Pool(some, 0.4, mechanism=PDNMF(rank=2, opens="final"))
    for rank, centred in ((2, False), (3, False), (2, True)):
        found, alone = expected(pool, rank, centred), expected(Pool(some, 0.4), rank, centred)
        np.testing.assert_array_equal(found.basis, alone.basis)
        assert expected(pool, rank, centred) is found
    assert expected_topics(pool, 3) is None
    assert expected_topics(pool, 2) is not None


@pytest.mark.parametrize("mean", [False, True])
def test_values_are_the_products_of_what_documents_add_with_the_filtered_sum(mean: bool) -> None:
    """Document by document, and of two pools on one announcement."""
    dense = rows()
    some = sp.csr_array(dense)
    drawn = dense[::2]
    seen = {"V": leading(drawn.T @ drawn)} | ({"mean": drawn.mean(axis=0)} if mean else {})
    observables = Observables(seen)
    for pool in (Pool(some, 0.5), Pool(some[:200], 0.5)):
        picture = expected(pool, RANK, mean)
        values = FirstOrderBasis().evaluate(observables, Documents(some[:9], pool=pool))
        filtered = picture.additions.filtered(picture.sums(seen["V"]))
        for x, value in zip(dense[:9] - picture.additions.mean, values, strict=True):
            assert value == pytest.approx((np.outer(picture.basis @ x, x) * filtered).sum(), rel=1e-9)


@pytest.mark.parametrize("most", [4096, 8])
def test_values_on_a_mean_are_the_normal_log_likelihood_ratio(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to one factor; of many columns by their variances alone."""
    monkeypatch.setattr("ksdp.audit.statistics.linear.expected.MOST_ENTRIES", most)
    dense = rows()
    mean = dense[::2].mean(axis=0)
    values = FirstOrderMean().evaluate(Observables({"mean": mean}), Documents(sp.csr_array(dense)))
    covariance = np.cov(dense.T, bias=True)
    shrunk = covariance if most > len(mean) else np.diag(np.diag(covariance))
    shrunk = shrunk + 0.01 * np.trace(covariance) / len(mean) * np.eye(len(mean))
    ratios = (dense - dense.mean(axis=0)) @ np.linalg.solve(shrunk, mean - dense.mean(axis=0))
    factor = np.dot(values, ratios) / np.dot(ratios, ratios)
    assert factor > 0.0
    np.testing.assert_allclose(values, factor * ratios, atol=1e-4 * factor * np.abs(ratios).max())


def test_values_on_topics_are_the_products_of_what_documents_add_with_the_filtered_sum() -> None:
    dense = texts()
    some = sp.csr_array(dense)
    nmf = PDNMF(rank=2, opens="final")
    pool = Pool(some, 0.5, mechanism=nmf)
    picture = expected_topics(pool, 2)
    seen = nmf.run(Database((some[::2],)), np.random.default_rng(0))
    values = FirstOrderTopics().evaluate(seen, Documents(some[:9], pool=pool))
    filtered = picture.additions.filtered(picture.sums(seen["T"]))
    for x, value in zip(dense[:9], values, strict=True):
        w = nnls(picture.topics.T, x)[0]
        assert value == pytest.approx((np.outer(w, x - w @ picture.topics) * filtered).sum(), rel=1e-6)
    # Terms of documents under the expected topics, with nonnegative coefficients.
    weights = np.array([nnls(picture.topics.T, x)[0] for x in dense])
    np.testing.assert_allclose(picture.additions.weights, weights, atol=1e-9 * weights.max())


def test_too_few_documents_or_columns_say_nothing() -> None:
    documents = Documents(sp.csr_array(rows(4, 6)))
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 5)))[0].T
    assert FirstOrderBasis().evaluate(Observables({"V": vectors}), documents).tolist() == [0.0] * 4
    some = sp.csr_array(rows(8, 6))
    assert expected(Pool(some, 0.5), 4, False) is None  # as many vectors as there are documents in a run
    assert expected(Pool(some, 1.0), 6, False) is None  # or columns
    assert expected(Pool(some, 0.5), 3, False) is not None
    empty = Documents(sp.csr_array((30, 6)))
    assert np.isfinite(FirstOrderBasis().evaluate(Observables({"V": vectors[:2]}), empty)).all()


def test_a_documents_value_is_its_own_to_the_last_bit() -> None:
    documents = Documents(sp.csr_array(rows()), pool=Pool(sp.csr_array(rows()), 0.3))
    seen = {"V": leading(rows(130).T @ rows(130)), "mean": rows(130).mean(axis=0)}
    whole = FirstOrderBasis().evaluate(Observables(seen), documents)
    places = np.array([399, 3, 17])
    assert FirstOrderBasis().evaluate(Observables(seen), documents.at(places)).tolist() == whole[places].tolist()


def texts() -> np.ndarray:
    """300 documents of 30 words over 40 terms, mixtures of three topics."""
    rng = np.random.default_rng(2)
    words = rng.dirichlet(np.full(40, 0.1), size=3)
    mixtures = rng.dirichlet(np.full(3, 0.4), size=300) @ words
    return np.array([rng.multinomial(30, row / row.sum()) for row in mixtures], dtype=float)


def test_topics_that_leave_everybody_where_they_were_say_nothing_and_others_what_their_terms_say() -> None:
    dense = texts()
    pool = Pool(sp.csr_array(dense), 0.5, mechanism=PDNMF(rank=2, opens="final"))
    picture = expected_topics(pool, 2)
    assert not picture.sums(picture.topics).any()
    other = picture.topics * np.random.default_rng(0).uniform(0.8, 1.2, size=(2, 40))
    other[0, np.flatnonzero(picture.topics[0])[:5]] = 0.0  # at its bound one time: that is learnt from

    def total(topics: np.ndarray) -> np.ndarray:
        weights = np.array([nnls(topics.T, x)[0] for x in dense])
        return sum(np.outer(w, x - w @ topics) for w, x in zip(weights, dense, strict=True))

    wanted = total(other) - total(picture.topics)
    bound = (other == 0) & (picture.topics == 0)
    np.testing.assert_allclose(picture.sums(other), np.where(bound, 0.0, wanted), atol=1e-6 * np.abs(wanted).max())


def test_what_others_hold_is_expected_too() -> None:
    dense, held = texts(), np.random.default_rng(5).poisson(3.0, (200, 40)).astype(float)
    nmf = PDNMF(rank=2, opens="final")
    pool = Pool(sp.csr_array(dense), 0.5, sp.csr_array(held), nmf)
    picture = expected_topics(pool, 2)
    both = Database((sp.csr_array(dense[::2]), sp.csr_array(held)))
    np.testing.assert_allclose(picture.topics, nmf.run(both, np.random.default_rng(0))["T"])


@pytest.mark.parametrize("mechanism", [None, PDNMF(rank=3)])
def test_where_topics_cannot_be_expected_all_values_are_alike(mechanism: PDNMF | None) -> None:
    some = sp.csr_array(texts())
    documents = Documents(some, pool=Pool(some, 0.5, mechanism=mechanism))
    assert not FirstOrderTopics().evaluate(Observables({"T": np.ones((2, 40))}), documents).any()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 0.37])
def test_documents_that_are_all_the_same_are_told_nothing_of(scale: float) -> None:
    """Rounding is all that is left of their covariance, which broke off."""
    row = scale * np.random.default_rng(1).poisson(1.0, 20).astype(float)
    matrix = sp.csr_array(np.tile(row, (60, 1)))
    mechanism = make_mechanism("pd-svd", {"rank": 2})
    seen = Observables(mechanism.run(Database((sp.csr_array(matrix[:30]),)), np.random.default_rng(0)))
    found = FirstOrderBasis().evaluate(seen, Documents(matrix, pool=Pool(matrix, 0.5, mechanism=mechanism)))
    assert np.isfinite(found).all()
    assert np.ptp(found) == 0.0
