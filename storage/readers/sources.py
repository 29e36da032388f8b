"""Columns of a Parquet, CSV or JSON lines file as Arrow arrays, or a refusal that names the file and the row."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from ksdp.storage.readers.files import Refused, kind_of_file, read_text
from ksdp.storage.readers.parquet import open_parquet, read_column

__all__ = ["TABULAR", "Source", "open_source"]

TABULAR = (".parquet", ".pq", ".csv", ".jsonl", ".ndjson")
"""Extensions of the files with named columns; CSV and JSON lines may be compressed (`.gz`)."""


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


def open_source(path: Path, encoding: str) -> Source:
    """Open a file by its extension.

    Raises
    ------
    CorpusError
        The file is missing, damaged, wrongly encoded or of another kind.
    """
    suffix = kind_of_file(path)
    if suffix not in TABULAR:
        raise Refused(path, f"columns are read from {', '.join(TABULAR)} files; not from {suffix or 'this one'}.")
    text = None if suffix in (".parquet", ".pq") else read_text(path, encoding)
    if text is None:
        return _open_parquet(path, encoding)
    return _open_csv(path, encoding, text) if suffix == ".csv" else _open_json_lines(path, encoding, text)


def _open_parquet(path: Path, encoding: str) -> Source:
    damaged = Refused(path, "is damaged, cut short or not Parquet.")
    file = open_parquet(path)
    schema, rows = pq.read_schema(path), int(file.metadata.num_rows)
    names = tuple(schema.names)

    def read(name: str) -> pa.Array:
        try:
            array = _one(read_column(path, file, name))
        except Refused:
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError):
            raise damaged from None
        if len(array) != rows:
            raise damaged
        return array

    return Source(path, encoding, names, rows, True, read, dict(zip(names, schema.types, strict=True)))


def _open_csv(path: Path, encoding: str, text: str) -> Source:
    names = _header(path, text)
    wrong: list[Any] = []

    def note(row: Any) -> str:
        wrong.append(row)
        return "skip"

    data = text.encode()
    columns = {name: pa.large_string() for name in names}
    try:
        table = pacsv.read_csv(
            pa.BufferReader(data + b"\n"),
            # One block: a quoted text may be longer than any block. One thread: rows are numbered only then.
            pacsv.ReadOptions(use_threads=False, block_size=min(max(len(data) + 2, 2**16), 2**31 - 2)),
            pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=note),
            pacsv.ConvertOptions(
                column_types=columns,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
                check_utf8=False,
            ),
        )
    except pa.ArrowException:
        raise Refused(path, "is not CSV that can be read.") from None
    if wrong:
        first = wrong[0]
        expected, got = first.expected_columns, first.actual_columns
        raise Refused(path, f"has {got} fields where the header has {expected}.", row=first.number - 1)
    if data.count(b'"') % 2:
        _require_closed_quotes(path, text)
    return Source(path, encoding, names, table.num_rows, False, lambda name: _one(table.column(name)))


def _header(path: Path, text: str) -> tuple[str, ...]:
    try:
        for record in csv.reader(io.StringIO(text, newline="")):
            if record:
                return tuple(record)
    except csv.Error:
        raise Refused(path, "the header is not CSV.") from None
    raise Refused(path, "is empty.")


def _require_closed_quotes(path: Path, text: str) -> None:
    """Refuse an unclosed quote: it would swallow the rest of the file, or the file is cut short."""
    records, limit = 0, csv.field_size_limit(len(text) + 1)  # the header is one: the row at fault is the last
    try:
        for _ in csv.reader(io.StringIO(text, newline=""), strict=True):
            records += 1
    except csv.Error:
        problem = "a quote is opened and not closed, or the file is cut short."
        raise Refused(path, problem, row=max(records, 1)) from None
    finally:
        csv.field_size_limit(limit)


def _open_json_lines(path: Path, encoding: str, text: str) -> Source:
    # Not splitlines(): a JSON string may hold U+2028 and its like as they are.
    lines = text.rstrip().split("\n")
    if lines == [""]:
        raise Refused(path, "is empty.")
    rows: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise Refused(path, f"line {number} is not JSON.") from None
        if not isinstance(record, dict):
            raise Refused(path, f"line {number} is not a JSON object.")
        rows.append(record)
        names.update(dict.fromkeys(record))
    return Source(path, encoding, tuple(names), len(rows), True, lambda name: _json_column(path, rows, name))


def _json_column(path: Path, rows: list[dict[str, Any]], name: str) -> pa.Array:
    values = [row.get(name) for row in rows]
    known = next((value for value in values if value is not None), None)
    kind = _kind(known)
    for number, value in enumerate(values, start=1):
        if value is not None and _kind(value) != kind:
            raise Refused(path, f"is {_kind(value)}; the rows before hold {kind}.", row=number, column=name)
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Refused(path, "is half a surrogate pair, not text.", row=number, column=name) from None
    types = {"text": pa.large_string(), "true or false": pa.bool_(), "a number": pa.int64(), "nothing": pa.null()}
    if kind not in types:
        raise Refused(path, f"is {kind}; text or numbers are needed.", column=name)
    try:
        if any(isinstance(value, float) for value in values):
            return pa.array([None if value is None else float(value) for value in values], pa.float64())
        return pa.array(values, types[kind])
    except OverflowError:
        raise Refused(path, "holds a whole number of more than 64 bits.", column=name) from None


def _kind(value: object) -> str:
    if isinstance(value, bool):  # before int, which it is too
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if value is None:
        return "nothing"
    return "text" if isinstance(value, str) else "a list or an object"


def _one(column: pa.ChunkedArray) -> pa.Array:
    """Chunks as one array; strings with 64-bit offsets, so that more than 2 GiB fit."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        column = column.cast(pa.large_string())
    elif pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
        column = column.cast(pa.large_binary())
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)
