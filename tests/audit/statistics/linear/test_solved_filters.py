"""Filters of sums with known noise, solved: by the formula, and of rows of different sizes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Documents, Observables, Pool
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.privacy.fedpower import FedPower
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.statistics.linear import solve
from ksdp.audit.statistics.linear.contributions import sweep_numbers
from ksdp.audit.statistics.linear.operator import ContributionOperator, RatingContributions
from ksdp.audit.statistics.linear.releases import LinearReleases, LinearSums, moment_numbers
from ksdp.audit.statistics.linear.solve import filtered, lost, solved_filter
from ksdp.audit.verdicts.laws import ks_table


def rows(n: int, d: int, spread: float = 0.0, seed: int = 0) -> sp.csr_array:
    """Half of the entries there, each row times e to a normal number of this deviation."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(1, 6, (n, d)) * (rng.random((n, d)) < 0.5)
    return sp.csr_array(numbers * np.exp(spread * rng.normal(size=(n, 1))), dtype=np.float64)


def some(kind: str, n: int = 30) -> ContributionOperator:
    matrix, rng = rows(n, 6), np.random.default_rng(1)
    topics = rng.random((3, 2, 6))
    if kind == "ratings":
        return RatingContributions(matrix, topics, 0.1, 0.2)
    if kind == "uneven":
        return sweep_numbers(matrix, topics, 0.1, 0.2)
    return moment_numbers(matrix, rng.normal(size=(2, 2, 6)))


def noise_of(terms: ContributionOperator, kind: str) -> np.ndarray:
    """Small beside what documents add; of moments the same within each row, as `solved_filter` asks for."""
    size = 1e-4 * float(terms.variances.mean()) * np.random.default_rng(2).uniform(0.5, 2.0, terms.entries)
    return np.repeat(size[::6], 6) if kind == "moments" else size


@pytest.mark.parametrize("kind", ["moments", "ratings", "uneven"])
def test_it_is_the_filter_by_the_inverse_covariance(kind: str) -> None:
    """Of terms less their mean, written out, with the noise in the diagonal: the same up to one number for all."""
    terms = some(kind)
    noise, apart = noise_of(terms, kind), np.random.default_rng(3).normal(size=terms.entries)
    written = terms.written()
    less = written - written.mean(axis=0)
    wanted = less @ np.linalg.solve(less.T @ less + np.diag(noise), apart)
    found = solved_filter(terms, apart, noise)
    assert found is not None
    said = written @ found
    np.testing.assert_allclose(said - said.mean(), wanted, rtol=1e-3, atol=1e-5 * abs(wanted).max())
    np.testing.assert_array_equal(filtered(terms, apart, noise), found)


def test_what_entries_of_ratings_add_makes_the_terms() -> None:
    terms = some("ratings")
    assert isinstance(terms, RatingContributions)
    laid = np.zeros((30, terms.entries))
    owner = np.repeat(np.arange(30), np.diff(terms.rows.indptr))
    for entry, (i, j) in enumerate(zip(owner, terms.rows.indices, strict=True)):
        laid[i].reshape(-1, 6)[:, j] += terms.entered()[entry]
    np.testing.assert_allclose(laid, terms.written(), rtol=1e-12)


@pytest.mark.parametrize("kind", ["moments", "ratings", "uneven"])
def test_it_is_not_asked_where_noise_is_not_known_or_large_or_documents_are_many(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = some(kind)
    noise, apart = noise_of(terms, kind), np.ones(terms.entries)
    assert solved_filter(terms, apart, 0.0 * noise) is None
    assert solved_filter(terms, apart, 1e4 * noise) is None
    monkeypatch.setattr(solve, "fits_dense_solver", lambda n: n < 30)
    assert solved_filter(terms, apart, noise) is None


def test_a_run_that_announced_no_number_says_nothing() -> None:
    terms = RatingContributions(rows(5, 6), np.ones((1, 2, 6)))
    assert solved_filter(terms, np.zeros(0), np.zeros(0)) is None


def test_copies_that_were_both_in_are_told_with_hardly_any_noise() -> None:
    """Their products are singular to the last bit."""
    twice = sp.csr_array(sp.vstack([rows(20, 6)] * 2, format="csr"))
    terms = moment_numbers(twice, np.random.default_rng(1).normal(size=(3, 2, 6)))
    found = solved_filter(terms, terms.summed(np.arange(40) % 2 - 0.5), np.full(terms.entries, 1e-30))
    assert found is not None
    said = terms.along(found).reshape(20, 2)
    assert said[:, 1].min() > said[:, 0].max()


def test_products_that_rounding_spoilt_are_left_to_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = some("moments")
    monkeypatch.setattr(solve, "gram_of_contributions", lambda *_: (np.diag(np.full(30, -2.0)), None))
    assert solved_filter(terms, np.ones(terms.entries), noise_of(terms, "moments")) is None


def test_lost_is_what_single_precision_rounds_off_and_a_little() -> None:
    sums = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.random.default_rng(1).uniform(-3, 3, 1000)
    off = np.square(np.float32(sums) - sums)
    assert (off <= lost(sums)).all()
    assert lost(sums).mean() < 100 * off.mean()


def distance_of_the_small(statistic, mechanism, matrix: sp.csr_array, held: np.ndarray) -> float:
    """D between those in and out of one run, of the smaller half of the rows, as the store keeps arrays."""
    ran = mechanism.run(Database((sp.csr_array(matrix[held]),)), np.random.default_rng(0))
    seen = Observables({name: np.float32(array).astype(np.float64) for name, array in ran.items()})
    found = statistic.evaluate(seen, Documents(matrix, pool=Pool(matrix, 0.5, mechanism=mechanism)))
    size = np.linalg.norm(matrix.toarray(), axis=1)
    small = size < np.median(size)
    return float(ks_table(np.float32(found[small])[None], held[small][None]).distance[0])


@pytest.mark.parametrize(
    ("statistic", "mechanism"),
    [
        (LinearSums(), PDNMF(rank=2, weighted=True, beta=1.0, delta=1.0)),
        (
            LinearReleases(("means", "uploads")),
            FedPower(rank=4, iterations=4, period=1, noise=1e-6, central_noise=0.0),
        ),
        (LinearSums(), Noisy("pd-nmf", 1.0, {"rank": 4}, scale=1e-5)),
    ],
)
def test_small_documents_are_told_apart_beside_large_ones(statistic, mechanism) -> None:
    """120 rows, sizes over five powers of ten: a ridge of the mean variance, or steps, hid the small ones."""
    matrix = rows(120, 40, 2.0)
    held = np.isin(np.arange(120), np.random.default_rng(4).choice(120, 60, replace=False))
    assert distance_of_the_small(statistic, mechanism, matrix, held) > 0.9
