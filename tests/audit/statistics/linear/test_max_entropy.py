"""The direction of largest entropy: against its definition, solved by SciPy, and against linear solutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, logit, rel_entr
from sklearn.datasets import load_breast_cancer

from ksdp.audit.contract import Database, Documents, Mechanism, Observables, Pool, Statistic
from ksdp.audit.mechanisms.factorisation import pd_svd
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.registry import make_mechanism
from ksdp.audit.statistics.linear import solve, tilting
from ksdp.audit.statistics.linear.operator import FactoredContributions
from ksdp.audit.statistics.linear.releases import LinearBlocks, LinearSums
from ksdp.audit.statistics.linear.system import LinearSystem, membership_scores
from ksdp.audit.statistics.linear.tilting import Direction, raised_factor, span_of
from ksdp.audit.verdicts.laws import ks_table


def problem(n: int = 12, m: int = 5) -> tuple[Floats, Floats, Floats]:
    """Terms, how likely each document is in, and what a run's numbers are apart from what is expected."""
    rng = np.random.default_rng(3)
    terms, shares = rng.normal(size=(n, m)), rng.uniform(0.1, 0.6, n)
    return terms, shares, (rng.random(n) < shares) @ terms - shares @ terms


def test_it_is_the_nearest_of_all_draws_that_have_these_sums() -> None:
    """Minimises Kullback and Leibler's divergence from the draws, with the sums as its mean and about as many."""
    terms, shares, apart = problem()
    numbers, usual = span_of(terms, 1e-12).direction(apart, shares)
    found = expit(logit(shares) + terms @ numbers + usual)
    nearest = minimize(
        lambda b: (rel_entr(b, shares) + rel_entr(1.0 - b, 1.0 - shares)).sum() + (b - shares).sum() ** 2 / 2.0,
        shares,
        method="SLSQP",
        bounds=[(1e-9, 1.0 - 1e-9)] * len(shares),
        constraints={"type": "eq", "fun": lambda b: (b - shares) @ terms - apart},
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    assert nearest.success
    np.testing.assert_allclose(found, nearest.x, atol=0.005)


@pytest.mark.parametrize("noise", [0.1, 2.0])
def test_noise_keeps_it_near_the_draws(noise: float) -> None:
    """Against the function that it minimises, by SciPy."""
    terms, shares, apart = problem()

    def height(direction: Floats) -> float:
        moved = terms @ direction[:-1] + direction[-1]
        whole = np.log(1.0 - shares + shares * np.exp(moved)).sum() - shares @ moved - direction[:-1] @ apart
        return float(whole + 0.5 * (noise * direction[:-1] @ direction[:-1] + direction[-1] ** 2))

    wanted = minimize(height, np.zeros(terms.shape[1] + 1), tol=1e-12)
    found = np.append(*span_of(terms, noise).direction(apart, shares))
    assert height(found) < wanted.fun + 1e-3
    np.testing.assert_allclose(found, wanted.x, atol=0.05)


def test_with_little_to_go_by_it_is_the_linear_solution() -> None:
    """Of normal parts with the variances of the draws: what the first of Newton's steps finds."""
    terms, shares, apart = problem()
    noise, varied = 1e4, shares * (1.0 - shares)
    apart = 100.0 * apart
    counted = np.hstack([terms, np.full((len(terms), 1), 100.0)])  # up to one
    linear = np.linalg.solve((counted.T * varied) @ counted + noise * np.eye(6), np.append(apart, 0.0))
    numbers, usual = span_of(terms, noise).direction(apart, shares)
    np.testing.assert_allclose(np.append(numbers, usual / 100.0), linear, rtol=0.05, atol=1e-4)


def test_terms_that_others_span_nothing_at_all_and_one_huge() -> None:
    rng = np.random.default_rng(4)
    terms = rng.normal(size=(40, 24))
    terms[7], terms[9], terms[11] = 0.0, terms[3], 1e7 * terms[11]
    held, shares = np.isin(np.arange(40), (3, 4, 5, 6)), np.full(40, 0.1)
    numbers, usual = span_of(terms, 1e-14).direction((held - shares) @ terms, shares)
    odds = terms @ numbers + usual
    assert odds[7] == usual
    assert odds[3] == odds[9]
    assert np.isfinite(odds).all()
    assert odds[[4, 5, 6]].min() > np.delete(odds, [3, 4, 5, 6, 9]).max()


def looked_for(terms: Floats, noise: float, held: Floats, shares: Floats, *, stops: bool) -> tuple[Floats, int]:
    """Log odds of documents of a run with so much noise, and the steps that were taken to find them."""
    steps = 0

    def counted(matrix: Floats, *arguments: Any, **named: Any) -> Any:
        nonlocal steps
        steps += 1
        return raised_factor(matrix, *arguments, **named)

    added = np.random.default_rng(6).normal(size=terms.shape[1]) * noise**0.5
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tilting, "raised_factor", counted)
        if not stops:
            patched.setattr(tilting.Span, "_settled", lambda *_: False)
        numbers, usual = span_of(terms, noise).direction((held - shares) @ terms + added, shares)
    return terms @ numbers + usual + logit(shares), steps


