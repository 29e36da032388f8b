"""Slices of a whole audit, through the store: bits that are not those of the databases void it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ksdp.audit import runs
from ksdp.audit.corpus.groups import Units
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.specs.design import Balanced, Literal, Shared
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.testing import judge_controls
from ksdp.audit.verdicts.control_outcome import Controls
from ksdp.audit.verdicts.controls import judge_canaries
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.looks import FRESH, Stage, fresh_seed
from ksdp.audit.verdicts.verdict import Verdict
from ksdp.flows.prepare import Prepared, prepare_stored
from ksdp.storage.audits.stages import write_stage
from ksdp.storage.store import Store
from ksdp.tasks import slices as tested
from ksdp.tasks.audit_ref import AuditRef
from ksdp.tasks.blocks import compute_block

from ..plans import planned
from ..topics import corpus_of_topics


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """90 documents over 40 terms, with topics."""
    return corpus_of_topics()


DESIGNS = {
    "shared": {"party_size": 30, "with_runs": 40},
    "part of the without runs": {"party_size": 10, "with_runs": 40},
    "poisson": {"party_size": 30, "with_runs": 40, "sampling": "poisson"},
    "balanced": {"kind": "balanced", "party_size": 30, "with_runs": 40, "documents": 12},
    "literal": {"kind": "literal", "party_size": 30, "with_runs": 24, "documents": ["d3", "d40", "d71"]},
}


def prepared(corpus: Corpus, store: Path, *names: str, design: dict = DESIGNS["shared"], **sections) -> Prepared:
    plan = planned(corpus, seed=3, design=design, statistics={"families": [], "names": list(names)}, **sections)
    return prepare_stored(plan, store, may_sample=True)


def audited(corpus: Corpus, store: Path, design: dict, **sections) -> tuple[Controls, ArmTests, Plan]:
    """Sample, store, read, test and judge, as the flow does; what became of controls and documents."""
    ready = prepared(corpus, store, "row-space-energy", design=design, **sections)
    for block in ready.plan.blocks:
        compute_block(ready.ref, block)
    parts = tested.slices(ready.plan)
    tests = [tested.test_slice(ready.ref, part) for part in parts]
    lanes = [
        ArmTests.join([t.tests for s, t in zip(parts, tests, strict=True) if s.lane == lane])
        for lane in range(ready.plan.design.lanes)
    ]
    rule = ready.plan.spec.decision
    found = judge_canaries([ArmTests.join([t.canaries for t in tests])], rule, [rule.level])
    controls = [whole[len(whole) - CONTROLS :] for whole in lanes]
    judged = judge_controls(controls, [t.shuffled for t in tests], canaries=found)
    return judged, ArmTests.join([whole[: len(whole) - CONTROLS] for whole in lanes]), ready.plan


@pytest.mark.parametrize("kind", DESIGNS)
def test_a_sound_audit_is_valid_and_every_canary_sensitive(corpus: Corpus, tmp_path: Path, kind: str) -> None:
    judged, _, plan = audited(corpus, tmp_path, DESIGNS[kind])
    assert judged.valid, judged.reason
    assert judged.canaries == len(plan.audited) == judged.canaries_sensitive
    assert judged.canaries_smallest_distance == 1.0


def neighbours(bits: np.ndarray) -> np.ndarray:
    """Each document has its neighbour's bits."""
    return np.roll(bits, 1, axis=0)


def next_run(bits: np.ndarray) -> np.ndarray:
    """Runs are shifted by one against their bits."""
    return np.roll(bits, 1, axis=1)


def half(bits: np.ndarray) -> np.ndarray:
    """Half of the documents have another's bits."""
    wrong = bits.copy()
    wrong[::2] = np.roll(bits[::2], 1, axis=0)
    return wrong


def negated(bits: np.ndarray) -> np.ndarray:
    return ~bits


def one_run(bits: np.ndarray) -> np.ndarray:
    """One bit of one document is wrong."""
    wrong = bits.copy()
    wrong[1, 7] ^= True
    return wrong


FAULTS = [neighbours, next_run, half, negated]
SLOW = pytest.mark.validity


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("shared", neighbours),
        *((kind, one_run) for kind in ("shared", "poisson", "balanced")),
        *(pytest.param(k, f, marks=SLOW) for k in ("shared", "poisson", "balanced") for f in FAULTS),
    ],
)
def test_bits_of_other_databases_void_the_audit(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, fault: Callable
) -> None:
    """The faults that controls alone do not see: they follow their own bits whatever the databases are."""
    cls = Balanced if kind == "balanced" else Shared
    sound = cls.inclusion
    monkeypatch.setattr(cls, "inclusion", lambda self, block: fault(sound(self, block)))
    judged, _, _ = audited(corpus, tmp_path, DESIGNS[kind])
    assert not judged.valid
    assert "not those of the databases" in str(judged.reason)
    assert judged.planted_largest_p < 1e-6  # the invented ones notice nothing
    if fault in (neighbours, half, negated):
        assert judged.canaries_smallest_distance < 0.6


