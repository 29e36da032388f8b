"""Named columns of a file of tables, checked: text, labels (ids, parties, groups) and numbers."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import warnings
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
from ksdp.storage.files import (
    MOST_ROWS,
    Refused,
    check_archive,
    decoded,
    kind_of_file,
    largest_input,
    largest_unpacked,
    read_text,
)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    """Chunks as one array; strings with 64-bit offsets, so that more than 2 GiB fit."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        column = column.cast(pa.large_string())
    elif pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
        column = column.cast(pa.large_binary())
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)


def columns_of(table: pa.Table, path: Path) -> Columns:
    """The columns of a table that is in memory; `path` stands for it in messages."""

    def read(name: str) -> pa.Array:
        column = table.column(name)
        return _one_array(column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column)

    names = tuple(table.column_names)
    return Columns(
        path, "utf-8", names, table.num_rows, True, read, dict(zip(names, table.schema.types, strict=True))
    )


_MOST_NAMES = 100_000
"""Columns of a CSV: Arrow spends a tenth of a millisecond and kilobytes on each."""
_END = "end"


def _open_csv(path: Path, encoding: str) -> Columns:
    """Open a CSV file, whose first line names the columns; by that line, commas, semicolons or tabs separate."""
    text = read_text(path, encoding)
    names, separator = _header(path, text)
    if len(names) > _MOST_NAMES:
        raise Refused(path, f"has {len(names)} columns; of a CSV at most {_MOST_NAMES} are read: save it as .npz.")
    # A row that ends the table: an open quote would swallow it.
    data = f"{text}\n{separator.join([_END] * len(names))}\n".encode()
    wrong: list[Any] = []

    def note(row: Any) -> str:
        wrong.append(row)
        return "skip"

    try:
        table = pacsv.read_csv(
            pa.BufferReader(data),
            # One block: a quoted text may be longer than any block. One thread: rows are numbered only then.
            pacsv.ReadOptions(use_threads=False, block_size=min(max(len(data) + 1, 2**16), 2**31 - 2)),
            pacsv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=note),
            pacsv.ConvertOptions(
                column_types={name: pa.large_string() for name in names},
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
                check_utf8=False,
            ),
        )
    except pa.ArrowException:
        raise Refused(path, "is not CSV that can be read.") from None
    rows = table.num_rows - 1
    if rows < 0 or any(table.column(at)[rows].as_py() != _END for at in (0, -1)):
        at = wrong[-1].number - 1 if wrong else rows + 1
        raise Refused(path, "a quote is opened and not closed, or the file is cut short.", row=max(at, 1))
    if wrong:
        expected, got = wrong[0].expected_columns, wrong[0].actual_columns
        raise Refused(path, f"has {got} fields where the header has {expected}.", row=wrong[0].number - 1)

    def read(name: str) -> pa.Array:
        return _one_array(table.column(name).slice(0, rows))

    return Columns(path, encoding, names, rows, False, read, separator=separator)


def _header(path: Path, text: str) -> tuple[tuple[str, ...], str]:
    """Names of the columns, and what separates them: a comma, or what else there is in a header without."""
    first_names: tuple[str, ...] | None = None
    for separator in ",;\t|":
        try:
            records = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
            names = tuple(next((record for record in records if record), ()))
        except csv.Error:  # by another separator, a name may be too long to be one
            continue
        if len(names) > 1:
            return names, separator
        first_names = first_names or names
    if first_names is None:
        raise Refused(path, "the header is not CSV.")
    if not first_names:
        raise Refused(path, "is empty.")
    return first_names, ","


def _open_json_lines(path: Path, encoding: str) -> Columns:
    # Not splitlines(): a JSON string may hold U+2028 and its like as they are.
    lines = read_text(path, encoding).rstrip().split("\n")
    if lines == [""]:
        raise Refused(path, "is empty.")
    return _of_objects(path, encoding, [_json(path, line, number) for number, line in enumerate(lines, start=1)])


