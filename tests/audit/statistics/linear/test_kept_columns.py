"""Documents in the columns that a run kept: nobody is ruled out for what was never added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Documents, Observables, Pool, statistic_traits
from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.mechanisms.counted import Counted
from ksdp.audit.mechanisms.joint import JointMechanism
from ksdp.audit.registry import make_mechanism, select_statistics, statistics
from ksdp.audit.statistics.linear import releases, solve, system
from ksdp.audit.statistics.linear.counts import COUNTS, as_in_run, evaluated
from ksdp.audit.statistics.linear.expected import FirstOrderBasis, FirstOrderTopics
from ksdp.audit.statistics.linear.groups import GroupMean
from ksdp.audit.statistics.linear.releases import LinearBlocks, LinearSums
from ksdp.audit.statistics.linear.system import RULED_OUT, WithinColumns

PARAMETERS: dict[str, dict[str, Any]] = {"pd-nmf": {"rank": 2}, "pd-svd": {"rank": 2}, "sigma-svd": {"rank": 2}}

COUNTS_MATCH = next(statistic for statistic in COUNTS if statistic.name == "linear-counts")


def rows(n: int = 60, d: int = 30, seed: int = 1) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return canonical(sp.csr_array(rng.random((n, d)) * (rng.random((n, d)) < np.linspace(0.6, 0.05, d))))


def a_run(name: str) -> tuple[Counted, Observables, Documents, np.ndarray]:
    counted, matrix = Counted(name, at_least=8, parameters=PARAMETERS[name]), rows()
    held = np.isin(np.arange(60), np.random.default_rng(2).choice(60, 30, replace=False))
    seen = counted.run(Database((sp.csr_array(matrix[held]),)), np.random.default_rng(0))
    return counted, seen, Documents(matrix, pool=Pool(matrix, 0.5, mechanism=counted)), held


@pytest.mark.parametrize("name", PARAMETERS)
def test_statistics_are_those_of_the_other_mechanism_on_narrow_rows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every default column but for the counts, beside the other mechanism on a corpus of these columns alone."""
    monkeypatch.setattr(releases, "with_count_equations", lambda _, solve, known: (solve, known))
    _, seen, documents, held = a_run(name)
    kept = seen["kept_columns"] > 0
    assert 5 < kept.sum() < 25
    narrow = sp.csr_array(documents.matrix[:, np.flatnonzero(kept)])
    other = make_mechanism(name, PARAMETERS[name])
    there = other.run(
        Database((sp.csr_array(narrow[held]),), frozenset(), None, (np.flatnonzero(kept), 30)), _rng()
    )
    alone = Documents(narrow, pool=Pool(narrow, 0.5, mechanism=other))
    families = ("paper", "geometry", "rounds")
    chosen, _ = select_statistics(families, (), set(there), ())
    some = 0
    for statistic in chosen:
        if getattr(statistic, "of_expected", False):
            continue
        found = evaluated(statistic, seen, documents)
        wanted = statistic.evaluate(there, alone)
        # Floors under variances and supports are parts of means over columns, and there are more of these.
        if np.ptp(wanted) > 0.0:
            assert np.corrcoef(found, wanted)[0, 1] > 0.999, statistic.name
        np.testing.assert_allclose(found, wanted, rtol=0.02, atol=0.015, err_msg=statistic.name)
        some += 1
    assert some > 5


def test_a_mean_over_groups_looks_at_the_columns_that_its_statistic_looks_at() -> None:
    means = [statistic_traits(GroupMean(statistic)) for statistic in (*statistics().values(), *COUNTS)]
    columns = {(mean.of_candidates, mean.of_expected) for mean in means if mean.weighs}
    assert columns == {(False, False), (True, False), (False, True)}


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize(("name", "statistic"), [("pd-nmf", LinearSums()), ("pd-svd", LinearBlocks())])
def test_nobody_who_was_in_is_ruled_out(name: str, statistic: Any) -> None:
    """With entries in columns that went everybody would be: the run touched none of these."""
    _, seen, documents, held = a_run(name)
    found = evaluated(statistic, seen, documents)
    assert (found[held] > -2.0).all()
    plain = Documents(
        documents.matrix, pool=Pool(documents.matrix, 0.5, mechanism=make_mechanism(name, {"rank": 2}))
    )
    assert (statistic.evaluate(seen, plain)[held] == -2.0).mean() > 0.5
    assert found[held].mean() > found[~held].mean()


