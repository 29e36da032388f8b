"""Compute one number again, from the seed: the proof that what is stored is what the spec gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ksdp.audit.errors import InputError
from ksdp.audit.interim_looks import FIRST, Stage
from ksdp.audit.replaying import measured_again, narrowed_to
from ksdp.flows.interruption import advance, current
from ksdp.storage.audits.history import read_summary
from ksdp.storage.audits.stages import stage_names
from ksdp.storage.findings import read_document
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef, open_audit, open_stage
from ksdp.tasks.provenance import versions


def replay(store: Path, audit: str, document: str, statistic: str) -> dict[str, Any]:
    """Run the mechanism again, once for every run of the document's last look, and test it under one statistic.

    Nothing cached is read but the spec and the corpus. A document that a design cannot audit alone is measured
    with all others of its lane.

    Returns
    -------
    dict
        The stored and the recomputed distance and log10 p, whether they are `equal` to the last bit, and which
        versions differ from those of the audit (then they may be unequal for that reason).

    Raises
    ------
    StoreError
        If there is no such audit or document.
    InputError
        If the audit did not test this statistic on its own.
    """
    opened = Store.open(store, create=False)
    folder = opened.audit(audit)
    summary = read_summary(folder)
    evidence = read_document(folder, document)
    rows = {test.statistic: test for test in evidence.tests}
    ref = AuditRef(str(opened.root), audit, summary.corpus)
    plan = open_audit(ref)
    named = {s.name: s for s in plan.tested}
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
    """The last look that tested the document."""
    looks = [name for name in stage_names(folder) if name.startswith("look-")]
    for name in sorted(looks, key=lambda n: int(n.removeprefix("look-")), reverse=True):
        stage = open_stage(ref.at(name))
        if row in stage.rows:
            return stage
    return open_stage(ref.at(FIRST))
