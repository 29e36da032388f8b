import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties
from ksdp.audit.mechanisms.factorisation.rri_nmf import KeptSums
from ksdp.audit.mechanisms.factorisation.weighted_nmf import (
    fit_observed_coefficients,
    observed_objective,
    weighted_nmf_iter,
)

from .nmf_cases import PENALTIES, split


def ratings(n, d, seed, density=0.4):
    """Ratings 0 to 5 at random places: a 0 is a rating. The last item is rated by nobody."""
    rng = np.random.default_rng(seed)
    i, j = np.nonzero(rng.random((n, d - 1)) < density)
    return sp.csr_array((rng.integers(0, 6, len(i)).astype(float), (i, j)), shape=(n, d))


def dense(X):
    """Values and weights; a stored zero has weight 1."""
    values, weights = np.zeros(X.shape), np.zeros(X.shape)
    entries = X.tocoo()
    values[entries.row, entries.col] = entries.data
    weights[entries.row, entries.col] = 1
    return values, weights


def least_squares(X, T, sweeps, alpha=0.0, beta=0.0, gamma=0.0, delta=0.0):
    """The same order of updates; each number is the minimum of its own one-dimensional least squares problem."""
    values, weights = dense(X)
    T, W = T.copy(), np.zeros((len(values), len(T)))
    T[:, weights.sum(axis=0) == 0] = 0

    def best(target, regressor, l1, l2):
        # min over x >= 0 of 0.5 ||target - x regressor||^2 + l1 x + 0.5 l2 x^2, as stacked least squares
        if not regressor.any() and l2 == 0:
            return None
        column = np.append(regressor, np.sqrt(l2))
        free = np.linalg.lstsq(column[:, None], np.append(target, 0.0), rcond=None)[0][0]
        return max(free - l1 / (column @ column), 0.0)

    for _ in range(sweeps):
        for t in range(len(T)):
            others = [u for u in range(len(T)) if u != t]
            R = values - W[:, others] @ T[others]
            for i in range(len(values)):
                seen = weights[i] == 1
                x = best(R[i, seen], T[t, seen], gamma, delta)
                W[i, t] = 0 if x is None else x
            numerators = (weights * R).T @ W[:, t]
            denominators = weights.T @ W[:, t] ** 2
            for j in range(values.shape[1]):
                seen = weights[:, j] == 1
                x = best(R[seen, j], W[seen, t], alpha, beta)
                T[t, j] = T[t, j] if x is None else x
    return W, T, numerators, denominators


@pytest.mark.parametrize("penalties", PENALTIES, ids=str)
def test_agrees_with_plain_least_squares(penalties):
    X, T0 = ratings(12, 9, seed=1), np.random.default_rng(2).random((3, 9))
    assert (X.data == 0).any(), "a rating of 0 must occur"
    found = weighted_nmf_iter([X], T0, sweeps=6, tolerance=0, penalties=Penalties(**penalties))
    W, T, numerators, denominators = least_squares(X, T0, 6, **penalties)
    np.testing.assert_allclose(found.W, W, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.T, T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.numerators[-1], numerators, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.denominators[-1], denominators, rtol=1e-9, atol=1e-9)


@given(seed=st.integers(0, 10_000), k=st.integers(1, 5), which=st.sampled_from(PENALTIES))
@settings(max_examples=40, deadline=None)
def test_objective_never_goes_up(seed, k, which):
    X, T0 = ratings(10, 8, seed), np.random.default_rng(seed).random((k, 8))
    values, weights = dense(X)
    before = np.inf
    for sweeps in range(1, 9):
        found = weighted_nmf_iter([X], T0, sweeps=sweeps, tolerance=0, penalties=Penalties(**which))
        W, T = found.W, found.T
        now = observed_objective(X, W, T, penalties=Penalties(**which))
        fit = 0.5 * (weights * (values - W @ T) ** 2).sum()
        assert now >= fit * (1 - 1e-12)
        assert which or now == pytest.approx(fit, rel=1e-9, abs=1e-9)
        assert now <= before * (1 + 1e-12) + 1e-12
        before = now


@pytest.mark.parametrize("penalties", PENALTIES, ids=str)
@pytest.mark.parametrize("cuts", [(9,), (4, 4, 13)])
def test_parties_find_what_the_centre_finds(penalties, cuts):
    X, T0 = ratings(20, 15, seed=3), np.random.default_rng(4).random((4, 15))
    parties = split(X, *cuts)
    together = weighted_nmf_iter([X], T0, sweeps=15, tolerance=0, penalties=Penalties(**penalties))
    apart = weighted_nmf_iter(parties, T0, sweeps=15, tolerance=0, penalties=Penalties(**penalties))
    for name in ("T", "W", "numerators", "denominators"):
        np.testing.assert_allclose(getattr(apart, name), getattr(together, name), rtol=1e-9, atol=1e-9)
    view = weighted_nmf_iter(
        parties, T0, sweeps=15, tolerance=0, kept=KeptSums({1}), penalties=Penalties(**penalties)
    )
    np.testing.assert_array_equal(view.T, apart.T)
    theirs = view.W[cuts[0] :][: parties[1].shape[0]]
    own = dense(parties[1])[1].T @ theirs**2
    np.testing.assert_allclose(apart.denominators - view.denominators, own.T, rtol=1e-9, atol=1e-9)


def test_unrated_columns_are_zero_and_nothing_is_nan():
    X, T0 = ratings(6, 9, seed=5, density=0.2), np.ones((7, 9))
    for Y in (X, sp.csr_array((4, 9)), sp.csr_array((0, 9))):
        found = weighted_nmf_iter([Y], T0, sweeps=50, tolerance=0)
        assert all(np.isfinite(a).all() for a in (found.T, found.W, found.numerators, found.denominators))
        np.testing.assert_array_equal(found.T[:, np.bincount(Y.indices, minlength=9) == 0], 0)


def test_a_stored_zero_is_a_rating_and_a_missing_entry_is_none():
    full = np.outer([1.0, 2, 3, 4], [1.0, 2, 0, 4, 5])
    i, j = np.nonzero(np.random.default_rng(0).random(full.shape) < 0.8)
    observed = sp.csr_array((full[i, j], (i, j)), shape=full.shape)
    found = weighted_nmf_iter([observed], np.ones((1, 5)), sweeps=2000, tolerance=1e-13)
    assert len(i) < full.size
    np.testing.assert_allclose(found.W @ found.T, full, atol=1e-6)


def test_coefficients_fit_the_observed_entries():
    X, T = ratings(15, 12, seed=6, density=0.85), np.random.default_rng(7).random((4, 12))
    assert np.diff(X.indptr).min() > 4, "the fit must be unique"
    values, weights = dense(X)
    W = fit_observed_coefficients(X, T)
    for row, seen, w in zip(values, weights == 1, W, strict=True):
        np.testing.assert_allclose(w, nnls(T[:, seen].T, row[seen])[0], atol=1e-5)
    shrunk = fit_observed_coefficients(X, T, gamma=0.3, delta=0.2)
    slope = (weights * (shrunk @ T - values)) @ T.T + 0.3 + 0.2 * shrunk
    assert (slope > -1e-6).all()
    np.testing.assert_allclose(slope[shrunk > 0], 0, atol=1e-6)
