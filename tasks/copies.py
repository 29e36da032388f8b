"""Copies of one content, tested together in the values that a look has stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.array_types import Bits, Floats, Ints
from ksdp.audit.copies import Copies, OneContent, together_of
from ksdp.audit.design import Block
from ksdp.audit.errors import DamagedBlock
from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.verdicts.count_arms import CountTests
from ksdp.audit.verdicts.ks import ks_table
from ksdp.storage.blocks import ROW_GROUP, read_values
from ksdp.tasks.audit_ref import AuditRef, folders_of, open_plan, parts_of
from ksdp.tasks.blocks import discard

__all__ = ["counted_copies"]

_BYTES = 256 * 2**20
"""Of values that are held at once."""
_Found = tuple[OneContent, Floats, Ints]


def counted_copies(ref: AuditRef, copies: Copies | None) -> CountTests | None:
    """Tests of a look's documents that have many copies, all copies together; None where there are none.

    A look whose values pass through the store in parts has them no more: there each is tested by itself.

    Parameters
    ----------
    ref : AuditRef
        Of a look that was measured and tested.
    copies : of the whole audit
    """
    plan = open_plan(ref)
    groups = together_of(plan, copies)
    if not groups or len(parts_of(ref)) > 1:
        return None
    names = [statistic.name for statistic in plan.tested]
    at_once = max(1, _BYTES // (len(names) * plan.design.runs * plan.bytes_a_value))
    found = []
    for first in range(0, len(groups), at_once):
        found += _tested(ref, plan, names, groups[first : first + at_once])
    return _tests(found)


def _tested(ref: AuditRef, plan: Plan, names: Sequence[str], groups: Sequence[OneContent]) -> list[_Found]:
    """Of each content that can be: D of the two arms, column by column, and their sizes."""
    seen = [_Seen(group, len(names), plan.design.runs, plan.spec.store.precision) for group in groups]
    parts = np.unique(np.concatenate([group.rows for group in groups]) // ROW_GROUP)
    nobody = np.zeros((len(plan.audited) + CONTROLS, 1), np.bool_)
    for block in plan.blocks:
        whole = plan.kept_runs(block, nobody)
        for one in seen:
            one.open[block.start : block.stop] = whole is None or whole[one.group.rows, 0].any()
        for part in parts:
            cells = _read(ref, block, int(part), names)
            for one in seen:
                one.add(block, int(part), cells)
    tested = [(one, one.arms(plan)) for one in seen if one.alike]
    return [(one.group, *one.distances(arms)) for one, arms in tested if all(arm.any() for arm in arms)]


@dataclass(frozen=True, eq=False)
class _Cells:
    """Some documents in a block: bits, which values are there, and these, of shape (columns, documents, runs)."""

    inclusion: Bits
    kept: Bits
    values: NDArray[np.floating]


def _read(ref: AuditRef, block: Block, part: int, names: Sequence[str]) -> _Cells:
    folders, precision = folders_of(ref), open_plan(ref).spec.store.precision
    try:
        cells = read_values(folders.values, block, folders.values_key, part, names, precision)
    except DamagedBlock:
        discard(folders.values, block, [])
        raise
    kept = np.ones(cells.inclusion.shape, np.bool_) if cells.kept is None else cells.kept
    return _Cells(cells.inclusion, kept, np.stack(cells.whole()))


class _Seen:
    """What the runs of a look gave for one content."""

    def __init__(self, group: OneContent, columns: int, runs: int, precision: str) -> None:
        self.group = group
        self.held = np.zeros(runs, np.int64)
        self.open = np.zeros(runs, np.bool_)
        """Runs of blocks of which some copy has all values: drawn from the seed, whatever is in them."""
        self.known = np.zeros(runs, np.bool_)
        self.values = np.full((columns, runs), np.nan, dtype=precision)
        self.alike = True
        """Whether all copies had the same value in every run, to the last bit."""

    def add(self, block: Block, part: int, cells: _Cells) -> None:
        """Some copies' values in a block: each copy has those of the runs that held it, and of its own blocks."""
        runs = slice(block.start, block.stop)
        mine = self.group.rows[self.group.rows // ROW_GROUP == part] % ROW_GROUP
        if not len(mine):
            return
        kept, values = cells.kept[mine], cells.values[:, mine]
        self.held[runs] += cells.inclusion[mine].sum(axis=0)
        found = np.take_along_axis(values, kept.argmax(axis=0)[None, None, :], axis=1)[:, 0]
        before = self.known[runs]
        known = np.where(before, self.values[:, runs], found)
        self.alike &= bool(((values == known[:, None]) | ~kept).all())
        self.values[:, runs] = known
        self.known[runs] = before | kept.any(axis=0)

    def arms(self, plan: Plan) -> tuple[Bits, Bits]:
        """Runs of the arm of many copies, and of few."""
        drawn = generator(plan.design.seed, Purpose.COPIES, 0, self.group.first).random(plan.design.runs)
        return self.group.thinning.arms(self.held, drawn, self.open)

    def distances(self, arms: tuple[Bits, Bits]) -> tuple[Floats, Ints]:
        """sup |H - L| of each column, and the sizes of the arms."""
        many, few = arms
        taken = many | few
        bits = np.broadcast_to(many[taken], (1, int(taken.sum())))
        values = self.values[:, taken]
        distance = [float(ks_table(np.ascontiguousarray(column[None]), bits).distance[0]) for column in values]
        return np.array(distance), np.array([many.sum(), few.sum()])


def _tests(found: Sequence[_Found]) -> CountTests | None:
    """Every copy has the tests of its content."""
    if not found:
        return None
    size = [len(group.rows) for group, _, _ in found]
    told = np.repeat([group.thinning.told for group, _, _ in found], size)
    arms = np.repeat(np.stack([sizes for _, _, sizes in found]), size, axis=0)
    return CountTests(
        rows=np.concatenate([group.rows for group, _, _ in found]),
        copies=np.repeat(np.array(size), size),
        distance=told[:, None] * np.repeat(np.stack([distance for _, distance, _ in found]), size, axis=0),
        told=told,
        n_many=arms[:, 0],
        n_few=arms[:, 1],
    )
