"""Named columns of a file of tables, checked: text, labels (ids, parties, groups) and numbers."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ksdp.audit.errors import CorpusError
from ksdp.storage.readers.files import (
    MOST_ROWS,
    Refused,
    check_archive,
    decoded,
    extension,
    kind_of_file,
    largest_input,
    read_text,
)


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
    separator: str = ","
    """Of a CSV."""


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    """Chunks as one array; strings with 64-bit offsets, so that more than 2 GiB fit."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        column = column.cast(pa.large_string())
    elif pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
        column = column.cast(pa.large_binary())
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)


def _open_csv(path: Path, encoding: str) -> Source:
    """Open a CSV file, whose first line names the columns; by that line, commas, semicolons or tabs separate."""
    text = read_text(path, encoding)
    names, separator = _header(path, text)
    wrong: list[Any] = []

    def note(row: Any) -> str:
        wrong.append(row)
        return "skip"

    data = text.encode()
    if len(names) > _WIDE and len(data) < _SHORT * len(names):
        return _open_wide(path, encoding, names, text, separator)
    columns = {name: pa.large_string() for name in names}
    try:
        table = pacsv.read_csv(
            pa.BufferReader(data + b"\n"),
            # One block: a quoted text may be longer than any block. One thread: rows are numbered only then.
            pacsv.ReadOptions(use_threads=False, block_size=min(max(len(data) + 2, 2**16), 2**31 - 2)),
            pacsv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=note),
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
        _require_closed_quotes(path, text, separator)

    def read(name: str) -> pa.Array:
        return _with_points(_one_array(table.column(name)), separator)

    return Source(path, encoding, names, table.num_rows, False, read, separator=separator)


_WIDE, _SHORT = 1000, 1000
"""Arrow spends a tenth of a millisecond and kilobytes on a column: too much for many with few bytes each."""


_DECIMAL_COMMAS = r"^\s*[+-]?\d+(,\d+)?\s*$"


def _with_points(column: pa.Array, separator: str) -> pa.Array:
    """A column of numbers with decimal commas, which a comma cannot separate, with points; any other as it is."""
    if separator == "," or not pc.any(pc.match_substring(column, ",")).as_py():
        return column
    numbers = pc.or_(pc.match_substring_regex(column, _DECIMAL_COMMAS), pc.is_in(column, MISSING))
    return pc.replace_substring(column, ",", ".") if pc.all(numbers).as_py() else column


def _open_wide(path: Path, encoding: str, names: tuple[str, ...], text: str, separator: str) -> Source:
    """Open a CSV of many short columns."""
    limit = csv.field_size_limit(len(text) + 1)
    rows: list[list[str]] = []
    try:
        for record in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True):
            if record and len(record) != len(names):
                problem = f"has {len(record)} fields where the header has {len(names)}."
                raise Refused(path, problem, row=len(rows))
            if record:
                rows.append(record)
    except csv.Error:
        raise Refused(path, "is not CSV that can be read.", row=max(len(rows), 1)) from None
    finally:
        csv.field_size_limit(limit)
    del rows[0]
    at = {name: place for place, name in enumerate(names)}

    def read(name: str) -> pa.Array:
        place = at[name]
        return _with_points(pa.array([row[place] or None for row in rows], pa.large_string()), separator)

    return Source(path, encoding, names, len(rows), False, read, separator=separator)


def _header(path: Path, text: str) -> tuple[tuple[str, ...], str]:
    """Names of the columns, and what separates them: a comma, or what else there is in a header without."""
    one: tuple[str, ...] | None = None
    for separator in ",;\t|":
        try:
            records = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
            names = tuple(next((record for record in records if record), ()))
        except csv.Error:  # by another separator, a name may be too long to be one
            continue
        if len(names) > 1:
            return names, separator
        one = one or names
    if one is None:
        raise Refused(path, "the header is not CSV.")
    if not one:
        raise Refused(path, "is empty.")
    return one, ","


def _require_closed_quotes(path: Path, text: str, separator: str) -> None:
    """Refuse an unclosed quote: it would swallow the rest of the file, or the file is cut short."""
    records, limit = 0, csv.field_size_limit(len(text) + 1)  # the header is one: the row at fault is the last
    try:
        for _ in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True):
            records += 1
    except csv.Error:
        problem = "a quote is opened and not closed, or the file is cut short."
        raise Refused(path, problem, row=max(records, 1)) from None
    finally:
        csv.field_size_limit(limit)