@pytest.mark.parametrize(("name", "statistic"), [("pd-nmf", FirstOrderTopics()), ("pd-svd", FirstOrderBasis())])
def test_what_is_expected_is_worked_out_once_for_all_runs(name: str, statistic: Any) -> None:
    counted, seen, documents, held = a_run(name)
    first = as_in_run(statistic, seen, documents)
    matrix = documents.matrix
    again = counted.run(Database((sp.csr_array(matrix[~held]),)), np.random.default_rng(0))
    assert (again["kept_columns"] != seen["kept_columns"]).any()
    assert as_in_run(statistic, again, documents) is first
    stays = 0.5 * (matrix.toarray() != 0).sum(axis=0) >= 8
    np.testing.assert_array_equal(first.matrix.toarray(), np.where(stays, matrix.toarray(), 0.0))
    some = documents.at(np.array([7, 3]))
    np.testing.assert_array_equal(evaluated(statistic, seen, some), evaluated(statistic, seen, documents)[[7, 3]])
    assert np.ptp(evaluated(statistic, seen, documents)) > 0.0


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_documents_value_is_its_own_whoever_is_measured_beside_it(name: str) -> None:
    """To the last bit, of every column that an audit tries by default."""
    counted, seen, documents, _ = a_run(name)
    chosen, _ = select_statistics(("paper", "geometry", "rounds"), (), set(seen), (), counted.statistics)
    places = np.array([31, 2, 17])
    for statistic in chosen:
        whole, some = (evaluated(statistic, seen, each) for each in (documents, documents.at(places)))
        np.testing.assert_array_equal(some, whole[places], err_msg=statistic.name)
        assert np.isfinite(whole).all()


def test_of_runs_that_were_recorded_documents_are_cut_too() -> None:
    _, seen, documents, _ = a_run("pd-svd")
    recorded = Documents(documents.matrix, pool=Pool(documents.matrix, 0.5))
    cut = as_in_run(LinearBlocks(), seen, recorded)
    assert not cut.matrix[:, np.flatnonzero(seen["kept_columns"] == 0)].toarray().any()
    assert cut.source_pool.mechanism is None
    assert as_in_run(FirstOrderBasis(), seen, recorded) is recorded


def test_of_other_mechanisms_and_of_the_counts_documents_are_as_they_are() -> None:
    _, seen, documents, _ = a_run("pd-svd")
    odd = Observables({**seen, "kept_columns": np.ones(7)})
    assert as_in_run(LinearBlocks(), odd, documents) is documents
    assert as_in_run(COUNTS_MATCH, seen, documents) is documents
    assert as_in_run(GroupMean(COUNTS_MATCH), seen, documents) is documents
    shown = Observables({name: array for name, array in seen.items() if name != "kept_columns"})
    plain = Documents(documents.matrix, pool=Pool(documents.matrix, 0.5, mechanism=make_mechanism("pd-svd", {})))
    assert as_in_run(LinearBlocks(), shown, plain) is plain


def test_groups_are_cut_too() -> None:
    _, seen, documents, _ = a_run("pd-svd")
    assert documents.pool is not None
    each = Documents(documents.matrix, pool=documents.pool)
    groups = Documents(documents.matrix, {}, each, np.arange(0, 61, 2), documents.pool)
    cut = as_in_run(LinearBlocks(), seen, groups)
    gone = np.flatnonzero(seen["kept_columns"] == 0)
    assert cut.rows is not None
    assert cut.pool is cut.rows.pool
    for matrix in (cut.matrix, cut.rows.matrix, cut.source_pool.drawn):
        assert not matrix[:, gone].toarray().any()
        assert matrix.shape[1] == 30


def test_several_runs_together_are_cut_each_by_itself() -> None:
    table = {"name": "counted", "mechanism": "pd-svd", "at_least": 8, "parameters": {"rank": 2}}
    together = JointMechanism((table, {"name": "pd-nmf", "rank": 2}))
    _, alone, documents, held = a_run("pd-svd")
    seen = together.run(Database((sp.csr_array(documents.matrix[held]),)), np.random.default_rng(0))
    both = Documents(documents.matrix, pool=Pool(documents.matrix, 0.5, mechanism=together))
    of = {s.name: s for s in together.statistics}
    for name in ("linear-blocks", "first-order-basis", "linear-counts"):
        found = evaluated(of[f"run1-{name}"], Observables(seen), both)
        one = next(s for s in (*statistics().values(), *Counted().statistics) if s.name == name)
        np.testing.assert_array_equal(found, evaluated(one, alone, documents))
        # Some of them, as an audit looks at who was in a run and else at every fourth.
        some = evaluated(of[f"run1-{name}"], Observables(seen), both.at(np.array([31, 2])))
        np.testing.assert_array_equal(some, found[[31, 2]])


