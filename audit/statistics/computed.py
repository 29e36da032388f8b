"""A statistic that is one function: name, version and what it needs stand in one row of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents


@dataclass(frozen=True)
class Computed:
    """A statistic that `compute` evaluates."""

    name: str
    version: int
    family: str
    compute: Callable[[Observables, Documents], Floats]
    """One number a document, shape (n_documents,)."""
    needs: tuple[str, ...] = ()
    needs_any: tuple[str, ...] = ()
    """It reads whichever of these the mechanism announces; one at least must be there."""
    reads: tuple[str, ...] = ()
    """Further arrays, where they are announced."""
    of_candidates: bool = False
    """It looks at all columns, and not at those alone that a run kept (`kept_columns`)."""
    asks: Callable[[Observables, Documents], None] | None = None
    """Says what it will look for in a pass over the documents that several share."""

    def ask(self, observables: Observables, documents: Documents) -> None:
        """Share a pass over the documents with others."""
        if self.asks is not None:
            self.asks(observables, documents)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        return self.compute(observables, documents)
