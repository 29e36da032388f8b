"""Splitting, dynamic L, sampling and what it all adds up to."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.algorithm import VectorBlock
from ksdp.audit.mechanisms.pem.budget import Budget, Sparse, before_sampling, tight_epsilon
from ksdp.audit.mechanisms.pem.discrete_laplace import law


def test_the_papers_three_cases() -> None:
    budget = Budget(epsilon=2.0, iterations=50)
    assert budget.scale(VectorBlock(10, 14.0)) == 50 * 28 / 2.0  # T L / epsilon
    sums, counts = VectorBlock(135, 8.0, share=0.5), VectorBlock(5, 1.0, share=0.5)
    assert budget.scale(sums) == 50 * 16 / 1.0  # T L_1 / epsilon_1
    assert budget.scale(counts) == 50 * 2 / 1.0
    wider = VectorBlock(10_000, math.comb(22, 2), cap=1.0, nonnegative=True)
    assert budget.scale(wider) == 50 * 462 / 2.0  # T L(t) / epsilon


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
    ],
)
def test_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
