"""The values behind one document's tests: from the store, or computed again where it does not keep them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.replaying import narrowed_to, values_again
from ksdp.audit.results.summary import Summary
from ksdp.audit.sampling import Stored, sample
from ksdp.audit.spec.design import Block
from ksdp.audit.verdicts.learned import held_out_advantage
from ksdp.flows.interruption import advance, current
from ksdp.storage.audits.documents import (
    keeps_values,
    read_values_by_run,
    stored_place,
    stored_statistics,
)
from ksdp.storage.blocks import has_block, read_observables
from ksdp.storage.findings import Curve, place_of
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef, folders_of, open_plan, open_stage


def values_of(
    store: Store, summary: Summary, document: str, statistics: Sequence[str]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """What a document's tests read at the last look that it had: which runs held it, and the values, run by run.

    Where the store does not keep values, the document alone is measured again: on stored observables, or in runs
    of the mechanism made again from the seed. The values are the same to the last bit, in the shapes of
    `read_values_by_run`.

    Raises
    ------
    StoreError
        If values that the store keeps are not there.
    """
    place = place_of(store.audit(summary.audit), document)
    if keeps_values(summary):
        return read_values_by_run(store, summary, document, place, statistics)
    look, at = stored_place(store, summary, document, place)
    ref = AuditRef(str(store.root), summary.audit, summary.corpus).at(look.stage)
    stage, folders = open_stage(ref), folders_of(ref)
    row = int(stage.rows[at])
    alone = narrowed_to(open_plan(ref), stage, row, statistics)

    def runs(block: Block) -> Iterator[Stored]:
        if alone.from_store and has_block(folders.observables, block, folders.key):
            return read_observables(folders.observables, block, folders.key)
        return sample(alone, block)

    current().stage("measure", alone.design.runs)
    bits, values = values_again(alone, row, runs, advance)
    return bits[0], np.array([values[name][0] for name in statistics], dtype=np.float64)


def curve_of(store: Store, summary: Summary, document: str, statistic: str) -> Curve:
    """The distributions of a document under one statistic, with it and without it; as `values_of`."""
    held, (values,) = values_of(store, summary, document, [statistic])
    return Curve.of(document, statistic, values, held)


def held_out_of(store: Store, summary: Summary, document: str) -> float | None:
    """D of a document without the bias of choosing (`audit.verdicts.learned`), over all stored statistics.

    None where an arm is too small. As `values_of`.
    """
    names = stored_statistics(summary)
    if not names:
        return None
    held, values = values_of(store, summary, document, names)
    advantage = held_out_advantage(values, held)
    return None if np.isnan(advantage) else advantage
