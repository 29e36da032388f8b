from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import combine_pvalues, ks_2samp, norm

from ksdp.audit.statistics.learned import (
    BOOSTED,
    CHOSEN,
    GAUSSIAN,
    SHRINKAGE,
    filter_scores,
    folds_of,
    gram_of_runs,
    learner_scores,
)
from ksdp.audit.verdicts.learned import fisher, held_out_advantage, learned_tests, raw_tests
from ksdp.audit.verdicts.margins import distance_band


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
    before = [scores[0] for _, scores in learner_scores(features, inclusion, [learner])]
    for j, part in enumerate(folds_of(203)):
        changed = inclusion.copy()
        changed[:, part] = ~changed[:, part]
        later = [scores[0] for _, scores in learner_scores(features, changed, [learner])]
        same = [bool(np.array_equal(a, b)) for a, b in zip(before, later, strict=True)]
        assert all(same[:j])  # scores of folds 1 .. j
        assert not any(same[j:])


def test_a_fold_is_scored_without_later_features() -> None:
    features, inclusion = draw(3, n=2)
    parts = folds_of(203)
    before = [scores[0] for _, scores in learner_scores(features, inclusion, ["lira"])]
    spoiled = features.copy()
    spoiled[:, parts[2]] += 50
    later = [scores[0] for _, scores in learner_scores(spoiled, inclusion, ["lira"])]
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
    features[0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="`features` must be finite"):
        learned_tests(features, inclusion)


# The filter of raw announcements, against the primal, run by run.


def standardised(announced: np.ndarray, first: np.ndarray) -> np.ndarray:
    deviations = announced[first].std(axis=0)
    least = np.quantile(deviations[deviations > 0], 0.05)
    return announced / np.maximum(deviations, least)


def slow_scores(announced: np.ndarray, bits: np.ndarray, before: np.ndarray, run: int) -> float:
    """Ridge regression of the bits on the announcement; the threshold by refitting without each run."""
    announced = announced - announced[before].mean(axis=0)
    ridge = SHRINKAGE * (announced[before] ** 2).sum() / len(before)

    def fitted(training: np.ndarray, centre: float) -> np.ndarray:
        rows = announced[training]
        form = rows.T @ rows + ridge * np.eye(announced.shape[1])
        return np.linalg.solve(form, rows.T @ (bits[training] - centre))

    centre = bits[before].mean()
    alone = np.array([announced[r] @ fitted(before[before != r], centre) for r in before])
    held = bits[before] > 0
    return float(announced[run] @ fitted(before, centre) - (alone[held].mean() + alone[~held].mean()) / 2)


def test_scores_are_those_of_the_slow_way() -> None:
    rng = np.random.default_rng(5)
    raw = rng.normal(size=(60, 25)) * rng.uniform(0.1, 10, 25)
    raw[:, 3] = 7.0
    inclusion = rng.random((2, 60)) < 0.4
    parts = folds_of(60)
    for j, (runs, [scores]) in enumerate(filter_scores(gram_of_runs(raw), inclusion), start=1):
        before = np.sort(np.concatenate(parts[:j]))
        for document, bits in enumerate(inclusion.astype(float)):
            expected = [slow_scores(standardised(raw, parts[0]), bits, before, run) for run in runs]
            np.testing.assert_allclose(scores[document], expected, rtol=1e-4, atol=1e-5)


def test_it_finds_what_hides_behind_a_shared_covariance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shift of a tenth of the largest deviation, in a direction in which next to nothing else moves."""
    rng = np.random.default_rng(6)
    inclusion = rng.random((4, 1500)) < 0.3
    turn = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    noise = rng.normal(size=(1500, 40)) * np.array([5.0] * 38 + [0.25] * 2)
    noise[:, 39] += 0.5 * inclusion[1]
    monkeypatch.setattr("ksdp.audit.statistics.learned.SHRINKAGE", 1e-4)
    found = raw_tests(gram_of_runs(noise @ turn), inclusion)
    assert found.log10_p[1, 0] < -20
    assert found.distance[1, 0] == pytest.approx(2 * norm.cdf(1.0) - 1, abs=0.08)
    assert (found.log10_p[[0, 2, 3], 0] > -3).all()


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_a_document_without_a_trace_has_a_valid_p(share: float) -> None:
    """800 documents on the same runs, among them some that leave traces and so shape the covariance."""
    rng = np.random.default_rng(7)
    inclusion = rng.random((800, 400)) < share
    leaking = inclusion[:20].T @ rng.normal(size=(20, 60))
    found = raw_tests(gram_of_runs(leaking + rng.normal(size=(400, 60))), inclusion)
    p = 10.0 ** found.log10_p[20:, 0]
    for level in (0.01, 0.05, 0.2):
        assert (p <= level).mean() <= level + 4 * np.sqrt(level * (1 - level) / len(p))
    assert np.median(10.0 ** found.log10_p[:20, 0]) < 1e-3


def test_runs_that_the_filter_refuses() -> None:
    with pytest.raises(ValueError, match="shape"):
        raw_tests(np.eye(3), np.zeros((1, 4), dtype=bool))
    with pytest.raises(ValueError, match="finite"):
        raw_tests(np.full((4, 4), np.nan), np.zeros((1, 4), dtype=bool))


def test_runs_that_are_all_alike_say_nothing() -> None:
    inclusion = np.random.default_rng(0).random((3, 50)) < 0.5
    found = raw_tests(gram_of_runs(np.ones((50, 7))), inclusion)
    assert (found.distance == 0).all()
    assert (found.log10_p == 0).all()


# D without the bias of choosing.


def replays(shift: float, audits: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(held-out D, largest D) of audits of one document: three statistics, the first of which moves by `shift`."""
    rng = np.random.default_rng(seed)
    held = np.arange(200) < 80
    ours, largest = [], []
    for _ in range(audits):
        values = rng.normal(size=(3, 200))
        values[0, held] += shift
        ours.append(held_out_advantage(values, held))
        largest.append(max(ks_2samp(row[held], row[~held]).statistic for row in values))
    return np.array(ours), np.array(largest)


def test_where_nothing_leaks_it_is_zero_on_average_and_d_is_not() -> None:
    ours, largest = replays(0.0, 400, 5)
    assert abs(ours.mean()) < 4 * ours.std() / 20
    assert largest.mean() > 0.15


@pytest.mark.parametrize("shift", [0.3, 1.0, 2.0])
def test_it_is_never_above_the_true_advantage_on_average_and_near_it(shift: float) -> None:
    true = 2 * norm.cdf(shift / 2) - 1
    ours, largest = replays(shift, 400, 6)
    assert ours.mean() < true + 4 * ours.std() / 20
    assert ours.mean() > true - 0.12
    assert largest.mean() > true + 0.02


def test_a_leak_to_one_side_is_found_whatever_the_side_and_ties_are_no_thresholds() -> None:
    held = np.arange(40) % 2 == 0
    values = np.where(held, 1.0, 2.0)[None]
    assert held_out_advantage(values, held) == held_out_advantage(-values, held) == 1.0
    assert held_out_advantage(np.zeros((2, 40)), held) == 0.0
    assert np.isnan(held_out_advantage(values, np.arange(40) == 0))
