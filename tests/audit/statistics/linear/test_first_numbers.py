"""Of more documents than are solved for, the first numbers of sums with hardly any noise, and of exact ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, logit

from ksdp.audit.contract import Database, Documents, Mechanism, Observables, Pool, Statistic
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.registry import make_mechanism
from ksdp.audit.statistics.linear import solve, system
from ksdp.audit.statistics.linear.operator import FactoredContributions
from ksdp.audit.statistics.linear.releases import LinearBlocks, LinearSums
from ksdp.audit.statistics.linear.solve import lost
from ksdp.audit.verdicts.laws import ks_table

SAY = solve.leading_rows_direction
COUNT = 2400


def told(mechanism: Mechanism, statistic: Statistic, matrix: sp.csr_array, share: float) -> float:
    """D of all in one run against all out."""
    n = matrix.shape[0]
    held = np.isin(np.arange(n), np.random.default_rng(1).choice(n, round(share * n), replace=False))
    seen = mechanism.run(Database((sp.csr_array(matrix[held]),)), np.random.default_rng(2))
    stored = Observables({name: np.float32(array).astype(np.float64) for name, array in seen.items()})
    documents = Documents(matrix, pool=Pool(matrix, share, mechanism=mechanism))
    found = statistic.evaluate(stored, documents)
    some = np.array([1, COUNT // 2])
    np.testing.assert_array_equal(statistic.evaluate(stored, documents.at(some)), found[some])
    return float(ks_table(found[None].astype(np.float32), held[None]).distance[0])


def both(monkeypatch: pytest.MonkeyPatch, look: Callable[[], float]) -> tuple[float, float]:
    """Without, and with the first numbers."""
    with monkeypatch.context() as patched:
        patched.setattr(system, "leading_rows_direction", lambda *_: None)
        before = look()
    return before, look()


def raw_table() -> sp.csr_array:
    """Rows of different sizes, columns in their own units."""
    rng = np.random.default_rng(0)
    table = (
        rng.lognormal(size=(COUNT, 30)) * np.exp(rng.normal(size=30)) * np.exp(2.0 * rng.normal(size=(COUNT, 1)))
    )
    return sp.csr_array(table)


def test_hardly_any_noise_hides_nobody_of_a_raw_table(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = make_mechanism("fedpower", {"rank": 3, "period": 1, "iterations": 20, "epsilon": 1e6})
    (match,) = (s for s in fed.statistics if s.name == "linear-releases")
    before, now = both(monkeypatch, lambda: told(fed, match, raw_table(), 0.1))
    assert before < 0.15 < 0.3 < now


@pytest.mark.parametrize(
    ("mechanism", "statistic"), [(PDNMF(rank=1), LinearSums()), (PDSVD(rank=1), LinearBlocks())]
)
def test_exact_sums_of_few_numbers_are_solved_for(
    mechanism: Mechanism, statistic: Statistic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer numbers than say who was in, so that somebody could be clear."""
    texts = sp.csr_array(np.random.default_rng(0).poisson(0.6, (COUNT, 16)).astype(np.float64))
    before, now = both(monkeypatch, lambda: told(mechanism, statistic, texts, 0.03))
    assert now > 1.1 * before


def numbers_of(rows: np.ndarray) -> FactoredContributions:
    return FactoredContributions.plain(sp.csr_array(rows), np.random.default_rng(3).normal(size=(len(rows), 4)))


def test_it_is_the_most_even_draw_that_agrees_with_the_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """By SciPy's own minimisation of the same function, written anew."""
    monkeypatch.setattr("ksdp.audit.statistics.linear.solve.MOST_SOLVED", 50)
    monkeypatch.setattr(solve, "MOST_WRITTEN", 60 * 10 * 10)  # three rows of the four
    rng, shares, varied = np.random.default_rng(1), np.full(60, 0.25), 0.1875
    made = numbers_of(rng.normal(size=(60, 3)))
    held = np.arange(60) % 4 == 0
    noise = np.repeat([0.1, 0.2, 0.3, 0.4], 3)
    apart = (held - shares) @ made.written() + np.sqrt(noise * varied) * rng.normal(size=12)
    found = SAY(made, apart, shares, noise, varied)
    assert found is not None
    assert not found.numbers[9:].any()
    terms = np.hstack([made.written()[:, :9], np.ones((60, 1))])
    seen, spread = np.append(apart[:9], 0.0), np.append(noise[:9] * varied, 1.0)

    def height(at: np.ndarray) -> float:
        moved = terms @ at
        even = np.log1p(shares * np.expm1(moved)) - shares * moved
        return float(even.sum() - seen @ at + 0.5 * spread @ np.square(at))

    best = minimize(height, np.zeros(10), method="BFGS", options={"gtol": 1e-9}).x
    odds = logit(shares) + terms @ best
    ours = logit(shares) + made.along(found.numbers) + found.offset
    np.testing.assert_allclose(expit(ours), expit(odds), atol=0.002)


def test_where_it_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, shares = np.random.default_rng(1), np.full(60, 0.5)
    made = numbers_of(rng.normal(size=(60, 3)))
    apart, little = rng.normal(size=12), np.full(12, 1e-4)
    assert SAY(made, apart, shares, little, 0.25) is None  # few enough to be solved for
    monkeypatch.setattr("ksdp.audit.statistics.linear.solve.MOST_SOLVED", 50)
    assert SAY(made, apart, shares, little, 0.25) is not None
    assert SAY(made, apart, shares, np.full(12, 1e4), 0.25) is None  # much noise: steps take all numbers
    monkeypatch.setattr(solve, "MOST_WRITTEN", 60 * 2 * 2)
    assert SAY(made, apart, shares, little, 0.25) is None  # not one row


def test_exact_sums_are_solved_for_as_a_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ksdp.audit.statistics.linear.solve.MOST_SOLVED", 50)
    shares = np.full(60, 0.25)
    made = numbers_of(np.random.default_rng(1).normal(size=(60, 3)))
    apart = ((np.arange(60) % 4 == 0) - shares) @ made.written()
    monkeypatch.setattr(solve, "MOST_EXACT", 60 * 12 * 12)
    assert SAY(made, apart, shares, None, 0.1875) is not None
    monkeypatch.setattr(solve, "MOST_EXACT", 60 * 12 * 12 - 60)
    assert SAY(made, apart, shares, None, 0.1875) is None


def test_exact_sums_have_the_noise_that_single_precision_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the sums themselves, not of what is left of them."""
    monkeypatch.setattr("ksdp.audit.statistics.linear.solve.MOST_SOLVED", 50)
    rng, shares = np.random.default_rng(1), np.full(60, 0.25)
    made = numbers_of(rng.normal(size=(60, 3)) + 1e6)
    apart = ((np.arange(60) % 4 == 0) - shares) @ made.written()
    found = SAY(made, apart, shares, None, 0.1875)
    same = SAY(made, apart, shares, lost(shares @ made.written()) / 0.1875, 0.1875)
    assert found is not None
    assert same is not None
    np.testing.assert_allclose(found.numbers, same.numbers, rtol=1e-6)
