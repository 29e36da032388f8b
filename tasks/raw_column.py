"""The column that learns from raw announcements: the stored observables of all runs, in one matrix a worker."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import DamagedBlock, StoreError
from ksdp.audit.numeric.array_types import Bits
from ksdp.audit.statistics.learned import folds_of, gram_of_runs, raw_scores
from ksdp.audit.testing import raw_arms
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.storage.blocks import has_block, read_observables
from ksdp.tasks.audit_ref import AuditRef, folders_of, open_plan
from ksdp.tasks.blocks import discard


def raw_column(ref: AuditRef, lane: int, inclusion: Bits) -> ArmTests:
    """Tests of some documents of a lane, given their bits in all its runs."""
    return raw_arms(_gram(ref.whole, lane), inclusion)


def fresh_raw_scores(ref: AuditRef, fresh: AuditRef, lane: int, before: Bits, after: Bits) -> NDArray[np.float32]:
    """Scores of the fresh runs under the filter of all the audit's, shape (n_documents, n_fresh).

    Parameters
    ----------
    ref, fresh : the first look and the fresh runs of one audit
    before, after : bits of some documents in the runs of both
    """
    runs = np.arange(before.shape[1] + after.shape[1])
    bits = np.concatenate([before, after], axis=1)
    gram = _gram(ref.whole, lane, fresh.whole)
    return raw_scores(gram, bits, runs[: before.shape[1]], runs[before.shape[1] :])


@lru_cache(maxsize=2)
def _gram(ref: AuditRef, lane: int, fresh: AuditRef | None = None) -> NDArray[np.float64]:
    """Inner products of all runs of a lane, and of the fresh ones after them; scales come from the former."""
    first = _announcements(ref, lane)
    known = folds_of(len(first))[0]
    if fresh is None:
        return gram_of_runs(first, known)
    return gram_of_runs(np.concatenate([first, _announcements(fresh, lane)]), known)


def _announcements(ref: AuditRef, lane: int) -> NDArray[np.floating]:
    """Everything that the runs of a lane announce and statistics may see, one row a run."""
    plan, folders = open_plan(ref), folders_of(ref)
    shapes = {a.name: a.shape for a in plan.announced}
    width = sum(int(np.prod(shapes[name])) for name in plan.seen)
    rows = np.empty((plan.design.runs, width), plan.precision)
    for block in plan.blocks:
        if block.lane != lane:
            continue
        try:
            if not has_block(folders.observables, block, folders.key):
                raise StoreError(
                    "the announced arrays of all runs are not in the store, and the learner on them needs them; "
                    'run `ksdp audit` with `store.observables = "all"`.'
                )
            for at, run in enumerate(read_observables(folders.observables, block, folders.key), block.start):
                rows[at] = np.concatenate([run[name].ravel() for name in plan.seen])
        except DamagedBlock:
            discard(folders.observables, block, [])
            raise
    return rows
