"""Outcome of the controls of an audit; it imports no numerics."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ksdp.audit.reviewing import plural


@dataclass(frozen=True)
class Controls:
    """Outcome of the controls."""

    null: int
    null_smallest_p: float
    """Smallest p among them; uniform minimum if the audit is sound."""
    planted: int
    planted_largest_p: float
    shuffled: int
    """Tests of real documents in runs dealt anew: what a mechanism that knows nothing of them would give."""
    shuffled_smallest_p: float
    canaries: int
    """Tests of real documents' canaries, one a document and look; 0 where there are none."""
    canaries_smallest_distance: float
    """Below 1 only where bits and runs do not belong together."""
    canaries_sensitive: int
    """How many the rule calls sensitive, of those that it must."""
    reason: str | None

    @property
    def valid(self) -> bool:
        """Whether nothing makes the audit void."""
        return self.reason is None

    def contradicted(self, documents: int, unless: str) -> Controls:
        """The same, failed where documents were measured above what bounds every attack if `unless` holds."""
        if not documents or not self.valid:
            return self
        reason = f"{plural(documents, 'document', 'give')} more away than any attack could take if {unless}"
        return replace(self, reason=reason)