def test_who_makes_up_the_sums_is_not_looked_for_further() -> None:
    """Whom the last step finds likelier in than not is in; all further ones find the same."""
    rng = np.random.default_rng(5)
    terms, shares = rng.normal(size=(60, 45)) * rng.uniform(0.5, 5.0, (60, 1)), np.full(60, 0.2)
    held = (np.arange(60) % 5 == 0).astype(float)
    early, few = looked_for(terms, 1e-12, held, shares, stops=True)
    late, many = looked_for(terms, 1e-12, held, shares, stops=False)
    assert few < 0.7 * many
    np.testing.assert_array_equal(early > 0.0, held > 0.0)
    np.testing.assert_array_equal(late > 0.0, held > 0.0)


def test_whom_a_little_sets_apart_is_told_before_the_steps_end() -> None:
    rng = np.random.default_rng(5)
    terms, shares = rng.normal(size=(60, 58)), np.full(60, 0.2)
    terms[50:] = terms[50] + 1e-3 * rng.normal(size=(10, 58))
    held = (np.arange(60) % 5 == 0).astype(float)
    early, _ = looked_for(terms, 1e-12, held, shares, stops=True)
    np.testing.assert_array_equal(early > 0.0, held > 0.0)


@pytest.mark.parametrize("noise", [1e-2, 1.0])
def test_where_noise_might_hide_somebody_all_steps_are_taken(noise: float) -> None:
    rng = np.random.default_rng(7)
    terms, shares = rng.normal(size=(60, 30)), np.full(60, 0.2)
    held = (np.arange(60) % 5 == 0).astype(float)
    terms[3] *= 0.1
    early, few = looked_for(terms, noise, held, shares, stops=True)
    late, many = looked_for(terms, noise, held, shares, stops=False)
    assert few == many
    np.testing.assert_array_equal(early, late)


def test_steps_that_go_too_far_are_shortened() -> None:
    """Half of a hundred equal documents are in, of whom one was expected: the first step passes all by."""
    terms, shares = np.ones((100, 1)), np.full(100, 0.01)
    numbers, usual = span_of(terms, 1e-6).direction(np.array([49.0]), shares)
    np.testing.assert_allclose(numbers[0] + usual, logit(0.5) - logit(0.01), rtol=1e-3)


def test_who_is_told_by_linear_equations_is_not_looked_for_again() -> None:
    """Of sums, and of blocks, whose equations are of nothing and know parts up to a factor alone."""
    rows, rng = np.random.default_rng(1).normal(size=(60, 90)), np.random.default_rng(2)
    held, shares = np.isin(np.arange(60), rng.choice(60, 12, replace=False)), np.full(60, 0.2)
    plain = FactoredContributions.plain(sp.csr_array(rows), np.ones((60, 1)))
    found = solve.solved_parts(plain, (held - shares) @ rows, shares)
    assert found.direction is None
    np.testing.assert_allclose(found.parts + shares, held, atol=1e-6)
    rows -= np.outer(held, held @ rows / held.sum())  # so that the sum is 0 whoever else is in
    nothing = FactoredContributions.plain(sp.csr_array(rows), np.ones((60, 1)))
    found = solve.solved_parts(nothing, -shares @ rows, shares)
    assert found.direction is None
    parts = found.parts + shares
    assert parts[held].min() > 2 * parts[~held].max()


