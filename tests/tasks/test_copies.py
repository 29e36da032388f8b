"""Copies tested together in what a look has stored, beside runs made again one by one and counted by hand."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.copies import together_of
from ksdp.audit.corpus import Corpus, canonical
from ksdp.audit.design import Block
from ksdp.audit.kept_runs import kept_without
from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.reading import EVERY_RUN
from ksdp.audit.sampling import measure, sample
from ksdp.audit.spec import parse_spec
from ksdp.audit.verdicts.copies import count_laws
from ksdp.audit.verdicts.count_arms import CountTests
from ksdp.flows.prepare import prepare_stored
from ksdp.storage import blocks
from ksdp.tasks import copies as tested
from ksdp.tasks.audit_ref import AuditRef, open_plan
from ksdp.tasks.blocks import compute_block

DESIGN = {"party_size": 5, "with_runs": 60, "looks": 1}
NAMES = ["row-space-energy", "best-cosine"]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """100 documents, two contents of 12 and 9 copies among them, and one pair."""
    rng = np.random.default_rng(5)
    rows = rng.poisson(0.6, (100, 30)).astype(float)
    rows[:, 0] += 1
    rows[20:32], rows[[3, 50, 51, 52, 53, 54, 55, 56, 99]], rows[70] = rows[20], rows[3], rows[71]
    return Corpus(canonical(sp.csr_array(rows)), np.array([f"d{n}" for n in range(100)]))


def plan_of(corpus: Corpus, **sections) -> Plan:
    tables = {"seed": 3, "corpus": {"path": "x"}, "mechanism": {"name": "pd-svd", "rank": 2, "opens": "final"}}
    tables |= {"statistics": {"families": [], "names": NAMES}, "design": DESIGN, "decision": {"margin": 0.1}}
    return make_plan(parse_spec(tables | sections), corpus)


def looked(corpus: Corpus, store: Path, **sections) -> tuple[AuditRef, CountTests | None]:
    ready = prepare_stored(plan_of(corpus, **sections), store, may_sample=True)
    for block in ready.plan.blocks:
        compute_block(ready.ref, block)
    return ready.ref, tested.counted_copies(ready.ref)


def largest_gap(many: np.ndarray, few: np.ndarray) -> float:
    return max(abs((many <= v).mean() - (few <= v).mean()) for v in np.concatenate([many, few]))


@pytest.mark.parametrize(
    ("design", "every"), [({"with_runs": 150}, 2), ({"party_size": 12, "with_runs": 60, "sampling": "poisson"}, 1)]
)
def test_they_are_what_counting_in_runs_made_again_gives(
    corpus: Corpus, tmp_path: Path, design: dict, every: int
) -> None:
    ref, found = looked(corpus, tmp_path, design=DESIGN | design)
    assert found is not None
    plan = open_plan(ref)
    assert plan.reading.every == every
    groups = together_of(plan)
    assert [group.rows.tolist() for group in groups] == [[3, *range(50, 57), 99], list(range(20, 32))]
    np.testing.assert_array_equal(found.rows, np.concatenate([group.rows for group in groups]))
    np.testing.assert_array_equal(found.copies, [9] * 9 + [12] * 12)
    everything = replace(plan, reading=EVERY_RUN)
    values = {name: [] for name in NAMES}
    for block in plan.blocks:
        measured = measure(everything, block, list(sample(everything, block)), plan.statistics).values
        for name in NAMES:
            values[name] += list(measured[name].T)  # of every document, run by run
    for group in groups:
        drawn = generator(plan.design.seed, Purpose.COPIES, 0, group.first).random(plan.design.runs)
        many, few = [], []
        for block in plan.blocks:
            kept = kept_without(
                plan.design.seed, block, group.rows, 100 + CONTROLS, plan.block_runs, plan.reading
            ).any()  # fmt: skip
            for run in range(block.start, block.stop):
                held = len(np.intersect1d(plan.design.rows(0, run), group.rows))
                if drawn[run] < group.thinning.many[held]:
                    many.append(run)
                elif drawn[run] < group.thinning.few[held] and kept:
                    few.append(run)
        mine = np.isin(found.rows, group.rows)
        if every > 1:
            assert group.thinning.told == count_laws(len(group.rows), 100, 5).told
        assert set(found.n_many[mine]) == {len(many)}
        assert set(found.n_few[mine]) == {len(few)}
        assert set(found.told[mine]) == {group.thinning.told}
        for column, statistic in enumerate(plan.tested):
            one = np.array([row[group.rows[0]] for row in values[statistic.name]])
            by_hand = group.thinning.told * largest_gap(one[many], one[few])
            np.testing.assert_allclose(found.distance[mine, column], by_hand, atol=1e-12)


def test_copies_in_several_row_groups_are_the_same_ones(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole = looked(corpus, tmp_path / "whole", design=DESIGN | {"with_runs": 150})
    for module in (blocks, tested):
        monkeypatch.setattr(module, "ROW_GROUP", 25)
    _, apart = looked(corpus, tmp_path / "apart", design=DESIGN | {"with_runs": 150})
    assert whole is not None
    assert apart is not None
    for field in fields(whole):
        np.testing.assert_array_equal(getattr(whole, field.name), getattr(apart, field.name))


def test_few_copies_are_taken_from_blocks_that_some_copy_has_whole(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were runs of one copy taken where those of none are not there, L would be another."""
    ref, before = looked(corpus, tmp_path)
    plan = open_plan(ref)
    rows = len(plan.audited) + CONTROLS

    def even(plan: Plan, block: Block, inclusion: np.ndarray) -> np.ndarray:
        return np.full((rows, 1), block.start // plan.block_runs % 2 == 0)

    monkeypatch.setattr(Plan, "kept_runs", even)
    found = tested.counted_copies(ref)
    assert before is not None
    assert found is not None
    np.testing.assert_array_equal(found.n_many, before.n_many)
    group = together_of(plan)[0]
    drawn = generator(plan.design.seed, Purpose.COPIES, 0, group.first).random(plan.design.runs)
    few = sum(
        drawn[run] < group.thinning.few[len(np.intersect1d(plan.design.rows(0, run), group.rows))]
        for block in plan.blocks[::2]
        for run in range(block.start, block.stop)
    )
    assert found.n_few[0] == few < before.n_few[0]


def test_nobody_is_where_a_copy_is_not_looked_at(corpus: Corpus) -> None:
    """How many copies a run holds is read from the bits of all of them."""
    plan = plan_of(corpus)
    some = replace(plan, design=replace(plan.design, audited=np.setdiff1d(np.arange(100), [99])))  # type: ignore[type-var]
    assert [group.first for group in together_of(some)] == [20]


@pytest.mark.parametrize(
    "sections",
    [
        {"decision": {"margin": 0}},
        {"decision": {"margin": 0.1, "stopping": "anytime"}},
        {"statistics": {"families": ["learned"], "names": NAMES}},
        {"design": {**DESIGN, "kind": "literal", "with_runs": 24, "documents": ["d3", "d21"]}},
        {"decision": {"margin": 0.999}},
    ],
)
def test_nobody_is_where_arms_cannot_be_thinned_or_need_not_be(corpus: Corpus, sections: dict) -> None:
    assert together_of(plan_of(corpus, **sections)) == []


def test_nobody_is_where_copies_prove_nothing(corpus: Corpus) -> None:
    """There are none, or which of them is in may show."""
    plan = plan_of(corpus)
    assert together_of(plan)
    assert together_of(replace(plan, mechanism=object())) == []  # type: ignore[arg-type]
    assert together_of(plan_of(Corpus(corpus.matrix[72:99], corpus.ids[72:99]))) == []


def test_nobody_is_where_copies_have_different_values(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that is not one of the content alone: each is tested by itself."""
    read = tested.read_cells

    def changed(*asked):
        cells = read(*asked)
        assert cells.kept is None
        values = [array.copy() for array in cells.values]
        values[0][25] += 1e-6
        return replace(cells, values=values)

    monkeypatch.setattr(tested, "read_cells", changed)
    _, found = looked(corpus, tmp_path)
    assert found is not None
    assert set(found.copies) == {9}


def test_parts_whose_values_are_gone_are_tested_by_themselves(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tested, "parts_of", lambda ref: [ref, ref])
    assert looked(corpus, tmp_path)[1] is None
