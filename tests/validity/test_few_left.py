"""Late runs that no test reads are not made, chosen by what was seen: p-values and verdicts keep their level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.run_subsampling import RunSubsampling, levelled
from ksdp.audit.specs.design import Block, Shared
from ksdp.audit.specs.models import Spec
from ksdp.audit.verdicts.laws import ArmTests, ks_table
from ksdp.audit.verdicts.looks import InterimVerdicts, Look, LookScope, Stage, after_look, open_documents
from ksdp.audit.verdicts.verdict import Verdict

pytestmark = pytest.mark.validity

AUDITS = 1000
RUNS, FIRST, BLOCK = 576, 192, 16
COPIES = np.array([*np.repeat([0, 4, 8], 4), *range(12, 60)])
"""Of each document the first of its content: three contents of four documents, and 48 of one."""
HIDDEN = np.arange(18)
"""Those whose advantage is the margin, or none; the others' is 1."""
MARGIN = 0.25


@lru_cache(maxsize=2)
def all_rows(seed: int) -> np.ndarray:
    """The six documents of each run, drawn at once."""
    order = np.random.default_rng(seed).random((RUNS, 60)).argsort(axis=1)
    return np.sort(order[:, :6], axis=1)


@dataclass(frozen=True, eq=False)
class Drawn(Shared):
    """The shared design, a hundred times as fast."""

    def rows(self, lane: int, run: int) -> np.ndarray:
        """Of the table."""
        return all_rows(self.seed)[run]


def plan_of_nothing() -> Plan:
    """A run holds 6 of 60 documents; tests read one block in four."""
    counts = np.random.default_rng(2).poisson(3.0, (60, 12)) + 1.0
    corpus = Corpus(sp.csr_array(counts[COPIES]), np.arange(60).astype(str))
    tables = {"corpus": {"path": "none"}, "mechanism": {"name": "pd-svd", "rank": 1}}
    design = {"party_size": 6, "with_runs": 100}
    plan = make_plan(Spec.model_validate(tables | {"design": design}), corpus)
    assert (plan.corpus.first_alike == COPIES).all()
    drawn = Drawn(np.arange(60), np.arange(60), 6, RUNS, 0)
    return replace(plan, block_runs=BLOCK, reading=RunSubsampling(4), design=drawn, known_pool=plan.pool)


def drawn(plan: Plan) -> np.ndarray:
    """Whether each run held each document."""
    return replace(plan.design, audited=np.arange(60)).inclusion(Block(0, 0, RUNS))


def announced(rng: np.random.Generator, held: np.ndarray, chance: float) -> np.ndarray:
    """What runs show of each document: whether its content was in, with a chance; hidden ones share noise."""
    content = np.stack([held[first == COPIES].any(axis=0) for first in COPIES])
    shows = content & (rng.random(content.shape)[COPIES] < chance)
    shows[len(HIDDEN) :] = held[len(HIDDEN) :]
    noise = rng.random((1, RUNS)) + rng.random(content.shape)[COPIES]
    return (noise + 4.0 * shows).astype(np.float32)


def read(plan: Plan, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bits and values that the tests of a stage read; NaN in runs that are not made."""
    bits, kept, there = [], [], []
    for block in plan.blocks:
        inclusion = plan.inclusion(block)
        controls = np.zeros((CONTROLS, len(block)), np.bool_)
        bits.append(inclusion)
        kept.append(plan.kept_runs(block, np.concatenate([inclusion, controls]))[: len(inclusion)])
        there.append(np.isin(np.arange(block.start, block.stop), plan.made(block)))
    seen = np.where(np.concatenate(there), values[plan.audited, : plan.runs], np.nan)
    width = plan.read_runs
    held, (found,) = levelled(np.concatenate(bits, axis=1), np.concatenate(kept, axis=1), [seen], width)
    assert np.isfinite(found).all()
    return held, found


def arms_of(plan: Plan, values: np.ndarray) -> ArmTests:
    """The tests of a stage, in one column."""
    held, found = read(plan, values)
    table = ks_table(found, held)
    shape = (len(held), 1)
    parts = (table.n_with, table.n_without, table.distance, table.log10_p, np.zeros(shape))
    return ArmTests(*(np.asarray(part).reshape(shape) for part in parts))


def stage(plan: Plan, runs: int, rows: np.ndarray, few_from: int | None = None) -> Plan:
    """Its plan."""
    names = tuple(statistic.name for statistic in plan.statistics)
    return plan.narrowed(Stage("look", plan.design.seed, runs, rows, names, few_from=few_from))


def replays(chance: float, seed: int) -> Iterator[tuple[Plan, np.ndarray]]:
    """Plans of audits with other seeds, and what their runs announce."""
    plan, rng = plan_of_nothing(), np.random.default_rng(seed)
    for number in range(AUDITS):
        one = replace(plan, design=replace(plan.design, seed=1000 * seed + number))
        yield one, announced(rng, drawn(stage(one, RUNS, one.audited)), chance)


def test_p_values_are_exact_whatever_the_choice_rests_on() -> None:
    """The first look's p of each document itself decides whether the last one is of few: no rule is worse."""
    small = np.zeros(len(HIDDEN))
    for plan, values in replays(0.0, 5):
        before = arms_of(stage(plan, FIRST, HIDDEN), values).log10_p[:, 0]
        few, usual = (arms_of(stage(plan, RUNS, HIDDEN, start), values).log10_p[:, 0] for start in (FIRST, None))
        small += np.where(before <= np.log10(0.3), few, usual) <= np.log10(0.05)
    print(f"p at most 0.05: {(small / AUDITS).round(3).tolist()}, mean {small.mean() / AUDITS:.4f}")
    assert small.max() / AUDITS <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / AUDITS)
    assert 0.03 <= small.mean() / AUDITS <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / AUDITS / 4)


@pytest.mark.parametrize(("chance", "margin"), [(0.0, 0.0), (MARGIN, MARGIN)])
def test_audits_keep_their_level_at_nothing_and_at_the_margin(chance: float, margin: float) -> None:
    """The others leak plainly, so that few are left. Copies leak less than the margin, and may be clear."""
    wrong = few = 0
    alone = HIDDEN[12:]
    for plan, values in replays(chance, 7):
        rule = plan.spec.rule.model_copy(update={"margin": margin, "error": "fwer"})
        looks = (Look(FIRST, 0.2 * rule.level), Look(RUNS, 0.8 * rule.level))
        scope = LookScope(60, reading=plan.reading)
        interim: InterimVerdicts = after_look(
            None, arms_of(stage(plan, FIRST, plan.audited), values), 0, looks[0], rule, (), scope
        )
        rows = open_documents(interim)
        chosen = plan.few_left(rows)
        last = stage(plan, RUNS, rows, FIRST if chosen else None)
        interim = after_look(interim, arms_of(last, values), 1, looks[1], rule, ())
        few += chosen and last.spared() > 0
        verdict = interim.decisions.verdict
        mine = HIDDEN if margin == 0 else alone
        wrong += bool((verdict[mine] == Verdict.SENSITIVE).any() or (verdict[alone] == Verdict.CLEAR).any())
        wrong += bool((verdict[HIDDEN[:12]] == Verdict.SENSITIVE).any()) and margin > 0
    print(f"margin {margin}: {wrong} of {AUDITS} audits say something false; {few} leave runs out")
    assert few > 0.9 * AUDITS
    assert wrong / AUDITS <= 0.05 * (2 if margin else 1)  # above and below have their level each