def test_copies_are_told_by_linear_equations_too() -> None:
    """Two of them are in: each is said to be so by two thirds, and nobody is looked for again."""
    rows, rng = np.random.default_rng(1).normal(size=(60, 90)), np.random.default_rng(2)
    held, shares = np.isin(np.arange(60), rng.choice(60, 12, replace=False)), np.full(60, 0.2)
    rows[[40, 50]], held[[3, 40, 50]] = rows[3], [True, False, True]
    rows[[41, 51]], held[[4, 41, 51]] = 2.0 * rows[4], [True, False, True]
    plain = FactoredContributions.plain(sp.csr_array(rows), np.ones((60, 1)))
    found = solve.solved_parts(plain, (held - shares) @ rows, shares)
    assert found.direction is None
    np.testing.assert_allclose((found.parts + shares)[[3, 40, 50]], 2.0 / 3.0, atol=0.01)


def test_that_nobody_is_in_explains_no_sums_of_nothing() -> None:
    """Fewer equations than documents, of nothing: all parts 0 leaves nothing, too."""
    rows = np.random.default_rng(1).normal(size=(60, 2))
    held, shares = np.arange(60) % 10 == 0, np.full(60, 0.1)
    rows[held] -= held @ rows / held.sum()
    nothing = FactoredContributions.plain(sp.csr_array(rows), np.ones((60, 1)))
    assert solve.solved_parts(nothing, -shares @ rows, shares).direction is not None


def rows_of(name: str) -> sp.csr_array:
    if name == "patients":
        table = load_breast_cancer().data
        return sp.csr_array((table - table.mean(axis=0)) / table.std(axis=0))
    texts = np.random.default_rng(0).poisson(0.6, (500, 41)).astype(np.float64)
    texts[:, 7] = 0.0  # a column without entries
    return sp.csr_array(texts)


CASES = [
    ("patients", PDSVD(rank=3), LinearBlocks(), 0.9),
    ("texts", PDSVD(rank=2), LinearBlocks(), 0.9),
    ("texts", PDNMF(rank=2), LinearSums(), 0.9),
]


