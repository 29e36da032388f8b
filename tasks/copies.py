"""Copies of one content, tested together in the values that a look has stored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ksdp.audit.array_types import Floats, Ints
from ksdp.audit.copies import OneContent, together_of
from ksdp.audit.copies_seen import ContentTests, SeenCopies, of_all_copies
from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.verdicts.count_arms import CountTests
from ksdp.storage.blocks import ROW_GROUP
from ksdp.tasks.audit_ref import AuditRef, open_plan, parts_of
from ksdp.tasks.blocks import read_cells

_BYTES = 256 * 2**20
"""Of values that are held at once."""


def counted_copies(ref: AuditRef) -> CountTests | None:
    """Tests of a look's documents that have many copies, all copies together; None where there are none.

    A look whose values pass through the store in parts has them no more: there each is tested by itself.

    Parameters
    ----------
    ref : AuditRef
        Of a look that was measured and tested.
    """
    plan = open_plan(ref)
    groups = together_of(plan)
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
    places = _by_part(seen)
    nobody = np.zeros((len(plan.audited) + CONTROLS, 1), np.bool_)
    for block in plan.blocks:
        runs, whole = slice(block.start, block.stop), plan.kept_runs(block, nobody)
        for one in seen:
            one.open[runs] = whole is None or whole[one.group.rows, 0].any()
        for part, of_part in places.items():
            cells = read_cells(ref, block, part, names)
            kept = np.ones(cells.inclusion.shape, np.bool_) if cells.kept is None else cells.kept
            values = np.stack(cells.whole())
            for one, mine in of_part:
                one.add(runs, cells.inclusion[mine], kept[mine], values[:, mine])
    return [tests for one in seen if (tests := one.tests(_drawn(plan, one.group))) is not None]


def _by_part(seen: Sequence[SeenCopies]) -> dict[int, list[tuple[SeenCopies, Ints]]]:
    """Of each row group the contents that have copies there, and their places in it."""
    found: dict[int, list[tuple[SeenCopies, Ints]]] = {}
    for one in seen:
        part, place = np.divmod(one.group.rows, ROW_GROUP)
        for number in np.unique(part):
            found.setdefault(int(number), []).append((one, place[part == number]))
    return found


def _drawn(plan: Plan, group: OneContent) -> Floats:
    """A uniform number a run, of a stream of the content's own."""
    return generator(plan.design.seed, Purpose.COPIES, 0, group.first).random(plan.design.runs)
