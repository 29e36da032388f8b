"""Equations solved for all documents at once: against terms written out, and rows of very different sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Documents, Observables, Pool
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD
from ksdp.audit.statistics.linear import solve as module
from ksdp.audit.statistics.linear import tilting
from ksdp.audit.statistics.linear.coordinate_descent import SETTLED
from ksdp.audit.statistics.linear.operator import FactoredContributions, gram_of_contributions, scales_of
from ksdp.audit.statistics.linear.releases import LinearBlocks, LinearSums
from ksdp.audit.statistics.linear.solve import direction_of_few_numbers, solved_parts
from ksdp.audit.verdicts.laws import ks_table

from .who_is_in import KINDS, numbers_of, some_rows

COINS = np.random.default_rng(0)
CASES = [
    (LinearSums(), PDNMF(rank=3, sweeps=5, tolerance=0.0)),
    (LinearBlocks(), PDSVD(rank=3)),
    (LinearBlocks(), PDSVD(rank=3, reveal_sigma=True)),
    (LinearBlocks(), PDPCA(rank=3)),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_products_of_terms_are_those_of_terms_written_out(kind: str, share: float) -> None:
    made = numbers_of(kind, some_rows(share=share))
    scales = scales_of(made)
    terms = made.written() * scales.written()
    found, squares = gram_of_contributions(made, scales)
    np.testing.assert_allclose(found, terms @ terms.T, atol=1e-12 * np.abs(found).max())
    plain = np.square(made.weights * scales.rows).sum(axis=1) * np.square(
        made.rows.toarray() * scales.columns
    ).sum(axis=1)
    plain += np.square(made.scalars * scales.single).sum(axis=1)
    np.testing.assert_allclose(squares, np.maximum(plain, found.diagonal()), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_what_is_expected_of_normal_ones(kind: str) -> None:
    """Of parts of one variance and numbers that lose one variance, by the covariance of numbers."""
    made = numbers_of(kind, some_rows(share=0.3))
    shares = np.full(30, 0.4)
    apart = made.summed((np.arange(30) % 3 == 0) - shares)
    factors = scales_of(made).written()
    terms = made.written() * factors
    whole = np.concatenate(
        [(made.weights * shares[:, None]).T @ made.rows.toarray(), (shares @ made.scalars)[None]], axis=None
    )
    lost = 2.0**-48 * np.square(whole * factors).mean() / 0.24
    wanted = terms @ np.linalg.solve(terms.T @ terms + lost * np.eye(len(whole)), apart * factors)
    found = solved_parts(made, apart, shares).parts
    assert found[3] == 0.0 or kind == "pd-pca"
    np.testing.assert_allclose(terms.T @ found, terms.T @ wanted, atol=1e-4 * np.abs(terms.T @ wanted).max())
    assert kind != "pd-nmf" or np.abs(found - wanted).max() < 1e-3


@pytest.mark.parametrize("most", [tilting.MOST_WRITTEN, 0])
@pytest.mark.parametrize("sizes", ["lognormal", "one huge", "copies"])
@pytest.mark.parametrize(("statistic", "mechanism"), CASES)
def test_small_rows_are_told_as_well_as_large_ones(
    statistic, mechanism, sizes: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tilting, "MOST_WRITTEN", most)
    rng = np.random.default_rng(5)
    matrix = rng.gamma(2.0, 1.0, (120, 8)) @ rng.gamma(0.5, 1.0, (8, 50)) + rng.random((120, 50))
    if sizes == "lognormal":
        matrix *= np.exp(rng.normal(size=(120, 1)))
    elif sizes == "one huge":
        matrix[3] *= 1e6
    else:
        matrix[60:] = matrix[:60]
    held = np.isin(np.arange(120), rng.choice(60, 20, replace=False))
    seen = mechanism.run(Database((sp.csr_array(matrix[held]),)), COINS)
    stored = Observables({name: np.float32(a).astype(np.float64) for name, a in seen.items()})
    documents = Documents(sp.csr_array(matrix), pool=Pool(sp.csr_array(matrix), 20 / 120, mechanism=mechanism))
    found = statistic.evaluate(stored, documents)
    assert np.isfinite(found).all()
    if sizes == "copies":  # each as likely as its copy
        np.testing.assert_allclose(found[:60], found[60:], atol=0.1)
        found, held = found[:60], held[:60]
    distance = ks_table(found[None].astype(np.float32), held[None]).distance[0]
    assert distance > 0.9
    for places in ([7], [3, 59, 12]):
        alone = statistic.evaluate(Observables(dict(stored)), documents.at(np.array(places)))
        np.testing.assert_array_equal(alone[: len(found)], statistic.evaluate(stored, documents)[places])


def test_many_documents_are_approached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who are too many to be solved for are fitted as before; and both say who was in."""
    statistic, mechanism = CASES[0]
    matrix = sp.csr_array(np.random.default_rng(2).random((60, 40)))
    seen = mechanism.run(Database((sp.csr_array(matrix[:20]),)), COINS)
    documents = Documents(matrix, pool=Pool(matrix, 1 / 3, mechanism=mechanism))
    monkeypatch.setattr(module, "DENSE", 0)
    for most, other in ((60, "fitted"), (59, "with_parts")):
        monkeypatch.setattr(module, "MOST_SOLVED", most)
        with monkeypatch.context() as only:
            only.setattr(module, other, None)
            found = statistic.evaluate(Observables(dict(seen)), documents)
        assert np.median(found[:20]) > np.median(found[20:]) + 10 * SETTLED


