from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import combine_pvalues, ks_2samp

from ksdp.audit.verdicts.bands import distance_band
from ksdp.audit.verdicts.folds import fisher, folds_of
from ksdp.audit.verdicts.learned import BOOSTED, CHOSEN, learned_tests, learner_scores
from ksdp.audit.verdicts.learners import GAUSSIAN


def draw(
    seed: int, n: int = 6, runs: int = 203, p: int = 4, share: float = 0.4, shift: float = 0.7
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    inclusion = rng.random((n, runs)) < share
    features = rng.normal(size=(n, runs, p)) + shift * inclusion[..., None]
    return features.astype(np.float32), inclusion


@settings(max_examples=50, deadline=None)
@given(runs=st.integers(0, 200), folds=st.integers(2, 9))
def test_folds_deal_every_run_once_and_both_arms_of_the_literal_design(runs: int, folds: int) -> None:
    parts, longer = folds_of(runs, folds), folds_of(runs + 17, folds)
    assert sorted(np.concatenate(parts).tolist()) == list(range(runs))
    for part, later in zip(parts, longer, strict=True):
        assert (part % 2 == 0).sum() - (part % 2 == 1).sum() in (0, 1)
        assert set(part) <= set(later)  # topping up moves no run


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 6))
def test_fisher_is_scipys(seed: int, m: int) -> None:
    p = np.random.default_rng(seed).random((5, m)) ** 3
    expected = [combine_pvalues(row, method="fisher").pvalue for row in p]
    np.testing.assert_allclose(10 ** fisher(np.log10(p)), expected, rtol=1e-9)


def test_fisher_does_not_underflow() -> None:
    assert fisher(np.array([[-400.0, -300.0]]))[0] == pytest.approx(-700 + np.log10(1 + 700 * np.log(10)))
    assert fisher(np.zeros((1, 4)))[0] == 0.0


@pytest.mark.parametrize("learner", GAUSSIAN)
def test_results_follow_from_scores_of_each_fold(learner: str) -> None:
    """Each fold by SciPy, weights and effective arms written out."""
    features, inclusion = draw(1)
    found = learned_tests(features, inclusion, [learner])
    for i in range(len(features)):
        p, advantage, weight, sizes = [], [], [], []
        for runs, (scores,) in learner_scores(features, inclusion, [learner]):
            a, b = scores[i][inclusion[i, runs]], scores[i][~inclusion[i, runs]]
            test = ks_2samp(a, b, method="exact")
            p.append(test.pvalue)
            advantage.append((a > 0).mean() - (b > 0).mean())
            weight.append(len(a) * len(b) / (len(a) + len(b)))
            sizes.append((len(a), len(b)))
        v = np.array(weight) / sum(weight)
        assert found.log10_p[i, 0] == pytest.approx(np.log10(combine_pvalues(p, method="fisher").pvalue), abs=1e-8)
        assert found.distance[i, 0] == pytest.approx(max(v @ advantage, 0))
        arms = np.array(sizes)
        effective = np.floor(1 / (v[:, None] ** 2 / arms).sum(axis=0) + 1e-9)
        assert [found.n_with[i], found.n_without[i]] == effective.tolist()
        assert (effective <= arms.sum(axis=0)).all()


@pytest.mark.parametrize("learner", [*GAUSSIAN, BOOSTED])
def test_a_fold_is_scored_without_its_own_or_later_bits(learner: str) -> None:
    features, inclusion = draw(2, n=2)
    before = [scores[0] for _, scores in learner_scores(features, inclusion, [learner], 4)]
    for j, part in enumerate(folds_of(203, 4)):
        changed = inclusion.copy()
        changed[:, part] = ~changed[:, part]
        later = [scores[0] for _, scores in learner_scores(features, changed, [learner], 4)]
        same = [bool(np.array_equal(a, b)) for a, b in zip(before, later, strict=True)]
        assert all(same[:j])  # scores of folds 1 .. j
        assert not any(same[j:])


