"""Statistics of announced counts, beside their formulas, and what they find of who is in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import binom

from ksdp.audit.contract import Database, Documents, Observables, Pool
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.mechanisms.counted import Counted
from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import measure, sample
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.statistics.linear.counts import (
    COUNTS,
    columns_kept,
    counts_match,
    expected_counts,
    expected_shapes,
)
from ksdp.audit.verdicts.laws import ks_table

COUNTED = Counted("pd-svd", at_least=4, parameters={"rank": 1})


def rows(n: int = 24, d: int = 40, seed: int = 1) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return canonical(sp.csr_array(rng.normal(size=(n, d)) * (rng.random((n, d)) < np.linspace(0.6, 0.05, d))))


def drawn(others: str) -> tuple[np.ndarray, Observables, Pool, sp.csr_array]:
    """Who is in, what a run on half of the documents announces, and what an adversary knows."""
    matrix, fixed = rows(), rows(8, seed=5)
    held = np.isin(np.arange(24), np.random.default_rng(2).choice(24, 12, replace=False))
    parties, pool = [sp.csr_array(matrix[held])], Pool(matrix, 0.5, mechanism=COUNTED)
    if others != "none":
        parties.append(sp.csr_array(fixed[::2]) if others == "drawn" else fixed)
        pool = Pool(matrix, 0.5, fixed, COUNTED, 0.5 if others == "drawn" else 1.0, others == "colluding")
    coalition = frozenset({1}) if others == "colluding" else frozenset[int]()
    seen = COUNTED.run(Database(tuple(parties), coalition), np.random.default_rng(0))
    return held, seen, pool, matrix


@pytest.mark.parametrize("others", ["none", "fixed", "drawn", "colluding"])
def test_as_many_counts_as_documents_tell_who_is_in(others: str) -> None:
    held, seen, pool, matrix = drawn(others)
    found = counts_match(seen, Documents(matrix, pool=pool))
    assert found[held].min() > found[~held].max()


@pytest.mark.parametrize("others", ["none", "fixed", "drawn", "colluding"])
def test_a_documents_values_are_its_own_to_the_last_bit(others: str) -> None:
    _, seen, pool, matrix = drawn(others)
    some = [3, 17, 4]
    for statistic in COUNTS:
        whole = statistic.evaluate(seen, Documents(matrix, pool=pool))
        alone = statistic.evaluate(seen, Documents(sp.csr_array(matrix[some]), pool=pool))
        np.testing.assert_array_equal(alone, whole[some], err_msg=statistic.name)
        assert np.isfinite(whole).all()


def test_the_match_is_the_filter_of_rows_of_zeros_and_ones() -> None:
    """By the formula, of documents that are not ruled out."""
    held, seen, pool, matrix = drawn("none")
    ones = (matrix.toarray() != 0).astype(float)
    counts = ones[held].sum(axis=0)
    np.testing.assert_array_equal(seen["document_counts"], counts)
    may = ~(ones[:, counts == 0]).any(axis=1)
    assert may[held].all()
    found = counts_match(seen, Documents(matrix, pool=pool))
    assert (found[~may] == -2.0).all()
    left, share = ones[may], 12 / may.sum()
    less = left - left.mean(axis=0)
    covariance = less.T @ less + np.eye(40) * 1e-5 * np.square(left).sum() / 40
    wanted = less @ np.linalg.solve(covariance, counts - share * left.sum(axis=0))
    np.testing.assert_allclose(found[may], wanted, rtol=1e-5)  # what sixty steps leave


def test_many_documents_are_approached_by_steps() -> None:
    matrix = rows(1500, 900, seed=4)
    held = np.random.default_rng(0).permutation(1500) < 750
    counts = (matrix[np.flatnonzero(held)].toarray() != 0).sum(axis=0).astype(float)
    seen = Observables({"document_counts": counts})
    found = counts_match(seen, Documents(matrix, pool=Pool(matrix, 0.5, mechanism=COUNTED)))
    assert found[held].mean() - found[~held].mean() > 2 * found.std() / np.sqrt(2)


def test_a_document_without_columns_has_a_number_too() -> None:
    _, seen, pool, _ = drawn("none")
    empty = Documents(sp.csr_array((3, 40)), pool=pool)
    for statistic in COUNTS:
        assert np.isfinite(statistic.evaluate(seen, empty)).all()


def test_counts_are_expected_of_everybodys_documents() -> None:
    _, _, pool, matrix = drawn("fixed")
    everybody, others = (matrix.toarray() != 0), (pool.fixed.toarray() != 0)
    np.testing.assert_array_equal(expected_counts(pool), 0.5 * everybody.sum(axis=0) + others.sum(axis=0))


def test_which_columns_stay_is_a_likelihood_ratio() -> None:
    _, seen, pool, matrix = drawn("fixed")
    everybody, others = (matrix.toarray() != 0), (pool.fixed.toarray() != 0).sum(axis=0)
    wanted = np.zeros(24)
    for column in range(40):
        rest = everybody[:, column].sum() - 1
        if rest < 0:
            continue
        out, within = (np.clip(binom.sf(4 - others[column] - by, rest, 0.5), 1e-9, 1 - 1e-9) for by in (1, 2))
        stays = seen["kept_columns"][column] > 0
        wanted[everybody[:, column]] += np.log(within / out) if stays else np.log((1 - within) / (1 - out))
    np.testing.assert_allclose(columns_kept(seen, Documents(matrix, pool=pool)), wanted)


def plan(runs: int = 60, **design: object) -> Plan:
    matrix = abs(rows(40, 30, seed=8))
    corpus = Corpus(canonical(sp.csr_array(matrix)), np.array([str(row) for row in range(40)]))
    mechanism = {"name": "counted", "mechanism": "pd-svd", "at_least": 4, "parameters": {"rank": 1}}
    tables = {"seed": 3, "corpus": {"path": "x"}, "mechanism": mechanism, "parties": {"honest": 8}}
    return make_plan(parse_spec(tables | {"design": {"party_size": 16, "with_runs": runs} | design}), corpus)


def arms(made: Plan) -> dict[str, np.ndarray]:
    """D of each document, by statistic; and the bits dealt anew, of which nothing is known."""
    block = Block(0, 0, made.design.runs)
    found = measure(made, block, sample(made, block), made.statistics)
    bits = found.inclusion[:-CONTROLS]
    dealt = np.random.default_rng(1).permuted(bits, axis=1)
    distances = {
        name: ks_table(values[:-CONTROLS].astype(np.float64), bits).distance
        for name, values in found.values.items()
    }
    nothing = {
        f"{n} dealt": ks_table(v[:-CONTROLS].astype(np.float64), dealt).distance for n, v in found.values.items()
    }
    return distances | nothing


@pytest.mark.usefixtures("many_documents")
def test_an_audit_finds_what_counts_tell_and_holds_the_level_where_there_is_nothing() -> None:
    made = plan()
    assert {"linear-counts", "kept-columns"} <= {s.name for s in made.statistics}
    assert not made.coverage.unread
    found = arms(made)
    # 30 counts of 32 documents: nearly everything is told.
    assert np.median(found["linear-counts"]) > 0.8
    chance = 1.36 * np.sqrt(1 / 60 + 1 / 60)
    for name in ("linear-counts", "kept-columns", "linear-blocks", "first-order-basis"):
        assert np.mean(found[f"{name} dealt"] > chance) < 0.2, name


def test_what_is_small_is_counted_in_the_columns_that_are_expected_to_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PD-NMF's sums, of fewer numbers than there are runs, must be learnt from: 3 sweeps, 10 columns."""
    monkeypatch.setattr("ksdp.audit.plan.MOST_LEARNT_FROM", 0)  # simulated runs for training are too dear
    made = plan()
    counts = expected_counts(made.pool)
    few = int(np.sort(counts)[-10])
    left = int((counts >= few).sum())
    table = {"name": "counted", "mechanism": "pd-nmf", "at_least": few, "parameters": {"rank": 1}}
    mechanism = made.spec.mechanism.model_validate(table)
    for runs, learnt in ((3 * left + 20, True), (3 * left - 8, False)):
        design = made.spec.design.model_copy(update={"with_runs": runs // 2})
        counted = make_plan(made.spec.model_copy(update={"mechanism": mechanism, "design": design}), made.corpus)
        assert {a.name: a.shape for a in expected_shapes(counted)}["sums"] == (20, 1, left)
        assert (counted.design.runs > 3 * left) == learnt
        assert any(name.startswith("sums ") for name in counted.coverage.unread) == learnt
        # The same beside another run, which is as wide as it was.
        runs_together = {"name": "together", "runs": [table, {"name": "pd-nmf", "rank": 1}]}
        both = made.spec.model_copy(
            update={"mechanism": made.spec.mechanism.model_validate(runs_together), "design": design}
        )
        beside = make_plan(both, made.corpus)
        shapes = {a.name: a.shape for a in expected_shapes(beside)}
        assert (shapes["run1_sums"], shapes["run2_sums"]) == ((20, 1, left), (20, 1, 30))
        assert any(name.startswith("run1_sums ") for name in beside.coverage.unread) == learnt
    assert counted.design.runs < 3 * 1 * 30


@pytest.mark.usefixtures("many_documents")
def test_the_final_output_shows_which_columns_stayed() -> None:
    made = plan()
    spec = made.spec.model_copy(update={"statistics": made.spec.statistics.model_copy(update={"sees": "final"})})
    final = make_plan(spec, made.corpus)
    assert final.seen == ("kept_columns", "V")
    assert not final.coverage.unread
    assert "kept-columns" in {s.name for s in final.statistics}
    assert "linear-counts" in final.skipped


def test_one_column_that_only_one_document_has_tells_it_apart() -> None:
    """A planted leak: a count of one is that document."""
    made = plan()
    target = int(np.flatnonzero(~np.isin(np.arange(40), made.holdings.honest))[0])
    mark = np.zeros((40, 1))
    mark[target] = 1.0
    matrix = canonical(sp.csr_array(sp.hstack([made.corpus.matrix, sp.csr_array(mark)], format="csr")))
    leaky = make_plan(made.spec, replace(made.corpus, matrix=matrix))
    block = Block(0, 0, 40)
    found = measure(leaky, block, sample(leaky, block), leaky.statistics)
    (place,) = np.flatnonzero(leaky.documents(0).matrix.toarray()[:, 30])
    bits, values = found.inclusion[place], found.values["linear-counts"][place]
    assert 0 < bits.sum() < 40
    assert values[bits].min() > values[~bits].max()
