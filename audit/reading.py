"""How many of a lane's runs a document's tests read (`ksdp.audit.kept_runs` says which, and why)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ksdp.audit.array_types import Floats

_RUN_COST = 0.75
"""What one more run costs, its observables kept, in units of looking at every document in it (measured)."""
_CHOICES = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Reading:
    """Every with run, and of the others one block in `every`; of an early look's runs all.

    Examples
    --------
    >>> import numpy as np
    >>> reading = Reading(every=4, early=1000)
    >>> reading.runs(800), reading.runs(5000)
    (800, 2000)
    >>> reading.total(np.array([800.0, 2000.0]))
    array([ 800., 5000.])
    """

    every: int = 1
    """Of so many blocks of runs one, drawn for each document, keeps its without runs."""
    early: int = 0
    """The first runs, whole strata of blocks, in which every document reads all: those of an early look."""

    @property
    def all(self) -> bool:
        """Whether every document reads every run."""
        return self.every == 1

    def runs(self, done: int) -> int:
        """Runs that tests read once `done` runs are made."""
        early = min(self.early, done)
        return early + (done - early) // self.every

    def total(self, read: Floats) -> Floats:
        """Runs that must be made for tests to read `read` of them; infinite if `read` is."""
        return read if self.all else read + (read > self.early) * (read - self.early) * (self.every - 1)

    def arms(self, done: int, share: float) -> tuple[int, int]:
        """Runs that a test reads with and without the document, on average.

        Parameters
        ----------
        share : float
            Of the runs that hold a document.
        """
        held = max(1, round(done * share))
        return held, self.runs(done) - held

    def measured(self, done: int, share: float) -> float:
        """Part of all values, of a document in a run, that are measured: with runs, and kept without runs."""
        return share + (1 - share) * self.runs(done) / done


EVERY_RUN = Reading()
"""Every document reads every run."""


def more_runs(share: float, every: int) -> float:
    """How many times as many runs give arms of the same n m / (n + m) as all runs would.

    Of R runs, a share p with the document, R / e are read and R p of these held it, so that
    n m / (n + m) = R p (1 - e p) against R p (1 - p).

    Examples
    --------
    >>> round(more_runs(0.03, 4), 3)
    1.102
    """
    return (1 - share) / (1 - every * share)


def best_every(share: float) -> int:
    """Of how many blocks one should keep the without arm, where runs hold a document with probability `share`.

    The cheapest at equal n m / (n + m); by nominal costs, so that a spec decides it and not a machine.

    Examples
    --------
    >>> [best_every(share) for share in (0.5, 0.2, 0.1, 0.03, 0.01, 0.003)]
    [1, 1, 2, 4, 8, 16]
    """

    def cost(every: int) -> float:
        return more_runs(share, every) * (_RUN_COST + share + (1 - share) / every)

    return min((every for every in _CHOICES if every * share <= 0.5), key=cost, default=1)