@pytest.mark.parametrize(("name", "mechanism", "statistic", "least"), CASES)
def test_fewer_equations_than_documents_tell_who_was_in(
    name: str, mechanism: Mechanism, statistic: Statistic, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth of the documents, three rounds: the best linear solution tells less, and much less of patients."""
    monkeypatch.setattr(pd_svd, "NUMBERS", 0)
    matrix, distances = rows_of(name), []
    held = np.isin(np.arange(matrix.shape[0]), np.random.default_rng(1).choice(matrix.shape[0], 50, replace=False))
    seen = mechanism.run(Database((sp.csr_array(matrix[held]),)), np.random.default_rng(2))
    stored = {name: np.float32(array).astype(np.float64) for name, array in seen.items()}
    for most in (tilting.MOST_WRITTEN, 0):
        monkeypatch.setattr(tilting, "MOST_WRITTEN", most)
        documents = Documents(matrix, pool=Pool(matrix, 50 / matrix.shape[0], mechanism=mechanism))
        found = statistic.evaluate(Observables(dict(stored)), documents)
        distances.append(ks_table(found[None].astype(np.float32), held[None]).distance[0])
        some = np.array([3, 200, 17])
        alone = statistic.evaluate(Observables(dict(stored)), documents.at(some))
        np.testing.assert_array_equal(alone, found[some])
    assert distances[0] > least
    assert distances[1] < 0.9


@pytest.mark.parametrize(("name", "mechanism", "statistic", "least"), CASES[1:])
def test_later_rounds_tell_what_the_first_three_leave_open(
    name: str, mechanism: Mechanism, statistic: Statistic, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of 500 texts of 40 terms: 240 numbers, and as many as say who was in."""
    matrix, distances = rows_of(name), []
    held = np.isin(np.arange(500), np.random.default_rng(1).choice(500, 250, replace=False))
    for numbers in (0, pd_svd.NUMBERS):
        monkeypatch.setattr(pd_svd, "NUMBERS", numbers)
        seen = mechanism.run(Database((sp.csr_array(matrix[held]),)), np.random.default_rng(2))
        stored = Observables({name: np.float32(array).astype(np.float64) for name, array in seen.items()})
        documents = Documents(matrix, pool=Pool(matrix, 0.5, mechanism=mechanism))
        found = statistic.evaluate(stored, documents)
        distances.append(ks_table(found[None].astype(np.float32), held[None]).distance[0])
    assert distances[0] < 0.9 < least + 0.05 < distances[1]


def test_of_few_documents_noise_hides_less() -> None:
    """A tenth of 300, by blocks with a tenth of noise: the linear filter misses how many are in, first."""
    rng, distances = np.random.default_rng(1), {0: 0.0, tilting.MOST_NOISY: 0.0}
    matrix = sp.csr_array(rng.normal(size=(300, 40)))
    mechanism = make_mechanism("noisy", {"mechanism": "pd-svd", "noise": 0.1, "parameters": {"rank": 3}})
    for run in range(3):
        held = np.isin(np.arange(300), rng.choice(300, 30, replace=False))
        seen = mechanism.run(Database((sp.csr_array(matrix[held]),)), np.random.default_rng(run))
        for most in distances:
            documents = Documents(matrix, pool=Pool(matrix, 0.1, mechanism=mechanism))
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(tilting, "MOST_NOISY", most)
                found = LinearBlocks().evaluate(Observables(dict(seen)), documents)
            distances[most] += ks_table(found[None].astype(np.float32), held[None]).distance[0] / 3
    assert distances[0] < 0.75
    assert distances[tilting.MOST_NOISY] > 0.8


@pytest.mark.parametrize("seed", range(3))
def test_numbers_that_are_hardly_known_hold_nobody_up(seed: int) -> None:
    """Five of 55 numbers say what the others say but for 1e-10, in noise of 1e-4."""
    rng = np.random.default_rng(seed)
    terms, held, shares = rng.normal(size=(60, 50)), np.arange(60) % 2 == 0, np.full(60, 0.5)
    terms = np.hstack([terms, terms @ rng.normal(size=(50, 5)) + 1e-10 * rng.normal(size=(60, 5))])
    sums = held @ terms + 1e-4 * rng.normal(size=55)
    numbers, usual = span_of(terms, 1e-8).direction(sums - shares @ terms, shares)
    np.testing.assert_array_equal(terms @ numbers + usual > 0.0, held)


def test_what_is_said_holds_what_a_document_gets_for_being_one() -> None:
    """The same of everybody in a run, and another from run to run."""
    made = FactoredContributions.plain(sp.csr_array(np.eye(3)), np.ones((3, 1)))
    said = Direction(np.array([1.0, -4.0, 0.5]), 1.5).of(made)
    np.testing.assert_allclose(said, [2.5 / 3.5, -2.5 / 3.5, 2.0 / 3.0])


def test_what_rounding_leaves_without_a_factor_is_raised_until_it_has_one() -> None:
    bend = np.array([[1.0, 1.0 + 1e-6, 0.0], [1.0 + 1e-6, 1.0, 0.0], [0.0, 0.0, 1e-14]])
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(bend * (1.0 + np.eye(3) * 1e-10))
    found = scipy.linalg.cho_solve(
        raised_factor(bend.copy(), lambda times: bend.diagonal() * (1.0 + 1e-10 * times)),
        np.array([1.0, 1.0, 1e-14]),
    )
    np.testing.assert_allclose(found, [0.5, 0.5, 1.0], rtol=1e-4)


def test_where_no_raising_helps_each_is_by_itself() -> None:
    factor = raised_factor(np.ones((2, 2)), lambda times: np.full(2, -times))
    np.testing.assert_array_equal(scipy.linalg.cho_solve(factor, np.array([3.0, 4.0])), [3.0, 4.0])


def test_the_first_diagonal_is_the_one_that_is_given() -> None:
    matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
    found = scipy.linalg.cho_solve(
        raised_factor(matrix.copy(), lambda times: 2.0 * matrix.diagonal() * times), [1.0, 1.0]
    )
    np.testing.assert_allclose(found, np.linalg.solve([[8.0, 1.0], [1.0, 6.0]], [1.0, 1.0]))


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_noise_counts_by_its_variance_however_large_the_parties_are(share: float) -> None:
    rng, documents, features, noise = np.random.default_rng(5), 14, 4, 1.5
    rows = rng.normal(size=(documents, features))
    held = rng.random(documents) < share
    sums = held @ rows + rng.normal(0, np.sqrt(noise), features)

    def terms(some: sp.csr_array, turned: Any = None) -> FactoredContributions:
        return FactoredContributions.plain(some, np.ones((some.shape[0], 1)))

    matrix = sp.csr_array(rows)
    looked_at = Documents(matrix, pool=Pool(matrix, share))
    found = membership_scores("sums", Observables({}), looked_at, terms, LinearSystem(sums, noise))

    shares = np.full(documents, share)
    wanted = Direction(*span_of(rows, noise).direction(sums - shares @ rows, shares)).of(terms(matrix))
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert np.abs(found).max() > 0.1
