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

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Bits, Ints
from ksdp.audit.errors import KsdpError
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.reading import Reading
from ksdp.audit.spec.design import Block


def kept_without(
    seed: int, block: Block, documents: Ints, population: int, block_runs: int, reading: Reading
) -> Bits:
    """Whether a block keeps the without runs of each document, shape (n_documents,).

    Parameters
    ----------
    documents : int64, shape (n_documents,)
        Numbers of the documents below `population`, the same whoever is audited beside them.
    block_runs : int
        Runs in a whole block.
    """
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
    """The runs of each document that are tested: every with run, and kept without runs up to `width` of both.

    Parameters
    ----------
    inclusion, kept : bool, shape (n_documents, n_runs)
        All runs of a lane.
    width : int
        Runs that every document's tests read.

    Raises
    ------
    KsdpError
        If a document has not that many, or more with runs than that.
    """
    out = np.zeros(inclusion.shape, np.bool_)
    short = _read(inclusion, kept, width, out)
    if short >= 0:
        raise KsdpError(f"a document in row {short} cannot be tested in {width} runs; run the audit again.")
    return out


def levelled(
    inclusion: Bits, kept: Bits | None, values: Sequence[NDArray[Any]], width: int
) -> tuple[Bits, list[NDArray[Any]]]:
    """Bits and values of the runs that are tested, shape (n_documents, width) each, runs in order.

    Parameters
    ----------
    inclusion, kept : bool, shape (n_documents, n_runs)
        All runs of a lane; `kept` None where all are.
    values : of the shape of `inclusion`
    """
    if kept is None:
        return inclusion, list(values)
    read = read_runs(inclusion, kept, width)
    return inclusion[read].reshape(-1, width), [column[read].reshape(-1, width) for column in values]
