"""Bits of who was in: exact numbers have many, noise hides them, and few documents need few."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.cluster import KMeans

import ksdp
from ksdp.audit.bits import DIGITS, Shown, found_by_lattice, shown
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.coverage import MayBeIn, coverage_of, enumerated, telling_numbers, unlearnt
from ksdp.audit.mechanisms.callables import function_mechanism
from ksdp.audit.mechanisms.recorded import RecordedRuns
from ksdp.audit.registry import lent
from ksdp.audit.statistics.linear.pilot import crossed_runs

from ..plans import planned

Matrix = NDArray[np.float64]
Function = Callable[[sp.csr_array, np.random.Generator], Any]
GROUPS = canonical(sp.csr_array(np.arange(30.0)[:, None]))
INCOMES = np.random.default_rng(3).lognormal(10.0, 1.0, (600, 6))


def plan_of(
    function: Function | str,
    documents: int = 60,
    share: float = 0.5,
    margin: float = 0.3,
    with_runs: int = 40,
    **parameters: Any,
) -> Any:
    """The plan of an audit of a function, or of one of our mechanisms, of so many incomes."""
    corpus = Corpus(canonical(sp.csr_array(INCOMES[:documents])), np.array([f"d{n}" for n in range(documents)]))
    design = {"party_size": share, "with_runs": with_runs}
    tables = {"design": design, "decision": {"margin": margin}}
    if isinstance(function, str):
        return planned(corpus, {"name": function} | parameters, **tables)
    with lent({"own": function_mechanism("own", function, corpus.matrix[:10])}):
        return planned(corpus, {"name": "own"}, **tables)


def bits_of(function: Function | str, **settings: Any) -> float:
    return shown_by(function, **settings).bits


def shown_by(function: Function | str, **settings: Any) -> Shown:
    """What a run shows of who was in."""
    plan = plan_of(function, **settings)
    return shown(plan.mechanism, [a for a in plan.releases.read if not a.derived_from], plan.pool)


def means(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
    return np.asarray(rows.mean(axis=0)).ravel()


def noisy(deviation: float) -> Function:
    return lambda rows, rng: ksdp.noise(means(rows, rng), rng, scale=deviation * means(rows, rng).mean())


def clipped(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
    """Noise of which much is 0, whatever the data."""
    return np.maximum(rng.normal(size=6), 0.0)


def above(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
    return np.asarray((rows.toarray() > np.e**10).sum(axis=0), float)


def rounded(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
    return np.asarray(4.0 * np.rint(above(rows, rng) / 4.0))


def test_exact_numbers_say_nearly_as_much_as_their_digits() -> None:
    assert 6 * 45 < bits_of(means) <= 6 * DIGITS
    assert 30 * 40 < bits_of("pd-svd", rank=5, opens="final") <= 30 * DIGITS


def test_of_many_numbers_some_stand_for_all() -> None:
    one_way = np.random.default_rng(2).random((6, 2_500))
    assert 2_500 * 45 < bits_of(lambda rows, rng: means(rows, rng) @ one_way) <= 2_500 * DIGITS


def test_whole_numbers_say_what_they_vary_by() -> None:
    # Of 30 in a run of 60, half are above: a deviation of sqrt(60 / 16) or so.
    assert bits_of(above) == pytest.approx(6 * np.log2(np.sqrt(60 / 16)), abs=4.0)


@pytest.mark.parametrize("function", [noisy(10.0), clipped])
def test_what_noise_hides_is_nothing(function: Function) -> None:
    assert bits_of(function) < 3.0


@pytest.mark.parametrize("deviation", [1e-3, 1e-6])
def test_little_noise_hides_the_last_digits(deviation: float) -> None:
    spread = (INCOMES[:60].std(axis=0) / np.sqrt(60) / INCOMES[:60].mean()).mean()
    assert bits_of(noisy(deviation)) == pytest.approx(6 * np.log2(spread / deviation), abs=9.0)


def products(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
    """Of two halves of the rows' columns, each the sum of what is above its mean or below."""
    logs = np.log(rows.toarray()) - 10.0
    return np.asarray(logs[:, :3].sum(axis=0) * logs[:, 3:].sum(axis=0))


def test_numbers_are_counted_as_far_as_noise_leaves_them() -> None:
    assert shown_by(means).numbers == pytest.approx(6.0)
    assert shown_by("pd-svd", rank=5, opens="final").numbers == pytest.approx(30.0)
    assert shown_by(above).numbers == pytest.approx(6.0, abs=0.5)
    assert shown_by(rounded).numbers == pytest.approx(6 * (1 - 4 / 3 / (60 / 16)), abs=1.0)
    assert shown_by(noisy(1e-3)).numbers == pytest.approx(6.0, abs=0.1)
    spread = (INCOMES[:60].std(axis=0) / np.sqrt(60) / INCOMES[:60].mean()).mean()
    for much in (0.3, 1.0):
        assert shown_by(noisy(much * spread)).numbers == pytest.approx(6.0 / (1.0 + much**2), abs=1.2)
    assert shown_by(noisy(10.0)).numbers < 1.0
    assert shown_by(lambda rows, rng: rng.normal(size=1_000)).numbers < 30.0


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("function", [means, above, noisy(0.1), noisy(10.0)])
def test_sums_have_no_interaction_and_noise_has_none(function: Function, share: float) -> None:
    assert shown_by(function, documents=200, share=share).interaction == pytest.approx(0.0, abs=1e-9)


