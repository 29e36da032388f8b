"""A clearance that ada signed of some of her documents."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ksdp.audit.corpus import Corpus
from ksdp.audit.mechanisms.contract import opened
from ksdp.audit.plan import parameters_of
from ksdp.audit.screening.clearance import Clearance, Covered, MechanismIdentity
from ksdp.audit.spec import Spec
from ksdp.storage.keys import load_private
from ksdp.storage.screening.clearances import write_clearance

__all__ = ["signed_clearance"]


def signed_clearance(
    path: Path, spec: Spec, shown: Corpus, mechanism: Any, ids: Any, *, now: datetime, drawn: float | None = None
) -> Path:
    """Of an audit of this mechanism with every round opened, signed with the key beside `path`, for a day."""
    clearance = Clearance(
        corpus=shown.hash,
        mechanism=MechanismIdentity(mechanism.name, mechanism.version, parameters_of(mechanism)),
        spec=spec.hash,
        audits=("one",),
        verdicts={"sensitive": 0, "clear": len(ids), "undecided": 0},
        allowed=("clear",),
        documents=Clearance.entries(ids, None),
        salt=None,
        excluded=0,
        excluded_documents=None,
        reviewer="Ana Lytic",
        created=now - timedelta(days=1),
        expires=now + timedelta(days=1),
        statement="It promises little.",
        coverage=Covered("every round", tuple(sorted(opened(mechanism, shown.features)))),
        drawn=drawn,
    )
    write_clearance(path, clearance, load_private(path.parent / "ada.key"))
    return path
