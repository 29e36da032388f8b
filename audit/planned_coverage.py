"""What a plan looks at of all that its runs open, and what nobody does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ksdp.audit.coverage import (
    Coverage,
    MayBeIn,
    coverage,
    followed,
    learnable,
    unblurred,
    uncombined,
    unfollowed,
    unsolved,
    untested,
)
from ksdp.audit.registry import statistics
from ksdp.audit.statistics.document_counts import DOCUMENT_COUNTS
from ksdp.audit.statistics.final_numbers import final_numbers
from ksdp.audit.statistics.kept_columns import expected_shapes
from ksdp.audit.statistics.learned import RAW
from ksdp.audit.statistics.little_noise import numbers_of_little_noise
from ksdp.audit.statistics.of_groups import OfGroups, groups_solved
from ksdp.audit.statistics.solved_parts import few_enough

if TYPE_CHECKING:
    from ksdp.audit.plan import Plan


def planned_coverage(plan: Plan) -> Coverage:
    """Which announced arrays are read by which tested statistics of a plan, and what else is left."""
    mechanism, seen = plan.mechanism, plan.seen
    learnt = () if RAW in plan.learners else learnable(mechanism, expected_shapes(plan), plan.design.runs)
    held, groups = plan.holdings, plan.units.word == "group"
    who = MayBeIn(held.unknown, held.share, plan.spec.rule.margin, groups)
    sums: tuple[str, ...] = ()
    if not _solved(plan):
        sums = unsolved(mechanism, plan.announced, seen, who) + unblurred(_little_noise(plan), who)
    sums += followed(_final(plan), who)
    more = untested(plan.default_columns, plan.tested) + uncombined(mechanism, plan.learners)
    return coverage(plan.opened, seen, plan.tested, learnt, more + unfollowed(mechanism, seen) + sums)


def _solved(plan: Plan) -> bool:
    """Whether equations in who is in are solved for all documents, or groups, that may be in."""
    held = plan.holdings
    if held.units.word == "document":
        return few_enough(held.unknown)
    if held.drawn or DOCUMENT_COUNTS in plan.seen:  # counts are looked at document by document
        return False
    if not any(isinstance(statistic, OfGroups) for statistic in plan.tested):
        return False
    numbers = sum(math.prod(array.shape) for array in plan.read)
    return groups_solved(len(held.victim), int(held.units.sizes[held.victim].sum()), numbers)


def _little_noise(plan: Plan) -> int:
    """Announced numbers that are equations in who is in but for hardly any noise, and are not solved for."""
    mechanism, pool = plan.mechanism, plan.pool
    if getattr(mechanism, "noise_free", False):
        return 0
    own = getattr(mechanism, "statistics", ())
    filters = [s for s in (*statistics().values(), *own) if set(s.needs) <= set(plan.seen)]
    return int(pool.derive(("little noise", plan.seen), lambda: numbers_of_little_noise(filters, plan.read, pool)))


def _final(plan: Plan) -> dict[str, int]:
    """Numbers of the final output that follow from who is in, and are not solved for."""
    found = plan.pool.derive(
        ("final numbers", plan.seen), lambda: final_numbers(plan.mechanism, plan.read, plan.pool)
    )
    return dict(found)
