"""Copies of one content, tested together in the values that a look has stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.array_types import Bits, Floats
from ksdp.audit.copies import Copies, OneContent, together_of
from ksdp.audit.copies_seen import ContentTests, SeenCopies, of_all_copies
from ksdp.audit.design import Block
from ksdp.audit.errors import DamagedBlock
from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.verdicts.count_arms import CountTests
from ksdp.storage.blocks import ROW_GROUP, read_values
from ksdp.tasks.audit_ref import AuditRef, folders_of, open_plan, parts_of
from ksdp.tasks.blocks import discard

__all__ = ["counted_copies"]

_BYTES = 256 * 2**20
"""Of values that are held at once."""


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
    found: list[ContentTests] = []
    for first in range(0, len(groups), at_once):
        found += _tested(ref, plan, names, groups[first : first + at_once])
    return of_all_copies(found)


def _tested(ref: AuditRef, plan: Plan, names: Sequence[str], groups: Sequence[OneContent]) -> list[ContentTests]:
    """Of each content that can be tested."""
    seen = [SeenCopies(group, len(names), plan.design.runs, plan.spec.store.precision) for group in groups]
    parts = np.unique(np.concatenate([group.rows for group in groups]) // ROW_GROUP)
    nobody = np.zeros((len(plan.audited) + CONTROLS, 1), np.bool_)
    for block in plan.blocks:
        whole = plan.kept_runs(block, nobody)
        for one in seen:
            one.open[block.start : block.stop] = whole is None or whole[one.group.rows, 0].any()
        for part in parts:
            cells = _read(ref, block, int(part), names)
            for one in seen:
                mine = one.group.rows[one.group.rows // ROW_GROUP == part] % ROW_GROUP
                if len(mine):
                    runs = slice(block.start, block.stop)
                    one.add(runs, cells.inclusion[mine], cells.kept[mine], cells.values[:, mine])
    return [tests for one in seen if (tests := one.tests(_drawn(plan, one.group))) is not None]


def _drawn(plan: Plan, group: OneContent) -> Floats:
    """A uniform number a run, of a stream of the content's own."""
    return generator(plan.design.seed, Purpose.COPIES, 0, group.first).random(plan.design.runs)


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
