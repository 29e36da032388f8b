"""What absence proves, against the exact law of small corpora, every database of which is run."""

from dataclasses import replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.absence import absence_bounds, absence_shown, pull
from ksdp.audit.contract import EXACT, UNKNOWN, Database, Release, Terms
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD
from ksdp.audit.plan import Plan
from ksdp.audit.registry import make_mechanism, mechanism_names

from ..plans import planned

SHOWN = 1e-9
"""On the wire a smaller number is zero."""
V, MEAN = (PDSVD(rank=1, opens="final"), "V"), (PDPCA(rank=1), "mean")


def corpus(*rows: str) -> sp.csr_array:
    return canonical(sp.csr_array(np.array([[float(n) for n in row] for row in rows])))


LINKED = corpus("3100100", "2010010", "4100001", "1010000", "2001100", "5002000", "3001010")
"""Everybody has the first feature."""
APART = corpus("3100000", "2010000", "4110000", "1000010", "2100000", "0000200", "0001000")
"""Two of these have nothing in common with anybody."""


def leading(rows: sp.csr_array, places: Any, what: tuple[PDSVD | PDPCA, str] = V) -> np.ndarray:
    mechanism, name = what
    return np.atleast_2d(mechanism.run(Database((rows[list(places)],)), np.random.default_rng(0))[name])[0]


def exact_gap(what: tuple[PDSVD | PDPCA, str], rows: sp.csr_array, size: int, others: list[int]) -> np.ndarray:
    """Of each document: how much oftener its most telling feature is shown in runs with it than in others."""
    mine = [place for place in range(rows.shape[0]) if place not in others]
    seen = {h: np.abs(leading(rows, [*h, *others], what)) > SHOWN for h in combinations(mine, size)}
    gaps = []
    for document in mine:
        arms = [[s for held, s in seen.items() if (document in held) == inside] for inside in (True, False)]
        gaps.append((np.mean(arms[0], axis=0) - np.mean(arms[1], axis=0)).max())
    return np.array(gaps)


@pytest.mark.parametrize("others", [[], [3], [0, 6]])
@pytest.mark.parametrize("size", [2, 3])
def test_a_sum_shows_exactly_what_is_proved(size: int, others: list[int]) -> None:
    mine = [place for place in range(7) if place not in others]
    for rows in (LINKED, APART):
        given = {"others": rows[others]} if others else {}
        found = absence_bounds(rows[mine], size, "sum", **given)
        np.testing.assert_allclose(found.bound, np.maximum(exact_gap(MEAN, rows, size, others), 0.0), atol=1e-12)


@pytest.mark.parametrize("what", [V, (PDSVD(rank=1), "V"), (PDPCA(rank=1), "V")])
def test_a_factor_shows_at_least_what_is_proved(what: tuple[PDSVD | PDPCA, str]) -> None:
    found, gap = absence_bounds(LINKED, 3, "factor").bound, exact_gap(what, LINKED, 3, [])
    assert (found > 0.3).sum() == 6
    assert (found <= gap + 1e-12).all()
    if isinstance(what[0], PDSVD) and not isinstance(what[0], PDPCA):
        np.testing.assert_allclose(found, gap, atol=1e-12)


def test_documents_that_hang_together_with_nobody_are_not_proved_of_a_factor() -> None:
    naive, gap = absence_bounds(APART, 3, "sum").bound, exact_gap(V, APART, 3, [])
    assert (naive[5:] > gap[5:] + 0.2).all()  # what a sum shows of them, no leading vector does
    assert (absence_bounds(APART, 3, "factor").bound <= gap + 1e-12).all()


def test_large_corpora_are_proved_of_a_factor_but_for_the_loose_ones() -> None:
    """300 documents have a feature of their own each; five share but a weak one, the others a strong one."""
    rng = np.random.default_rng(3)
    rows = np.hstack((np.zeros((300, 2)), np.identity(300) * 0.5))
    rows[:295, 0], rows[295:, 1] = rng.uniform(1, 2, 295), 0.4
    found = absence_bounds(canonical(sp.csr_array(rows)), 100, "factor").bound
    assert (found[:295] > 0.99).all()
    assert (found[295:] == 0).all()
    for _ in range(40):
        shown = leading(canonical(sp.csr_array(rows)), np.sort(rng.choice(300, 100, replace=False)))
        assert np.abs(shown[297:]).max() < SHOWN
    rows[295:, 1] = 20.0  # by themselves they may have the largest singular value: nobody is proved
    assert (absence_bounds(canonical(sp.csr_array(rows)), 100, "factor").bound == 0).all()


def test_draws_of_others_and_documents_that_are_in_by_themselves() -> None:
    """By the definition of both chances."""
    rows, others = LINKED[2:], LINKED[:2]
    found = absence_bounds(rows, 2, "sum", others=others, entering=1)
    holders, theirs = ((part.toarray() > 0).sum(axis=0) for part in (rows, others))
    each = [comb(5 - f, 2) / comb(4, 2) * (2 - t) / 2 for f, t in zip(holders, theirs, strict=True)]
    dense = rows.toarray() > 0
    np.testing.assert_allclose(found.bound, (dense * each).max(axis=1))
    np.testing.assert_array_equal(found.holders, holders[found.feature])
    independent = absence_bounds(rows, 2, "sum", poisson=True).bound
    np.testing.assert_allclose(independent, (dense * 0.6 ** (holders - 1.0)).max(axis=1))


def test_nothing_is_proved_of_entries_of_both_signs_or_of_releases_that_show_none() -> None:
    signed = LINKED.copy()
    signed.data[0] = -1.0
    for nothing in (
        absence_bounds(signed, 3, "sum"),
        absence_bounds(LINKED, 3, "sum", others=signed[:1]),
        absence_bounds(LINKED, 3, ""),
        absence_bounds(LINKED, 7, "sum"),
    ):
        assert not nothing.bound.any()


