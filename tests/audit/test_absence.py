"""What absence proves, against the exact law of small corpora, every database of which is run."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.absence import absence_bounds, absence_shown
from ksdp.audit.contract import EXACT, UNKNOWN, Database, Release
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import make_mechanism, mechanism_names
from ksdp.audit.specs.models import parse_spec

SHOWN = 1e-9
"""On the wire a smaller number is zero."""


def corpus(*rows: str) -> sp.csr_array:
    return canonical(sp.csr_array(np.array([[float(n) for n in row] for row in rows])))


LINKED = corpus("3100100", "2010010", "4100001", "1010000", "2001100", "5002000", "3001010")
"""Everybody has the first feature."""
APART = corpus("3100000", "2010000", "4110000", "1000010", "2100000", "0000200", "0001000")
"""Two of these have nothing in common with anybody."""


def shown_by(mechanism: PDSVD | PDPCA, name: str, rows: sp.csr_array, places: list[int]) -> np.ndarray:
    found = np.atleast_2d(mechanism.run(Database((rows[places],)), np.random.default_rng(0))[name])
    return np.abs(found[0]) > SHOWN


def exact_gap(mechanism: PDSVD | PDPCA, name: str, rows: sp.csr_array, size: int, others: list[int]) -> np.ndarray:
    """Of each document: how much oftener its most telling feature is shown in runs with it than in others."""
    mine = [place for place in range(rows.shape[0]) if place not in others]
    seen = {held: shown_by(mechanism, name, rows, [*held, *others]) for held in combinations(mine, size)}
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
        gap = exact_gap(PDPCA(rank=1), "mean", rows, size, others)
        np.testing.assert_allclose(found.bound, np.maximum(gap, 0.0), atol=1e-12)


@pytest.mark.parametrize("opens", ["final", "every round"])
@pytest.mark.parametrize("mechanism", [PDSVD, PDPCA])
def test_a_factor_shows_at_least_what_is_proved(mechanism: type[PDSVD], opens: str) -> None:
    rows = LINKED
    found = absence_bounds(rows, 3, "factor")
    gap = exact_gap(mechanism(rank=1, opens=opens), "V", rows, 3, [])
    assert (found.bound > 0.3).sum() == 6
    assert (found.bound <= gap + 1e-12).all()
    if mechanism is PDSVD:
        np.testing.assert_allclose(found.bound, gap, atol=1e-12)


def test_documents_that_hang_together_with_nobody_are_not_proved_of_a_factor() -> None:
    naive = absence_bounds(APART, 3, "sum").bound
    gap = exact_gap(PDSVD(rank=1, opens="final"), "V", APART, 3, [])
    assert (naive[5:] > gap[5:] + 0.2).all()  # what a sum shows of them, no leading vector does
    assert (absence_bounds(APART, 3, "factor").bound <= gap + 1e-12).all()


def test_large_corpora_are_proved_of_a_factor_but_for_the_loose_ones() -> None:
    """300 documents share a feature, each has one of its own; five have only that, or a common small group."""
    rng = np.random.default_rng(3)
    hub, own = rng.uniform(1, 2, (300, 1)), sp.identity(300) * 0.5
    rows = np.zeros((300, 302))
    rows[:295, :1], rows[295:, 1] = hub[:295], 0.4
    rows[:, 2:] = own.toarray()
    matrix = canonical(sp.csr_array(rows))
    found = absence_bounds(matrix, 100, "factor").bound
    assert (found[:295] > 0.99).all()
    assert (found[295:] == 0).all()
    seen = [set(np.flatnonzero(np.abs(v) > SHOWN)) for v in _leading(matrix, 100, rng, 40)]
    assert all(not places & set(range(297, 302)) for places in seen)
    heavy = matrix.toarray()
    heavy[295:, 1] = 20.0  # by themselves they may have the largest singular value: nobody is proved
    assert (absence_bounds(canonical(sp.csr_array(heavy)), 100, "factor").bound == 0).all()


def _leading(rows: sp.csr_array, size: int, rng: np.random.Generator, runs: int) -> list[np.ndarray]:
    mechanism = PDSVD(rank=1, opens="final")
    draws = (np.sort(rng.choice(rows.shape[0], size, replace=False)) for _ in range(runs))
    return [mechanism.run(Database((rows[held],)), rng)["V"][0] for held in draws]


def test_draws_of_others_and_documents_that_are_in_by_themselves() -> None:
    """By the definition of both chances."""
    rows, others = LINKED[:5], LINKED[5:]
    found = absence_bounds(rows, 2, "sum", others=others, entering=1)
    holders = np.array([(rows[:, [j]] != 0).sum() for j in range(7)])
    theirs = np.array([(others[:, [j]] != 0).sum() for j in range(7)])
    each = [comb(5 - f, 2) / comb(4, 2) * (2 - t) / 2 for f, t in zip(holders, theirs, strict=True)]
    dense = rows.toarray() > 0
    np.testing.assert_allclose(found.bound, (dense * each).max(axis=1))
    assert [found.holders[n] for n in range(5)] == [holders[j] for j in found.feature]
    independent = absence_bounds(rows, 2, "sum", poisson=True).bound
    np.testing.assert_allclose(independent, (dense * 0.6 ** (holders - 1.0)).max(axis=1))


def test_nothing_is_proved_of_entries_of_both_signs_or_of_releases_that_show_none() -> None:
    signed = LINKED.copy()
    signed.data[0] = -1.0
    assert not absence_bounds(signed, 3, "sum").bound.any()
    assert not absence_bounds(LINKED, 3, "sum", others=signed[:1]).bound.any()
    assert not absence_bounds(LINKED, 3, "").bound.any()
    assert not absence_bounds(LINKED, 7, "sum").bound.any()


def test_what_shows_absence() -> None:
    """Exact arrays alone; derived ones may carry the noise of what they are derived from."""
    factor, total = Release("V", (2, 5), noise=EXACT, absence="factor"), Release("s", (5,), noise=EXACT)
    assert absence_shown([factor, total]) == "factor"
    summed = Release("s", (5,), noise=EXACT, absence="sum")
    assert absence_shown([factor, summed]) == "sum"
    assert absence_shown([Release("s", (5,), noise=UNKNOWN, absence="sum"), total]) == ""
    assert absence_shown([Release("s", (5,), noise=EXACT, absence="sum", derived_from=("V",))]) == ""
    assert absence_shown(make_mechanism("noisy", {"noise": 0.1}).releases(9)) == ""


def test_mechanisms_that_show_absence() -> None:
    showing = {name: absence_shown(make_mechanism(name, {}).releases(40)) for name in mechanism_names()}
    assert {name: how for name, how in showing.items() if how} == {
        "pd-svd": "factor",
        "sigma-svd": "factor",
        "pd-pca": "sum",
    }


def plan_of(rows: sp.csr_array, **changes: Any) -> Plan:
    design = {"party_size": 3, "with_runs": 50} | changes.pop("design", {})
    tables = {"seed": 1, "corpus": {"path": "x"}, "mechanism": {"name": "pd-svd", "rank": 1}} | changes
    ids = np.array([f"d{n}" for n in range(rows.shape[0])])
    return make_plan(parse_spec(tables | {"design": design}), Corpus(rows, ids))


@pytest.mark.absence
def test_whom_absence_proves_is_drawn_and_not_measured() -> None:
    bound = absence_bounds(LINKED, 3, "factor").bound  # 0.5, and 1.0 and 0.2 of two
    plan = plan_of(LINKED, decision={"margin": 0.3})
    every = plan_of(LINKED, decision={"margin": 0.3}, design={"absent": "measured"})
    assert plan.absent is not None
    assert every.absent is None
    np.testing.assert_array_equal(plan.absent.units, np.flatnonzero(bound > 0.3))
    np.testing.assert_array_equal(plan.absent.bound, bound[bound > 0.3])
    assert plan.audited.tolist() == [5]
    assert every.audited.tolist() == list(range(7))
    for run in range(20):
        np.testing.assert_array_equal(plan.design.rows(0, run), every.design.rows(0, run))
    assert plan.runs_identity == every.runs_identity
    assert plan.runs == every.runs


@pytest.mark.absence
def test_one_is_measured_though_all_are_proved() -> None:
    """Controls and canaries need somebody: the one of the smallest bound."""
    assert plan_of(LINKED, decision={"margin": 0.1}).audited.tolist() == [5]


@pytest.mark.absence
@pytest.mark.parametrize(
    "changes",
    [
        {"decision": {"margin": 0}},
        {"statistics": {"explored": True}},
        {"mechanism": {"name": "pd-nmf", "rank": 1}},
        {"mechanism": {"name": "noisy", "noise": 0.1, "parameters": {"rank": 1}}},
        {"design": {"kind": "literal", "documents": 2}},
        {"planted": [{"document": "d0", "kind": "number", "array": "V", "places": [1], "amounts": [1.0]}]},
    ],
)
def test_where_nothing_is_taken_as_proved(changes: dict[str, Any]) -> None:
    assert plan_of(LINKED, **changes).absent is None


@pytest.mark.absence
def test_proofs_of_a_party_and_of_some_documents_are_those_of_their_pool() -> None:
    """Others' documents are in every run, and what they have is never absent."""
    some = plan_of(LINKED, decision={"margin": 0.3}, design={"documents": ("d5", "d2")})
    assert some.absent is not None
    assert (some.absent.units.tolist(), some.audited.tolist()) == ([2], [5])
    held = plan_of(LINKED, parties={"honest": 2}, design={"party_size": 2}, decision={"margin": 0.01})
    mine, others = held.holdings.victim, held.holdings.honest
    found = absence_bounds(LINKED[mine], 2, "factor", others=LINKED[others])
    assert held.absent is not None
    proved = np.concatenate([held.absent.units, held.audited])
    assert sorted(proved.tolist()) == mine.tolist()
    np.testing.assert_array_equal(held.absent.bound, found.bound[np.searchsorted(mine, held.absent.units)])
