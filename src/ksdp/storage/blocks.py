"""Blocks of runs as Parquet: observables (one row a run) and values (one row a document).

A block is whole or absent. Its key (the content of everything it depends on) stands in its footer, its pages
carry checksums, and a reader who meets anything else raises `DamagedBlock` with the file's name.

Values are little-endian floats, the runs of a block side by side in one fixed-size binary cell a document and
statistic (`numpy.frombuffer(cell, "<f4")`): on two cores, typed list columns cost three times the time.
Inclusion bits lie beside them (`numpy.unpackbits(cell, bitorder="little")`). Where a part of the values is
measured (`ksdp.audit.run_subsampling`), bits `_kept` say which, and a cell holds these alone: cells differ in
length.

Observables are typed lists. Of an array with many zeros a binary cell a run holds the other entries alone, in
order, as values do (`ksdp.type.<name>` in the footer), and bits `_nonzero.<name>` say where they stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.errors import DamagedBlock
from ksdp.audit.numeric.array_types import Bits
from ksdp.audit.run_subsampling import read_runs
from ksdp.audit.runs import BlockValues, Stored
from ksdp.audit.specs.design import Block
from ksdp.audit.verdicts.controls import CANARY
from ksdp.storage.remote import Place, source_of
from ksdp.storage.store import write_whole

ROW_GROUP = 1024
"""Documents in a row group of values: what one test reads at a time."""

_SPARSE = 0.2
_MOST_OF_A_GROUP = 2**30
"""Bytes of an array's observables in a row group."""
_KEPT = "_kept"
_DIGESTS = "ksdp.digests"
_OPTIONS: dict[str, Any] = {"use_dictionary": False, "write_statistics": False, "write_page_checksum": True}


def block_name(block: Block) -> str:
    """File name of a block."""
    return f"{block.lane:06d}-{block.start:07d}-{block.stop:07d}.parquet"


def _footer(block: Block, key: str) -> dict[str, str]:
    return {"ksdp.key": key, "ksdp.block": f"{block.lane}/{block.start}/{block.stop}"}


def has_block(folder: Place, block: Block, key: str) -> bool:
    """Whether a block is there with a readable footer that names this key."""
    path = folder / block_name(block)
    if not path.is_file():
        return False
    with _opened(path, block, key):
        return True


def check_block(folder: Place, block: Block, key: str) -> None:
    """Read a block to its end, comparing every page with its checksum."""
    with _opened(folder / block_name(block), block, key) as file:
        for group in range(file.num_row_groups):
            file.read_row_group(group, use_threads=False)


class _opened:  # noqa: N801 - reads as a verb: `with _opened(path, ...) as file`
    """A Parquet file whose every failure is a `DamagedBlock` that names it."""

    def __init__(self, path: Place, block: Block, key: str) -> None:
        self._path, self._block, self._key = path, block, key

    def __enter__(self) -> Any:
        try:
            mapped = isinstance(self._path, Path)
            self._file = pq.ParquetFile(source_of(self._path), memory_map=mapped, page_checksum_verification=True)
            metadata = {k.decode(): v.decode() for k, v in (self._file.schema_arrow.metadata or {}).items()}
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DamagedBlock(f"block {self._path.name} cannot be read: {type(error).__name__}.") from error
        for name, value in _footer(self._block, self._key).items():
            if metadata.get(name) != value:
                raise DamagedBlock(f"block {self._path.name} is not what its key promises ({name}).")
        return self._file

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._file.close()
        if isinstance(error, OSError | pa.ArrowException):
            raise DamagedBlock(f"block {self._path.name} is damaged: {type(error).__name__}.") from error