def _open_json_lines(path: Path, encoding: str) -> Source:
    """Open JSON lines, whose columns are all keys that an object has."""
    # Not splitlines(): a JSON string may hold U+2028 and its like as they are.
    lines = read_text(path, encoding).rstrip().split("\n")
    if lines == [""]:
        raise Refused(path, "is empty.")
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise Refused(path, f"line {number} is not JSON.") from None
        if not isinstance(record, dict):
            raise Refused(path, f"line {number} is not a JSON object.")
        rows.append(record)
    return _of_objects(path, encoding, rows)


def _open_json(path: Path, encoding: str) -> Source:
    """Open one array of objects, whose columns are all keys that an object has."""
    try:
        rows = json.loads(read_text(path, encoding))
    except (ValueError, RecursionError) as error:
        line = f"line {error.lineno} " if isinstance(error, json.JSONDecodeError) else ""
        raise Refused(path, f"{line}is not JSON.") from None
    if not isinstance(rows, list):
        raise Refused(path, "is not an array of objects.")
    for number, record in enumerate(rows, start=1):
        if not isinstance(record, dict):
            raise Refused(path, "is not a JSON object.", row=number)
    return _of_objects(path, encoding, rows)


def _of_objects(path: Path, encoding: str, rows: list[dict[str, Any]]) -> Source:
    names = dict.fromkeys(name for row in rows for name in row)

    def read(name: str) -> pa.Array:
        return _json_column(path, [row.get(name) for row in rows], name)

    return Source(path, encoding, tuple(names), len(rows), True, read)


def _open_workbook(path: Path, encoding: str) -> Source:
    """Open the one sheet of a workbook that has cells; its first row names the columns."""
    from python_calamine import CalamineWorkbook

    try:
        check_archive(path)
        _check_shared_texts(path)
        with CalamineWorkbook.from_path(path) as book:
            sheets = [book.get_sheet_by_name(name).to_python() for name in book.sheet_names]
    except Refused:
        raise
    except Exception:  # a damaged archive fails in a dozen ways
        raise Refused(path, "is damaged, cut short, encrypted or not .xlsx.") from None
    full = [rows for sheet in sheets if (rows := [row for row in sheet if any(cell != "" for cell in row)])]
    if len(full) != 1:
        problem = f"has {len(full)} sheets with cells; save the one to audit as a file of its own."
        raise Refused(path, problem if full else "is empty.")
    columns = [column for column in zip(*full[0], strict=True) if any(cell != "" for cell in column)]
    for number, (name, *_) in enumerate(columns, start=1):
        if not isinstance(name, str) or not name:
            raise Refused(path, f"column {number} has no name in the first row.")
    at = {column[0]: column[1:] for column in columns}

    def read(name: str) -> pa.Array:
        return _json_column(path, [_cell(value) for value in at[name]], name)

    return Source(path, encoding, tuple(column[0] for column in columns), len(full[0]) - 1, True, read)


def _check_shared_texts(path: Path) -> None:
    """Refuse a workbook whose cells, which name their texts, would write out more than a file may have."""
    cells, longest = 0, 0
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith("sharedStrings.xml"):
                longest = max(map(len, archive.read(name).split(b"<si")))
            elif "/sheet" in name:
                cells += len(re.findall(rb"""t\s*=\s*["']s["']""", archive.read(name)))
    if cells * longest > largest_input():
        raise _too_large(path)


def _cell(value: object) -> object:
    """As JSON has it: dates as text, and null where there is nothing."""
    return None if value == "" else value if isinstance(value, str | bool | int | float) else str(value)


