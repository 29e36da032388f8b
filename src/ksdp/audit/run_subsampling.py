"""Which runs a document's tests read: all that held it, and of the others as many as its verdict needs.

With a party of 3 % a document is in 200 of 6,700 runs, and what its verdict can say depends on
n m / (n + m): 194 with all 6,469 others, 176 with 1,500 of them. So of every `every` blocks of runs one, drawn
from the seed for each document, keeps the document's without arm; with runs are kept everywhere. A tenth more runs
make up for the loss, and three quarters of the values are never computed, written or sorted.

Which block it is depends on (seed, lane, document) and on nothing that a run gives, nor on who is in it. Given the
bits, the values that are kept are then independent, and identically distributed if the document leaves no trace:
what the exact laws assume, at the sizes that the arms have.

Every document's tests read the same number of runs: as many without runs as there are with runs outside of its
blocks are left out again, the last ones. Where they stand is given by bits alone, too.

The runs of an early look are few blocks, in which a draw would be lumpy: there every document reads all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.errors import KsdpError
from ksdp.audit.numeric.array_types import Bits, Ints
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.specs.design import Block

if TYPE_CHECKING:
    from ksdp.audit.numeric.array_types import Floats

_RUN_COST = 0.75
"""Cost of one more run, its observables kept, in units of looking at every document in it (measured)."""
_CHOICES = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class RunSubsampling:
    """Every with run, and of the others one block in `every`; of an early look's runs all.

    Examples
    --------
    >>> import numpy as np
    >>> reading = RunSubsampling(every=4, early=1000)
    >>> reading.runs(800), reading.runs(5000)
    (800, 2000)
    >>> reading.total(np.array([800.0, 2000.0]))
    array([ 800., 5000.])
    """

    every: int = 1
    """One in so many blocks of runs, drawn for each document, keeps its without runs."""
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

    def with_runs(self, runs: float, share: float) -> int:
        """The key of a spec that gives so many runs, a share of which holds a document."""
        return math.ceil(runs / more_runs(share, self.every) * min(share, 1 - share))

    def total(self, read: Floats) -> Floats:
        """Runs that must be made for tests to read `read` of them; infinite if `read` is."""
        return read if self.all else read + (read > self.early) * (read - self.early) * (self.every - 1)

    def arms(self, done: int, share: float) -> tuple[int, int]:
        """Runs that a test reads with and without the document, on average."""
        size = max(1, round(done * share))
        return size, self.runs(done) - size

    def measured(self, done: int, share: float) -> float:
        """Part of all values, of a document in a run, that are measured: with runs, and kept without runs."""
        return share + (1 - share) * self.runs(done) / done


EVERY_RUN = RunSubsampling()
"""Every document reads every run."""


def more_runs(share: float, every: int) -> float:
    """How many times as many runs give arms of the same n m / (n + m) as all runs would."""
    return (1 - share) / (1 - every * share)


def best_every(share: float) -> int:
    """Return the number of blocks of which one keeps the without arm, if runs hold a document with this share."""

    def cost(every: int) -> float:
        return more_runs(share, every) * (_RUN_COST + share + (1 - share) / every)

    return min((every for every in _CHOICES if every * share <= 0.5), key=cost, default=1)


def kept_without(
    seed: int, block: Block, documents: Ints, population: int, block_runs: int, reading: RunSubsampling
) -> Bits:
    """Whether a block keeps the without runs of each document, shape (n_documents,)."""
    if block.start < reading.early:
        return np.ones(len(documents), np.bool_)
    stratum, place = divmod(block.start // block_runs, reading.every)
    drawn = generator(seed, Purpose.KEPT, block.lane, stratum).integers(reading.every, size=population)
    return np.asarray(drawn[documents] == place)


@njit(cache=True, nogil=True)
def _read(inclusion: Bits, kept: Bits, width: int, out: Bits) -> int:
    """Fill in which runs are read; -1, or a document that has too few."""
    for row in range(inclusion.shape[0]):
        without = width - inclusion[row].sum()
        if without < 0:
            return row
        for run in range(inclusion.shape[1]):
            if inclusion[row, run]:
                out[row, run] = True
            elif kept[row, run] and without > 0:
                out[row, run] = True
                without -= 1
        if without > 0:
            return row
    return -1


def read_runs(inclusion: Bits, kept: Bits, width: int) -> Bits:
    """The runs of each document that are tested: every with run, and kept without runs up to `width` of both."""
    out = np.zeros(inclusion.shape, np.bool_)
    short = _read(inclusion, kept, width, out)
    if short >= 0:
        raise KsdpError(f"a document in row {short} cannot be tested in {width} runs; run the audit again.")
    return out


def levelled(
    inclusion: Bits, kept: Bits | None, values: Sequence[NDArray[Any]], width: int
) -> tuple[Bits, list[NDArray[Any]]]:
    """Bits and values of the runs that are tested, shape (n_documents, width) each, runs in order."""
    if kept is None:
        return inclusion, list(values)
    read = read_runs(inclusion, kept, width)
    return inclusion[read].reshape(-1, width), [column[read].reshape(-1, width) for column in values]
