"""Effects on fresh runs: chosen without them, measured by them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from ksdp.audit.verdicts.effects import Attack, best_threshold, learned_scores, measure_effect


def test_the_threshold_is_the_best_of_all_by_trying_each() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        held, free = rng.integers(0, 9, 12) * 1.0, rng.integers(0, 9, 15) + rng.integers(-4, 5) * 1.0
        attack = best_threshold(held, free)
        got = attack.hits(held).mean() - attack.hits(free).mean()
        every = [abs((held > t).mean() - (free > t).mean()) for t in np.concatenate([held, free])]
        assert got == pytest.approx(max(every))


def test_the_advantage_is_that_of_the_attack_and_its_interval_clopper_pearson_s() -> None:
    rng = np.random.default_rng(2)
    held, free = rng.normal(1, 1, 60), rng.normal(0, 1, 900)
    effect = measure_effect(4, "s", Attack(0.3, above=True), held, free, 0.1)
    hits, alarms = int((held > 0.3).sum()), int((free > 0.3).sum())
    tpr, fpr = (binomtest(k, n).proportion_ci(0.95, "exact") for k, n in ((hits, 60), (alarms, 900)))
    assert effect.advantage == pytest.approx(hits / 60 - alarms / 900)
    assert effect.advantage_low == pytest.approx(tpr.low - fpr.high)
    assert effect.advantage_high == pytest.approx(tpr.high - fpr.low)
    assert effect.advantage <= effect.distance
    assert (effect.n_with, effect.n_without, effect.row, effect.column) == (60, 900, 4, "s")


def test_a_learner_is_trained_on_the_audit_s_runs_alone() -> None:
    rng = np.random.default_rng(3)
    bits = rng.random((1, 600)) < 0.5
    values = [rng.normal(size=(1, 600)) + 1.5 * bits * (c == 0) for c in range(3)]
    before, after = (bits[:, :400], [v[:, :400] for v in values]), (bits[:, 400:], [v[:, 400:] for v in values])
    scores = learned_scores("lda", before, after)
    fresh = bits[0, 400:]
    assert (scores[fresh] > 0).mean() - (scores[~fresh] > 0).mean() > 0.4
    flipped = (~after[0], after[1])
    np.testing.assert_array_equal(learned_scores("lda", before, flipped), scores)
