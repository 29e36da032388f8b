"""The most even draw: against its definition, solved by SciPy, and against linear solutions."""

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, logit, rel_entr

from ksdp.audit.contract import Observables
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.statistic import Documents, Pool
from ksdp.audit.statistics.linear import tilting
from ksdp.audit.statistics.linear.operator import FactoredContributions
from ksdp.audit.statistics.linear.system import LinearSystem, membership_scores
from ksdp.audit.statistics.linear.tilting import Direction, raised_factor, span_of


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
