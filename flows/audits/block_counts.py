"""What an audit has done so far, counted."""

from __future__ import annotations

from dataclasses import dataclass, field

from ksdp.flows.progress import advance
from ksdp.tasks.blocks import BlockDone


@dataclass
class Tally:
    """Runs by how they came about; one writer a thread, read by the progress artifact."""

    sampled: int = 0
    measured: int = 0
    cached: int = 0
    damaged: list[str] = field(default_factory=list)

    def __call__(self, done: BlockDone) -> None:
        """Count a block."""
        setattr(self, done.how, getattr(self, done.how) + done.runs)
        self.damaged += done.damaged
        advance(done.runs)

    @property
    def runs(self) -> int:
        """All runs so far."""
        return self.sampled + self.measured + self.cached
