from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB

from ksdp.audit.statistics.learned import (
    CLIP,
    GAUSSIAN,
    FoldMoments,
    Standards,
    boosted_scores,
    column_standards,
    fit,
    fold_moments,
    score,
)


def draw(seed: int, n: int = 4, runs: int = 120, p: int = 5, share: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    inclusion = rng.random((n, runs)) < share
    mixing = rng.normal(size=(p, p))
    features = rng.normal(size=(n, runs, p)) @ mixing + 3.0
    features += inclusion[..., None] * rng.normal(size=p)
    return features, inclusion


def as_it_is(n: int, p: int) -> Standards:
    return Standards(np.zeros((n, p)), np.full((n, p), 0.01))  # small enough that nothing is clipped


def learn(features: np.ndarray, inclusion: np.ndarray, learner: str) -> np.ndarray:
    """Train on the first half, score the second."""
    half = features.shape[1] // 2
    train, test = np.arange(half), np.arange(half, features.shape[1])
    standards = column_standards(features, train)
    return score(features, test, standards, fit(fold_moments(features, inclusion, train, standards), learner))


def halves(
    features: np.ndarray, inclusion: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Of every document: its number, runs and bits that are trained on, and runs that are scored."""
    half = features.shape[1] // 2
    for i in range(len(features)):
        yield i, features[i, :half], inclusion[i, :half], features[i, half:]


def test_moments_are_those_of_each_arm() -> None:
    features, inclusion = draw(0)
    runs = np.arange(10, 70)
    standards = column_standards(features, runs)
    found = fold_moments(features, inclusion, runs, standards)
    for i in range(len(features)):
        rows = features[i, runs]
        z = np.clip((rows - rows.mean(axis=0)) / rows.std(axis=0), -CLIP, CLIP)
        for arm in range(2):
            mine = z[inclusion[i, runs] == arm]
            assert found.count[i, arm] == len(mine)
            np.testing.assert_allclose(found.first[i, arm], mine.sum(axis=0), atol=1e-10)
            np.testing.assert_allclose(found.second[i, arm], mine.T @ mine, atol=1e-10)


def test_moments_of_parts_add_up() -> None:
    features, inclusion = draw(1)
    standards = as_it_is(*features.shape[::2])
    parts = [fold_moments(features, inclusion, np.arange(a, a + 60), standards) for a in (0, 60)]
    whole = fold_moments(features, inclusion, np.arange(120), standards)
    both = parts[0] + parts[1]
    np.testing.assert_allclose(both.second, whole.second, rtol=1e-12)
    np.testing.assert_array_equal(both.count, whole.count)


def test_lda_is_scikit_learns_with_the_stated_shrinkage() -> None:
    features, inclusion = draw(2)
    half, p = features.shape[1] // 2, features.shape[2]
    found = learn(features, inclusion, "lda")
    for i, rows, bits, tested in halves(features, inclusion):
        # In units of the pooled standard deviation its target, the mean variance times the identity, is ours.
        within = np.concatenate([rows[bits] - rows[bits].mean(axis=0), rows[~bits] - rows[~bits].mean(axis=0)])
        units = within.std(axis=0)
        model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=p / (p + half), priors=None)
        model.fit(rows / units, bits)
        # Its intercept holds the priors; ours weigh both arms alike.
        prior = np.log(bits.mean() / (~bits).mean())
        expected = model.decision_function(tested / units) - prior
        np.testing.assert_allclose(found[i], expected, rtol=1e-8, atol=1e-9)


def test_matched_filter_is_lda_without_correlations() -> None:
    features, inclusion = draw(3)
    half = features.shape[1] // 2
    found = learn(features, inclusion, "matched-filter")
    for i, rows, bits, tested in halves(features, inclusion):
        a, b = rows[bits], rows[~bits]
        variance = (len(a) * a.var(axis=0) + len(b) * b.var(axis=0)) / half
        weights = (a.mean(axis=0) - b.mean(axis=0)) / variance
        expected = (tested - 0.5 * (a.mean(axis=0) + b.mean(axis=0))) @ weights
        np.testing.assert_allclose(found[i], expected, rtol=1e-9, atol=1e-9)


def test_lira_is_the_ratio_of_the_shrunk_densities() -> None:
    features, inclusion = draw(4)
    half, p = features.shape[1] // 2, features.shape[2]
    found = learn(features, inclusion, "lira")
    for i, rows, bits, tested in halves(features, inclusion):
        arms = [rows[~bits], rows[bits]]
        pooled = sum(len(a) * np.cov(a.T, bias=True) for a in arms) / half
        off = pooled * half / (half + p)
        shrunk = np.where(np.eye(p, dtype=bool), pooled, off)
        logs = []
        for a in arms:
            own = (len(a) * np.cov(a.T, bias=True) + 2 * p * shrunk) / (len(a) + 2 * p)
            logs.append(multivariate_normal(a.mean(axis=0), own).logpdf(tested))
        np.testing.assert_allclose(found[i], logs[1] - logs[0], rtol=1e-7, atol=1e-8)


def test_lira_of_one_column_is_gaussian_naive_bayes_on_many_runs() -> None:
    rng = np.random.default_rng(5)
    inclusion = rng.random((2, 40000)) < 0.5
    features = rng.normal(size=(2, 40000, 1)) * np.where(inclusion, 2.0, 1.0)[..., None] + inclusion[..., None]
    found = learn(features, inclusion, "lira")
    for i in range(2):
        model = GaussianNB(priors=[0.5, 0.5]).fit(features[i, :20000], inclusion[i, :20000])
        logs = model.predict_log_proba(features[i, 20000:])
        np.testing.assert_allclose(found[i], logs[:, 1] - logs[:, 0], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("learner", GAUSSIAN)
def test_units_of_columns_do_not_matter(learner: str) -> None:
    features, inclusion = draw(6)
    scaled = features * [1e-4, 1.0, 1e3, -7.0, 1.0] + [0, 5, 0, 0, -2]
    np.testing.assert_allclose(learn(scaled, inclusion, learner), learn(features, inclusion, learner), rtol=1e-6)


@pytest.mark.parametrize("learner", GAUSSIAN)
def test_constant_and_repeated_columns_do_no_harm(learner: str) -> None:
    features, inclusion = draw(7)
    odd = np.concatenate([features, features[..., :1], np.full((*features.shape[:2], 1), 3.0)], axis=2)
    found = learn(odd, inclusion, learner)
    assert np.isfinite(found).all()
    alone = learn(np.full_like(features, 2.0), inclusion, learner)
    np.testing.assert_array_equal(alone, 0.0)


@pytest.mark.parametrize("learner", GAUSSIAN)
def test_a_column_that_separates_perfectly_is_used(learner: str) -> None:
    features, inclusion = draw(8)
    features[..., 2] = inclusion
    found = learn(features, inclusion, learner)
    test = inclusion[:, features.shape[1] // 2 :]
    assert np.isfinite(found).all()
    assert ((found > 0) == test).all()


@pytest.mark.parametrize("learner", GAUSSIAN)
def test_equal_rows_have_equal_scores_wherever_they_stand(learner: str) -> None:
    features, inclusion = draw(9)
    features[:, 60:, :] = features[:, 60:61, :]
    found = learn(features, inclusion, learner)
    assert (found == found[:, :1]).all()


@pytest.mark.parametrize("learner", GAUSSIAN)
def test_an_arm_of_one_teaches_nothing(learner: str) -> None:
    features, inclusion = draw(10)
    inclusion[:, :60] = False
    inclusion[:, 0] = True
    np.testing.assert_array_equal(learn(features, inclusion, learner), 0.0)


def test_unknown_learners_are_refused() -> None:
    moments = FoldMoments(np.full((1, 2), 9.0), np.zeros((1, 2, 1)), np.ones((1, 2, 1, 1)))
    with pytest.raises(ValueError, match="`learner` must be one of"):
        fit(moments, "svm")


def test_a_nonlinear_difference_is_learnt_and_repeatable() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2, 500, 3))
    inclusion = np.abs(features[..., 1]) > 0.7
    inclusion[1] = rng.random(500) < 0.5
    train, test = np.arange(250), np.arange(250, 500)
    scores = boosted_scores(features, inclusion, train, test)
    assert roc_auc_score(inclusion[0, test], scores[0]) > 0.97
    assert abs(roc_auc_score(inclusion[1, test], scores[1]) - 0.5) < 0.12
    np.testing.assert_array_equal(boosted_scores(features, inclusion, train, test), scores)


def test_an_arm_of_one_teaches_trees_nothing() -> None:
    features = np.random.default_rng(1).normal(size=(1, 40, 2))
    inclusion = np.zeros((1, 40), dtype=bool)
    inclusion[0, 3] = True
    np.testing.assert_array_equal(boosted_scores(features, inclusion, np.arange(20), np.arange(20, 40)), 0.0)
