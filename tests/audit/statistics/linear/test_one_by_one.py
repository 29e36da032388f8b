"""Documents fitted to sums one after the other: against the same with all terms written out, and least squares."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Documents, Observables, Pool
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD
from ksdp.audit.statistics.linear import coordinate_descent as fits_module
from ksdp.audit.statistics.linear import solve
from ksdp.audit.statistics.linear import solve as module
from ksdp.audit.statistics.linear.coordinate_descent import FREELY, MOST_ROUNDS, SETTLED, deduplicated, fitted
from ksdp.audit.statistics.linear.operator import FactoredContributions, scales_of
from ksdp.audit.statistics.linear.releases import LinearBlocks, LinearSums
from ksdp.audit.statistics.linear.system import RULED_OUT

from .who_is_in import KINDS, numbers_of, some_rows

COINS = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def nobody_is_solved_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if documents were too many for it."""
    monkeypatch.setattr(solve, "MOST_SOLVED", 0)


@pytest.fixture
def all_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the first rows of the sums were never numbers enough."""
    monkeypatch.setattr(fits_module, "PLENTY", 10**6)


def others_of(made: FactoredContributions, places: list[int]) -> FactoredContributions:
    return made.of(np.array(places))


def scales(made: FactoredContributions) -> np.ndarray:
    """One over about the deviation of each number: of a column times a row."""
    dense = np.square(made.rows.toarray())
    columns = dense.T @ np.square(made.weights).sum(axis=1)
    by_row = np.square(made.weights).T @ dense.sum(axis=1)
    wide = np.zeros((len(by_row), len(columns)))
    for r, a in enumerate(by_row):
        for j, b in enumerate(columns):
            wide[r, j] = np.sqrt(by_row.sum() / (a * b)) if a * b > 0 else 0.0
    return np.concatenate([wide.ravel(), 1.0 / np.sqrt(np.square(made.scalars).sum(axis=0))])


def plainly(
    made: FactoredContributions,
    apart: np.ndarray,
    marks: Sequence[float],
    shares: np.ndarray | None = None,
    changes: list[float] | None = None,
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parts, what is left and the terms, all in units, by loops over documents; with shares they have bounds.

    It ends after as many rounds as there are marks, or where one changes no more than its mark. With bounds three
    rounds stand between two of these, in which nobody is asked who had one and kept it.
    """
    by = scales(made)
    terms, left = made.written() * by, apart * by
    parts = np.zeros(len(terms)) if start is None else start.copy()
    left = left - parts @ terms

    def once(asked: np.ndarray) -> None:
        nonlocal left
        for i, a in enumerate(terms):
            if a @ a > 0 and asked[i]:
                new = parts[i] + (a @ left) / (a @ a)
                if shares is not None:
                    new = np.clip(new, -shares[i], 1 - shares[i])
                left = left - (new - parts[i]) * a
                parts[i] = new

    for mark in marks:
        before = parts.copy()
        once(np.ones(len(terms), bool))
        change = np.linalg.norm(parts - before) / np.linalg.norm(parts)
        if changes is not None:
            changes.append(float(change))
        if change <= mark:
            break
        if shares is not None:
            kept = (parts == before) & ((parts == -shares) | (parts == 1 - shares))
            for _ in range(3):
                once(~kept)
    return parts, left, terms


def said(terms: np.ndarray, left: np.ndarray, parts: np.ndarray) -> np.ndarray:
    sizes = np.square(terms).sum(axis=1)
    found = np.where(sizes > 0, parts + terms @ left / np.where(sizes > 0, sizes, 1.0), 0.0)
    return np.asarray(found / (1.0 + np.abs(found)))


def used_by(made: FactoredContributions) -> tuple[np.ndarray, np.ndarray]:
    """Columns that somebody has an entry in, and their places among all numbers."""
    columns = np.flatnonzero((made.rows.toarray() != 0).any(axis=0))
    wide = np.arange(made.weights.shape[1] * made.rows.shape[1]).reshape(-1, made.rows.shape[1])
    return columns, np.concatenate([wide[:, columns].ravel(), np.arange(wide.size, made.entries)])


def nobody() -> tuple[np.ndarray, np.ndarray]:
    raise AssertionError("these documents have settled")