def test_a_fold_is_scored_without_later_features() -> None:
    features, inclusion = draw(3, n=2)
    parts = folds_of(203, 4)
    before = [scores[0] for _, scores in learner_scores(features, inclusion, ["lira"], 4)]
    spoiled = features.copy()
    spoiled[:, parts[2]] += 50
    later = [scores[0] for _, scores in learner_scores(spoiled, inclusion, ["lira"], 4)]
    assert np.array_equal(before[0], later[0])
    assert not np.array_equal(before[2], later[2])


def test_chosen_is_the_best_of_the_folds_before() -> None:
    rng = np.random.default_rng(4)
    inclusion = rng.random((3, 600)) < 0.5
    features = rng.normal(size=(3, 600, 2)) * np.where(inclusion, 3.0, 1.0)[..., None]  # only lira sees this
    found = learned_tests(features, inclusion, [CHOSEN, "lda", "lira"])
    assert found.learners == ("lda", "lira", CHOSEN)
    lda, lira, chosen = found.log10_p.T
    assert (lira < -15).all()
    assert (chosen < lda).all()
    assert (chosen < 0.6 * lira).all()  # all but the first test


def test_columns_do_not_depend_on_the_other_documents_or_learners() -> None:
    features, inclusion = draw(5)
    whole = learned_tests(features, inclusion, ["matched-filter", "lda", "lira", CHOSEN])
    part = learned_tests(features[2:4], inclusion[2:4], ["lira"])
    np.testing.assert_array_equal(part.log10_p[:, 0], whole.log10_p[2:4, 2])
    np.testing.assert_array_equal(part.distance[:, 0], whole.distance[2:4, 2])


def test_a_perfect_leak_has_distance_one() -> None:
    features, inclusion = draw(6)
    features[..., 1] = inclusion
    found = learned_tests(features, inclusion)
    np.testing.assert_allclose(found.distance, 1.0, rtol=1e-15)
    assert (found.log10_p < -30).all()
    low, high = distance_band(found.distance[:, 0], found.n_with, found.n_without, 0.05)
    assert (low > 0.6).all()
    assert (high == 1).all()


def test_the_boosted_learner_sees_what_no_gaussian_does() -> None:
    rng = np.random.default_rng(7)
    inclusion = rng.random((2, 600)) < 0.5
    features = rng.normal(size=(2, 600, 2))
    # Equal means and covariances: the sign of the product says which arm.
    features[..., 1] = np.abs(features[..., 1]) * np.sign(features[..., 0] - 0.5) * np.where(inclusion, 1, -1)
    features[..., 1] *= np.where(rng.random((2, 600)) < 0.5, 1, -1) ** (np.abs(features[..., 0]) > 1.0)
    found = learned_tests(features, inclusion, ["lda", BOOSTED])
    assert (found.log10_p[:, 1] < -10).all()
    assert (found.log10_p[:, 1] < found.log10_p[:, 0]).all()


def test_empty_arms_say_nothing() -> None:
    features, inclusion = draw(8)
    inclusion[0] = False
    inclusion[1] = True
    inclusion[2] = np.arange(203) == 2
    found = learned_tests(features, inclusion)
    assert np.isnan(found.distance[:2]).all()
    np.testing.assert_array_equal(found.log10_p[:3], 0.0)
    np.testing.assert_array_equal(found.n_with[:3], [0, 0, 1])
    assert np.isfinite(found.distance[2:]).all()


def test_what_cannot_be_learnt_from_is_refused() -> None:
    features, inclusion = draw(9)
    with pytest.raises(ValueError, match="`features` must have shape"):
        learned_tests(features[:, :5], inclusion)
    with pytest.raises(ValueError, match="`learners` must be among"):
        learned_tests(features, inclusion, ["lda", "svm"])
    with pytest.raises(ValueError, match="not chosen alone"):
        learned_tests(features, inclusion, [CHOSEN])
    with pytest.raises(ValueError, match="`folds` must be at least 2; got 1"):
        learned_tests(features, inclusion, folds=1)
    features[0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="`features` must be finite"):
        learned_tests(features, inclusion)
