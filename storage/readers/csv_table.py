"""Columns of a CSV file, every one as text."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from ksdp.storage.readers.files import Refused, read_text
from ksdp.storage.readers.source import Source, one_array


def open_csv(path: Path, encoding: str) -> Source:
    """Open a CSV file, whose first line names the columns.

    Raises
    ------
    CorpusError
        The file cannot be read, or is wrongly encoded or no CSV; naming the row at fault.
    """
    text = read_text(path, encoding)
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
    return Source(path, encoding, names, table.num_rows, False, lambda name: one_array(table.column(name)))


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