class ObservablesWriter:
    """Collect the observables of a block run by run, then write them as one file."""

    def __init__(self, block: Block, key: str) -> None:
        self._block, self._key = block, key
        self._runs: list[Stored] = []

    def add(self, stored: Stored) -> None:
        """Keep one run."""
        self._runs.append(stored)

    def write(self, folder: Place) -> None:
        """Write the file: column `run`, and one fixed-size list a named array (row-major)."""
        columns: dict[str, Any] = {"run": pa.array(range(self._block.start, self._block.stop), pa.int64())}
        metadata = _footer(self._block, self._key)
        for name, first in self._runs[0].items():
            flat = np.concatenate([stored[name].ravel() for stored in self._runs])
            metadata[f"ksdp.shape.{name}"] = ",".join(map(str, first.shape))
            # Without its zeros an array is smaller than any codec makes it with them, and quicker to read.
            if flat.dtype.kind == "f" and first.ndim and (first == 0).mean() > _SPARSE:
                little = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
                columns |= _without_zeros(name, little.reshape(len(self._runs), *first.shape))
                metadata[f"ksdp.type.{name}"] = little.dtype.str
            else:
                element = pa.field("element", pa.from_numpy_dtype(flat.dtype), nullable=False)
                columns[name] = pa.FixedSizeListArray.from_arrays(
                    pa.array(flat), type=pa.list_(element, first.size)
                )
        table = pa.table(columns).replace_schema_metadata(metadata)
        # Bits of rows that have their zeros in the same places compress; floats hardly do.
        codec: Any = {name: "zstd" for name in columns if name.startswith(NONZERO)} or "none"
        # A thousand cells are a page at least, which holds 2 GiB at most.
        largest = max(stored.nbytes for stored in self._runs[0].values())
        rows = max(min(_MOST_OF_A_GROUP // max(largest, 1), len(self._runs)), 1)
        write_whole(
            folder / block_name(self._block),
            lambda part: pq.write_table(table, part, row_group_size=rows, compression=codec, **_OPTIONS),
        )


def read_observables(folder: Place, block: Block, key: str) -> Iterator[Stored]:
    """The observables of each run of a block, in order."""
    with _opened(folder / block_name(block), block, key) as file:
        table = file.read(use_threads=False)
        metadata = table.schema.metadata
        arrays = {}
        for name in table.column_names:
            if name == "run" or name.startswith(NONZERO):
                continue
            shape = [int(n) for n in metadata[f"ksdp.shape.{name}".encode()].decode().split(",") if n]
            column = table.column(name)
            if f"ksdp.type.{name}".encode() in metadata:
                flat = _of_cells(column, metadata[f"ksdp.type.{name}".encode()].decode())
            else:
                flat = column.combine_chunks().flatten().to_numpy()
            if NONZERO + name in table.column_names:
                flat = _with_zeros(flat, _bytes_of(table[NONZERO + name]), shape)
            arrays[name] = flat.reshape(len(block), *shape)
    for at in range(len(block)):
        yield {name: array[at] for name, array in arrays.items()}


def write_values(folder: Place, measured: BlockValues, key: str, precision: str) -> None:
    """Write the values of a block."""
    kept = measured.kept
    columns = {"inclusion": cells(np.packbits(measured.inclusion, axis=1, bitorder="little"))}
    if kept is not None:
        columns[_KEPT] = cells(np.packbits(kept, axis=1, bitorder="little"))
    little = np.dtype(precision).newbyteorder("<")
    arrays = dict(measured.values) if measured.canary is None else {**measured.values, CANARY: measured.canary}
    for name, values in arrays.items():
        values = values.astype(little, copy=False)
        columns[name] = cells(values) if kept is None else _joined_cells(values[kept], kept.sum(axis=1))
    metadata = _footer(measured.block, key) | {"ksdp.precision": precision, _DIGESTS: " ".join(measured.digests)}
    table = pa.table(columns).replace_schema_metadata(metadata)
    write_whole(
        folder / block_name(measured.block),
        lambda part: pq.write_table(table, part, compression="none", row_group_size=ROW_GROUP, **_OPTIONS),
    )


def read_digests(folder: Place, block: Block, key: str) -> list[str]:
    """Read the digest of each run's announcement in the block."""
    with _opened(folder / block_name(block), block, key) as file:
        return str(file.schema_arrow.metadata[_DIGESTS.encode()].decode()).split()


@dataclass(frozen=True, eq=False)
class StoredCells:
    """Values of some documents in a block."""

    inclusion: NDArray[np.bool_]
    """Shape (n_rows, n_runs)."""
    kept: NDArray[np.bool_] | None
    """Which values there are, of the same shape; None: all of them."""
    values: list[NDArray[Any]]
    """One array a statistic: of the same shape, or where `kept` says which, these alone, row after row."""

    def whole(self) -> list[NDArray[Any]]:
        """Arrays of the shape of `inclusion`, NaN where nothing was measured."""
        if self.kept is None:
            return self.values
        spread = [np.full(self.kept.shape, np.nan, values.dtype) for values in self.values]
        for array, values in zip(spread, self.values, strict=True):
            array[self.kept] = values
        return spread


def read_values(
    folder: Place, block: Block, key: str, group: int, names: Sequence[str], precision: str
) -> StoredCells:
    """Read one row group."""
    with _opened(folder / block_name(block), block, key) as file:
        return _unpacked(file.read_row_group(group, _asked(file, names), use_threads=False), block, precision)


def read_groups(folder: Place, block: Block, key: str, names: Sequence[str], precision: str) -> StoredCells:
    """Read all rows: those of the documents, then those of the controls."""
    with _opened(folder / block_name(block), block, key) as file:
        return _unpacked(file.read(_asked(file, names), use_threads=False), block, precision)


def _asked(file: Any, names: Sequence[str]) -> list[str]:
    return ["inclusion", *([_KEPT] if _KEPT in file.schema_arrow.names else []), *names]


def _unpacked(table: pa.Table, block: Block, precision: str) -> StoredCells:
    def bits(name: str) -> NDArray[np.bool_]:
        packed = _bytes_of(table[name])
        return np.unpackbits(packed, axis=1, count=len(block), bitorder="little").astype(np.bool_)

    little = np.dtype(precision).newbyteorder("<")
    names = [name for name in table.column_names if name not in ("inclusion", _KEPT)]
    if _KEPT not in table.column_names:
        return StoredCells(bits("inclusion"), None, [_bytes_of(table[name], little) for name in names])
    inclusion, kept = bits("inclusion"), bits(_KEPT)
    values = [_of_cells(table[name], little) for name in names]
    if any(len(column) != kept.sum() for column in values):
        raise DamagedBlock(f"block {block_name(block)} does not hold the values that it says it keeps.")
    return StoredCells(inclusion, kept, values)


NONZERO = "_nonzero."
"""Before the name of an array: the bits that say where its entries stand."""


def cells(rows: NDArray[Any]) -> pa.Array:
    """Rows of numbers as fixed-size cells."""
    rows = np.ascontiguousarray(rows)
    width = rows.shape[1] * rows.itemsize
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(rows), [None, pa.py_buffer(rows)])


def _joined_cells(flat: NDArray[Any], counts: NDArray[np.int64]) -> pa.Array:
    large = flat.nbytes > np.iinfo(np.int32).max
    offsets = np.zeros(len(counts) + 1, np.int64 if large else np.int32)
    np.cumsum(counts * flat.itemsize, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(flat))]
    return pa.Array.from_buffers(pa.large_binary() if large else pa.binary(), len(counts), buffers)