def _open_json(path: Path, encoding: str) -> Columns:
    rows = _json(path, read_text(path, encoding))
    if not isinstance(rows, list):
        raise Refused(path, "is not an array of objects.")
    return _of_objects(path, encoding, rows)


def _json(path: Path, text: str, line: int | None = None) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        at = error.lineno if line is None and isinstance(error, json.JSONDecodeError) else line
        raise Refused(path, f"{'' if at is None else f'line {at} '}is not JSON.") from None


def _of_objects(path: Path, encoding: str, rows: list[Any]) -> Columns:
    for number, record in enumerate(rows, start=1):
        if not isinstance(record, dict):
            raise Refused(path, "is not a JSON object.", row=number)
    names = dict.fromkeys(name for row in rows for name in row)

    def read(name: str) -> pa.Array:
        return _json_column(path, [row.get(name) for row in rows], name)

    return Columns(path, encoding, tuple(names), len(rows), True, read)


def _open_workbook(path: Path, encoding: str) -> Columns:
    """Open the one sheet of a workbook that has cells; its first row names the columns."""
    import openpyxl

    try:
        check_archive(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and extensions that are not read
            with contextlib.closing(openpyxl.load_workbook(path, read_only=True, data_only=True)) as book:
                full = [rows for sheet in book.worksheets if (rows := _rows(path, sheet))]
    except Refused:
        raise
    except Exception:  # a damaged archive fails in a dozen ways
        raise Refused(path, "is damaged, cut short, encrypted or not .xlsx.") from None
    if len(full) != 1:
        problem = f"has {len(full)} sheets with cells; save the one to audit as a file of its own."
        raise Refused(path, problem if full else "is empty.")
    header, *rows = full[0]
    used = {number for row in full[0] for number, cell in enumerate(row) if cell is not None}
    at = {number: header[number] if number < len(header) else None for number in sorted(used)}
    for number, name in at.items():
        if not isinstance(name, str):
            raise Refused(path, f"column {number + 1} has no name in the first row.")
    place = {str(name): number for number, name in at.items()}

    def read(name: str) -> pa.Array:
        number = place[name]
        return _json_column(path, [row[number] if number < len(row) else None for row in rows], name)

    return Columns(path, encoding, tuple(map(str, at.values())), len(rows), True, read)


def _rows(path: Path, sheet: Any) -> list[tuple[object, ...]]:
    """The rows that have cells, without what is empty at their ends; as JSON has them, dates as text."""
    # One by one, whatever size the sheet claims. Bytes are counted, as cells may be far apart and share texts.
    sheet.reset_dimensions()
    rows, size, most = [], 0, largest_unpacked(path)
    for cells in sheet.iter_rows(values_only=True):
        width = max((at for at, cell in enumerate(cells, start=1) if cell not in (None, "")), default=0)
        size += sum(len(cell) if isinstance(cell, str) else _NUMBER for cell in cells[:width])
        if size > most:
            raise _too_large(path, most)
        if width:
            rows.append(tuple(_cell(cell) for cell in cells[:width]))
    return rows


def _cell(value: object) -> object:
    if value is None or value == "":
        return None
    return value if isinstance(value, str | bool | int | float) else str(value).removesuffix(" 00:00:00")


def read_matrix(path: Path) -> Any:
    """The one matrix of a file of NumPy, mapped where it lies: the size in its header is not believed."""
    try:
        if kind_of_file(path) == ".npz":
            check_archive(path)
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        arrays = [loaded[name] for name in loaded.files] if hasattr(loaded, "files") else [loaded]
    except Refused:
        raise
    except Exception:  # as above
        raise Refused(path, "is damaged, cut short or not an array of numbers that NumPy saved.") from None
    if len(arrays) != 1:
        raise Refused(path, f"holds {len(arrays)} arrays; save the matrix alone.")
    matrix = arrays[0]
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        problem = f"holds {matrix.dtype} of shape {matrix.shape}; rows and columns of numbers are needed."
        raise Refused(path, problem)
    return matrix


def _open_array(path: Path, encoding: str) -> Columns:
    matrix = read_matrix(path)
    kind = {"b": np.dtype(np.uint8), "f": np.dtype(np.float64)}.get(
        matrix.dtype.kind, matrix.dtype.newbyteorder("=")
    )
    names = tuple(map(str, range(matrix.shape[1])))
    types = dict.fromkeys(names, pa.from_numpy_dtype(kind))

    def read(name: str) -> pa.Array:
        return pa.array(matrix[:, int(name)].astype(kind))

    return Columns(path, encoding, names, matrix.shape[0], True, read, types)


def _json_column(path: Path, values: list[Any], name: str) -> pa.Array:
    example = next((value for value in values if value is not None), None)
    kind = _kind(example)
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


def _open_parquet(path: Path, encoding: str) -> Columns:
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

    return Columns(path, encoding, names, rows, True, read, dict(zip(names, schema.types, strict=True)))


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
    if size > (most := largest_input()):
        raise _too_large(path, most)
    return file


def _read_column(path: Path, file: pq.ParquetFile, name: str) -> pa.ChunkedArray:
    column = file.read(columns=[name]).column(name)
    if not pa.types.is_dictionary(column.type):
        return column
    if _is_text(column.type.value_type):
        total = 0
        for chunk in column.chunks:
            lengths = pc.take(pc.cast(pc.binary_length(chunk.dictionary), pa.int64()), chunk.indices)
            total += pc.sum(lengths).as_py() or 0
        if total > (most := largest_input()):
            raise _too_large(path, most)
    return column.cast(column.type.value_type)


def _is_text(kind: pa.DataType) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(kind) for check in checks)


