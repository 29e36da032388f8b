"""What documents add to sums: products that never write it out, against each number by itself."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.weighted_nmf import fit_observed_coefficients
from ksdp.audit.statistics.linear import operator
from ksdp.audit.statistics.linear.expected import StationaryContributions
from ksdp.audit.statistics.linear.operator import (
    ContributionOperator,
    EntryContributions,
    FactoredContributions,
    RatingContributions,
    gram_of_contributions,
    scales_of,
)

from .who_is_in import KINDS, numbers_of, obvious, ratings, some_rows

COINS = np.random.default_rng(0)
RULED = {"alpha": 0.1, "beta": 0.3, "gamma": 0.2, "delta": 0.4}


def some_terms(n: int, seed: int = 0) -> FactoredContributions:
    """Of five rows, in which some of four numbers count, and two single numbers."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=shape) for shape in ((n, 4), (4, 40), (n, 5))]
    return FactoredContributions(some_rows(n), *arrays, rng.random((4, 5)) < 0.6, rng.normal(size=(n, 2)))


def check_products(made: ContributionOperator, wanted: np.ndarray) -> None:
    """All products against the matrix; documents by themselves to the last bit."""
    assert made.shape == wanted.shape
    rng, size = np.random.default_rng(3), np.abs(wanted).max()
    direction, shares = rng.normal(size=made.shape[1]), rng.random(made.shape[0])
    np.testing.assert_allclose(made.written(), wanted, atol=1e-12 * size)
    np.testing.assert_allclose(made.matvec(direction), wanted @ direction, atol=1e-10 * size)
    np.testing.assert_allclose(made.rmatvec(shares), shares @ wanted, atol=1e-10 * size)
    np.testing.assert_allclose(made.mean, wanted.mean(axis=0), atol=1e-11 * size)
    np.testing.assert_allclose(made.diagonal(), np.square(wanted).sum(axis=0), atol=1e-9 * size**2)


def check_bits(made: ContributionOperator, alone: ContributionOperator, places: list[int]) -> None:
    direction = np.random.default_rng(3).normal(size=made.shape[1])
    np.testing.assert_array_equal(alone.matvec(direction), made.matvec(direction)[places])


@pytest.mark.parametrize("kind", [*KINDS, "any"])
def test_numbers_give_the_terms_that_are_written_one_by_one(kind: str) -> None:
    made = some_terms(40) if kind == "any" else numbers_of(kind, some_rows())
    check_products(made, obvious(made))
    for places in ([0], [7, 29, 4]):
        check_bits(made, made.of(np.array(places)), places)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_products_of_documents_are_those_of_terms_written_out(kind: str, share: float) -> None:
    made = numbers_of(kind, some_rows(share=share))
    scales = scales_of(made)
    terms = made.written() * scales.written()
    found, squares = gram_of_contributions(made, scales)
    np.testing.assert_allclose(found, terms @ terms.T, atol=1e-12 * np.abs(found).max())
    plain = np.square(made.weights * scales.rows).sum(axis=1)
    plain *= np.square(made.rows.toarray() * scales.columns).sum(axis=1)
    plain += np.square(made.scalars * scales.single).sum(axis=1)
    np.testing.assert_allclose(squares, np.maximum(plain, found.diagonal()), rtol=1e-12)


def test_second_moments_of_many_documents_come_from_every_so_many() -> None:
    made = numbers_of("pd-nmf", some_rows(n=4000, d=8))
    written = made.written()
    wanted = np.square(written[::3, : -made.scalars.shape[1]]).sum(axis=0) * 3
    np.testing.assert_allclose(made.diagonal()[: len(wanted)], wanted, rtol=1e-9)


def test_numbers_in_fewer_columns_and_of_the_first_rows_are_the_same_terms() -> None:
    matrix = some_rows()
    used = np.unique(matrix.indices)
    assert len(used) < 40
    made = numbers_of("pd-nmf", matrix)
    at = np.concatenate([np.arange(9 * 40).reshape(9, 40)[:, used].ravel(), np.arange(360, 369)])
    np.testing.assert_allclose(made.within(used).written(), made.written()[:, at], atol=1e-12)
    np.testing.assert_allclose(made.first(4).written(), made.written()[:, :160], atol=1e-12)
    whole = replace(made, numbers=np.zeros_like(made.numbers))
    np.testing.assert_allclose(made.unreduced().written(), whole.written(), atol=1e-12)


