"""The sparse vector technique against its definition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.discrete_laplace import Simulated, law
from ksdp.audit.mechanisms.pem.sparse_vector import choose_large


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


@pytest.mark.parametrize(
    ("ours", "theirs"), [([3, 0, 5], [1, 2, 3]), ([4, 4, 4], [2, 2, 6]), ([0, 9, 0], [2, 7, 2])]
)
def test_neighbours_are_told_apart_by_no_more_than_epsilon(ours: list[int], theirs: list[int]) -> None:
    """Answers that differ by at most the sensitivity, 2, over every outcome."""
    a, b = definition(ours, 3, 2, 2, 1.0), definition(theirs, 3, 2, 2, 1.0)
    assert a.keys() == b.keys()
    assert max(abs(np.log(a[o] / b[o])) for o in a) <= 1.0 + 1e-9


def test_it_stops_after_so_many_and_is_exact_without_noise() -> None:
    draw = Simulated(np.random.default_rng(0)).draw
    answers = np.array([1, 5, 9, 5, 7])
    assert choose_large(answers, 5, 3, 1, np.inf, draw).tolist() == [1, 2, 3]
    assert choose_large(answers, 10, 3, 1, np.inf, draw).tolist() == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: choose_large(np.array([1]), 0, 0, 1, 1.0, d), "most"),
        (lambda d: choose_large(np.array([1]), 0, 1, 1, 0.0, d), "epsilon"),
    ],
)
def test_refused(call: Callable[[object], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(Simulated(np.random.default_rng(0)).draw)
