"""A finished audit with what its store knows of it: read once, for terminal, pipelines, report and pages alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ksdp.storage.audits.claims import StoredClaim, shown_claim
from ksdp.storage.audits.history import Summary
from ksdp.storage.learning import GainAndAdvice, learning_of
from ksdp.storage.store import Store

if TYPE_CHECKING:
    from ksdp.storage.audits.queries import Findings
    from ksdp.storage.reviews.appetites import AppetiteRecord


@dataclass(frozen=True, eq=False)
class AuditResult:
    """A finished audit, and what its store knows of it."""

    summary: Summary
    store: Store
    claim: StoredClaim | None
    """Stored claim of its mechanism."""
    learning: GainAndAdvice
    """The gain, and the setting that would be safe."""
    record: AppetiteRecord | None
    """Record of the risk appetite that it is held to, if there is one."""

    @property
    def findings(self) -> Findings:
        """Its tables, to be queried."""
        from ksdp.storage.audits.queries import Findings  # numerics

        return Findings(self.store.audit(self.summary.audit))


def audit_result(summary: Summary, *, record: AppetiteRecord | None = None) -> AuditResult:
    """Read what the store of an audit knows of it; `record` takes the place of that of the appetite it keeps."""
    store = Store.open(Path(summary.store), create=False)
    if record is None and store.appetite(summary.audit).is_file():
        from ksdp.storage.reviews.appetites import kept_record  # numerics

        record = kept_record(store, summary)
    return AuditResult(
        summary=summary,
        store=store,
        claim=shown_claim(store, summary),
        learning=learning_of(store, summary.spec, summary.corpus),
        record=record,
    )