def obvious_rated(terms: RatingContributions) -> np.ndarray:
    """Every document's terms, by one least squares problem in one number after the other."""
    found, topics = [], terms.topics
    for i in range(terms.rows.shape[0]):
        row = terms.rows[[i]]
        x, seen = row.toarray().ravel(), np.isin(np.arange(row.shape[1]), row.indices)
        now, w, sums, squares = topics[0].copy(), np.zeros(len(topics[0])), [], []
        for sweep in range(1, len(topics)):
            for t in range(len(w)):
                left = (x - sum(w[u] * now[u] for u in range(len(w)) if u != t)) * seen
                above, below = left @ now[t] - terms.gamma, now[t][seen] @ now[t][seen] + terms.delta
                w[t] = max(above, 0.0) / below
                sums.append(w[t] * left)
                squares.append(w[t] ** 2 * seen)
                now[t] = topics[sweep][t]
        found.append(np.concatenate([*sums, *squares]))
    return np.array(found)


def check_entries(made: EntryContributions, wanted: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same some documents at a time; and products of documents over noise."""
    check_products(made, wanted)
    monkeypatch.setattr(operator, "_HELD", 3 * made.lines * int(np.diff(made.rows.indptr).max()))
    fresh = replace(made)
    assert len(list(fresh._parts())) > 5
    check_products(fresh, wanted)
    check_bits(made, fresh, list(range(len(wanted))))
    check_bits(made, replace(made, rows=sp.csr_array(made.rows[[3, 17, 4]])), [3, 17, 4])
    noise = np.random.default_rng(4).uniform(0.5, 2.0, made.shape[1])
    np.testing.assert_allclose(made.gram(noise), (wanted / noise) @ wanted.T, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("ruled", [{}, RULED])
def test_terms_of_ratings_add_up_to_what_is_announced(ruled: dict[str, float], monkeypatch) -> None:
    matrix = ratings()
    seen = PDNMF(rank=3, sweeps=3, tolerance=0.0, weighted=True, **ruled).run(Database((matrix,)), COINS)
    made = RatingContributions(matrix, seen["topics"], ruled.get("gamma", 0.0), ruled.get("delta", 0.0))
    wanted = obvious_rated(made)
    announced = np.concatenate([seen["sums"].ravel(), seen["weights"].ravel()])
    np.testing.assert_allclose(wanted.sum(axis=0), announced, atol=1e-9 * np.abs(announced).max())
    check_entries(made, wanted, monkeypatch)


@pytest.mark.parametrize("ruled", [{}, RULED])
def test_topics_of_ratings_are_stationary_for_the_run_s_documents(ruled: dict[str, float], monkeypatch) -> None:
    """What documents add makes alpha + beta T, wherever T is above 0, once a run has converged."""
    matrix = ratings(seed=2)
    mechanism = PDNMF(rank=2, sweeps=2000, tolerance=0.0, weighted=True, opens="final", **ruled)
    topics = mechanism.run(Database((matrix,)), COINS)["T"]
    made = StationaryContributions(matrix, topics, mechanism.gamma, mechanism.delta)
    wanted, x = [], matrix.toarray()
    coefficients = fit_observed_coefficients(matrix, topics, gamma=mechanism.gamma, delta=mechanism.delta)
    for i, weights in enumerate(coefficients):
        left = (x[i] - weights @ topics) * np.isin(np.arange(x.shape[1]), matrix[[i]].indices)
        wanted.append((np.outer(weights, left) * (topics > 0)).ravel())
    held = np.where(topics > 0, mechanism.alpha + mechanism.beta * topics, 0.0).ravel()
    np.testing.assert_allclose(made.rmatvec(np.ones(24)), held, atol=1e-4 * np.abs(wanted).max())
    check_entries(made, np.array(wanted), monkeypatch)
