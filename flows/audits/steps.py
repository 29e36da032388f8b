"""The steps of an audit, whoever takes them, and what they have done so far."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.results.summary import Summary
from ksdp.audit.spec.design import Block
from ksdp.audit.verdicts.effects import Flagged
from ksdp.flows.interruption import Listener, check_stopped, current
from ksdp.storage.audits.stages import PairsPart
from ksdp.storage.findings import Curve
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef
from ksdp.tasks.blocks import BlockDone
from ksdp.tasks.slices import Slice, SliceEffects, SliceTests


@dataclass
class Tally:
    """Runs by how they came about; one writer a thread, read by the progress artifact."""

    sampled: int = 0
    measured: int = 0
    cached: int = 0
    damaged: list[str] = field(default_factory=list)
    told: int = 0
    """Runs that the listener knows of."""
    listener: Listener = field(default_factory=current)
    _telling: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, done: BlockDone) -> None:
        """Count a block."""
        setattr(self, done.how, getattr(self, done.how) + done.runs)
        self.damaged += done.damaged
        self.tell()
        check_stopped()

    def tell(self, under_way: int = 0) -> None:
        """Let the listener know of runs that it does not know of yet, those of blocks under way among them."""
        with self._telling:
            if (new := self.runs + under_way - self.told) > 0:
                self.told += new
                self.listener.advance(new)

    @property
    def runs(self) -> int:
        """All runs so far."""
        return self.sampled + self.measured + self.cached


Result = TypeVar("Result")

FlaggedParts = Sequence[tuple[Slice, Sequence[Flagged]]]
"""Parts of a look, each with what was flagged in it."""


class Steps(Protocol):
    """The steps of an audit. A later `attempt` computes again what an earlier one has."""

    async def aside(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call something that takes a while, without holding up what else this process does."""
        ...

    async def sample(self, ref: AuditRef, blocks: Sequence[Block], tally: Tally, attempt: int = 0) -> None:
        """Make sure that the values of these blocks are stored."""
        ...

    async def test(
        self, ref: AuditRef, parts: Sequence[Slice], done: Callable[[SliceTests], None], attempt: int = 0
    ) -> list[SliceTests]:
        """Tests of every document under every statistic."""
        ...

    async def confirm(
        self, ref: AuditRef, fresh: AuditRef, parts: FlaggedParts, done: Callable[[SliceEffects], None]
    ) -> list[SliceEffects]:
        """Effects of flagged documents on fresh runs, and these runs' canaries."""
        ...

    async def certify(
        self, ref: AuditRef, parts: Sequence[PairsPart], done: Callable[[NDArray[np.float64]], None]
    ) -> list[NDArray[np.float64]]:
        """Advantages of the best attack on pairs of runs that differ in one document."""
        ...

    async def draw(
        self, wanted: Sequence[tuple[AuditRef, int, int, str]], done: Callable[[Curve], None]
    ) -> list[Curve]:
        """The values behind the tests that the report draws: (stage, lane, row, statistic) each."""
        ...

    def shown(self, tally: Tally, total: int, key: str, what: str) -> AbstractAsyncContextManager[None]:
        """Show the progress of the runs outside the terminal, e.g. in Prefect."""
        ...

    async def publish(self, store: Store, summary: Summary) -> None:
        """Tell others of the result."""
        ...
