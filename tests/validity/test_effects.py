"""Bounds on epsilon and on attacks, and the test of the tails, replayed. Each test prints what it checks."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from ksdp.audit.verdicts.effects import epsilon_lower_bound, tpr_at_fpr
from ksdp.audit.verdicts.laws import ks_table
from ksdp.audit.verdicts.tails import tail_table

pytestmark = pytest.mark.validity

REPLAYS = 2000


def slack(level: float) -> float:
    return 3 * math.sqrt(level * (1 - level) / REPLAYS)


@pytest.mark.parametrize("arms", [(100, 100), (500, 500), (2000, 2000), (60, 1940)])
@pytest.mark.parametrize("decimals", [None, 0], ids=["continuous", "tied"])
def test_null_scores_report_no_epsilon(arms: tuple[int, int], decimals: int | None) -> None:
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(REPLAYS):
        a, b = (rng.normal(size=n) if decimals is None else rng.normal(size=n).round(decimals) for n in arms)
        wrong += epsilon_lower_bound(a, b, 0.95) > 0
    print(f"P(epsilon > 0) on null scores, arms {arms}: {wrong / REPLAYS}")
    assert wrong / REPLAYS <= 0.05 + slack(0.05)


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
def test_epsilon_of_laplace_noise_is_covered(epsilon: float) -> None:
    rng = np.random.default_rng(2)
    bounds = np.array(
        [epsilon_lower_bound(rng.laplace(epsilon, 1, 1500), rng.laplace(0, 1, 2500), 0.8) for _ in range(REPLAYS)]
    )
    missed = float((bounds > epsilon).mean())
    print(f"epsilon {epsilon}: bound above it in {missed}, median bound {np.median(bounds):.3f}")
    assert missed <= 0.2 + slack(0.2)
    assert np.median(bounds) > 0.4 * epsilon


@pytest.mark.parametrize("shift", [0.5, 1.5])
def test_epsilon_of_shifted_normals_at_a_delta_is_covered(shift: float) -> None:
    """delta of the Gaussian mechanism at epsilon: Phi(s / 2 - e / s) - exp(e) Phi(-s / 2 - e / s)."""
    rng = np.random.default_rng(3)
    epsilon = 1.0
    delta = float(
        norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift)
    )
    bounds = np.array(
        [
            epsilon_lower_bound(rng.normal(shift, 1, 2000), rng.normal(0, 1, 2000), 0.8, delta)
            for _ in range(REPLAYS)
        ]
    )
    print(
        f"shift {shift}, delta {delta:.4f}: above epsilon in {(bounds > epsilon).mean()}, {np.median(bounds):.3f}"
    )
    assert (bounds > epsilon).mean() <= 0.2 + slack(0.2)


@pytest.mark.parametrize(("fpr", "arms"), [(0.01, (50, 50)), (0.01, (500, 500)), (0.001, (4000, 4000))])
def test_tpr_at_a_small_fpr_is_above_the_truth_as_seldom_as_it_says(fpr: float, arms: tuple[int, int]) -> None:
    """Half of each arm's mass may lie beyond the quantile: the truth is the best attack with at most this FPR."""
    rng = np.random.default_rng(6)
    truths = {"normal": norm.sf(norm.isf(fpr) - 2), "a rare event": 0.3}
    for name, truth in truths.items():
        above, told = 0, 0
        for _ in range(REPLAYS):
            held, free = rng.normal(2, 1, arms[0]), rng.normal(0, 1, arms[1])
            if name == "a rare event":  # it gives the document away, but for false alarms just at the rate
                held = (rng.random(arms[0]) < truth).astype(float)
                free = (rng.random(arms[1]) < fpr).astype(float)
            attack = tpr_at_fpr(held, free, fpr, 0.8)
            told += attack is not None
            above += attack is not None and attack.tpr_low > truth
        print(f"FPR {fpr}, {name}, arms {arms}: measured in {told / REPLAYS}, above the truth {above / REPLAYS}")
        assert above / REPLAYS <= 0.2 + slack(0.2)
        assert told == (0 if arms[1] * fpr < 1 else REPLAYS)


@pytest.mark.parametrize(("fpr", "arms"), [(0.001, (200, 3300)), (0.01, (200, 450)), (0.01, (1000, 3000))])
def test_attack_bounds_hold_together(fpr: float, arms: tuple[int, int]) -> None:
    rng = np.random.default_rng(4)
    held_together = 0
    for _ in range(REPLAYS):
        a = tpr_at_fpr(rng.normal(2, 1, arms[0]), rng.normal(0, 1, arms[1]), fpr, 0.8)
        assert a is not None
        edge = a.threshold if a.above else -a.threshold
        true_fpr, true_tpr = norm.sf(edge), norm.sf(edge - 2 if a.above else edge + 2)
        held_together += true_fpr <= a.fpr_high and a.tpr_low <= true_tpr <= a.tpr_high
    print(f"FPR {fpr}, arms {arms}: joint coverage {held_together / REPLAYS} at 0.8")
    assert held_together / REPLAYS >= 0.8 - slack(0.2)


@pytest.mark.parametrize("quantity", [0.01, 0.02])
def test_a_rare_certain_leak_is_found_by_its_tail(quantity: float) -> None:
    """Two thousand runs an arm, level 5e-5: what a corpus of a thousand documents asks for."""
    rng = np.random.default_rng(5)
    inclusion = np.stack([rng.permutation(4000) < 2000 for _ in range(500)])
    event = inclusion & (rng.random(inclusion.shape) < quantity)
    for name, values in {
        "far outliers": rng.normal(size=event.shape) + 20 * event,
        "a flag": event.astype(float),
    }.items():
        tail = float((tail_table(values, inclusion).log10_p <= math.log10(5e-5)).mean())
        ks = float((ks_table(values, inclusion).log10_p <= math.log10(5e-5)).mean())
        print(f"event of probability {quantity} as {name}: tails {tail}, KS {ks}")
        assert ks == 0
        assert tail >= (0.99 if quantity == 0.02 else 0.5)


@pytest.mark.parametrize("share", [0.03, 0.5])
@pytest.mark.parametrize("rare", [None, 0.005, 0.02, 0.3], ids=str)
def test_tails_hold_their_level(share: float, rare: float | None) -> None:
    """Heavy-tailed values, and flags of several frequencies, which tie nearly everywhere."""
    rng = np.random.default_rng(6)
    smallest = []
    for _ in range(10):
        inclusion = rng.random((2000, 1000)) < share
        values = (
            rng.standard_cauchy(inclusion.shape) if rare is None else 1.0 * (rng.random(inclusion.shape) < rare)
        )
        smallest.append(tail_table(values, inclusion).log10_p)
    log10_p = np.concatenate(smallest)
    for level in (0.001, 0.01, 0.05):
        rate = float((log10_p <= math.log10(level)).mean())
        print(f"share {share}, flags {rare}: P(p <= {level}) = {rate}")
        assert rate <= level + 3 * math.sqrt(level / len(log10_p))
