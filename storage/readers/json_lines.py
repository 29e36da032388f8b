"""Columns of a file of JSON lines: an object a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from ksdp.storage.readers.files import Refused, read_text
from ksdp.storage.readers.source import Source


def open_json_lines(path: Path, encoding: str) -> Source:
    """Open JSON lines, whose columns are all keys that an object has.

    Raises
    ------
    CorpusError
        The file cannot be read, or is wrongly encoded, or a line is no object; naming the line at fault.
    """
    # Not splitlines(): a JSON string may hold U+2028 and its like as they are.
    lines = read_text(path, encoding).rstrip().split("\n")
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