def test_whether_a_count_is_even_is_interaction_and_nothing_else() -> None:
    """Of some of these numbers chance leaves more in crossed runs than they vary: none is cut off there."""
    assert shown_by(lambda rows, rng: above(rows, rng) % 2, documents=400).interaction > 0.9


def test_products_of_sums_are_interaction() -> None:
    assert shown_by(products, documents=400).interaction > 0.5

    def blurred(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
        return products(rows, rng) + rng.normal(scale=200.0, size=3)

    assert 0.5 < shown_by(blurred, documents=400).numbers < 2.5
    assert shown_by(blurred, documents=400).interaction > 0.3
    assert 1e-5 < shown_by(lambda rows, rng: np.log(means(rows, rng)), documents=400).interaction < 0.1


def sizes(rows: sp.csr_array, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.bincount(np.rint(rows.data).astype(int), minlength=30)


def test_groups_are_crossed_whole() -> None:
    pool = plan_of(means, documents=120).pool
    group = np.repeat(np.arange(30), 4)
    crossed = crossed_runs(
        function_mechanism("sizes", sizes, GROUPS),
        replace(pool, drawn=canonical(sp.csr_array(group[:, None] + 0.0)), group=group, mechanism=None),
        lambda seen: np.asarray(seen["output"], float),
    )
    assert set(np.unique(crossed[:, :, 1:])) == {0.0, 4.0}
    assert (crossed[:, :, 1:].sum(axis=2) % 4 == 0).all()


def recorded(numbers: Callable[[Matrix], Matrix], runs: int, documents: int = 40) -> RecordedRuns:
    """Runs in which each document was in or not by a coin."""
    bits = np.random.default_rng(8).random((runs, documents)) < 0.5
    return RecordedRuns({"numbers": numbers(bits @ np.log(INCOMES[:documents]))}, bits, 6)


def test_of_recorded_runs_terms_of_all_documents_say_what_is_no_sum() -> None:
    assert recorded(lambda sums: sums, 60).unexplained == pytest.approx(0.0, abs=1e-9)
    assert recorded(lambda sums: sums, 40).unexplained == 1.0, "too few to see it"
    odd = np.random.default_rng(9)
    assert recorded(lambda sums: odd.normal(size=sums.shape), 80).unexplained == pytest.approx(1.0, abs=0.15)
    mixed = recorded(lambda sums: sums + odd.normal(scale=sums.std(axis=0), size=sums.shape), 80)
    assert mixed.unexplained == pytest.approx(0.5, abs=0.15)


def test_nobody_is_clear_where_a_learnt_rule_sees_too_little_of_a_function() -> None:
    who = MayBeIn(1_000, 0.5, 0.2)
    assert telling_numbers(0.5, 0.2) == pytest.approx(0.06, abs=0.001)
    sums = Shown(0.0, 50.0, 0.0)
    assert not unlearnt(sums, 2_000, who)  # 0.06 / (0.06 + 50 / 2,000) of it is seen
    (said,) = unlearnt(sums, 500, who)
    assert "1,000 documents, and a rule learnt from 500 runs sees 38% of what they tell" in said
    assert unlearnt(replace(sums, interaction=0.6), 2_000, who)
    assert unlearnt(sums, 0, who)
    assert not unlearnt(sums, 500, replace(who, count=4_000)), "few of what there is"
    assert unlearnt(sums, 500, replace(who, count=3_000)), "some documents have several times the average"
    assert not unlearnt(replace(sums, numbers=0.0), 0, who)


def centres(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
    return np.asarray(KMeans(3, n_init=1, random_state=0).fit(np.log(rows.toarray())).cluster_centers_)


@pytest.mark.parametrize(("function", "may_clear"), [(means, True), (noisy(10.0), True), (centres, False)])
def test_what_is_no_sum_clears_nobody(function: Function, may_clear: bool) -> None:
    unread = coverage_of(plan_of(function, documents=600, margin=0.2, with_runs=400)).unread
    assert [one.startswith("who was in, by following the function: ") for one in unread] == [True] * (
        not may_clear
    )


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
    (said,) = coverage_of(plan_of(means)).unread
    assert said.startswith("who was in, by lattice reduction: 30")
    assert "of 60 documents" in said
    assert coverage_of(plan_of(noisy(10.0))).may_clear
    assert coverage_of(plan_of(means, documents=600)).may_clear
    assert coverage_of(plan_of("pd-svd", documents=600, rank=1, opens="final")).may_clear
    assert not coverage_of(plan_of("pd-svd", rank=1, opens="final")).may_clear


def test_nobody_is_clear_where_an_attack_may_weigh_every_database() -> None:
    """Of 16 documents under noise two of 14 clear ones were proved wrong by the posterior over all 12,870."""
    (said,) = coverage_of(plan_of(noisy(10.0), documents=16)).unread
    assert said.startswith("who was in, by weighing every database: 8 of 16 documents are 12,870 databases")
    assert coverage_of(plan_of(noisy(10.0), documents=24)).may_clear
    assert enumerated(MayBeIn(20_000, 0.4)) == (), "a number of 5,800 digits, which nobody prints"


def test_what_cannot_be_run_or_is_no_number_counts_as_exact() -> None:
    calls: list[int] = []

    def failing(rows: sp.csr_array, rng: np.random.Generator) -> Matrix:
        calls.append(1)
        return means(rows, rng) if len(calls) < 3 else np.full(6, np.nan)

    assert bits_of(failing) == 6 * DIGITS