def _open_array(path: Path, encoding: str) -> Source:
    """Open the one matrix of a file of NumPy; its columns are numbered from 0."""
    try:
        if extension(path) == ".npz":
            check_archive(path)
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        arrays = [loaded[name] for name in loaded.files] if hasattr(loaded, "files") else [loaded]
    except Refused:
        raise
    except Exception:  # as above
        raise Refused(path, "is damaged, cut short or not an array of numbers that NumPy saved.") from None
    if len(arrays) != 1:
        raise Refused(path, f"holds {len(arrays)} arrays; save the matrix alone.")
    (matrix,) = arrays
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        problem = f"holds {matrix.dtype} of shape {matrix.shape}; rows and columns of numbers are needed."
        raise Refused(path, problem)
    kind = {"b": np.dtype(np.uint8), "f": np.dtype(np.float64)}.get(
        matrix.dtype.kind, matrix.dtype.newbyteorder("=")
    )
    names = tuple(map(str, range(matrix.shape[1])))
    types = dict.fromkeys(names, pa.from_numpy_dtype(kind))

    def read(name: str) -> pa.Array:
        return pa.array(matrix[:, int(name)].astype(kind))

    return Source(path, encoding, names, matrix.shape[0], True, read, types)


def _json_column(path: Path, values: list[Any], name: str) -> pa.Array:
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


_NUMBER = 8
"""Bytes of a number, at most."""


def _open_parquet(path: Path, encoding: str) -> Source:
    """Open a file, whose columns are read one by one."""
    damaged = Refused(path, "is damaged, cut short or not Parquet.")
    file = checked_parquet(path)
    schema, rows = pq.read_schema(path), int(file.metadata.num_rows)
    names = tuple(schema.names)

    def read(name: str) -> pa.Array:
        try:
            array = _one_array(_read_column(path, file, name))
        except Refused:
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError):
            raise damaged from None
        if len(array) != rows:
            raise damaged
        return array

    return Source(path, encoding, names, rows, True, read, dict(zip(names, schema.types, strict=True)))


def checked_parquet(path: Path) -> pq.ParquetFile:
    """Open a file whose sizes are within the limits."""
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
    """One column, its texts written out."""
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


_OPENERS: dict[str, Callable[[Path, str], Source]] = {
    ".parquet": _open_parquet,
    ".pq": _open_parquet,
    ".csv": _open_csv,
    ".tsv": _open_csv,
    ".jsonl": _open_json_lines,
    ".ndjson": _open_json_lines,
    ".json": _open_json,
    ".xlsx": _open_workbook,
    ".npy": _open_array,
    ".npz": _open_array,
}
"""Extensions of the files with named columns, and what opens them in an encoding; CSV and JSON may be
compressed (`.gz`)."""


def open_source(path: Path, encoding: str) -> Source:
    """Open a file by its extension."""
    suffix = kind_of_file(path)
    if suffix not in _OPENERS:
        raise Refused(path, f"columns are read from {', '.join(_OPENERS)} files; not from {suffix or 'this one'}.")
    return _OPENERS[suffix](path, encoding)


LONGEST_LABEL = 500
"""Characters. A longer id is a text column taken for one, and ids appear in reports."""

