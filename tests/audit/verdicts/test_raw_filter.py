"""The filter on raw announcements against the primal, run by run; its level and power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from ksdp.audit.verdicts.folds import folds_of
from ksdp.audit.verdicts.raw_filter import SHRINKAGE, filter_scores, gram_of_runs, raw_tests


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


def test_it_finds_what_hides_behind_a_shared_covariance() -> None:
    """A shift of a tenth of the largest deviation, in a direction in which next to nothing else moves."""
    rng = np.random.default_rng(6)
    inclusion = rng.random((4, 1500)) < 0.3
    turn = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    noise = rng.normal(size=(1500, 40)) * np.array([5.0] * 38 + [0.25] * 2)
    noise[:, 39] += 0.5 * inclusion[1]
    found = raw_tests(gram_of_runs(noise @ turn), inclusion, shrinkage=1e-4)
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


def test_what_it_refuses() -> None:
    with pytest.raises(ValueError, match="shape"):
        raw_tests(np.eye(3), np.zeros((1, 4), dtype=bool))
    with pytest.raises(ValueError, match="finite"):
        raw_tests(np.full((4, 4), np.nan), np.zeros((1, 4), dtype=bool))


def test_runs_that_are_all_alike_say_nothing() -> None:
    inclusion = np.random.default_rng(0).random((3, 50)) < 0.5
    found = raw_tests(gram_of_runs(np.ones((50, 7))), inclusion)
    assert (found.distance == 0).all()
    assert (found.log10_p == 0).all()
