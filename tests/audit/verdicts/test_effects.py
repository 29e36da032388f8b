"""Bounds against SciPy's, against a loop written from the definition, and their coverage."""

import math
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from ksdp.audit.verdicts.effects import (
    best_threshold,
    epsilon_lower_bound,
    guessed_epsilon_low,
    one_run,
    tpr_at_fpr,
)


@cache
def clopper_pearson(hits: int, trials: int, level: float) -> tuple[float, float]:
    """Each side at `level`."""
    interval = binomtest(hits, trials).proportion_ci(1 - 2 * level, method="exact")
    return interval.low, interval.high


def reference_bound(a: np.ndarray, b: np.ndarray, error: float, delta: float) -> float:
    """Event by event."""
    best = 1.0
    for p, q in ((a, b), (b, a)):
        e_p, e_q = (math.sqrt(math.log(2 / (error / 4)) / (2 * len(x))) for x in (p, q))
        for t in np.concatenate([p, q]):
            best = max(best, ((p <= t).mean() - e_p - delta) / ((q <= t).mean() + e_q))
            best = max(best, ((p > t).mean() - e_p - delta) / ((q > t).mean() + e_q))
        ranks = sorted({min(r, len(q) - 1) for r in [0, *(2**k for k in range(len(q).bit_length()))]})
        each = error / 2 / 4 / 2 / len(ranks)
        for sign in (1, -1):
            ordered = np.sort(sign * q)
            for r in ranks:
                hits = int((sign * p < ordered[r]).sum())
                low, _ = clopper_pearson(hits, len(p), each)
                _, high = clopper_pearson(r, len(q), each)
                best = max(best, (low - delta) / high)
    return math.log(best)


@given(st.integers(0, 10_000), st.sampled_from([None, 1, 0]), st.sampled_from([0.0, 0.01]), st.floats(0, 4))
@settings(max_examples=25, deadline=None)
def test_epsilon_equals_the_definition(seed: int, decimals: int | None, delta: float, shift: float) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(shift, 1, 70), rng.normal(0, 1.5, 50)
    if decimals is not None:
        a, b = a.round(decimals), b.round(decimals)
    ours = epsilon_lower_bound(a, b, 0.9, delta)
    assert ours == pytest.approx(reference_bound(a, b, 0.1, delta), abs=1e-9)
    assert epsilon_lower_bound(b, a, 0.9, delta) == ours
    assert epsilon_lower_bound(-a, -b, 0.9, delta) == pytest.approx(ours)


@given(st.integers(0, 10_000), st.sampled_from([0.01, 0.02, 0.1]), st.sampled_from([None, 0]))
@example(437, 0.02, 0)
@settings(max_examples=25, deadline=None)
def test_tpr_equals_the_definition(seed: int, fpr: float, decimals: int | None) -> None:
    rng = np.random.default_rng(seed)
    held, free = rng.normal(1, 1, 300), rng.normal(size=500)
    if decimals is not None:
        held, free = held.round(decimals), free.round(decimals)
    attack = tpr_at_fpr(held, free, fpr, 0.9)
    sign = 1 if attack.above else -1
    assert attack.fpr == (sign * free > sign * attack.threshold).mean() < fpr
    hits = int((sign * held > sign * attack.threshold).sum())
    assert attack.tpr == hits / 300
    assert (attack.tpr_low, attack.tpr_high) == pytest.approx(clopper_pearson(hits, 300, 0.1 / 8), abs=1e-12)
    # The most values beyond the threshold whose upper limit is still at most what was asked for.
    limits = [clopper_pearson(beyond, 500, 0.1 / 4)[1] for beyond in range(60)]
    most = max(beyond for beyond, limit in enumerate(limits) if limit <= fpr)
    assert attack.fpr_high == pytest.approx(limits[most], abs=1e-12)
    assert (sign * free >= sign * attack.threshold).sum() > most >= attack.fpr * 500 - 1e-9
    mirrored = tpr_at_fpr(-held, -free, fpr, 0.9)
    assert mirrored.tpr_low == attack.tpr_low
    # The side is that on which more is proved; where both prove as much, either is right.
    on_the_other = int((-sign * held > np.sort(-sign * free)[::-1][most]).sum())
    assert on_the_other <= hits
    assert on_the_other == hits or attack.tpr_low == 0 or mirrored.above != attack.above


