"""Groups in a run, by equations with one unknown a group."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import lsq_linear
from scipy.stats import ks_2samp, spearmanr

from ksdp.audit.contract import Observables
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.coverage import coverage_of
from ksdp.audit.plan import Plan
from ksdp.audit.runs import lane_documents, stacked
from ksdp.audit.statistics.linear.groups import OfGroups, groups_solved

from ....plans import planned

GROUPS, EACH, WIDE = 30, 6, 14


def plan_of(mechanism: dict, groups: int = GROUPS, **sections: dict) -> Plan:
    rng = np.random.default_rng(3)
    rows = rng.gamma(0.6, 1.0, (groups * EACH, WIDE)) * (rng.random((groups * EACH, WIDE)) < 0.7)
    of = rng.permutation(np.arange(groups * EACH) % groups)
    names = np.array([f"g{one:04d}" for one in of])
    ids = np.array([f"d{one}" for one in range(groups * EACH)])
    corpus = Corpus(canonical(sp.csr_array(rows)), ids, group=names)
    design = {"unit": "group", "party_size": 0.5, "with_runs": 20}
    return planned(corpus, mechanism, **{"corpus": {"path": "x", "group": "g"}, "design": design} | sections)


def distances(plan: Plan, name: str, runs: int) -> np.ndarray:
    """D of each group under a statistic, over runs on groups drawn from here."""
    statistic = next(s for s in plan.statistics if s.name == name)
    rng, documents, said, held = np.random.default_rng(7), lane_documents(plan, 0), [], []
    for _ in range(runs):
        units = np.sort(rng.choice(len(plan.units), len(plan.units) // 2, replace=False))
        seen = plan.mechanism.run(stacked(plan, units), rng)
        as_stored = {key: np.asarray(seen[key], np.float32).astype(float) for key in plan.releases.seen}
        said.append(statistic.evaluate(Observables(as_stored), documents))
        held.append(np.isin(np.arange(len(plan.units)), units))
    values, bits = np.array(said), np.array(held)
    return np.array([ks_2samp(v[b], v[~b]).statistic for v, b in zip(values.T, bits.T, strict=True)])


@pytest.mark.usefixtures("many_documents")
def test_groups_are_told_by_as_many_numbers_as_there_are_groups() -> None:
    """One unknown a group; document by document 180 of them, and the mean over six, tell much less."""
    plan = plan_of({"name": "pd-svd", "rank": 3, "opens": "final"})
    solved = distances(plan, "linear-basis-of-groups", 80)
    one_by_one = distances(plan, "linear-basis-of-rows", 80)
    assert np.median(solved) > 0.99
    assert np.median(one_by_one) < 0.9
    assert coverage_of(plan).may_clear


def test_the_solution_is_that_of_least_squares_within_bounds() -> None:
    """With fewer numbers than groups both order groups alike: the most even draw, and the nearest in the box."""
    plan = plan_of({"name": "pd-svd", "rank": 1, "opens": "final"})
    statistic = next(s for s in plan.statistics if s.name == "linear-basis-of-groups")
    rng, documents, alike = np.random.default_rng(2), lane_documents(plan, 0), []
    matrix, size = plan.corpus.matrix.toarray(), GROUPS // 2
    of = np.unique(plan.corpus.group, return_inverse=True)[1]
    for _ in range(10):
        units = np.sort(rng.choice(GROUPS, size, replace=False))
        V = plan.mechanism.run(stacked(plan, units), rng)["V"].astype(np.float32).astype(float)
        told = statistic.evaluate(Observables({"V": V}), documents)
        weights = matrix @ V.T
        terms = weights * (matrix - weights @ V)
        adds = np.array([terms[of == one].sum(axis=0) for one in range(GROUPS)])
        adds /= np.sqrt(np.square(adds).sum(axis=0))
        left = np.vstack([adds.T, np.full(GROUPS, GROUPS**-0.5), 1e-3 * np.eye(GROUPS)])
        right = np.concatenate([np.zeros(WIDE), [size * GROUPS**-0.5], np.full(GROUPS, 5e-4)])
        nearest = lsq_linear(left, right, (0, 1)).x
        alike.append(spearmanr(told, nearest).statistic)
    assert np.mean(alike) > 0.8


def test_noisy_sums_of_rounds_are_solved_for_groups() -> None:
    plan = plan_of({"name": "hardt-roth", "rank": 1, "epsilon": 300.0, "iterations": 3})
    groups, rows = (np.median(distances(plan, f"linear-releases-of-{each}", 40)) for each in ("groups", "rows"))
    assert groups >= rows - 0.05


def test_a_group_is_told_alike_whoever_is_looked_at_beside_it() -> None:
    plan = plan_of({"name": "pd-svd", "rank": 2, "opens": "final"})
    statistic = OfGroups(next(s for s in plan.statistics if s.name == "linear-basis"))
    rng = np.random.default_rng(1)
    seen = plan.mechanism.run(stacked(plan, np.arange(15)), rng)
    told = statistic.evaluate(Observables(dict(seen)), lane_documents(plan, 0))
    few = {"unit": "group", "party_size": 0.5, "with_runs": 20, "documents": ["g0004", "g0021"]}
    named = plan_of({"name": "pd-svd", "rank": 2, "opens": "final"}, design=few)
    some = statistic.evaluate(Observables(dict(seen)), lane_documents(named, 0))
    np.testing.assert_array_equal(some, told[[4, 21]])


@pytest.mark.usefixtures("many_documents")
def test_groups_that_are_not_solved_for_are_not_cleared() -> None:
    assert groups_solved(1024, 10**5, 100)
    assert not groups_solved(1025, 10**5, 100)
    assert not groups_solved(10, 2**20, 2**9)
    final = {"name": "pd-svd", "rank": 7, "opens": "final"}
    few, many = plan_of(final, groups=300), plan_of(final, groups=1100)
    assert coverage_of(few).may_clear
    (unread,) = coverage_of(many).unread
    assert unread.startswith("which groups were in, by equations: 70 announced numbers")
