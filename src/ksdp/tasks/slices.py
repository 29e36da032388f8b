"""Work on one slice of documents: test it over all runs, draw one, measure effects."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import DamagedBlock, StoreError
from ksdp.audit.numeric.array_types import Bits
from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.proofs import paired_advantages
from ksdp.audit.runs import STRONGEST
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.design import shuffled_runs
from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.testing import canary_arms, compare_arms, shuffled_log10_p
from ksdp.audit.verdicts.controls import CANARY
from ksdp.audit.verdicts.effects import Effect, Flagged, best_threshold, measure_effect
from ksdp.audit.verdicts.laws import ArmTests, KSTable, ks_table
from ksdp.storage.audits.stages import PairsPart, read_pairs, write_pairs
from ksdp.storage.blocks import ROW_GROUP, stack_blocks
from ksdp.storage.findings import Curve
from ksdp.storage.remote import Place
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef, open_audit, open_plan
from ksdp.tasks.blocks import read_cells

_log = logging.getLogger("ksdp.tasks")

# Runs of the mechanism that a part is worth; from sizes alone, so that audits of the same documents share parts.
_RUNS = 1500
_MOST = 32


def pairs_parts(plan: Plan, pairs: int) -> list[PairsPart]:
    """All pairs, in order."""
    each = int(np.clip(_RUNS // max(len(plan.audited), 1), 1, _MOST))
    return [PairsPart(first, min(first + each, pairs)) for first in range(0, pairs, each)]


def compute_pairs(ref: AuditRef, part: PairsPart) -> NDArray[np.float64]:
    """Advantages on some pairs, shape (n_documents, n_pairs), from the store or computed and stored."""
    plan = open_audit(ref)
    folder, key = _place(ref, plan)
    try:
        stored = read_pairs(folder, part, key)
    except DamagedBlock:
        _log.warning("pairs %s are damaged and will be computed again", part.name)
        (folder / part.name).unlink(missing_ok=True)
        stored = None
    if stored is None:
        if not ref.may_sample:
            raise StoreError(
                "the paired runs of this certificate are not in the store, and this command samples nothing."
            )
        stored = paired_advantages(plan, part.first, part.stop)
        write_pairs(folder, part, key, stored)
    return stored


def _place(ref: AuditRef, plan: Plan) -> tuple[Place, str]:
    rows = hashlib.sha256(np.ascontiguousarray(plan.audited).tobytes()).hexdigest()
    chosen = content_key({"rows": rows, "sees": plan.spec.statistics.sees})
    folder = Store(Path(ref.store)).runs(plan.runs_identity) / "pairs" / chosen
    return folder, f"{content_key(plan.runs_identity)}/{chosen}"


SLICE_BYTES = 256 * 2**20
"""A slice's values of all runs stay below this in a worker."""
# Real documents of a slice that are tested in shuffled runs too.
_SHUFFLED = 16

