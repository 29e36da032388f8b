"""How a run's equations are solved: which way, and each way against the same with all terms written out."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp, norm

from ksdp.audit.statistics.linear import solve as module
from ksdp.audit.statistics.linear.contributions import sweep_numbers
from ksdp.audit.statistics.linear.coordinate_descent import Fitted
from ksdp.audit.statistics.linear.operator import (
    LOST,
    LOST_ON_WIRE,
    ContributionOperator,
    FactoredContributions,
    RatingContributions,
    scales_of,
)
from ksdp.audit.statistics.linear.releases import moment_numbers
from ksdp.audit.statistics.linear.solve import (
    RunSystem,
    by_steps,
    chosen_way,
    fits_dense_solver,
    least_squares,
    lost,
    most_even_draw,
    one_by_one,
    solve,
    with_least,
)
from ksdp.audit.statistics.linear.tilting import Direction, span_of

from .who_is_in import KINDS, numbers_of, some_rows


def system(made: ContributionOperator, size: float | None = None, share: float = 0.3) -> RunSystem:
    """A run of every third document: exact, or with noise of so much of what documents add."""
    n, m = made.shape
    held, shares = np.arange(n) % 3 == 0, np.full(n, share)
    noise = np.zeros(m) if size is None else np.full(m, size * float(made.diagonal().mean()))
    return RunSystem(made, made.rmatvec(held - shares), shares, noise, exact=size is None)


def plain(n: int, d: int, lines: int = 1) -> FactoredContributions:
    rng = np.random.default_rng(n + d)
    return FactoredContributions.plain(sp.csr_array(rng.normal(size=(n, d))), rng.uniform(0.5, 1.5, (n, lines)))


@pytest.mark.parametrize(
    ("documents", "columns", "lines", "noise", "way"),
    [
        (300, 20, 10, None, least_squares),
        (300, 20, 2, None, most_even_draw),
        (2500, 100, 100, None, one_by_one),
        (2500, 100, 2, None, most_even_draw),
        (2500, 100, 20, None, by_steps),
        (300, 20, 10, 0.1, most_even_draw),
        (1500, 100, 20, 1e-5, least_squares),
        (1500, 100, 20, 1.0, by_steps),
        (2500, 100, 20, 1e-5, most_even_draw),
        (2500, 100, 20, 1.0, by_steps),
    ],
)
def test_a_way_follows_from_documents_numbers_and_noise(
    documents: int, columns: int, lines: int, noise: float | None, way: object
) -> None:
    made = FactoredContributions.plain(sp.csr_array((documents, columns)), np.ones((documents, lines)))
    made._diagonal = np.ones(made.shape[1])
    shares = np.full(documents, 0.5)
    size = np.full(made.shape[1], 0.0 if noise is None else noise)
    assert chosen_way(RunSystem(made, np.zeros(made.shape[1]), shares, size, noise is None)) is way


def test_equations_of_2048_documents_are_solved_at_once_and_no_more() -> None:
    assert fits_dense_solver(2048)
    assert not fits_dense_solver(2049)


def test_of_few_contents_numbers_are_enough() -> None:
    run = system(plain(90, 20))
    assert chosen_way(run) is most_even_draw
    assert chosen_way(replace(run, contents=np.arange(90) % 30)) is least_squares
    assert chosen_way(replace(run, shares=run.shares, noise=np.zeros(20), exact=False)) is by_steps


def covariance(made: ContributionOperator, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Terms less their mean, and C."""
    less = made.written() - made.written().mean(axis=0)
    return less, less.T @ less + np.diag(noise)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_plain_conjugate_gradients(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Textbook ones, twelve, on C written out and preconditioned by its diagonal."""
    made = numbers_of(kind, some_rows(60))
    monkeypatch.setattr(FactoredContributions, "work", 2**28)
    run = replace(system(made, 0.01), shrink=0.1)
    squares = made.diagonal()
    ridge = 1e-5 * squares.mean() + run.noise / run.varied + 0.1 * squares
    _, matrix = covariance(made, ridge)
    x, r = np.zeros(len(ridge)), run.residual.copy()
    z = r / (squares + ridge)
    p = z.copy()
    for _ in range(12):
        length = (r @ z) / (p @ matrix @ p)
        x, before = x + length * p, r @ z
        r = r - length * (matrix @ p)
        z = r / (squares + ridge)
        p = z + (r @ z) / before * p
    found = by_steps(run)
    np.testing.assert_allclose(found.numbers, x, atol=1e-7 * np.abs(x).max())
    np.testing.assert_allclose(found.of(made).mean(), 0.0, atol=1e-9 * np.abs(found.of(made)).max())


def test_steps_end_where_nothing_is_left_and_where_there_is_nothing() -> None:
    made = plain(30, 4)
    run = system(made, 0.5)
    less, matrix = covariance(made, 1e-5 * made.diagonal().mean() + run.noise / run.varied)
    wanted = less @ np.linalg.solve(matrix, run.residual)
    np.testing.assert_allclose(by_steps(run).of(made), wanted, atol=1e-8 * np.abs(wanted).max())
    tiny = by_steps(replace(run, residual=1e-140 * run.residual)).of(made)
    np.testing.assert_allclose(1e140 * tiny, wanted, atol=1e-8 * np.abs(wanted).max())
    assert not by_steps(replace(run, residual=np.zeros(4))).of(made).any()


def with_little_noise(kind: str) -> RunSystem:
    rng = np.random.default_rng(1)
    matrix = sp.csr_array(rng.integers(1, 6, (30, 6)) * (rng.random((30, 6)) < 0.5), dtype=np.float64)
    topics = rng.random((3, 2, 6))
    made: ContributionOperator = moment_numbers(matrix, rng.normal(size=(2, 2, 6)))
    if kind == "ratings":
        made = RatingContributions(matrix, topics, 0.1, 0.2)
    elif kind == "uneven":
        made = sweep_numbers(matrix, topics, 0.1, 0.2)
    noise = 1e-4 * float(made.diagonal().mean()) * rng.uniform(0.5, 2.0, made.shape[1])
    noise = np.repeat(noise[::6], 6) if kind == "moments" else noise
    return RunSystem(made, rng.normal(size=made.shape[1]), np.full(30, 0.3), noise)


@pytest.mark.parametrize("kind", ["moments", "ratings", "uneven"])
def test_with_little_noise_it_is_the_filter_by_the_inverse_covariance(kind: str) -> None:
    run = with_little_noise(kind)
    less, matrix = covariance(run.made, with_least(run.made, run.noise / run.varied))
    wanted = less @ np.linalg.solve(matrix, run.residual)
    found = least_squares(run).of(run.made)
    np.testing.assert_allclose(found - found.mean(), wanted, rtol=1e-3, atol=1e-5 * np.abs(wanted).max())


def test_copies_that_were_both_in_are_told_with_hardly_any_noise() -> None:
    """Their products are singular to the last bit."""
    twice = sp.csr_array(sp.vstack([some_rows(20, 6)] * 2))
    made = moment_numbers(twice, np.random.default_rng(1).normal(size=(3, 2, 6)))
    residual = made.rmatvec(np.arange(40) % 2 - 0.5)
    found = least_squares(RunSystem(made, residual, np.full(40, 0.5), np.full(made.shape[1], 1e-30)))
    said = found.of(made).reshape(20, 2)
    adds = np.square(made.written()).sum(axis=1).reshape(20, 2)[:, 0] > 0
    assert np.median(said[adds, 1]) > np.median(said[adds, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_what_is_expected_of_normal_ones(kind: str) -> None:
    """Of parts of one variance and numbers that lose one variance, by the covariance of numbers."""
    made = numbers_of(kind, some_rows(share=0.3))
    run = system(made, share=0.4)
    factors = scales_of(made).written()
    terms = made.written() * factors
    whole = made.unreduced().rmatvec(run.shares)
    missing = LOST * np.square(whole * factors).mean() / 0.24
    wanted = terms @ np.linalg.solve(terms.T @ terms + missing * np.eye(len(whole)), run.residual * factors)
    found = least_squares(run)
    held = np.arange(30) % 3 == 0
    parts = found.score / (1.0 - np.abs(found.score))
    np.testing.assert_allclose(terms.T @ parts, terms.T @ wanted, atol=1e-3 * np.abs(terms.T @ wanted).max())
    adds = np.square(terms).sum(axis=1) > 0
    assert parts[held & adds].min() > parts[~held & adds].max()


def test_who_is_told_by_sums_of_nothing_and_that_nobody_is_in_explains_none() -> None:
    rng = np.random.default_rng(1)
    rows, held, shares = rng.normal(size=(60, 90)), np.arange(60) % 5 == 0, np.full(60, 0.2)
    rows -= np.outer(held, held @ rows / held.sum())  # so that the sum is 0 whoever else is in
    for numbers in (90, 2):
        made = FactoredContributions.plain(sp.csr_array(rows[:, :numbers]), np.ones((60, 1)))
        run = RunSystem(made, -made.rmatvec(shares), shares, np.zeros(numbers), exact=True)
        found = least_squares(run)
        assert isinstance(found, Fitted) == (numbers == 90)
        if isinstance(found, Fitted):
            assert found.score[held].min() > found.score[~held].max()


def test_copies_share_what_is_told_of_them_together() -> None:
    """Of three copies two are in: each is said to be so by two thirds."""
    rng = np.random.default_rng(1)
    rows, held, shares = rng.normal(size=(60, 90)), np.arange(60) % 5 == 0, np.full(60, 0.2)
    rows[[40, 50]], held[[3, 40, 50]] = rows[3], [True, False, True]
    contents = np.arange(60)
    contents[[40, 50]] = 3
    made = FactoredContributions.plain(sp.csr_array(rows), np.ones((60, 1)))
    run = RunSystem(made, made.rmatvec(held - shares), shares, np.zeros(90), True, contents=contents)
    for way in (least_squares, one_by_one):
        found = way(run)
        parts = found.score / (1.0 - np.abs(found.score))
        np.testing.assert_allclose(parts[[3, 40, 50]] + 0.2, 2.0 / 3.0, atol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_the_most_even_draw_of_exact_sums_is_that_of_what_single_precision_leaves(kind: str) -> None:
    made = numbers_of(kind, some_rows(400, 13, share=0.6), 2)
    run = system(made)
    found = most_even_draw(run)
    scales = scales_of(made).written()
    missing = LOST * np.square(made.unreduced().rmatvec(run.shares) * scales).mean()
    noise = missing / np.square(np.where(scales > 0, scales, 1.0))
    noise += (made.shape[1] + 1) * 2.0**-49 * np.square(made.written()).sum(axis=0)
    units = np.sqrt(noise)
    numbers, offset = span_of(made.written() / units, 1.0).direction(run.residual / units, run.shares)
    wanted = made.written() @ (numbers / units) + offset
    moved = made.written() @ found.numbers + found.offset
    assert np.corrcoef(moved, wanted)[0, 1] > 0.99


@pytest.mark.parametrize("kind", KINDS)
def test_documents_are_solved_one_by_one_as_by_a_loop_over_written_terms(kind: str) -> None:
    """Three rounds pass over whoever kept a bound; a round that changes half a percent is the last."""
    made = numbers_of(kind, some_rows(), 4)
    used = np.unique(made.rows.indices)
    made = made.within(used)
    shares = np.random.default_rng(6).uniform(0.2, 0.6, 30)
    held = np.random.default_rng(2).random(30) < 0.4
    run = RunSystem(made, made.rmatvec(held - shares), shares, np.zeros(made.shape[1]), exact=True)
    by = scales_of(made).written()
    terms, left, parts = made.written() * by, run.residual * by, np.zeros(30)
    sizes = np.square(terms).sum(axis=1)

    def once(asked: np.ndarray) -> None:
        nonlocal left
        for i in np.flatnonzero(asked & (sizes > 0)):
            new = np.clip(parts[i] + terms[i] @ left / sizes[i], -shares[i], 1 - shares[i])
            left, parts[i] = left - (new - parts[i]) * terms[i], new

    for mark in [0.005] * 5 + [0.01] * 3:
        before = parts.copy()
        once(np.ones(30, np.bool_))
        if np.linalg.norm(parts - before) <= mark * np.linalg.norm(parts):
            break
        kept = (parts == before) & ((parts == -shares) | (parts == 1 - shares))
        for _ in range(3):
            once(~kept)
    wanted = np.where(sizes > 0, parts + terms @ left / np.where(sizes > 0, sizes, 1.0), 0.0)
    found = one_by_one(run)
    np.testing.assert_allclose(found.score, wanted / (1.0 + np.abs(wanted)), atol=1e-3)
    others = made.of(np.arange(7))
    alone = terms[:7] @ left / np.where(sizes[:7] > 0, sizes[:7], 1.0)
    np.testing.assert_allclose(found.of(others), alone / (1.0 + np.abs(alone)), atol=1e-3)
    assert found.of(made.of(np.array([4])))[0] == found.of(others)[4]


def test_columns_of_nobody_are_not_looked_at() -> None:
    """The answer is that of the other columns, whichever way."""
    made = numbers_of("pd-nmf", sp.csr_array(some_rows()[:, ::-1]))  # the first columns are nobody's
    used = np.unique(made.rows.indices)
    run = system(made)
    narrow = replace(run, made=made.within(used), residual=run.residual[module._numbers_of(made, used)])
    found, wanted = solve(run), solve(replace(narrow, noise=run.noise[: narrow.made.shape[1]]))
    np.testing.assert_array_equal(found.score, wanted.score)
    np.testing.assert_array_equal(found.columns, used)
    few = system(numbers_of("pd-nmf", sp.csr_array(some_rows(100)[:, ::-1])).first(1))
    direction = most_even_draw(few)
    assert direction.numbers.shape == (40,)
    nobody = np.setdiff1d(np.arange(40), few.made.rows.indices)
    assert len(nobody) >= 5
    found = solve(few)
    assert isinstance(found, Direction)
    assert not found.numbers[nobody].any()
    assert np.abs(found.numbers[few.made.rows.indices]).min() > 0.0


def test_noise_in_any_case_and_what_single_precision_rounds_off() -> None:
    sums = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.random.default_rng(1).uniform(-3, 3, 1000)
    off = np.square(np.float32(sums) - sums)
    assert (off <= lost(sums)).all()
    assert lost(sums).mean() < 100 * off.mean()
    run = with_little_noise("ratings")
    coarse, fine = (with_least(run.made, np.zeros(run.made.shape[1]), of) for of in (LOST, LOST_ON_WIRE))
    np.testing.assert_allclose(coarse, 2.0**-36 * run.made.diagonal())
    np.testing.assert_allclose(fine, 2.0**-50 * run.made.diagonal())
    factored = with_little_noise("uneven").made
    least = with_least(factored, np.zeros(factored.shape[1]))
    np.testing.assert_allclose(least, 2.0**-46 * factored.diagonal().mean())


@pytest.mark.parametrize(("numbers", "share"), [(40, 0.5), (120, 0.3), (40, 0.1)])
def test_the_rule_of_thumb_of_the_pages_is_what_the_best_linear_attack_knows(numbers: int, share: float) -> None:
    n, runs, rng = 400, 4000, np.random.default_rng(numbers)
    terms = rng.poisson(1.0, (n, numbers)).astype(float)
    who_is_in = rng.permuted(np.tile(np.arange(n) < share * n, (runs, 1)), axis=1)
    sums = who_is_in @ terms
    scores = (sums - sums.mean(axis=0)) @ np.linalg.solve(np.cov(sums.T), (terms - terms.mean(axis=0)).T)
    told = [ks_2samp(scores[bits, i], scores[~bits, i]).statistic for i, bits in enumerate(who_is_in.T[:40])]
    ratio = (numbers / n) / (share * (1 - share) * (1 - numbers / n))
    assert np.median(told) == pytest.approx(2 * norm.cdf(np.sqrt(ratio) / 2) - 1, abs=0.03)
