"""The steps of an audit, whoever takes them, and what they have done so far."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ksdp.audit.results.summary import Summary
from ksdp.flows.interruption import Listener, check_stopped, current
from ksdp.storage.store import Store
from ksdp.tasks.blocks import BlockDone


@dataclass
class Tally:
    """Runs by how they came about; one writer a thread, read by the progress artifact."""

    sampled: int = 0
    measured: int = 0
    cached: int = 0
    damaged: list[str] = field(default_factory=list)
    reported: int = 0
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
            if (new := self.runs + under_way - self.reported) > 0:
                self.reported += new
                self.listener.advance(new)

    @property
    def runs(self) -> int:
        """All runs so far."""
        return self.sampled + self.measured + self.cached


Result = TypeVar("Result")


class Steps(Protocol):
    """The worker of an audit's steps."""

    async def run_in_thread(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call something that takes a while, without holding up what else this process does."""

    async def each(
        self,
        step: str,
        function: Callable[..., Result],
        arguments: Sequence[tuple[Any, ...]],
        done: Callable[[Result], None],
        attempt: int = 0,
    ) -> list[Result]:
        """Return the results of a worker's function for each of these arguments, in their order."""

    def shown(self, tally: Tally, total: int, key: str, what: str) -> AbstractAsyncContextManager[None]:
        """Show the progress of the runs outside the terminal, e.g. in Prefect."""

    async def publish(self, store: Store, summary: Summary) -> None:
        """Tell others of the result."""
