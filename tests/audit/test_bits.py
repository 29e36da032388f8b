"""Bits of who was in: exact numbers have many, noise hides them, and few documents need few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.bits import DIGITS, announced_bits, found_by_lattice
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.mechanisms.callables import function_mechanism
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import lent
from ksdp.audit.spec.models import parse_spec

Matrix = NDArray[np.float64]
Function = Callable[[sp.csr_array, np.random.Generator], Any]
INCOMES = np.random.default_rng(3).lognormal(10.0, 1.0, (600, 6))


def plan_of(function: Function | str, documents: int = 60, share: float = 0.5, **parameters: Any) -> Any:
    """The plan of an audit of a function, or of one of our mechanisms, of so many incomes."""
    corpus = Corpus(canonical(sp.csr_array(INCOMES[:documents])), np.array([f"d{n}" for n in range(documents)]))
    design = {"party_size": share, "with_runs": 40}
    tables = {"seed": 1, "corpus": {"path": "x"}, "design": design, "decision": {"margin": 0.3}}
    if isinstance(function, str):
        return make_plan(parse_spec(tables | {"mechanism": {"name": function} | parameters}), corpus)
    with lent({"own": function_mechanism("own", function, corpus.matrix[:10])}):
        return make_plan(parse_spec(tables | {"mechanism": {"name": "own"}}), corpus)


def bits_of(function: Function | str, **settings: Any) -> float:
    """Bits that it announces."""
    plan = plan_of(function, **settings)
    return announced_bits(plan.mechanism, [a for a in plan.read if not a.derived_from], plan.pool)


def means(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
    return np.asarray(rows.mean(axis=0)).ravel()


def noisy(deviation: float) -> Function:
    return lambda rows, rng: means(rows, rng) + rng.normal(scale=deviation * means(rows, rng).mean(), size=6)


def clipped(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
    """Noise of which much is 0, whatever the data."""
    return np.maximum(rng.normal(size=6), 0.0)


def in_any_order(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
    """Exact, but nobody knows which number is of which column."""
    return rng.permutation(means(rows, rng))


def above(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
    """How many, column by column."""
    return np.asarray((rows.toarray() > np.e**10).sum(axis=0), float)


def whole_noise(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
    """The same, with as much noise in whole numbers."""
    return above(rows, rng) + rng.integers(-12, 13, size=6)


def test_exact_numbers_say_nearly_as_much_as_their_digits() -> None:
    assert 6 * 45 < bits_of(means) <= 6 * DIGITS
    assert 6 * 40 < bits_of(in_any_order) <= 6 * DIGITS
    assert 30 * 40 < bits_of("pd-svd", rank=5, opens="final") <= 30 * DIGITS


def test_of_many_numbers_some_stand_for_all() -> None:
    one_way = np.random.default_rng(2).random((6, 2_500))
    assert 2_500 * 45 < bits_of(lambda rows, rng: means(rows, rng) @ one_way) <= 2_500 * DIGITS


def test_whole_numbers_say_what_they_vary_by() -> None:
    # Of 30 in a run of 60, half are above: a deviation of sqrt(60 / 16) or so.
    assert bits_of(above) == pytest.approx(6 * np.log2(np.sqrt(60 / 16)), abs=4.0)


@pytest.mark.parametrize("function", [noisy(10.0), clipped, whole_noise])
def test_what_noise_hides_is_nothing(function: Function) -> None:
    assert bits_of(function) < 3.0


@pytest.mark.parametrize("deviation", [1e-3, 1e-6])
def test_little_noise_hides_the_last_digits(deviation: float) -> None:
    spread = (INCOMES[:60].std(axis=0) / np.sqrt(60) / INCOMES[:60].mean()).mean()
    assert bits_of(noisy(deviation)) == pytest.approx(6 * np.log2(spread / deviation), abs=9.0)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("hardt-roth", {"rank": 2}),
        ("dp-nmf", {"rank": 2}),
        ("moments", {"rank": 2, "noise": 1.0}),
        ("pem-kmeans", {}),
    ],
)
def test_noise_for_privacy_hides_who_was_in(name: str, parameters: dict[str, Any]) -> None:
    assert bits_of(name, **parameters) < 20.0


def test_one_exact_mean_of_few_says_who_was_in_and_a_rounded_one_does_not() -> None:
    incomes = INCOMES[:16, 0]
    subsets = (np.arange(2**16)[:, None] >> np.arange(16)) & 1 > 0
    sums = subsets @ incomes
    chosen = 31_337
    assert np.flatnonzero(np.abs(sums - sums[chosen]) < 1e-7).tolist() == [chosen]
    assert found_by_lattice(16, 0.5, DIGITS)
    rounded = np.round(sums, -4)
    assert (rounded == rounded[chosen]).sum() > 100
    assert not found_by_lattice(16, 0.5, np.log2(sums.std() / 1e4))


def test_more_documents_need_more_bits() -> None:
    needed = [next(bits for bits in range(10**6) if found_by_lattice(n, 0.5, bits)) for n in (16, 60, 200, 600)]
    assert needed == sorted(needed)
    assert needed[0] > 16  # each says one bit
    assert found_by_lattice(600, 0.03, needed[-1])  # of few that are in, fewer bits say who
    assert not found_by_lattice(400, 0.5, 30 * DIGITS)


def test_nobody_is_clear_where_few_documents_have_exact_numbers() -> None:
    (said,) = plan_of(means).coverage.unread
    assert said.startswith("who was in, by lattice reduction: 30")
    assert "of 60 documents" in said
    assert plan_of(noisy(10.0)).coverage.may_clear
    assert plan_of(means, documents=600).coverage.may_clear
    assert plan_of("pd-svd", documents=600, rank=1, opens="final").coverage.may_clear
    assert not plan_of("pd-svd", rank=1, opens="final").coverage.may_clear


def test_what_cannot_be_run_or_is_no_number_counts_as_exact() -> None:
    calls: list[int] = []

    def failing(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
        calls.append(1)
        return means(rows, rng) if len(calls) < 3 else np.full(6, np.nan)

    assert bits_of(failing) == 6 * DIGITS
