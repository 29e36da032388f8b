"""A file with named columns, whichever format it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Source:
    """An open file with named columns."""

    path: Path
    encoding: str
    """Of CSV, JSON lines, and of text stored as bytes in Parquet."""
    names: tuple[str, ...]
    """In the file's order; CSV and Parquet may repeat one."""
    rows: int
    typed: bool
    """False for CSV, where every column is text until it is asked for as numbers."""
    read: Callable[[str], pa.Array]
    """One column by name. CSV and JSON lines give null for a missing value."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Of the columns, where they are known before any is read (Parquet)."""


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Chunks as one array; strings with 64-bit offsets, so that more than 2 GiB fit."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        column = column.cast(pa.large_string())
    elif pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
        column = column.cast(pa.large_binary())
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)
