"""Statistics of announced second moments, against dense forms."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp

from ksdp.audit.contract import Database, Observables
from ksdp.audit.mechanisms.privacy.moments import DPdisPCA, Moments
from ksdp.audit.statistic import Documents, Pool
from ksdp.audit.statistics.linear import moments, solve, tilting
from ksdp.audit.statistics.linear.moments import moment_match, site_match


def population(n: int = 60) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 4)) * [1.0, 0.5, 0.3, 0.1]


def seen(rows: np.ndarray) -> Observables:
    return Observables({"moments": triangle(rows.T @ rows)})


def triangle(matrix: np.ndarray) -> np.ndarray:
    """Each number off the diagonal stands for two."""
    numbers = [matrix[i, j] * (1 if i == j else 2**0.5) for i in range(4) for j in range(i, 4)]
    return np.array(numbers)


def test_the_matched_filter_is_the_whitened_product() -> None:
    """Of a mechanism that says nothing of its noise."""
    rows = population(29)
    triangles = np.array([triangle(np.outer(x, x)) for x in rows])
    covariance = np.cov(triangles.T, bias=True)
    covariance += 0.05 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    weights = np.linalg.solve(covariance, triangles.sum(axis=0) / 2)  # half of them are expected
    found = moment_match(seen(rows), Documents(sp.csr_array(rows)))
    np.testing.assert_allclose(found, triangles @ weights, rtol=1e-8)


@pytest.mark.parametrize("how", ["by documents", "by numbers"])
@pytest.mark.parametrize("noise", [1e-3, 0.2])
def test_noise_is_as_large_as_the_mechanism_says(how: str, noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with other parties, whose noise is there too, and rows that are longer than the bound."""
    monkeypatch.setattr(tilting, "MOST_WRITTEN", 0)
    if how == "by numbers":
        monkeypatch.setattr(solve, "MOST_SOLVED", 0)
    rows, mechanism = population(40), Moments(rank=2, noise=noise)
    shorter = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    triangles = np.array([triangle(np.outer(x, x)) for x in shorter])
    for fixed, parties in ((None, 1), (sp.csr_array(population(5)), 2)):
        covariance = 40 * 0.25 * np.cov(triangles.T, bias=True) + parties * noise**2 * np.eye(10)
        weights = np.linalg.solve(covariance, triangles[::2].sum(axis=0) - triangles.sum(axis=0) / 2)
        pool = Pool(sp.csr_array(rows), 0.5, fixed, mechanism)
        held = shorter[::2] if fixed is None else np.vstack([shorter[::2], mechanism.bounded(fixed).toarray()])
        found = moment_match(seen(held), Documents(sp.csr_array(rows), pool=pool))
        wanted = (triangles - triangles.mean(axis=0)) @ weights
        np.testing.assert_allclose(found / 10, wanted, rtol=1e-4, atol=1e-6 * np.abs(wanted).max())


def test_of_more_numbers_than_are_looked_at_together_each_counts_by_its_variance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solve, "MOST_SOLVED", 0)
    monkeypatch.setattr(moments, "MOST_ENTRIES", 9)
    rows = population(40)
    triangles = np.array([triangle(np.outer(x, x)) for x in rows])
    variances = triangles.var(axis=0)
    weights = (triangles[:20].sum(axis=0) - triangles.sum(axis=0) / 2) / (variances + 0.05 * variances.mean())
    found = moment_match(seen(rows[:20]), Documents(sp.csr_array(rows)))
    np.testing.assert_allclose(found, triangles @ weights, rtol=1e-8)


@pytest.mark.parametrize("parties", [1, 2])
def test_much_noise_leaves_the_linear_filter_of_draws_by_themselves(parties: int) -> None:
    rows, mechanism = population(40), Moments(rank=2, noise=30.0)
    shorter = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    triangles = np.array([triangle(np.outer(x, x)) for x in shorter])
    fixed = sp.csr_array(population(5)) if parties == 2 else None
    held = shorter[::4] if fixed is None else np.vstack([shorter[::4], mechanism.bounded(fixed).toarray()])
    counted = np.hstack([triangles, np.full((40, 1), parties**0.5 * 30.0)])  # how many are in is known up to one
    covariance = 0.3 * 0.7 * counted.T @ counted + parties * 30.0**2 * np.eye(11)
    weights = np.linalg.solve(covariance, np.append(triangles[::4].sum(axis=0) - 0.3 * triangles.sum(axis=0), 0.0))
    documents = Documents(sp.csr_array(rows), pool=Pool(sp.csr_array(rows), 0.3, fixed, mechanism))
    np.testing.assert_allclose(moment_match(seen(held), documents), counted @ weights, rtol=0.02, atol=1e-6)


CASES = [(moment_match, Moments(rank=2, noise=1e-3)), (site_match, DPdisPCA(rank=2, intermediate=12, epsilon=1e6))]


@pytest.mark.parametrize(("statistic", "mechanism"), CASES)
def test_with_little_noise_sums_of_products_say_who_was_in(statistic, mechanism) -> None:
    """More numbers than documents, and hardly any noise: every run tells nearly everybody apart."""
    rng = np.random.default_rng(3)
    rows = rng.gamma(0.5, 1.0, (60, 12))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    documents = Documents(sp.csr_array(rows), pool=Pool(sp.csr_array(rows), 0.5, mechanism=mechanism))
    found = []
    for _ in range(10):
        held = np.isin(np.arange(60), rng.choice(60, 30, replace=False))
        observables = mechanism.run(Database((sp.csr_array(rows[held]),)), rng)
        values = statistic(observables, documents)
        found.append(ks_2samp(values[held], values[~held]).statistic)
        for places in ([7], [3, 59, 12]):
            np.testing.assert_array_equal(statistic(observables, documents.at(np.array(places))), values[places])
    assert np.mean(found) > 0.7