@pytest.mark.usefixtures("all_rows_at_once")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settled", [0.5, 0.05, 0.005])
def test_documents_are_fitted_as_by_a_loop_over_written_terms(kind: str, settled: float, monkeypatch) -> None:
    monkeypatch.setattr(fits_module, "SETTLED", settled)
    made = numbers_of(kind, some_rows(), 4)
    held = np.random.default_rng(2).random(30) < 0.4
    shares = np.random.default_rng(6).uniform(0.2, 0.6, 30)
    apart = made.summed(held - shares)
    parts, left, terms = plainly(made, apart, [settled] * 5 + [2 * settled] * 3, shares)
    assert ((parts == -shares) | (parts == 1 - shares)).any()
    columns, at = used_by(made)
    assert len(columns) < 40
    fit = fitted(deduplicated(made.within(columns), shares), columns, apart[at], nobody)
    np.testing.assert_allclose(fit.score, said(terms, left, parts), atol=2e-5)
    assert fit.score[3] == 0.0 or kind == "pd-pca"
    # Others have no part of their own in the sums.
    new = some_rows(7, seed=9)
    some = numbers_of(kind, sp.csr_array(sp.vstack([some_rows(), new])), 4)
    some = others_of(replace(some, basis=made.basis), list(range(30, 37)))
    wanted = said(some.written() * scales(made), left, np.zeros(7))
    found = fit.of(some)
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    # Each by itself, to the last bit.
    for place in (0, 6):
        assert fit.of(others_of(some, [place]))[0] == found[place]


def test_what_others_have_in_columns_of_nobody_is_not_looked_at() -> None:
    """Whichever columns these are: here the first."""
    rng = np.random.default_rng(5)
    matrix = rng.normal(size=(12, 20)) * (np.arange(20) >= 4)
    held, shares = np.arange(12) % 3 == 0, np.full(12, 0.4)
    made = FactoredContributions.plain(sp.csr_array(matrix), rng.uniform(0.5, 1.5, (12, 3)))
    columns, at = used_by(made)
    fit = fitted(deduplicated(made.within(columns), shares), columns, made.summed(held - shares)[at], nobody)
    others, weights = rng.normal(size=(6, 20)), rng.uniform(0.5, 1.5, (6, 3))
    found = fit.of(FactoredContributions.plain(sp.csr_array(others), weights))
    without = sp.csr_array(others * (np.arange(20) >= 4))
    np.testing.assert_array_equal(found, fit.of(FactoredContributions.plain(without, weights)))
    assert np.unique(found).size == 6