def test_what_shows_absence() -> None:
    """Exact arrays alone; derived ones may carry the noise of what they are derived from."""
    basis, mean = Release("V", (2, 5), Terms("moments", "V", "m"), noise=EXACT), Release("m", (5,), noise=EXACT)
    plain = replace(basis, terms=Terms("moments", "V"))
    assert absence_shown([plain, Release("s", (5,), noise=EXACT)]) == "factor"
    assert absence_shown([basis, Release("s", (5,), noise=EXACT)]) == "", "centred rows are not positive"
    assert absence_shown([basis, mean]) == "sum"
    assert absence_shown([replace(basis, noise=UNKNOWN), mean]) == "sum"
    assert absence_shown([replace(basis, noise=UNKNOWN), replace(mean, noise=UNKNOWN)]) == ""
    assert absence_shown([replace(plain, derived_from=("blocks",))]) == ""
    assert absence_shown([replace(basis, terms=Terms("moments", "W"))]) == ""
    assert absence_shown(make_mechanism("noisy", {"noise": 0.1}).releases(9)) == ""
    showing = {name: absence_shown(make_mechanism(name, {}).releases(40)) for name in mechanism_names()}
    found = {name: how for name, how in showing.items() if how}
    assert found == {"pd-svd": "factor", "sigma-svd": "factor", "pd-pca": "sum"}


def plan_of(rows: sp.csr_array, **changes: Any) -> Plan:
    design = {"party_size": 3, "with_runs": 50} | changes.pop("design", {})
    corpus = Corpus(rows, np.array([f"d{n}" for n in range(rows.shape[0])]))
    return planned(corpus, {"name": "pd-svd", "rank": 1}, design=design, **changes)


@pytest.mark.absence
def test_whom_absence_proves_is_drawn_and_not_measured() -> None:
    """Where all are proved, one is measured: controls and canaries need somebody."""
    bound = absence_bounds(LINKED, 3, "factor").bound  # 0.5, and 1.0 and 0.2 of two
    plan = plan_of(LINKED, decision={"margin": 0.6})
    every = plan_of(LINKED, decision={"margin": 0.6}, design={"absent": "measured"})
    np.testing.assert_array_equal(plan.absent.units, [2])
    np.testing.assert_array_equal(plan.absent.bound, bound[bound > 0.6])
    assert (plan.audited.tolist(), every.audited.tolist()) == ([0, 1, 3, 4, 5, 6], list(range(7)))
    for run in range(20):
        np.testing.assert_array_equal(plan.design.rows(0, run), every.design.rows(0, run))
    assert (plan.runs_identity, plan.runs) == (every.runs_identity, every.runs)
    assert plan_of(LINKED, decision={"margin": 0.1}).audited.tolist() == [5]


@pytest.mark.absence
@pytest.mark.parametrize(
    "changes",
    [
        {"decision": {"margin": 0}},
        {"statistics": {"explored": True}},
        {"mechanism": {"name": "pd-nmf", "rank": 1}},
        {"mechanism": {"name": "noisy", "noise": 0.1, "parameters": {"rank": 1}}},
        {"design": {"kind": "balanced", "documents": 2}},
        {"planted": [{"document": "d0", "kind": "number", "array": "V", "places": [1], "amounts": [1.0]}]},
    ],
)
def test_where_nothing_is_taken_as_proved(changes: dict[str, Any]) -> None:
    assert plan_of(LINKED, **changes).absent is None


@pytest.mark.absence
def test_proofs_of_a_party_and_of_some_documents_are_those_of_their_pool() -> None:
    """Others' documents are in every run, and what they have is never absent."""
    some = plan_of(LINKED, decision={"margin": 0.3}, design={"documents": ("d5", "d2")})
    assert (some.absent.units.tolist(), some.audited.tolist()) == ([2], [5])
    held = plan_of(LINKED, parties={"honest": 2}, design={"party_size": 2}, decision={"margin": 0.01})
    mine = held.holdings.victim
    found = absence_bounds(LINKED[mine], 2, "factor", others=LINKED[held.holdings.honest])
    assert sorted([*held.absent.units, *held.audited]) == mine.tolist()
    np.testing.assert_array_equal(held.absent.bound, found.bound[np.searchsorted(mine, held.absent.units)])


@pytest.mark.absence
def test_of_groups_v_alone_proves_no_absence() -> None:
    """A sum of rows may be longer than all of them: whoever is in may still leave no trace."""
    groups = np.repeat([f"g{n}" for n in range(len(LINKED.toarray()) // 2)], 2)
    corpus = Corpus(LINKED[: len(groups)], np.arange(len(groups)).astype(str), group=groups)
    final, design = (
        {"name": "pd-svd", "rank": 1, "opens": "final"},
        {"unit": "group", "party_size": 2, "with_runs": 30},
    )
    assert planned(corpus, final, design=design, decision={"margin": 0.1}).absent is None


def test_the_pull_on_v_is_that_of_plain_loops() -> None:
    x, v = LINKED.toarray(), np.linalg.svd(LINKED.toarray())[2][:2]
    moves = np.array([np.outer(v @ row, row) for row in x])  # of V, the gaps aside
    spread = 3 / 7 * 4 / 7 * (moves**2).sum(axis=0)
    wanted = [np.sqrt((np.divide(m**2, spread, where=spread > 0, out=np.zeros_like(m))).sum()) for m in moves]
    np.testing.assert_allclose(pull(LINKED, 3, 2), wanted, rtol=1e-9)
