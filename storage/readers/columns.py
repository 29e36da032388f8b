"""Named columns of a file, checked: text, labels (ids, parties, groups) and numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ksdp.audit.errors import CorpusError
from ksdp.storage.readers.files import Refused, decoded
from ksdp.storage.readers.source import Source
from ksdp.storage.readers.sources import open_source

LONGEST_LABEL = 500
"""Characters. A longer id is a text column taken for one, and ids appear in reports."""

MISSING = pa.array(["", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"], pa.large_string())
"""What a CSV holds where a number is missing; a column of numbers and of these is a numeric column."""


def open_columns(path: Path, encoding: str) -> Columns:
    """Open a Parquet, CSV or JSON lines file by its extension.

    Raises
    ------
    CorpusError
        The file is missing, damaged, wrongly encoded, of another kind, or has no rows.
    """
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

    def require(self, names: Iterable[str]) -> None:
        """Refuse a column that is not there, or there twice; the message lists those there are."""
        for name in names:
            if name not in self.names:
                raise Refused(self.path, f"there is no column `{name}`; there are {self.listed()}.")
            if self.names.count(name) > 1:
                raise Refused(self.path, "occurs more than once in the header.", column=name)

    def listed(self) -> str:
        """Return the names for a message: the first 40, and no long ones (without a header they are text)."""
        names = [f"`{name}`" if len(name) <= 60 else f"a name of {len(name)} characters" for name in self.names]
        return ", ".join(names[:40]) + (f" and {len(names) - 40} more" if len(names) > 40 else "")

    def text(self, name: str) -> list[str]:
        """Return a column of texts; one that is missing is empty, and its row is left out later."""
        array = self._read(name)
        if not pa.types.is_large_string(array.type):
            raise Refused(self.path, f"holds {array.type}; text is needed.", column=name)
        return cast(list[str], array.fill_null("").to_pylist())

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
                raise Refused(self.path, f"repeats that of row {first + 1}.", row=row + 1, column=name)
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
        trimmed = pc.utf8_trim_whitespace(array.drop_null())
        present = trimmed.filter(pc.invert(pc.is_in(trimmed, MISSING)))
        return len(present) > 0 and _casts(present)

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
        trimmed = pc.utf8_trim_whitespace(array)
        gaps = pc.is_in(trimmed, MISSING)
        trimmed = pc.if_else(gaps, pa.scalar(None, pa.large_string()), trimmed)
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


def _casts(array: pa.Array) -> bool:
    try:
        array.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True