def test_a_rate_that_so_few_runs_cannot_bound_is_not_measured() -> None:
    """The rule of three, made exact: the largest of n values bounds the rate by 1 - (level / 4)^(1 / n)."""
    for fpr in (0.1, 0.01, 0.001):
        fewest = math.ceil(math.log(0.05 / 4) / math.log(1 - fpr))
        values = np.arange(fewest, dtype=float)
        assert tpr_at_fpr(values + 1e6, values, fpr) is not None
        assert tpr_at_fpr(values + 1e6, values[1:], fpr) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: epsilon_lower_bound(np.ones(0), np.ones(3)),
            "`with_values` must be one-dimensional and not empty",
        ),
        (lambda: epsilon_lower_bound(np.ones(3), np.array([np.nan])), "`without_values` must not hold NaN."),
        (lambda: epsilon_lower_bound(np.ones(3), np.ones(3), 1.0), "`confidence` must be in (0, 1); got 1.0."),
        (lambda: epsilon_lower_bound(np.ones(3), np.ones(3), 0.9, 1.0), "`delta` must be in [0, 1); got 1.0."),
        (lambda: tpr_at_fpr(np.ones(3), np.ones(3), 0.0), "`fpr` must be in (0, 1); got 0.0."),
    ],
)
def test_refusals(call, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_the_threshold_is_the_best_of_all_by_trying_each() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        held, free = rng.integers(0, 9, 12) * 1.0, rng.integers(0, 9, 15) + rng.integers(-4, 5) * 1.0
        attack = best_threshold(held, free)
        got = attack.hits(held).mean() - attack.hits(free).mean()
        every = [abs((held > t).mean() - (free > t).mean()) for t in np.concatenate([held, free])]
        assert got == pytest.approx(max(every))


def test_one_run_of_randomised_response_comes_near_its_epsilon_and_seldom_above() -> None:
    """Each record says whether it is in, and lies as often as epsilon asks: no mechanism gives more away."""
    epsilon, rng = 1.0, np.random.default_rng(9)
    found = []
    for _ in range(80):
        held = rng.random(400) < 0.5
        answers = held ^ (rng.random(400) < 1 / (1 + np.exp(epsilon)))
        scores = np.stack([rng.random(400), -(answers + 0.5 * rng.random(400))])  # no score, and a reversed one
        found.append(one_run(scores, held, 0.0, 0.8))
    low = np.array([one.epsilon_low for one in found])
    assert (low > epsilon).mean() <= 0.2
    assert np.median(low) > 0.6
    assert {(one.score, one.records) for one in found} == {(1, 400)}


def test_one_run_that_says_who_is_in_proves_what_its_records_allow_and_delta_takes_its_part() -> None:
    held = np.arange(64) % 2 == 0
    sure = one_run(held[None, :].astype(float), held, 0.0, 0.95)
    q = (0.05 / 2 / 4) ** (1 / 64)  # all right, of four numbers of guesses in two directions
    assert (sure.guesses, sure.right) == (64, 64)
    assert sure.epsilon_low == pytest.approx(math.log(q / (1 - q)))
    assert 0 < one_run(held[None, :].astype(float), held, 1e-4, 0.95).epsilon_low < sure.epsilon_low
    assert one_run(held[None, :].astype(float), held, 0.01, 0.95).epsilon_low == 0
    assert one_run(np.zeros((1, 3)), np.array([True, False, True]), 0.0, 0.95).epsilon_low == 0


def test_delta_s_part_is_the_theorem_s_sum_by_sum() -> None:
    m, r, v, delta, epsilon = 300, 40, 36, 1e-3, 0.7
    law = binom(r, 1 / (1 + math.exp(-epsilon)))
    beta = sum(law.pmf(k) for k in range(v, r + 1))
    steepest = max(sum(law.pmf(k) for k in range(v - i, v)) / i for i in range(1, v + 1))
    level = beta + 2 * m * delta * steepest
    assert guessed_epsilon_low(m, r, v, delta, level) == pytest.approx(epsilon, abs=1e-9)
