"""Parquet files of strangers: what they say of their size is looked at before anything is unpacked.

A page of a thousand bytes can say "this text, a hundred million times". Numbers are counted before they are read;
texts are read as the few that differ, and the length of all of them is added up before they are written out.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ksdp.storage.readers.files import Refused
from ksdp.storage.readers.limits import MOST_ROWS, largest_input
from ksdp.storage.readers.source import Source, one_array

_NUMBER = 8
"""Bytes of a number, at most."""


def open_parquet(path: Path, encoding: str) -> Source:
    """Open a file, whose columns are read one by one.

    Raises
    ------
    CorpusError
        If it is no Parquet, or says that it is larger than the limits.
    """
    damaged = Refused(path, "is damaged, cut short or not Parquet.")
    file = checked_parquet(path)
    schema, rows = pq.read_schema(path), int(file.metadata.num_rows)
    names = tuple(schema.names)

    def read(name: str) -> pa.Array:
        try:
            array = one_array(_read_column(path, file, name))
        except Refused:
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError):
            raise damaged from None
        if len(array) != rows:
            raise damaged
        return array

    return Source(path, encoding, names, rows, True, read, dict(zip(names, schema.types, strict=True)))


def checked_parquet(path: Path) -> pq.ParquetFile:
    """Open a file whose sizes are within the limits.

    Raises
    ------
    CorpusError
        If it is no Parquet, or says that it is larger.
    """
    try:
        with pq.ParquetFile(path) as first:
            texts = [field.name for field in first.schema_arrow if _is_text(field.type)]
        file = pq.ParquetFile(path, page_checksum_verification=True, read_dictionary=texts)
        metadata = file.metadata
        groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
        numbers = sum(group.column(at).num_values for group in groups for at in range(group.num_columns))
        size = max(_NUMBER * numbers, sum(group.total_byte_size for group in groups))
    except (pa.ArrowException, OSError, ValueError):
        raise Refused(path, "is damaged, cut short or not Parquet.") from None
    if metadata.num_rows > MOST_ROWS:
        raise Refused(path, f"says that it has {metadata.num_rows} rows; at most {MOST_ROWS} are read.")
    if size > largest_input():
        raise _too_large(path)
    return file


def _read_column(path: Path, file: pq.ParquetFile, name: str) -> pa.ChunkedArray:
    """One column, its texts written out.

    Raises
    ------
    CorpusError
        If they are too long together.
    ArrowException, OSError, ValueError, KeyError
        If it cannot be read.
    """
    column = file.read(columns=[name]).column(name)
    if not pa.types.is_dictionary(column.type):
        return column
    if _is_text(column.type.value_type):
        total = 0
        for chunk in column.chunks:
            lengths = pc.take(pc.cast(pc.binary_length(chunk.dictionary), pa.int64()), chunk.indices)
            total += pc.sum(lengths).as_py() or 0
        if total > largest_input():
            raise _too_large(path)
    return column.cast(column.type.value_type)


def _is_text(kind: pa.DataType) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(kind) for check in checks)


def _too_large(path: Path) -> Refused:
    return Refused(path, f"has more than {largest_input()} bytes, unpacked (KSDP_LARGEST_INPUT).")
