"""Who was in, to the last document: against who was, and against all equations solved at once."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Documents, Observables, Pool
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD
from ksdp.audit.numeric.sparse_rows import same_rows
from ksdp.audit.statistics.linear import coordinate_descent, solve
from ksdp.audit.statistics.linear.contributions import block_numbers, sweep_numbers
from ksdp.audit.statistics.linear.coordinate_descent import Deduplicated, deduplicated, exact_memberships
from ksdp.audit.statistics.linear.operator import FactoredContributions, scales_of
from ksdp.audit.statistics.linear.releases import LinearBlocks, LinearSums

COINS = np.random.default_rng(0)
KINDS = ("pd-nmf", "pd-svd", "pd-pca")
N, D = 40, 60


def corpus() -> sp.csr_array:
    """One document is empty, two pairs are copies, and two differ in one entry."""
    matrix = np.random.default_rng(3).integers(1, 5, (N, D)) * (np.random.default_rng(4).random((N, D)) < 0.2)
    matrix[3] = 0
    matrix[10], matrix[31] = matrix[11], matrix[30]
    matrix[20] = matrix[21]
    matrix[20, 7] += 1
    return sp.csr_array(matrix, dtype=np.float64)


def once_of(
    kind: str, matrix: sp.csr_array, shares: np.ndarray, held: np.ndarray
) -> tuple[Deduplicated, np.ndarray]:
    """Documents by their content, and the sums of those held less what is expected."""
    inside = Database((sp.csr_array(matrix[held]),))
    if kind == "pd-nmf":
        made = sweep_numbers(matrix, PDNMF(rank=3, sweeps=3).run(inside, COINS)["topics"])
    else:
        seen = (PDPCA(rank=3) if kind == "pd-pca" else PDSVD(rank=3)).run(inside, COINS)
        made = block_numbers(matrix, seen["first_blocks"], seen.get("mean"))
    return deduplicated(made, shares), made.summed(held - shares)


def sizes_of(made: FactoredContributions) -> np.ndarray:
    return np.square(made.written() * scales_of(made).written()).sum(axis=1)


@pytest.fixture
def held() -> np.ndarray:
    found = np.random.default_rng(5).random(N) < 0.4
    found[[10, 11, 20, 21, 30, 31]] = [True, False, False, True, True, True]
    return found


def test_documents_count_once_by_their_content() -> None:
    matrix, shares = corpus(), np.linspace(0.1, 0.9, N)
    once, _ = once_of("pd-nmf", matrix, shares, np.ones(N, bool))
    dense = [tuple(row) for row in matrix.toarray()]
    assert len(once.several) == len(set(dense)) == N - 2
    for place, row in enumerate(dense):
        content = once.which[place]
        assert tuple(once.made.rows.toarray()[content]) == row
        assert once.several[content] == dense.count(row)
        alike = [other for other in range(N) if dense[other] == row]
        assert once.shares[content] == pytest.approx(shares[alike].sum())
    low, high = once.bounds
    np.testing.assert_allclose(high - low, once.several)
    np.testing.assert_array_equal(once.of_each(once.several), np.ones(N))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("doubts", [0.05, 0.35])
def test_who_was_in_is_told_from_about_who_was(kind: str, doubts: float, held: np.ndarray, monkeypatch) -> None:
    """Of two that differ in one entry the wrong one seems likelier, by little."""
    monkeypatch.setattr(coordinate_descent, "MOST", 1.0)
    shares = np.full(N, 0.4)
    once, apart = once_of(kind, corpus(), shares, held)
    true = np.bincount(once.which, held)
    about = true + np.random.default_rng(6).uniform(-doubts, doubts, len(true))
    swapped = once.which[[20, 21]]
    about[swapped] = 0.55 - 0.1 * true[swapped]
    found = coordinate_descent.integer_solution(
        once, apart, about - once.shares, scales_of(once.made), sizes := sizes_of(once.made)
    )
    assert found is not None
    np.testing.assert_array_equal((found + once.shares)[sizes > 0], true[sizes > 0])
    assert (sizes > 0).sum() >= len(true) - 1


def test_sums_of_zero_tell_it_up_to_a_factor(held: np.ndarray) -> None:
    shares = np.full(N, held.mean())
    once, apart = once_of("pd-svd", corpus(), shares, held)
    true, units, sizes = np.bincount(once.which, held), scales_of(once.made), sizes_of(once.made)
    found = coordinate_descent.integer_solution(once, apart, 0.2 * true - once.shares, units, sizes)
    assert found is not None
    np.testing.assert_array_equal((found + once.shares)[sizes > 0], true[sizes > 0])
    assert coordinate_descent.integer_solution(once, apart, -once.shares, units, sizes) is None


@pytest.mark.parametrize("kind", KINDS)
def test_what_documents_do_not_explain_is_not_explained(kind: str, held: np.ndarray) -> None:
    shares = np.full(N, 0.4)
    once, apart = once_of(kind, corpus(), shares, held)
    true, units, sizes = np.bincount(once.which, held), scales_of(once.made), sizes_of(once.made)
    deviation = np.divide(1.0, units.written(), out=np.zeros(len(apart)), where=units.written() > 0)
    other = apart + 0.3 * deviation * np.random.default_rng(7).normal(size=len(apart))
    assert coordinate_descent.integer_solution(once, apart, true - once.shares, units, sizes) is not None
    assert coordinate_descent.integer_solution(once, other, true - once.shares, units, sizes) is None
    # What rounding leaves of the sums is nobody.
    most = 0.05 * sizes[sizes > 1e-9].min() / np.square((other - apart) * units.written()).sum()
    hardly = apart + np.sqrt(most) * (other - apart)
    assert coordinate_descent.integer_solution(once, hardly, true - once.shares, units, sizes) is not None
    # Nor are sums to which nobody adds.
    assert coordinate_descent.integer_solution(once, apart, true - once.shares, units, 0.0 * sizes) is None


def test_more_than_half_of_them_are_not_solved_for(held: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = np.full(N, 0.4)
    once, apart = once_of("pd-nmf", corpus(), shares, held)
    true, units, sizes = np.bincount(once.which, held), scales_of(once.made), sizes_of(once.made)
    about = np.abs(true - 0.45)
    assert (np.rint(about) != true).sum() == 0
    wrong = np.abs(true - 0.55)
    assert coordinate_descent.integer_solution(once, apart, wrong - once.shares, units, sizes) is None
    monkeypatch.setattr(coordinate_descent, "MOST", 1.0)
    assert coordinate_descent.integer_solution(once, apart, wrong - once.shares, units, sizes) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_what_all_equations_say_at_once(kind: str, held: np.ndarray, monkeypatch) -> None:
    """Of copies both get their part of those who were in."""
    matrix = corpus()
    mechanism = {"pd-nmf": PDNMF(rank=3), "pd-svd": PDSVD(rank=3), "pd-pca": PDPCA(rank=3)}[kind]
    statistic = LinearSums() if kind == "pd-nmf" else LinearBlocks()
    seen = dict(mechanism.run(Database((sp.csr_array(matrix[held]),)), COINS))
    pool = Pool(matrix, held.mean(), mechanism=mechanism)
    wanted = statistic.evaluate(Observables(dict(seen)), Documents(matrix, pool=pool))
    asked: list[bool] = []

    def counted(*of):
        found = exact_memberships(*of)
        asked.append(found is not None)
        return found

    monkeypatch.setattr(solve, "QUICKLY", 0)
    monkeypatch.setattr(solve, "exact_memberships", counted)
    pool = Pool(matrix, held.mean(), mechanism=mechanism)
    found = statistic.evaluate(Observables(dict(seen)), Documents(matrix, pool=pool))
    assert asked == [True]
    single = np.array([(same_rows(matrix, matrix) == place).sum() == 1 for place in range(N)])
    single[3] = False
    assert found[single & held].min() > found[single & ~held].max()
    assert wanted[single & held].min() > wanted[single & ~held].max()
    assert found[10] == found[11]
    assert found[single & ~held].max() < found[10] < found[held & single].min()


def test_of_others_nothing_is_left(held: np.ndarray) -> None:
    """Whom nobody fitted finds nothing of itself in what those who were in leave."""
    matrix, shares = corpus(), np.full(N, 0.4)
    once, apart = once_of("pd-nmf", matrix, shares, held)
    columns = np.flatnonzero((matrix.toarray() != 0).any(axis=0))
    wide = np.arange(once.made.weights.shape[1] * D).reshape(-1, D)[:, columns].ravel()
    at = np.concatenate([wide, np.arange(once.made.weights.shape[1] * D, once.made.entries)])
    found = exact_memberships(deduplicated(once.made.of(once.which).within(columns), shares), columns, apart[at])
    assert found is not None
    np.testing.assert_allclose(found.of(once.made.of(np.arange(8))), 0.0, atol=1e-4)


@pytest.mark.parametrize("revealed", [False, True])
def test_where_it_is_not_explained_all_equations_are_solved(revealed: bool, monkeypatch) -> None:
    """Rows that share all columns wait for one another for long."""
    monkeypatch.setattr(solve, "QUICKLY", 0)
    rng = np.random.default_rng(5)
    matrix = sp.csr_array(rng.gamma(2.0, 1.0, (60, 12)) @ rng.gamma(0.5, 1.0, (12, 60)) + rng.random((60, 60)))
    held = np.arange(60) % 3 == 0
    mechanism = PDSVD(rank=4, reveal_sigma=revealed)
    statistic = LinearBlocks()
    seen = mechanism.run(Database((sp.csr_array(matrix[held]),)), COINS)
    monkeypatch.setattr(coordinate_descent, "MOST", 0.0)
    found = statistic.evaluate(seen, Documents(matrix, pool=Pool(matrix, 1 / 3, mechanism=mechanism)))
    assert found[held].min() > found[~held].max()