Values = list[NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Slice:
    """One row group of a lane's documents."""

    lane: int
    group: int

    @property
    def rows(self) -> slice:
        """Rows of the lane's documents."""
        return slice(self.group * ROW_GROUP, (self.group + 1) * ROW_GROUP)


@dataclass(frozen=True, eq=False)
class SliceTests:
    """Tests of a slice's documents and controls, and of some of them in shuffled runs."""

    tests: ArmTests
    shuffled: NDArray[np.float64]
    """Log10 p, shape (some documents, n_statistics)."""
    canaries: ArmTests
    """Tests of every document's canary, in one column; controls have none."""


def slices(plan: Plan) -> list[Slice]:
    """All slices of all lanes, in the order of the documents."""
    return [
        Slice(lane, group)
        for lane in range(plan.design.lanes)
        for group in range(-(-(len(plan.design.targets(lane)) + CONTROLS) // ROW_GROUP))
    ]


def test_slice(ref: AuditRef, part: Slice) -> SliceTests:
    """Test the documents (and controls) of a slice over all runs of its lane."""
    plan = open_plan(ref)
    names = [statistic.name for statistic in plan.statistics]
    rows = min(ROW_GROUP, len(plan.design.targets(part.lane)) + CONTROLS)
    at_once = max(1, SLICE_BYTES // (rows * plan.read_runs * 4))
    order = shuffled_runs(plan.design, part.lane)
    order = order[order < plan.read_runs]  # a random order of those, whichever runs they are
    real = min(_SHUFFLED, len(plan.design.targets(part.lane)) - part.group * ROW_GROUP)
    plain, shuffled = [], []
    for first in range(0, len(names), at_once):
        some = names[first : first + at_once]
        inclusion, values = gather(ref, part, some)
        plain.append(compare_arms(dict(zip(some, values, strict=True)), inclusion, plan.low_fpr))
        few = {name: array[:real] for name, array in zip(some, values, strict=True)}
        if real > 0:
            shuffled.append(shuffled_log10_p(few, inclusion[:real], order))
    tests = ArmTests.beside(plain)
    mixed = np.concatenate(shuffled, axis=1) if shuffled else np.zeros((0, len(names)))
    return SliceTests(tests, mixed, _canaries(ref, part, plan))


def _canaries(ref: AuditRef, part: Slice, plan: Plan) -> ArmTests:
    """Tests of the canaries of a slice's documents, against the bits that everything else is tested against."""
    documents = max(len(plan.design.targets(part.lane)) - part.group * ROW_GROUP, 0)
    inclusion, values = gather(ref, part, [CANARY], slice(0, min(documents, ROW_GROUP)))
    return canary_arms(values[0], inclusion)


def gather(
    ref: AuditRef, part: Slice, names: Sequence[str], rows: slice | NDArray[np.int64] = slice(None)
) -> tuple[NDArray[np.bool_], list[NDArray[Any]]]:
    """Inclusion and values of a slice over the runs of its lane that tests read, each of shape (rows, n_read)."""
    plan = open_plan(ref)
    cells = [read_cells(ref, block, part.group, names) for block in plan.blocks if block.lane == part.lane]
    return stack_blocks(cells, rows, plan.read_runs)


def curve(ref: AuditRef, lane: int, row: int, statistic: str) -> Curve:
    """The values behind one test: the document in row `row` of its lane."""
    plan = open_plan(ref)
    at = row % ROW_GROUP
    inclusion, (values,) = gather(ref, Slice(lane, row // ROW_GROUP), [statistic], slice(at, at + 1))
    bits, column = inclusion[0], values[0].astype(np.float64)
    document = str(plan.units.ids[plan.design.targets(lane)[row]])
    return Curve.of(document, statistic, column, bits)


@dataclass(frozen=True, eq=False)
class SliceEffects:
    """Effects of some documents of a slice, and what its canaries say of the fresh runs."""

    effects: list[Effect]
    canaries: ArmTests
    """Tests of all documents of the slice, in one column."""


def measure_effects(ref: AuditRef, fresh: AuditRef, part: Slice, flagged: Sequence[Flagged]) -> SliceEffects:
    """Effects of some documents on the fresh runs; threshold and direction come from the first look."""
    plan, later = open_plan(ref), open_plan(fresh)
    measured: list[Effect] = []
    rows, columns = np.array([f.row for f in flagged]), np.array([f.column for f in flagged])
    here = np.searchsorted(later.design.targets(part.lane), rows) - part.group * ROW_GROUP
    there = np.searchsorted(plan.design.targets(part.lane), rows)
    groups = there // ROW_GROUP
    for group in np.unique(groups):
        for names, some in _read_together(plan, later, columns, np.flatnonzero(groups == group)):
            before = gather(ref, Slice(part.lane, int(group)), _stored(plan, names), there[some] % ROW_GROUP)
            after = gather(fresh, part, _stored(later, names), here[some])
            before, after = (_own(cells, names, columns[some]) for cells in (before, after))
            table = ks_table(after[1][0], after[0])
            for at, flag in enumerate(some):
                effect = _effect(
                    int(rows[flag]), str(columns[flag]), before, after, at, plan.spec.decision_in_run, table
                )
                measured += [effect] if effect else []
    measured.sort(key=lambda effect: (effect.column, effect.row))
    return SliceEffects(measured, _canaries(fresh, part, later))


def _read_together(
    plan: Plan, later: Plan, columns: NDArray[np.str_], places: NDArray[np.int64]
) -> Iterator[tuple[list[str], NDArray[np.int64]]]:
    """Columns, and the documents at `places` that need them, whose values fit beside one another."""
    runs = (plan.read_runs + later.read_runs) * 4
    wanted = sorted(set(columns[places].tolist()))
    at_once = max(1, SLICE_BYTES // (ROW_GROUP * runs))
    for first in range(0, len(wanted), at_once):
        names = wanted[first : first + at_once]
        yield names, places[np.isin(columns[places], names)]


def _own(cells: tuple[Bits, Values], names: Sequence[str], columns: NDArray[np.str_]) -> tuple[Bits, Values]:
    bits, values = cells
    if len(values) == 1:
        return cells
    return bits, [np.stack([values[names.index(column)][at] for at, column in enumerate(columns)])]


def _stored(plan: Plan, names: Sequence[str]) -> Sequence[str]:
    """Names under which a stage stores these columns of documents whose strongest they are."""
    return names if plan.strongest is None else [STRONGEST]


def _effect(
    row: int,
    column: str,
    before: tuple[Bits, Values],
    after: tuple[Bits, Values],
    at: int,
    rule: DecisionSpec,
    table: KSTable,
) -> Effect | None:
    (first, (old,)), (last, (new,)) = before, after
    if not 0 < first[at].sum() < first.shape[1] or not 0 < last[at].sum() < last.shape[1]:
        return None
    scores, attack = new[at].astype(np.float64), best_threshold(old[at][first[at]], old[at][~first[at]])
    arms = scores[last[at]], scores[~last[at]]
    return measure_effect(row, column, attack, *arms, rule.level, rule.margin, table.at(at))