def fresh_of(ready: Prepared, rows: np.ndarray, *names: str, strongest: np.ndarray | None = None) -> AuditRef:
    """Its fresh runs of these documents, done like all others."""
    stage = Stage(FRESH, fresh_seed(ready.plan.design.seed), 40, rows, names, strongest=strongest)
    write_stage(Store(Path(ready.ref.store)).audit(ready.ref.audit), stage)
    fresh = ready.ref.at(FRESH)
    for ref in (ready.ref, fresh):
        for block in tested.open_plan(ref).blocks:
            compute_block(ref, block)
    return fresh


def fresh_canaries(corpus: Corpus, store: Path) -> ArmTests:
    """What the canaries of the fresh runs say, beside the effects of two documents."""
    name, rows = "row-space-energy", np.array([4, 70])
    ready = prepared(corpus, store, name)
    wanted = [tested.Flagged(int(row), name) for row in rows]
    found = tested.measure_effects(ready.ref, fresh_of(ready, rows, name), tested.Slice(0, 0), wanted)
    assert [effect.row for effect in found.effects] == rows.tolist()
    return found.canaries


@pytest.mark.parametrize("alone", [False, True])
def test_effects_are_the_same_however_many_columns_are_read_together(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """Every document by its own column; the fresh runs hold that one alone, or all of them."""
    names = ("row-space-energy", "missing-weight")
    ready, rows = prepared(corpus, tmp_path, *names), np.arange(5, 25)
    order = [statistic.name for statistic in ready.plan.statistics]
    wanted = [tested.Flagged(int(row), names[int(row) % 3 == 0]) for row in rows]
    strongest = np.array([order.index(flag.column) for flag in wanted]) if alone else None
    fresh, part = fresh_of(ready, rows, *order, strongest=strongest), tested.Slice(0, 0)
    together = tested.measure_effects(ready.ref, fresh, part, wanted).effects
    each = [tested.measure_effects(ready.ref, fresh, part, [flag]).effects[0] for flag in wanted]
    assert together == sorted(each, key=lambda effect: (effect.column, effect.row))
    assert {(effect.row, effect.column) for effect in together} == {(flag.row, flag.column) for flag in wanted}
    monkeypatch.setattr(tested, "SLICE_BYTES", 1)
    assert tested.measure_effects(ready.ref, fresh, part, wanted).effects == together


@pytest.fixture(scope="module")
def sound_fresh(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> ArmTests:
    """Canaries of fresh runs whose bits are right."""
    return fresh_canaries(corpus, tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize("fault", [*(pytest.param(f, marks=SLOW) for f in FAULTS), one_run])
def test_bits_of_other_databases_in_the_fresh_runs_alone_are_noticed(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sound_fresh: ArmTests, fault: Callable
) -> None:
    rule, sound = parse_spec({"corpus": {"path": "x"}, "mechanism": {"name": "pd-svd"}}).decision, Shared.inclusion
    right = judge_canaries([sound_fresh], rule, [rule.level])
    assert (right.reason, right.count, right.smallest_distance) == (None, 2, 1.0)

    def wrong(self: Shared, block) -> np.ndarray:
        return fault(sound(self, block)) if self.runs == 40 else sound(self, block)

    monkeypatch.setattr(Shared, "inclusion", wrong)
    found = judge_canaries([fresh_canaries(corpus, tmp_path)], rule, [rule.level])
    assert "not those of the databases" in str(found.reason)


def test_a_wrong_arm_of_the_literal_design_voids_the_audit(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(self: Literal, block) -> np.ndarray:
        return np.asarray(np.arange(block.start, block.stop) % 3 == 0)[None, :]

    monkeypatch.setattr(Literal, "inclusion", wrong)
    assert not audited(corpus, tmp_path, DESIGNS["literal"])[0].valid


@pytest.mark.parametrize("fault", ["database of the next run", "rows of the neighbours"])
def test_databases_that_the_design_did_not_draw_void_the_audit(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The other side is wrong: bits are as designed, the matrix is not."""
    sound, rows = runs.database_of, Units.rows
    if fault == "database of the next run":
        monkeypatch.setattr(runs, "database_of", lambda plan, lane, run: sound(plan, lane, run + 1))
    else:
        monkeypatch.setattr(Units, "rows", lambda self, units: np.sort((rows(self, units) + 1) % len(corpus)))
    judged, _, _ = audited(corpus, tmp_path, DESIGNS["shared"])
    assert not judged.valid


@pytest.mark.validity
def test_without_canaries_the_same_fault_clears_sensitive_documents(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What canaries are for: the planted fault changes verdicts, and controls call the audit sound."""
    design, rule = {"party_size": 30, "with_runs": 150}, {"decision": {"margin": 0.5}}
    _, right, plan = audited(corpus, tmp_path / "a", design, **rule)
    sound = Shared.inclusion
    monkeypatch.setattr(Shared, "inclusion", lambda self, block: neighbours(sound(self, block)))
    judged, wrong, _ = audited(corpus, tmp_path / "b", design, **rule)
    before, after = (decide(tests, plan.spec.decision) for tests in (right, wrong))
    assert (before.detected & ~after.detected & (after.verdict == Verdict.CLEAR)).sum() > 5
    assert not judged.valid
    assert judged.null_smallest_p > 1e-4 > judged.planted_largest_p