def _too_large(path: Path, most: int) -> Refused:
    return Refused(path, f"has more than {most} bytes, unpacked (KSDP_LARGEST_INPUT).")


_OPENERS: dict[str, Callable[[Path, str], Columns]] = {
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


LONGEST_LABEL = 500
"""Characters. A longer id is a text column taken for one, and ids appear in reports."""

MISSING = pa.array(["", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"], pa.large_string())
"""Values of a CSV that stand for a missing number; a column of numbers and of these is a numeric column."""


def open_columns(path: Path, encoding: str) -> Columns:
    """Open a file of tables by its extension."""
    suffix = kind_of_file(path)
    if suffix not in _OPENERS:
        raise Refused(path, f"columns are read from {', '.join(_OPENERS)} files; not from {suffix or 'this one'}.")
    columns = _OPENERS[suffix](path, encoding)
    if not len(columns):
        raise Refused(path, "has no rows.")
    return columns


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of one file; every method raises a CorpusError that names the first row at fault."""

    path: Path
    encoding: str
    """Encoding of CSV, JSON lines, and of text stored as bytes in Parquet."""
    names: tuple[str, ...]
    """In the file's order; CSV and Parquet may repeat one."""
    rows: int
    typed: bool
    """False for CSV, where every column is text until it is asked for as numbers."""
    read: Callable[[str], pa.Array]
    """One column by name. CSV and JSON lines give null for a missing value."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Types of the columns, if they are known before any is read (Parquet)."""
    separator: str = ","
    """The separator of a CSV; and how the CSV writes numbers, as `CorpusSpec` says it."""
    na_values: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None

    def __len__(self) -> int:
        return self.rows

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
        """Return a column of text or whole numbers (as decimal digits: `1`, not `1.0`); none may be missing."""
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
        """Return a column of labels as (codes, sorted distinct labels), so that `labels[codes]` is the column."""
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
        """Return a column of finite numbers; true and false are 1 and 0, dates are days from 1970 on."""
        array = self._read(name)
        if (days := _days(array)) is not None:
            array = days
        elif not self.typed:
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
        if name in self.types:
            return _is_number(self.types[name])
        try:
            array = self.read(name)
        except CorpusError:  # a JSON column that mixes text and numbers
            return False
        if self.typed:
            return _is_number(array.type)
        present = self._numerals(array)
        return present.null_count < len(present) and _casts(present)

    def table(
        self, names: Sequence[str], *, nonnegative: bool = False, missing: bool = False
    ) -> NDArray[np.float64]:
        """Return columns of finite numbers, shape (rows, names); `missing` ones are NaN, or refused."""
        self.require(names)
        return np.column_stack([self.numbers(name, nonnegative=nonnegative, missing=missing) for name in names])

    def indicators(self, name: str, values: Sequence[str]) -> NDArray[np.float64]:
        """Return a column of text as 0 and 1, one column a value, shape (rows, values); no other may be there."""
        labels, categories = self._labels(name), pa.array(values, pa.large_string())
        self._refuse(name, pc.invert(pc.is_in(labels, categories)), "is no such category.")
        places = pc.index_in(labels, categories).to_numpy(zero_copy_only=False)
        return np.asarray(np.eye(len(values))[places], dtype=np.float64)

    def _read(self, name: str) -> pa.Array:
        self.require([name])
        array = self.read(name)
        if pa.types.is_large_binary(array.type):
            return self._decode(name, array, self.encoding)
        if pa.types.is_large_string(array.type) and self.typed:
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
        if not self.typed and pc.all(pc.match_substring_regex(array, r"^\d+\.0+$")).as_py():
            array = pc.replace_substring_regex(array, r"\.0+$", "")  # the same in a CSV
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
        trimmed = self._numerals(array)
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

    def absent(self, array: pa.Array) -> pa.Array:
        """Which texts of a CSV say that a number is missing."""
        text, own = pc.utf8_trim_whitespace(array), pa.array(self.na_values, pa.large_string())
        return pc.or_(pc.is_null(text), pc.or_(pc.is_in(text, MISSING), pc.is_in(text, own)))

    def _numerals(self, array: pa.Array) -> pa.Array:
        """Texts of a CSV as Arrow reads numbers; null where one is missing."""
        text = pc.if_else(self.absent(array), pa.scalar(None, pa.large_string()), pc.utf8_trim_whitespace(array))
        if self.thousands is not None:
            grouped = rf"^[+-]?\d{{1,3}}({re.escape(self.thousands)}\d{{3}})+([.,]\d+)?$"
            plain = pc.replace_substring(text, self.thousands, "")
            text = pc.if_else(pc.match_substring_regex(text, grouped), plain, text)
        if (self.decimal or ("." if self.separator == "," else ",")) == ",":
            commas = pc.match_substring_regex(text, r"^[+-]?\d+,\d+$")
            text = pc.if_else(commas, pc.replace_substring(text, ",", "."), text)
        return text

    def _refuse(self, name: str, faulty: pa.Array | NDArray[np.bool_], problem: str) -> None:
        mask = np.asarray(faulty if isinstance(faulty, np.ndarray) else faulty.to_numpy(zero_copy_only=False))
        if mask.any():
            raise Refused(self.path, problem, row=int(mask.argmax()) + 1, column=name)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


_DAY = 24 * 3600 * 10**6


def _days(array: pa.Array) -> pa.Array | None:
    """Days from 1970 on, of a column of dates or of times, or of texts that are such by ISO 8601; else None."""
    if pa.types.is_large_string(array.type):
        if not pc.any(pc.match_substring_regex(array, r"^\d{4}-\d\d-\d\d")).as_py():
            return None
        array = pc.if_else(pc.is_in(array, MISSING), pa.scalar(None, array.type), array)
    elif not (pa.types.is_date(array.type) or pa.types.is_timestamp(array.type)):
        return None
    try:
        times = array.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return None
    return pc.divide(times.cast(pa.int64()).cast(pa.float64()), float(_DAY))


def _casts(array: pa.Array) -> bool:
    try:
        array.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True