MISSING = pa.array(["", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"], pa.large_string())
"""What a CSV holds where a number is missing; a column of numbers and of these is a numeric column."""


_TOGETHER = 1 << 21
"""Entries that are read as numbers in one go."""


def open_columns(path: Path, encoding: str) -> Columns:
    """Open a file of tables by its extension."""
    source = open_source(path, encoding)
    if not source.rows:
        raise Refused(path, "has no rows.")
    return Columns(source)


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of one file; every method raises a CorpusError that names the first row at fault."""

    source: Source

    @property
    def path(self) -> Path:
        """The file."""
        return self.source.path

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns in the file's order."""
        return self.source.names

    def __len__(self) -> int:
        return self.source.rows

    @cached_property
    def _times(self) -> Counter[str]:
        return Counter(self.names)

    def require(self, names: Iterable[str]) -> None:
        """Refuse a column that is not there, or there twice; the message lists those there are."""
        for name in names:
            if name not in self._times:
                raise Refused(self.path, f"there is no column `{name}`; there are {self.listed()}.")
            if self._times[name] > 1:
                problem = f"occurs {self._times[name]} times in the header; rename all but one."
                raise Refused(self.path, problem, column=name)

    def listed(self) -> str:
        """Return the names for a message: the first 40, and no long ones (without a header they are text)."""
        names = [f"`{name}`" if len(name) <= 60 else f"a name of {len(name)} characters" for name in self.names]
        return ", ".join(names[:40]) + (f" and {len(names) - 40} more" if len(names) > 40 else "")

    def text(self, name: str) -> list[str]:
        """Return a column of texts; one that is missing is empty, and its row is left out later."""
        array = self._read(name)
        if not pa.types.is_large_string(array.type):
            raise Refused(self.path, f"holds {array.type}; text is needed.", column=name)
        return cast(list[str], (array.fill_null("") if array.null_count else array).to_pylist())

    def labels(self, name: str, *, unique: bool = False) -> NDArray[np.str_]:
        """Return a column of text or whole numbers (as decimal digits: `1`, not `1.0`); none may be missing.

        Parameters
        ----------
        unique : bool
            Refuse a label that occurs twice.
        """
        array = self._labels(name)
        if unique:
            codes = array.dictionary_encode().indices.to_numpy()
            again = np.ones(len(codes), dtype=np.bool_)
            again[np.unique(codes, return_index=True)[1]] = False
            if again.any():
                row = int(again.argmax())
                first = int((codes == codes[row]).argmax())
                raise Refused(
                    self.path,
                    f"repeats that of row {first + 1}; rows of one person are a `group`.",
                    row=row + 1,
                    column=name,
                )
        return np.array(array.to_pylist(), dtype=np.str_)

    def coded(self, name: str) -> tuple[NDArray[np.intp], NDArray[np.str_]]:
        """Return a column of labels as (codes, sorted distinct labels), so that `labels[codes]` is the column.

        Whole numbers are sorted by value, anything else as text: a CSV gives what a Parquet file gives.
        """
        encoded = self._labels(name).dictionary_encode()
        labels = np.array(encoded.dictionary.to_pylist(), dtype=np.str_)
        try:
            numbers = [int(label) for label in labels]
            plain = all(str(number) == label for number, label in zip(numbers, labels, strict=True))
        except ValueError:
            plain = False
        order = sorted(range(len(labels)), key=numbers.__getitem__ if plain else labels.__getitem__)
        place = np.empty(len(labels), dtype=np.intp)
        place[order] = np.arange(len(labels))
        return place[encoded.indices.to_numpy()], labels[order]

    def numbers(self, name: str, *, nonnegative: bool = False, missing: bool = False) -> NDArray[np.float64]:
        """Return a column of finite numbers (true and false are 1 and 0); `missing` ones are NaN, or refused."""
        array = self._read(name)
        if not self.source.typed:
            array = self._parse(name, array)
        elif not (_is_number(array.type) or pa.types.is_boolean(array.type)):
            raise Refused(self.path, f"holds {array.type}; numbers are needed.", column=name)
        absent = array.is_null().to_numpy(zero_copy_only=False)
        if not missing:
            self._refuse(name, array.is_null(), "the number is missing.")
        values = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        self._refuse(name, ~(np.isfinite(values) | absent), "is not finite.")
        if nonnegative:
            self._refuse(name, values < 0, "is negative, which this mechanism or weighting does not take.")
        return np.asarray(values, dtype=np.float64)

    def numeric(self, name: str) -> bool:
        """Whether the column holds numbers only; in a CSV, entries that are missing aside."""
        if name in self.source.types:
            return _is_number(self.source.types[name])
        try:
            array = self.source.read(name)
        except CorpusError:  # a JSON column that mixes text and numbers
            return False
        if self.source.typed:
            return _is_number(array.type)
        present = _present(array)
        return present.null_count < len(present) and _casts(present)

    def numeric_among(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those that hold numbers only; those of a CSV are tried together."""
        if self.source.typed or len(names) < 2:
            return tuple(name for name in names if self.numeric(name))
        if len(names) * len(self) <= _TOGETHER:
            present = _present(self._joined(names))
            held = present.is_valid().to_numpy(zero_copy_only=False).reshape(len(names), -1)
            if held.any(axis=1).all() and _casts(present):
                return tuple(names)
        half = len(names) // 2
        return self.numeric_among(names[:half]) + self.numeric_among(names[half:])

    def table(self, names: Sequence[str], *, nonnegative: bool = False) -> NDArray[np.float64]:
        """Return columns of finite numbers, shape (rows, names)."""
        self.require(names)
        size = 1 if self.source.typed else max(1, _TOGETHER // len(self))
        batches = (names[at : at + size] for at in range(0, len(names), size))
        return np.column_stack([self._some(batch, nonnegative=nonnegative) for batch in batches])

    def _some(self, names: Sequence[str], *, nonnegative: bool) -> NDArray[np.float64]:
        """Several columns at once; where there is a fault, one after the other, which names it."""
        if len(names) > 1:
            present = _present(self._joined(names))
            if not present.null_count and _casts(present):
                values = present.cast(pa.float64()).to_numpy().reshape(len(names), -1)
                if np.isfinite(values).all() and not (nonnegative and (values < 0).any()):
                    return np.asarray(values.T)
        return np.column_stack([self.numbers(name, nonnegative=nonnegative) for name in names])

    def _joined(self, names: Sequence[str]) -> pa.Array:
        return pa.concat_arrays([self.source.read(name) for name in names])

    def _read(self, name: str) -> pa.Array:
        self.require([name])
        array = self.source.read(name)
        if pa.types.is_large_binary(array.type):
            return self._decode(name, array, self.source.encoding)
        if pa.types.is_large_string(array.type) and self.source.typed:
            try:
                array.validate(full=True)
            except pa.ArrowInvalid:
                return self._decode(name, array.cast(pa.large_binary()), "utf-8")
        return array

    def _decode(self, name: str, array: pa.Array, encoding: str) -> pa.Array:
        texts = [
            None if data is None else decoded(self.path, data, encoding, row=row, column=name)
            for row, data in enumerate(array.to_pylist(), start=1)
        ]
        return pa.array(texts, pa.large_string())

    def _labels(self, name: str) -> pa.Array:
        array = self._read(name)
        if pa.types.is_floating(array.type):
            # Where an integer column has gaps, pandas writes floats.
            values = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
            self._refuse(name, np.isnan(values), "is missing.")
            broken = (values != np.floor(values)) | (abs(values) >= 2**53)
            self._refuse(name, broken, "is neither text nor a whole number.")
            array = pa.array(values.astype(np.int64))
        if pa.types.is_null(array.type):
            raise Refused(self.path, "is missing.", row=1, column=name)
        if pa.types.is_integer(array.type) or pa.types.is_boolean(array.type):
            array = array.cast(pa.large_string())
        if not pa.types.is_large_string(array.type):
            raise Refused(self.path, f"holds {array.type}; text or whole numbers are needed.", column=name)
        self._refuse(name, pc.equal(pc.utf8_trim_whitespace(array), "").fill_null(True), "is missing.")
        self._refuse(name, pc.match_substring(array, "\0"), "holds a NUL character.")
        too_long = pc.greater(pc.utf8_length(array), LONGEST_LABEL)
        self._refuse(name, too_long, f"is longer than {LONGEST_LABEL} characters.")
        return array

    def _parse(self, name: str, array: pa.Array) -> pa.Array:
        """Numbers of a CSV column; missing ones null."""
        trimmed = _present(array)
        if _casts(trimmed):
            return trimmed.cast(pa.float64())
        start, stop = 0, len(trimmed)  # the first fault is in here
        while stop - start > 1:
            middle = (start + stop) // 2
            if _casts(trimmed[start:middle]):
                start = middle
            else:
                stop = middle
        raise Refused(self.path, "is not a number.", row=start + 1, column=name)

    def _refuse(self, name: str, faulty: pa.Array | NDArray[np.bool_], problem: str) -> None:
        mask = np.asarray(faulty if isinstance(faulty, np.ndarray) else faulty.to_numpy(zero_copy_only=False))
        if mask.any():
            raise Refused(self.path, problem, row=int(mask.argmax()) + 1, column=name)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _present(array: pa.Array) -> pa.Array:
    """Texts of a CSV without the space around them; null where a number is missing."""
    trimmed = pc.utf8_trim_whitespace(array)
    return pc.if_else(pc.is_in(trimmed, MISSING), pa.scalar(None, pa.large_string()), trimmed)


def _casts(array: pa.Array) -> bool:
    try:
        array.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True