def _of_cells(column: Any, dtype: Any) -> NDArray[Any]:
    _, offsets, data = column.combine_chunks().buffers()
    ends = np.frombuffer(offsets, np.int64 if pa.types.is_large_binary(column.type) else np.int32)
    ends = ends[: len(column) + 1]
    return np.frombuffer(data, dtype, count=(ends[-1] - ends[0]) // np.dtype(dtype).itemsize, offset=ends[0])


def _bytes_of(column: Any, dtype: Any = np.uint8) -> NDArray[Any]:
    column = column.combine_chunks()
    width = column.type.byte_width // np.dtype(dtype).itemsize
    flat = np.frombuffer(column.buffers()[1], dtype=dtype, count=(len(column) + column.offset) * width)
    return flat.reshape(-1, width)[column.offset :]


def _without_zeros(name: str, arrays: NDArray[Any]) -> dict[str, pa.Array]:
    """The entries of each run that are not zero, by their bits (-0.0 is none), and packed bits that say which."""
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
    count = int(np.count_nonzero(there))
    out = np.empty(count + 1, words.dtype)
    _put_those(words.ravel(), there.ravel(), out)
    return out[:count]


def _with_zeros(flat: NDArray[Any], packed: NDArray[np.uint8], shape: Sequence[int]) -> NDArray[Any]:
    bits = packed.reshape(len(packed), *shape[:-1], -1)
    there = np.unpackbits(bits, axis=-1, count=shape[-1], bitorder="little").astype(np.bool_)
    dense = np.zeros(there.shape, flat.dtype)
    dense[there] = flat
    return dense


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


def stack_blocks(cells: Sequence[StoredCells], rows: Rows, width: int) -> tuple[Bits, list[NDArray[Any]]]:
    """Bits and values of the runs that tests read, each of shape (n_rows, width), runs in order."""
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
        for dense, flat in zip(values, block.values, strict=True):
            _put(flat, np.asarray(block.kept), mine, filled, dense)
        filled += mine.sum(axis=1)
        start = here.stop
    bits = inclusion[read].reshape(-1, width)
    return bits[rows], [dense[rows] for dense in values]