@pytest.mark.parametrize("others", ["none", "fixed", "drawn", "colluding"])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(("name", "statistic"), [("pd-nmf", LinearSums()), ("pd-svd", LinearBlocks())])
def test_who_has_a_column_that_nobody_has_is_ruled_out_of_every_round(
    name: str, statistic: Any, many: bool, others: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the column went; never who was in, though its twin in the columns that stay cannot have been."""
    if many:
        monkeypatch.setattr(solve, "chosen_way", lambda run: solve.by_steps)
    dense, rng = rows(40, 60, seed=4).toarray(), np.random.default_rng(3)
    held = np.isin(np.arange(41), rng.choice(40, 5, replace=False))
    dense[:, 30:] *= rng.random((40, 30)) < 0.3
    dense[held[:40], 59] = 0.0
    twin = dense[np.flatnonzero(held)[0]].copy()
    twin[59] = 1.0
    dense = np.vstack([twin, dense])  # the twin first: it is whom the document would be taken for
    held = np.concatenate([[False], held[:40]])
    matrix = canonical(sp.csr_array(dense))
    fixed = canonical(sp.csr_array(rows(6, 60, seed=9).toarray() * (np.arange(60) < 30)))
    counted = Counted(name, at_least=3, parameters=PARAMETERS[name])
    parties, known = [sp.csr_array(matrix[np.flatnonzero(held)])], {}
    if others != "none":
        parties.append(sp.csr_array(fixed[::2]) if others == "drawn" else fixed)
        known = {"fixed": fixed, "colluding": others == "colluding"} | (
            {"fixed_share": 0.5} if others == "drawn" else {}
        )
    coalition = frozenset({1}) if others == "colluding" else frozenset[int]()
    seen = counted.run(Database(tuple(parties), coalition), np.random.default_rng(0))
    documents = Documents(matrix, pool=Pool(matrix, 5 / 41, mechanism=counted, **known))
    impossible = COUNTS_MATCH.evaluate(seen, documents) == RULED_OUT
    found = evaluated(statistic, seen, documents)
    assert impossible[0]
    assert (found[impossible] == RULED_OUT).all()
    assert (found[held] != RULED_OUT).all()
    assert impossible.sum() > 10
    for places in ([0], [7, 3], np.flatnonzero(held)[:2]):
        some = evaluated(statistic, seen, documents.at(np.asarray(places)))
        np.testing.assert_array_equal(some, found[np.asarray(places)])
    pairs = sp.csr_array(np.kron(np.eye(20), np.ones(2))) @ matrix[1:]
    each = Documents(sp.csr_array(matrix[1:]), pool=documents.pool)
    groups = Documents(canonical(sp.csr_array(pairs)), {}, each, np.arange(0, 41, 2), None, documents.pool)
    out = evaluated(statistic, seen, groups) == RULED_OUT
    alone = evaluated(statistic, seen, each) == RULED_OUT
    np.testing.assert_array_equal(out, alone.reshape(20, 2).any(axis=1))


@pytest.mark.parametrize("exact", [True, False])
def test_the_filter_is_over_those_whom_the_counts_leave(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if databases had been made of these alone; also where it is approached."""
    if not exact:
        monkeypatch.setattr(solve, "chosen_way", lambda run: solve.by_steps)
    matrix, mechanism = rows(40, 60, seed=4), make_mechanism("pd-svd", {"rank": 2})
    possible = np.arange(40) % 3 == 0
    seen = mechanism.run(Database((sp.csr_array(matrix[:15:3]),)), _rng())
    whole = Pool(matrix, 5 / 40, mechanism=mechanism, possible=possible)
    found = LinearBlocks().evaluate(Observables(seen), Documents(matrix, pool=whole, possible=possible))
    few = sp.csr_array(matrix[possible])
    alone = Pool(few, 5 / len(few.indptr[1:]), mechanism=mechanism)
    wanted = LinearBlocks().evaluate(Observables(dict(seen)), Documents(few, pool=alone))
    np.testing.assert_allclose(found[possible], wanted, atol=1e-6)
    assert (found[~possible] == RULED_OUT).all()


def test_who_is_left_out_is_left_out_where_nobody_is_by_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others' documents touch every column, one of which none of the victim's has."""
    monkeypatch.setattr(solve, "chosen_way", lambda run: solve.by_steps)
    dense = rows(40, 20, seed=4).toarray()
    dense[:, 19] = np.arange(40) >= 30
    matrix, fixed = canonical(sp.csr_array(dense)), canonical(sp.csr_array(_rng().random((6, 20))))
    counted = Counted("pd-svd", at_least=1, parameters={"rank": 2})
    seen = counted.run(Database((sp.csr_array(matrix[:20]), fixed)), _rng())
    assert seen["kept_columns"].all()
    documents = Documents(matrix, pool=Pool(matrix, 0.5, fixed, counted))
    out = evaluated(LinearBlocks(), seen, documents) == RULED_OUT
    assert out[30:].all()
    assert not out[:20].any()


def test_of_others_nobody_is_left_out() -> None:
    possible = np.array([True, False, False, True])
    found = system._of_unknown(possible, 7)
    assert found.tolist() == [True, False, False, True, True, True, True]


def test_without_counts_to_be_seen_nobody_is_ruled_out_by_them() -> None:
    _, seen, documents, _ = a_run("pd-svd")
    hidden = Observables({name: array for name, array in seen.items() if name != "document_counts"})
    assert as_in_run(LinearBlocks(), hidden, documents).possible is None
    cut = as_in_run(LinearBlocks(), seen, documents)
    assert cut.possible is not None
    np.testing.assert_array_equal(cut.possible, cut.source_pool.possible)


def test_columns_decide_who_is_possible() -> None:
    within = WithinColumns(np.array([True, False]))
    assert within(sp.csr_array([[1.0, 0.0], [0.0, 1.0]]), lambda key, of: of(None)).tolist() == [True, False]
