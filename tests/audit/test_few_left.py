"""Which late runs are made where few contents are open, and what they say of copies: against who was drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.run_subsampling import EVERY_RUN, RunSubsampling, levelled
from ksdp.audit.sampling import measure, sample
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import Spec
from ksdp.audit.testing import canary_arms
from ksdp.audit.verdicts.looks import Stage

FIRST = np.array([*np.repeat([0, 4, 8], 4), *range(12, 60)])
"""Of each document the first of its content."""
ROWS = np.array([2, 3, 9, 20, 33])
RUNS, FEW_FROM = 384, 128


@pytest.fixture(scope="module")
def whole() -> Plan:
    """A run holds 6 of 60 documents, a block 16 runs; tests read one block in four."""
    counts = np.random.default_rng(2).poisson(3.0, (60, 12)) + 1.0
    corpus = Corpus(sp.csr_array(counts[FIRST]), np.arange(60).astype(str))
    tables = {"seed": 3, "corpus": {"path": "none"}, "mechanism": {"name": "pd-svd", "rank": 1}}
    plan = make_plan(Spec.model_validate(tables | {"design": {"party_size": 6, "with_runs": 100}}), corpus)
    return replace(plan, block_runs=16, reading=RunSubsampling(4))


def stage(whole: Plan, few_from: int | None) -> Plan:
    """Of the five rows, one statistic."""
    name = whole.statistics[0].name
    return whole.narrowed(Stage("look-2", whole.design.seed, RUNS, ROWS, (name,), few_from=few_from))


def test_late_runs_are_those_that_hold_the_first_of_a_content_and_every_fourth_block(whole: Plan) -> None:
    few, ever = (stage(whole, start) for start in (FEW_FROM, None))
    complete = made = 0
    for block in few.blocks:
        late, runs = block.start >= FEW_FROM, range(block.start, block.stop)
        drawn = np.stack([np.isin(np.arange(60), whole.design.rows(0, run)) for run in runs], axis=1)
        bits = drawn[FIRST[ROWS] if late else ROWS]
        assert (few.inclusion(block) == bits).all()
        nobody = np.zeros((len(ROWS) + CONTROLS, len(block)), np.bool_)
        kept, usual = (np.asarray(plan.kept_runs(block, nobody)) for plan in (few, ever))
        assert (kept == (kept[0] if late else usual)).all()
        wanted = (bits | kept[0]).any(axis=0) if late else np.ones(len(block), np.bool_)
        assert (few.made(block) == block.start + np.flatnonzero(wanted)).all()
        complete, made = complete + bool(late and kept[0, 0]), made + int(wanted.sum())
    assert (complete, made) == (4, RUNS - few.spared())
    assert ever.spared() == 0


def test_values_are_those_of_the_runs_that_were_made(whole: Plan) -> None:
    few = stage(whole, FEW_FROM)
    everything = replace(stage(whole, None), reading=EVERY_RUN)
    parts, name = [], few.statistics[0].name
    for block in few.blocks:
        part = measure(few, block, sample(few, block), few.statistics)
        every = measure(everything, block, sample(everything, block), everything.statistics)
        assert part.kept is not None
        assert (part.values[name][part.kept] == every.values[name][part.kept]).all()
        assert np.isnan(part.values[name][~part.kept]).all()
        parts.append(part)
    inclusion, kept, canary, values = (
        np.concatenate([np.asarray(array) for array in arrays], axis=1)
        for arrays in zip(*((p.inclusion, p.kept, p.canary, p.values[name]) for p in parts), strict=True)
    )
    held, (canaries, found) = levelled(inclusion, kept, [canary, values], few.read_runs)
    assert np.isfinite(found).all()
    assert (canary_arms(canaries[: len(ROWS)], held[: len(ROWS)]).distance == 1).all()


def test_who_has_no_copies_to_stand_in_stands_for_itself(whole: Plan) -> None:
    block = Block(0, FEW_FROM, FEW_FROM + 16)
    assert stage(whole, FEW_FROM).bits_of(block).tolist() == [0, 0, 8, 20, 33]
    leaky: Any = replace(stage(whole, FEW_FROM), leaks=("one",))  # a leak is of one document alone
    assert leaky.bits_of(block).tolist() == ROWS.tolist()
    assert whole.few_left(ROWS)
    assert whole.few_left(np.arange(18))  # nine contents
    assert not whole.few_left(np.arange(30))
    assert not replace(whole, reading=EVERY_RUN).few_left(ROWS)
