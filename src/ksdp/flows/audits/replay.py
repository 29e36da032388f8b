"""Compute one number again, from the seed: the proof that what is stored is what the spec gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.results.summary import Summary
from ksdp.audit.runs import Stored, sample
from ksdp.audit.specs.design import Block
from ksdp.audit.testing import measured_again, narrowed_to, values_again
from ksdp.audit.verdicts.effects import held_out_advantage
from ksdp.audit.verdicts.looks import FIRST, Stage
from ksdp.flows.interruption import advance, current
from ksdp.storage.audits.documents import (
    held_out_distance,
    keeps_values,
    read_values_by_run,
    stored_place,
    stored_statistics,
)
from ksdp.storage.audits.history import read_summary
from ksdp.storage.audits.stages import stage_names
from ksdp.storage.blocks import has_block, read_observables
from ksdp.storage.findings import Curve, place_of, read_document
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef, folders_of, open_audit, open_plan, open_stage
from ksdp.tasks.provenance import versions


def values_of(
    store: Store, summary: Summary, document: str, statistics: Sequence[str]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return the data of a document's tests at its last look: which runs held it, and the values, run by run."""
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
    inclusion, (values,) = values_of(store, summary, document, [statistic])
    return Curve.of(document, statistic, values, inclusion)


def held_out_of(store: Store, summary: Summary, document: str) -> float | None:
    """`held_out_distance`, measured again where the store does not keep values."""
    names = stored_statistics(summary)
    if not names or keeps_values(summary):
        return held_out_distance(store, summary, document, place_of(store.audit(summary.audit), document))
    inclusion, values = values_of(store, summary, document, names)
    advantage = held_out_advantage(values, inclusion)
    return None if np.isnan(advantage) else advantage


def replay(store: Path, audit: str, document: str, statistic: str) -> dict[str, Any]:
    """Run the mechanism again, once for every run of the document's last look, and test it under one statistic."""
    opened = Store.open(store, create=False)
    folder = opened.audit(audit)
    summary = read_summary(folder)
    evidence = read_document(folder, document)
    rows = {test.statistic: test for test in evidence.tests}
    ref = AuditRef(str(opened.root), audit, summary.corpus)
    plan = open_audit(ref)
    named = {s.name: s for s in plan.statistics}
    if statistic not in named or statistic not in rows:
        raise InputError(f"`statistic` must be among {', '.join(named)}; got {statistic!r}.")
    row = list(plan.units.ids).index(document)
    alone = narrowed_to(plan, _last_look(ref, folder, row), row, [statistic])
    current().stage("sample", alone.design.runs)
    again = measured_again(alone, row, advance)
    stored = {name: getattr(rows[statistic], name) for name in ("n_with", "n_without", "distance", "log10_p")}
    now, then = versions(), summary.provenance.versions
    return {
        "audit": audit,
        "document": document,
        "statistic": statistic,
        "stored": stored,
        "replayed": again,
        "equal": stored == again,
        "other_versions": sorted(name for name in now if now[name] != then.get(name)),
    }


def _last_look(ref: AuditRef, folder: Path, row: int) -> Stage:
    looks = [name for name in stage_names(folder) if name.startswith("look-")]
    for name in sorted(looks, key=lambda n: int(n.removeprefix("look-")), reverse=True):
        stage = open_stage(ref.at(name))
        if row in stage.rows:
            return stage
    return open_stage(ref.at(FIRST))
