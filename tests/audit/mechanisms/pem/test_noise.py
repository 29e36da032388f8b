"""Splitting, dynamic L, sampling and what it all adds up to."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.noise import (
    Budget,
    Sampler,
    Simulated,
    Sparse,
    VectorBlock,
    Vetted,
    before_sampling,
    choose_large,
    log_law,
    tight_epsilon,
)


def law(scale: float, numbers: np.ndarray) -> np.ndarray:
    """Probabilities of integers under the discrete Laplace law."""
    return np.asarray(math.tanh(0.5 / scale) * np.exp(-np.abs(numbers) / scale))


@settings(deadline=None)
@given(
    st.floats(0.01, 50),
    st.integers(1, 40),
    st.lists(st.floats(0.01, 1), min_size=1, max_size=5),
    st.floats(0.05, 1),
    st.booleans(),
)
def test_what_all_blocks_and_iterations_take_is_epsilon(
    epsilon: float, iterations: int, weights: list[float], rate: float, sparse: bool
) -> None:
    chosen = Sparse(0.0, 3, part=0.3) if sparse else None
    budget = Budget(epsilon, iterations, sampling=rate, sparse=chosen)
    shares = np.array(weights) / sum(weights)
    blocks = [VectorBlock(4, 3.0, share=min(float(s), 1.0)) for s in shares]
    taken = sum(block.sensitivity / budget.scale(block) for block in blocks) + budget.of_selection
    assert amplified(taken, rate) * iterations == pytest.approx(epsilon)
    assert budget.spent(iterations) == pytest.approx(epsilon)
    assert budget.spent(0) == 0.0


def test_a_stream_spends_all_of_epsilon_in_each_iteration() -> None:
    once, stream = Budget(1.0, 20), Budget(1.0, 20, stream=True)
    block = VectorBlock(3, 2.0)
    assert once.scale(block) == 20 * stream.scale(block)
    assert stream.spent(1) == stream.spent(20) == 1.0


def amplified(epsilon: float, rate: float) -> float:
    """ln(1 + rate (e^epsilon - 1)), as the papers have it; e^epsilon is taken out, so that it cannot overflow."""
    return epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon))


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_amplification_is_what_a_known_accountant_says(epsilon: float, rate: float) -> None:
    known = pld.from_discrete_laplace_mechanism(epsilon, 1, sampling_prob=rate)
    assert amplified(epsilon, rate) == pytest.approx(known.get_epsilon_for_delta(0.0), abs=2e-4)


@settings(deadline=None)
@given(st.floats(1e-3, 200), st.floats(1e-3, 1))
def test_before_sampling_is_the_inverse(epsilon: float, rate: float) -> None:
    assert amplified(before_sampling(epsilon, rate), rate) == pytest.approx(epsilon, rel=1e-9)
    assert before_sampling(epsilon, rate) >= epsilon * (1 - 1e-12)


@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("other", [-2, 2, 1])
def test_amplification_holds_where_a_record_is_replaced(rate: float, other: int) -> None:
    """By enumeration: a record worth 2 against one worth `other`, entries in [-2, 2], so L = 4."""
    block = VectorBlock(1, 2.0)
    budget = Budget(1.0, 1, sampling=rate)
    k = np.arange(-300, 301)
    scale = budget.scale(block)

    def seen(value: int) -> np.ndarray:
        return (1 - rate) * law(scale, k) + rate * law(scale, k - value)

    assert np.abs(np.log(seen(2) / seen(other))).max() <= 1.0 + 1e-12
    if other == -2:  # without sampling the same noise would cost more
        assert np.abs(np.log(law(scale, k - 2) / law(scale, k + 2))).max() > 1.4


def test_tight_is_below_the_sum_and_above_what_the_mechanism_spends() -> None:
    budget = Budget(10.0, 100)
    exact = pld.from_laplace_mechanism(10.0, 1).self_compose(100).get_epsilon_for_delta(1e-6)
    tight = tight_epsilon(budget, 1e-6)
    assert exact <= tight < 6.0 < budget.spent(100)
    assert tight_epsilon(Budget(1.0, 1), 1e-9) == pytest.approx(1.0, abs=1e-3)
    assert tight_epsilon(Budget(1e6, 3), 1e-9) == 1e6  # as large as no exponential is


def test_no_noise_where_epsilon_is_infinite() -> None:
    assert Budget(math.inf, 5, sampling=0.5, sparse=Sparse(1.0, 2)).scale(VectorBlock(2, 1.0)) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Budget(0.0, 1), "epsilon"),
        (lambda: Budget(1.0, 0), "iterations"),
        (lambda: Budget(1.0, 1, sampling=0.0), "sampling"),
        (lambda: Budget(1.0, 2).spent(3), "iterations"),
        (lambda: Sparse(-1.0, 2), "threshold"),
        (lambda: Sparse(1.0, 0), "most"),
        (lambda: Sparse(1.0, 1, part=1.0), "part"),
        (lambda: before_sampling(1.0, 2.0), "rate"),
        (lambda: tight_epsilon(Budget(1.0, 1), 0.0), "delta"),
        (lambda: Vetted().draw(-1.0, 1), "scale"),
        (lambda: Vetted().draw(np.nan, 1), "scale"),
        (lambda: Vetted().draw(np.inf, 1), "scale"),
        (lambda: choose_large(np.array([1]), 0, 0, 1, 1.0, Vetted().draw), "most"),
        (lambda: choose_large(np.array([1]), 0, 1, 1, 0.0, Vetted().draw), "epsilon"),
    ],
)
def test_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def fits(drawn: np.ndarray, expected: np.ndarray, wide: int) -> float:
    """p-value of the draws against probabilities of -wide..wide; what is further out counts as one."""
    inside = np.bincount((drawn + wide)[np.abs(drawn) <= wide], minlength=2 * wide + 1)
    counts = np.append(inside, len(drawn) - inside.sum())
    shares = np.append(expected, 1 - expected.sum())
    return float(chisquare(counts, shares * len(drawn)).pvalue)


@pytest.mark.parametrize("scale", [0.4, 1.0, 7.3])
@pytest.mark.parametrize("sampler", [Vetted(), Simulated(np.random.default_rng(3))], ids=["vetted", "simulated"])
def test_draws_follow_the_law(sampler: Sampler, scale: float) -> None:
    wide = int(3 * scale) + 1
    drawn = sampler.draw(scale, 20_000)
    assert drawn.dtype == np.int64
    assert fits(drawn, law(scale, np.arange(-wide, wide + 1)), wide) > 1e-5


@pytest.mark.parametrize("sampler", [Vetted(), Simulated(np.random.default_rng(4))], ids=["vetted", "simulated"])
def test_sums_follow_the_convolution(sampler: Sampler) -> None:
    alone = law(1.5, np.arange(-60, 61))
    three = np.convolve(np.convolve(alone, alone), alone)[180 - 10 : 180 + 11]
    assert fits(sampler.draw(1.5, 20_000, parties=3), three, 10) > 1e-5


@pytest.mark.parametrize("parties", [1, 2, 3, 7])
@pytest.mark.parametrize("scale", [0.3, 1.5, 12.0])
def test_the_law_of_a_sum_is_the_convolution(scale: float, parties: int) -> None:
    wide = int(40 * scale) + 5
    alone = law(scale, np.arange(-wide, wide + 1))
    slow = alone
    for _ in range(parties - 1):
        slow = np.convolve(slow, alone)
    middle, far = len(slow) // 2, int(10 * scale)  # further out the slow one has lost its digits
    quick = log_law(scale, np.arange(-far, far + 1), parties)
    np.testing.assert_allclose(quick, np.log(slow[middle - far : middle + far + 1]), atol=1e-9)


def test_the_law_of_a_sum_holds_for_very_much_noise() -> None:
    """As an integral: a sum of three laws of scale 10^7 has a density; steps of 10^4 are fine enough."""
    numbers = np.arange(-(10**9), 10**9, 10**4)
    densities = np.exp(log_law(1e7, numbers, 3))
    assert densities.sum() * 1e4 == pytest.approx(1.0, abs=1e-6)
    assert (densities * (numbers / 1e7) ** 2).sum() * 1e4 == pytest.approx(3 * 2.0, rel=1e-4)


def test_no_noise_for_scale_zero_or_nobody() -> None:
    for sampler in (Vetted(), Simulated(np.random.default_rng(0))):
        assert sampler.draw(0.0, 5).tolist() == [0] * 5
        assert sampler.draw(2.0, 5, parties=0).tolist() == [0] * 5


def definition(answers: list[int], threshold: int, most: int, sensitivity: int, epsilon: float) -> dict:
    """Probability of every outcome: above-threshold read literally, query by query, for every value of rho."""
    outcomes: dict[tuple[int, ...], float] = {}
    reach = np.arange(-400, 401)
    rhos = law(2 * sensitivity / epsilon, reach)
    nus = law(4 * most * sensitivity / epsilon, np.arange(-2000, 2001))
    upper = np.cumsum(nus[::-1])[::-1]  # P(nu >= k) at k + 2000

    def ask(at: int, chosen: tuple[int, ...], rho: int, chance: float) -> None:
        if at == len(answers) or len(chosen) == most:
            outcomes[chosen] = outcomes.get(chosen, 0.0) + chance
            return
        above = float(upper[threshold + rho - answers[at] + 2000])
        ask(at + 1, (*chosen, at), rho, chance * above)
        ask(at + 1, chosen, rho, chance * (1 - above))

    for rho, chance in zip(reach, rhos, strict=True):
        ask(0, (), int(rho), float(chance))
    return outcomes


def test_outcomes_have_the_probabilities_of_the_definition() -> None:
    answers, runs = [3, 0, 5], 8000
    exact = definition(answers, 2, 2, 1, 2.0)
    assert sum(exact.values()) == pytest.approx(1.0)
    sampler = Simulated(np.random.default_rng(0))
    seen = [
        tuple(int(i) for i in choose_large(np.array(answers), 2, 2, 1, 2.0, sampler.draw)) for _ in range(runs)
    ]
    assert set(seen) <= set(exact)
    for outcome, chance in exact.items():
        error = 5 * np.sqrt(chance * (1 - chance) / runs)
        assert seen.count(outcome) / runs == pytest.approx(chance, abs=error), outcome


def test_it_stops_after_so_many_and_is_exact_without_noise() -> None:
    draw = Simulated(np.random.default_rng(0)).draw
    answers = np.array([1, 5, 9, 5, 7])
    assert choose_large(answers, 5, 3, 1, np.inf, draw).tolist() == [1, 2, 3]
    assert choose_large(answers, 10, 3, 1, np.inf, draw).tolist() == []
