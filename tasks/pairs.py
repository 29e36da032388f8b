"""What a worker does with some pairs of runs that differ in one document."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.certifying import paired_advantages
from ksdp.audit.content_keys import content_key
from ksdp.audit.errors import DamagedBlock, StoreError
from ksdp.audit.plan import Plan
from ksdp.storage.audits.stages import PairsPart, read_pairs, write_pairs
from ksdp.storage.remote import Place
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef, open_audit

_log = logging.getLogger("ksdp.tasks")

# Runs of the mechanism that a part is worth; from sizes alone, so that audits of the same documents share parts.
_RUNS = 1500
_MOST = 32


def pairs_parts(plan: Plan, pairs: int) -> list[PairsPart]:
    """All pairs, in order."""
    each = int(np.clip(_RUNS // max(len(plan.audited), 1), 1, _MOST))
    return [PairsPart(first, min(first + each, pairs)) for first in range(0, pairs, each)]


def compute_pairs(ref: AuditRef, part: PairsPart) -> NDArray[np.float64]:
    """Advantages on some pairs, shape (n_documents, n_pairs), from the store or computed and stored.

    Idempotent: what is there is read, what is damaged is named, dropped and computed again.
    """
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
    """Folder and key of the pairs of these documents in these runs."""
    rows = hashlib.sha256(np.ascontiguousarray(plan.audited).tobytes()).hexdigest()
    chosen = content_key({"rows": rows, "sees": plan.spec.statistics.sees})
    folder = Store(Path(ref.store)).runs(plan.runs_identity) / "pairs" / chosen
    return folder, f"{content_key(plan.runs_identity)}/{chosen}"
