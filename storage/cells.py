"""Numbers in binary cells of Parquet: a cell a row, or of each row those that are kept, or are not zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

NONZERO = "_nonzero."
"""Before the name of an array: the bits that say where its entries stand."""


def cells(rows: NDArray[Any]) -> pa.Array:
    """Rows of numbers as fixed-size cells."""
    rows = np.ascontiguousarray(rows)
    width = rows.shape[1] * rows.itemsize
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(rows), [None, pa.py_buffer(rows)])


def some_cells(rows: NDArray[Any], kept: NDArray[np.bool_]) -> pa.Array:
    """Cells of the values that are kept."""
    return _joined_cells(rows[kept], kept.sum(axis=1))


def _joined_cells(flat: NDArray[Any], counts: NDArray[np.int64]) -> pa.Array:
    """Cells of so many of the numbers, one cell after the other."""
    large = flat.nbytes > np.iinfo(np.int32).max
    offsets = np.zeros(len(counts) + 1, np.int64 if large else np.int32)
    np.cumsum(counts * flat.itemsize, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(flat))]
    return pa.Array.from_buffers(pa.large_binary() if large else pa.binary(), len(counts), buffers)


def of_cells(column: Any, dtype: Any) -> NDArray[Any]:
    """The numbers of all cells of a column, one cell after the other."""
    _, offsets, data = column.combine_chunks().buffers()
    ends = np.frombuffer(offsets, np.int64 if pa.types.is_large_binary(column.type) else np.int32)
    ends = ends[: len(column) + 1]
    return np.frombuffer(data, dtype, count=(ends[-1] - ends[0]) // np.dtype(dtype).itemsize, offset=ends[0])


def bytes_of(column: Any, dtype: Any = np.uint8) -> NDArray[Any]:
    """Fixed-size binary cells as rows of numbers."""
    column = column.combine_chunks()
    width = column.type.byte_width // np.dtype(dtype).itemsize
    flat = np.frombuffer(column.buffers()[1], dtype=dtype, count=(len(column) + column.offset) * width)
    return flat.reshape(-1, width)[column.offset :]


def without_zeros(name: str, arrays: NDArray[Any]) -> dict[str, pa.Array]:
    """The entries of each run that are not zero, by their bits (-0.0 is none), and packed bits that say which.

    Bits are packed along the last axis: the rows of an array mostly have their zeros in the same places, and
    whole bytes that are the same compress.
    """
    words = np.ascontiguousarray(arrays).view(f"u{arrays.itemsize}")
    there = words != 0
    bits = np.packbits(there, axis=-1, bitorder="little").reshape(len(arrays), -1)
    return {
        name: _joined_cells(
            _those(words, there).view(arrays.dtype), np.count_nonzero(there.reshape(len(arrays), -1), axis=1)
        ),
        NONZERO + name: cells(bits),
    }


@njit(cache=True, nogil=True)
def _put_those(words: NDArray[Any], there: NDArray[np.bool_], out: NDArray[Any]) -> None:
    place = 0
    for at in range(len(words)):
        out[place] = words[at]  # what is left out is written over: a branch that nobody can guess costs more
        place += there[at]


def _those(words: NDArray[Any], there: NDArray[np.bool_]) -> NDArray[Any]:
    """`words[there]`, in a third of the time."""
    count = int(np.count_nonzero(there))
    out = np.empty(count + 1, words.dtype)
    _put_those(words.ravel(), there.ravel(), out)
    return out[:count]


def with_zeros(flat: NDArray[Any], packed: NDArray[np.uint8], shape: Sequence[int]) -> NDArray[Any]:
    """What `without_zeros` took apart, one row a run; `shape` of one array."""
    bits = packed.reshape(len(packed), *shape[:-1], -1)
    there = np.unpackbits(bits, axis=-1, count=shape[-1], bitorder="little").astype(np.bool_)
    whole = np.zeros(there.shape, flat.dtype)
    whole[there] = flat
    return whole