@pytest.mark.parametrize("kind", KINDS)
def test_they_begin_with_what_the_first_rows_tell(kind: str, monkeypatch) -> None:
    made, shares = numbers_of(kind, some_rows(), 4), np.full(30, 0.4)
    apart = made.summed((np.random.default_rng(2).random(30) < 0.4) - shares)
    columns, at = used_by(made)
    monkeypatch.setattr(fits_module, "PLENTY", 4)
    first = made.first(-(-4 * 30 // len(columns)))
    assert 2 * len(first.weights.T) <= made.weights.shape[1]
    terms = np.hsplit(made.written(), [len(first.weights.T) * 40])[0]
    np.testing.assert_allclose(first.written(), terms, atol=1e-12)
    start, _, _ = plainly(first, apart[: terms.shape[1]], [fits_module.FIRST] * fits_module.PATIENCE, shares)
    monkeypatch.setattr(fits_module, "PATIENCE", fits_module.SLOW)
    parts, left, terms = plainly(made, apart, [SETTLED] * fits_module.SLOW, shares, start=start)
    fit = fitted(deduplicated(made.within(columns), shares), columns, apart[at], nobody)
    np.testing.assert_allclose(fit.score, said(terms, left, parts), atol=2e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_share_what_is_told_of_them_together(kind: str) -> None:
    """Whichever of them was in: of three of which one was, each gets a third."""
    plain = some_rows(20)
    matrix = sp.csr_array(sp.vstack([plain, plain[[5]], plain[[7, 5]]], format="csr"))
    made, shares = numbers_of(kind, matrix, 4), np.full(23, 0.4)
    columns, at = used_by(made)
    for one in (5, 20, 22):
        held = np.arange(23) % 4 == 2
        held[[5, 7, 20, 21, 22]] = False
        held[one] = True
        fit = fitted(deduplicated(made.within(columns), shares), columns, made.summed(held - shares)[at], nobody)
        parts = fit.score / (1.0 - np.abs(fit.score))
        assert parts[5] == parts[20] == parts[22]
        assert parts[7] == parts[21]
        if kind == "pd-nmf":
            np.testing.assert_allclose(parts[[5, 7]], [1 / 3 - 0.4, -0.4], atol=0.02)


@pytest.mark.usefixtures("all_rows_at_once")
@pytest.mark.parametrize("kind", KINDS)
def test_who_takes_long_may_change_twice_as_much_before_it_begins_anew(kind: str, monkeypatch) -> None:
    made, shares = numbers_of(kind, some_rows(share=0.4), 4), np.full(30, 0.4)
    apart = made.summed((np.arange(30) % 3 == 0) - shares)
    columns, at = used_by(made)
    changes: list[float] = []
    plainly(made, apart, [-1.0] * 2, shares, changes)
    first = 1
    assert min(changes[:first]) > changes[first]
    asked = []

    def begin() -> tuple[np.ndarray, np.ndarray]:
        asked.append(True)
        return np.zeros(30), apart[at]

    monkeypatch.setattr(fits_module, "SETTLED", 0.6 * changes[first])
    for slow, patience, anew in ((first, first + 1, False), (first, first, True), (first + 1, first + 1, True)):
        monkeypatch.setattr(fits_module, "SLOW", slow)
        monkeypatch.setattr(fits_module, "PATIENCE", patience)
        fitted(deduplicated(made.within(columns), shares), columns, apart[at], begin)
        assert bool(asked) == anew
        asked.clear()


def test_who_rests_is_passed_over() -> None:
    made = numbers_of("pd-nmf", some_rows(share=0.4), 4)
    apart = made.summed((np.arange(30) % 3 == 0) - 0.4)
    columns, at = used_by(made)
    narrow, resting = made.within(columns), np.arange(30) % 4 == 1
    factors = scales_of(narrow)
    left = fits_module._left_of(apart[at], narrow, factors)
    parts, bounds = np.zeros(30), np.array([[-9.0], [9.0]]).repeat(30, axis=1)
    fits_module._gone_through(fits_module._scaled(narrow, factors), left, parts, bounds, resting)
    others = np.flatnonzero(~resting)
    terms, rest, wanted = made.written() * scales(made), apart * scales(made), np.zeros(30)
    for i in others:
        if (size := terms[i] @ terms[i]) > 0:
            wanted[i] = terms[i] @ rest / size
            rest = rest - wanted[i] * terms[i]
    np.testing.assert_allclose(parts, wanted, atol=2e-5)


def freely(
    made: FactoredContributions, apart: np.ndarray, start: np.ndarray, monkeypatch, rounds: int, mark: float
):
    """A fit of documents that begin with something at once, without bounds."""
    for name, value in {"SLOW": 0, "PATIENCE": 0, "MOST_ROUNDS": rounds, "FREELY": mark}.items():
        monkeypatch.setattr(fits_module, name, value)
    columns, at = used_by(made)
    once = deduplicated(made.within(columns), np.full(len(start), 0.4))
    return fitted(once, columns, np.zeros(len(at)), lambda: (start, apart[at]))


@pytest.mark.usefixtures("all_rows_at_once")
@pytest.mark.parametrize("kind", KINDS)
def test_in_the_end_it_is_least_squares(kind: str, monkeypatch) -> None:
    made = numbers_of(kind, some_rows(12, share=0.4), 4)
    apart = made.summed(np.arange(12) % 2 - 0.5) + np.random.default_rng(3).normal(0, 1e-3, made.entries)
    terms = made.written() * scales(made)
    wanted = np.linalg.lstsq(terms.T, apart * scales(made), rcond=None)[0]
    seen = np.square(terms).sum(axis=1) > 0
    found = freely(made, apart, np.zeros(12), monkeypatch, 3000, 0.0).score
    parts = found / (1 - np.abs(found))
    # Terms of the documents of a PD-SVD add up to 0, so that only what is explained is the same.
    np.testing.assert_allclose(terms[seen].T @ parts[seen], terms[seen].T @ wanted[seen], atol=2e-3)
    assert kind != "pd-nmf" or np.abs(parts - wanted)[seen].max() < 2e-3


@pytest.mark.usefixtures("all_rows_at_once")
@pytest.mark.parametrize("kind", KINDS)
def test_documents_are_gone_through_until_a_round_changes_little(kind: str, monkeypatch) -> None:
    made = numbers_of(kind, some_rows(share=0.4), 4)
    apart = made.summed((np.arange(30) % 3 == 0) - 0.4)
    had = [plainly(made, apart, [-1.0] * rounds)[0] for rounds in range(MOST_ROUNDS + 1)]
    changes = [np.linalg.norm(now - before) / np.linalg.norm(now) for before, now in itertools.pairwise(had)]
    wanted = next((number for number, change in enumerate(changes, start=1) if change <= FREELY), MOST_ROUNDS)
    assert wanted > 3
    found = freely(made, apart, np.zeros(30), monkeypatch, MOST_ROUNDS, FREELY).score
    np.testing.assert_array_equal(found, freely(made, apart, np.zeros(30), monkeypatch, wanted, 0.0).score)
    assert (found != freely(made, apart, np.zeros(30), monkeypatch, wanted - 1, 0.0).score).any()


@pytest.mark.usefixtures("all_rows_at_once")
@pytest.mark.parametrize("kind", KINDS)
def test_who_begins_with_something_goes_on_from_there(kind: str, monkeypatch) -> None:
    """As if it had come from rounds before; what it is handed stays as it is."""
    made = numbers_of(kind, some_rows(), 4)
    apart = made.summed((np.arange(30) % 3 == 0) - 0.4)
    start, _, _ = plainly(made, apart, [-1.0] * 2)
    wanted = freely(made, apart, np.zeros(30), monkeypatch, 5, 0.0).score
    before = start.copy()
    found = freely(made, apart - made.summed(start), start, monkeypatch, 3, 0.0).score
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    np.testing.assert_array_equal(start, before)


@pytest.mark.usefixtures("all_rows_at_once")
def test_copies_begin_with_what_they_have_together(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = some_rows()
    made = numbers_of("pd-nmf", sp.csr_array(sp.vstack([plain, plain[[5]]], format="csr")), 4)
    apart, start = made.summed(np.arange(31) % 3 == 0), np.linspace(0.0, 0.6, 31)
    found = freely(made, apart - made.summed(start), start, monkeypatch, 1, 0.0).score
    together = start[:30].copy()
    together[5] += start[30]
    once = made.of(np.arange(30))
    wanted = freely(once, apart - once.summed(together), together, monkeypatch, 1, 0.0).score
    parts = wanted / (1.0 - np.abs(wanted))
    parts[5] /= 2.0
    np.testing.assert_allclose(found[:30], parts / (1.0 + np.abs(parts)), atol=2e-5)
    assert found[30] == found[5]


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize(
    ("statistic", "mechanism"),
    [(LinearSums(), PDNMF(rank=5)), (LinearBlocks(), PDSVD(rank=5, solver="power", iterations=5))],
)
def test_rows_that_share_many_columns_are_told_apart_all_the_same(
    statistic, mechanism, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exact sums of many more numbers than documents say who is in, however long rows wait for one another."""
    monkeypatch.setattr(module, "DENSE", 0)
    rng = np.random.default_rng(5)
    matrix = sp.csr_array(rng.gamma(2.0, 1.0, (100, 12)) @ rng.gamma(0.5, 1.0, (12, 60)) + rng.random((100, 60)))
    held = np.isin(np.arange(100), rng.choice(100, int(100 * share), replace=False))
    seen = mechanism.run(Database((sp.csr_array(matrix[held]),)), COINS)
    found = statistic.evaluate(seen, Documents(matrix, pool=Pool(matrix, share, mechanism=mechanism)))
    assert (found[held][:, None] > found[~held]).mean() > 0.95


def run_of(statistic, mechanism) -> tuple[Observables, np.ndarray, sp.csr_array]:
    matrix = some_rows(60, 50, share=0.1)
    matrix = sp.csr_array(matrix.toarray() + np.eye(1, 50))  # nobody is empty
    mine = np.isin(np.arange(60), np.random.default_rng(2).choice(60, 6, replace=False))
    found = dict(mechanism.run(Database((sp.csr_array(matrix[mine]),)), COINS))
    return Observables({k: a.astype(np.float32).astype(np.float64) for k, a in found.items()}), mine, matrix


CASES = [(LinearSums(), PDNMF(rank=2)), (LinearBlocks(), PDSVD(rank=3)), (LinearBlocks(), PDPCA(rank=3))]


@pytest.mark.parametrize(("statistic", "mechanism"), CASES)
def test_documents_that_databases_are_not_drawn_from_are_told_too(
    statistic, mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DENSE", 0)
    seen, _, matrix = run_of(statistic, mechanism)
    pool = Pool(sp.csr_array(matrix[10:]), 0.1, mechanism=mechanism)
    documents = Documents(matrix, pool=pool)
    found = statistic.evaluate(seen, documents)
    assert (found[:10] != RULED_OUT).any()
    assert np.isfinite(found).all()
    inside = statistic.evaluate(seen, Documents(sp.csr_array(matrix[10:]), pool=pool))
    np.testing.assert_array_equal(found[10:], inside)
    for places in ([2], [40], [55, 4, 9]):
        np.testing.assert_array_equal(statistic.evaluate(seen, documents.at(np.array(places))), found[places])


def test_sums_are_read_in_the_columns_that_somebody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first columns of every row of a sum are nobody's here."""
    monkeypatch.setattr(module, "DENSE", 0)
    rng = np.random.default_rng(4)
    matrix = sp.csr_array(np.hstack([np.zeros((40, 9)), rng.random((40, 30)) + 0.1]))
    held = np.isin(np.arange(40), rng.choice(40, 15, replace=False))
    mechanism = PDNMF(rank=3)
    seen = mechanism.run(Database((sp.csr_array(matrix[held]),)), COINS)
    documents = Documents(matrix, pool=Pool(matrix, 15 / 40, mechanism=mechanism))
    found = LinearSums().evaluate(Observables(dict(seen)), documents)
    assert (found[held][:, None] > found[~held]).mean() > 0.95


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with everybody's fit, one by one or all at once; filters are approached, however small."""
    monkeypatch.setattr(module, "DENSE", 0)
    asked: list[int] = []
    for name in ("fitted", "with_parts"):
        monkeypatch.setattr(solve, name, counted(getattr(solve, name), asked))
    return asked


def counted(fit, asked: list[int]):
    def call(*of):
        asked.append(len(of))
        return fit(*of)

    return call


def test_a_filter_is_approached_where_sums_are_not_known_to_be_exact(fits: list[int]) -> None:
    statistic, mechanism = CASES[0]
    seen, _, matrix = run_of(statistic, mechanism)
    found = statistic.evaluate(Observables(dict(seen)), Documents(matrix, pool=Pool(matrix, 0.1)))
    assert not fits
    assert (found != RULED_OUT).all()


@pytest.mark.parametrize("revealed", [False, True])
def test_exact_sums_are_fitted_also_where_nobody_is_ruled_out(revealed: bool, fits: list[int]) -> None:
    matrix = sp.csr_array(np.random.default_rng(1).integers(1, 9, (20, 60)).astype(np.float64))
    mechanism = PDSVD(rank=3, reveal_sigma=revealed)
    statistic = LinearBlocks()
    seen = mechanism.run(Database((sp.csr_array(matrix[:5]),)), COINS)
    assert seen["first_blocks"][1:].any(axis=(0, 1)).all()
    documents = Documents(matrix, pool=Pool(matrix, 0.25, mechanism=mechanism))
    found = statistic.evaluate(Observables(dict(seen)), documents)
    assert len(fits) == 1
    assert (found != RULED_OUT).all()
    assert found[:5].min() > found[5:].max()


@pytest.mark.parametrize("limit", ["numbers", "pairs"])
def test_a_filter_is_approached_where_the_sums_do_not_outnumber_documents(
    limit: str, fits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    statistic, mechanism = CASES[0]
    seen, _, matrix = run_of(statistic, mechanism)
    documents = Documents(matrix, pool=Pool(matrix, 0.1, mechanism=mechanism))
    one_by_one = statistic.evaluate(Observables(dict(seen)), documents)
    assert len(fits) == 1
    if limit == "numbers":
        monkeypatch.setattr(solve, "MORE", 1e6)
    else:
        monkeypatch.setattr(solve, "MOST_PAIRS", 3)
    by_steps = statistic.evaluate(Observables(dict(seen)), documents)
    assert len(fits) == 1
    assert ((one_by_one == RULED_OUT) == (by_steps == RULED_OUT)).all()
    assert (one_by_one != by_steps).any()
