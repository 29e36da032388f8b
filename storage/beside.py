"""The blocks of a lane side by side: what the tests of some documents read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Bits
from ksdp.audit.kept_runs import read_runs
from ksdp.storage.blocks import StoredCells

Rows = slice | NDArray[np.int64]


@njit(cache=True, nogil=True)
def _put(flat: NDArray[Any], kept: Bits, read: Bits, at: NDArray[np.int64], out: NDArray[Any]) -> None:
    """Append each row's values that are read to `out`, whose rows are filled up to `at`."""
    place = 0
    for row in range(kept.shape[0]):
        end = at[row]
        for run in range(kept.shape[1]):
            if kept[row, run]:
                if read[row, run]:
                    out[row, end] = flat[place]
                    end += 1
                place += 1


def beside(cells: Sequence[StoredCells], rows: Rows, width: int) -> tuple[Bits, list[NDArray[Any]]]:
    """Bits and values of the runs that tests read, each of shape (n_rows, width), runs in order.

    Parameters
    ----------
    cells : the same documents in every block of a lane, in order
    rows : which of the documents
    width : int
        Runs that the tests of a document read (`ksdp.audit.kept_runs`).
    """
    inclusion = np.concatenate([block.inclusion for block in cells], axis=1)
    if cells[0].kept is None:
        columns = zip(*(block.values for block in cells), strict=True)
        return inclusion[rows], [np.concatenate([array[rows] for array in column], axis=1) for column in columns]
    kept = np.concatenate([np.asarray(block.kept) for block in cells], axis=1)
    read = read_runs(inclusion, kept, width)
    values = [np.empty((len(kept), width), array.dtype) for array in cells[0].values]
    filled = np.zeros(len(kept), np.int64)
    start = 0
    for block in cells:
        here = slice(start, start + block.inclusion.shape[1])
        mine = np.ascontiguousarray(read[:, here])
        for whole, flat in zip(values, block.values, strict=True):
            _put(flat, np.asarray(block.kept), mine, filled, whole)
        filled += mine.sum(axis=1)
        start = here.stop
    bits = inclusion[read].reshape(-1, width)
    return bits[rows], [whole[rows] for whole in values]
