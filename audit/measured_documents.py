"""The documents that statistics are evaluated on, out of a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.corpus.groups import Units
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.sparse_rows import rows_of, take_rows
from ksdp.audit.statistics.contract import Documents, Pool

if TYPE_CHECKING:
    from ksdp.audit.plan import Plan

Rows = NDArray[np.int64]


def pool_of(plan: Plan) -> Pool:
    """What databases are made of: some of the victim's units, and all or half of those of others."""
    corpus, units, held = plan.corpus, plan.units, plan.holdings
    mine, others = held.victim, np.sort(np.concatenate([held.honest, held.coalition]))
    share = held.size / max(len(mine), 1)
    own = corpus.matrix if len(mine) == len(units) else rows_of(corpus.matrix, units.rows(mine))
    group = _groups_of(units, mine)
    if not len(others):
        return Pool(own, share, None, plan.mechanism, group=group)
    fixed = rows_of(corpus.matrix, units.rows(others))
    shared = 0.5 if held.drawn else 1.0
    pool = Pool(own, share, fixed, plan.mechanism, shared, bool(len(held.coalition)), group=group)
    if not (len(held.honest) and len(held.coalition)):
        return pool
    honest, coalition = (rows_of(corpus.matrix, units.rows(rows)) for rows in (held.honest, held.coalition))
    return replace(pool, honest=honest, coalition=coalition)


def _groups_of(units: Units, mine: Rows) -> Rows | None:
    """The group of each row of these units, in the corpus's order, from 0; None where units are documents."""
    if units.order is None:
        return None
    rows, starts = units.members(mine)
    number = np.repeat(np.arange(len(mine)), np.diff(starts))
    return np.asarray(number[np.argsort(rows, kind="stable")])


def measured_documents(
    corpus: Corpus,
    units: Units,
    targets: Rows,
    population: Rows,
    background: Mapping[str, NDArray[Any]],
    pool: Pool | None = None,
) -> Documents:
    """The target units, with the adversary's background knowledge.

    Parameters
    ----------
    targets, population : units
        Those that are measured, and those that stand for everybody.
    pool : Pool, optional
        What databases are drawn from.
    """
    rows, starts = None, None
    if units.order is not None:
        members, starts = units.members(targets)
        standing, _ = units.members(population)
        all_rows = Documents(take_rows(corpus.matrix, standing), background)
        rows = Documents(take_rows(corpus.matrix, members), background, population=all_rows, pool=pool)
    matrix = units.matrix if len(targets) == len(units) else rows_of(units.matrix, targets)
    everybody = Documents(take_rows(units.matrix, population), background)
    return Documents(matrix, background, rows, starts, everybody, pool)