@pytest.mark.parametrize(("statistic", "mechanism"), CASES)
def test_one_document_or_two(statistic, mechanism) -> None:
    matrix = sp.csr_array(np.random.default_rng(2).random((9, 12)))
    seen = mechanism.run(Database((sp.csr_array(matrix[:5]),)), COINS)
    for few in (1, 2):
        pool = Pool(sp.csr_array(matrix[:few]), 0.5, sp.csr_array(matrix[few:5]), mechanism)
        assert np.isfinite(statistic.evaluate(Observables(dict(seen)), Documents(matrix[:few], pool=pool))).all()


def test_what_rounding_makes_singular_is_solved_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies share what they explain, and do not each take all of it, though far less is added than they need."""
    monkeypatch.setattr(module, "_ROUNDING", 1e-24)
    made = numbers_of("pd-nmf", sp.csr_array(np.tile(np.random.default_rng(2).random((4, 12)), (10, 1))))
    apart = made.summed(np.tile([1.0, 0.0, 0.5, 0.25], 10))
    found = made.summed(solved_parts(made, apart, np.full(40, 0.5), 0.0).parts)
    np.testing.assert_allclose(found, apart, atol=0.05 * np.abs(apart).max())


def test_sums_of_nothing_do_not_tell_that_nobody_was_in() -> None:
    """Equations that any multiple of the parts solves are solved by parts of 0, too: that says nothing."""
    half = np.random.default_rng(3).normal(size=(20, 4))
    made = FactoredContributions.plain(sp.csr_array(np.vstack([half, -half])), np.ones((40, 1)))
    shares = np.full(40, 0.3)
    assert solved_parts(made, -made.summed(shares), shares).direction is not None


@pytest.mark.parametrize("kind", ["plain", "subtracted", "single numbers"])
def test_few_numbers_are_turned_into_the_direction_that_equations_of_documents_leave_open(kind: str) -> None:
    """Of 120 documents and at most 15 numbers: the same order, though nobody was solved for."""
    rng = np.random.default_rng(7)
    rows, weights = sp.csr_array(rng.gamma(0.5, 1.0, (120, 7))), rng.normal(size=(120, 2))
    made = FactoredContributions.plain(rows, weights)
    if kind == "subtracted":
        made = replace(
            made, numbers=rng.random((120, 1)), basis=rng.random((1, 7)), taken=np.array([[True, False]])
        )
    elif kind == "single numbers":
        made = replace(made, scalars=rng.random((120, 1)))
    shares = np.full(120, 0.3)
    apart = made.summed((np.arange(120) < 36) - shares)
    found, other = direction_of_few_numbers(made, apart, shares), solved_parts(made, apart, shares).direction
    assert found is not None
    assert other is not None
    np.testing.assert_allclose(found.of(made), other.of(made), atol=1e-6)


def test_documents_that_do_not_differ_are_solved_for() -> None:
    """Ten contents of six numbers, or ten long ones, may be told by equations, however many others there are."""
    rows, shares = np.tile(np.random.default_rng(2).random((10, 6)), (6, 1)), np.full(60, 0.3)
    for matrix in (
        rows,
        np.random.default_rng(2).random((60, 6)) * np.where(np.arange(60) < 10, 1.0, 1e-5)[:, None],
    ):
        made = FactoredContributions.plain(sp.csr_array(matrix), np.ones((60, 1)))
        assert direction_of_few_numbers(made, -made.summed(shares), shares) is None
    made = FactoredContributions.plain(sp.csr_array(np.random.default_rng(2).random((60, 31))), np.ones((60, 1)))
    assert direction_of_few_numbers(made, -made.summed(shares), shares) is None
