"""How what is stored is written and checked: checksums for what stays, and lines that name their own hash.

`SHA256SUMS` stands in the folder of the files, as `sha256sum -c` reads it. A file is written whole, then its line:
a file whose line differs is not what was written. Files of state, which change and which nothing writes again,
carry their own checksum (`write_checked_json`). What is damaged is never read as absent: `DamagedFile`.

Tables are rows: a frozen dataclass is the schema of a Parquet file (`Table`), an object is a JSON file
(`read_object`).

Ledgers, histories and the log of read texts are chains (`read_chain`): JSON lines that are only ever added to,
each with the SHA-256 of itself and of the line before. What a crash left of a last line was never counted, and is
cut off by whoever adds the next one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_type_hints

from ksdp.audit.errors import DamagedFile, StoreError
from ksdp.storage.files import open_regular, read_stored, stamp_of
from ksdp.storage.locks import lock
from ksdp.storage.store import json_text, write_json, write_text, write_whole

if TYPE_CHECKING:
    import pyarrow as pa

Read = TypeVar("Read")
Row = TypeVar("Row")

REPAIR = "`ksdp audit` with its spec makes it again"
"""Remedy for damage, if there is no other."""
SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([^/\n]+)")
_LOCK = ".SHA256SUMS.lock"
_SUM = "sha256"


def write_with_checksum(path: Path, write: Callable[[Path], object]) -> None:
    """`write_whole`, and the checksum of what was written."""
    write_whole(path, write)
    write_checksum(path)


def write_text_with_checksum(path: Path, text: str) -> None:
    """`write_text`, and the checksum of what was written."""
    write_text(path, text)
    write_checksum(path)


def write_json_with_checksum(path: Path, content: Any) -> None:
    """`write_json`, and the checksum of what was written."""
    write_text_with_checksum(path, json_text(content))


def write_table_with_checksum(path: Path, table: pa.Table) -> None:
    """Write a Parquet file whose pages have checksums too, and its own."""
    import pyarrow.parquet as pq  # what only compares files does without it

    write_with_checksum(
        path, lambda part: pq.write_table(table, part, compression="zstd", write_page_checksum=True)
    )


def whole_table(path: Any) -> pa.Table:
    """All of a Parquet file, by path or open, its pages checked; without what Arrow imports for sets of files."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read()


def read_table(path: Path, columns: Iterable[str], whose: str, remedy: str = REPAIR) -> pa.Table:
    """A Parquet file that `write_table_with_checksum` wrote, and that has these columns."""
    import pyarrow as pa

    try:
        table = whole_table(check_checksum(path, whose, remedy))
    except (OSError, pa.ArrowException) as error:
        raise DamagedFile(f"{path.name} of {whose} is damaged ({type(error).__name__}); {remedy}.") from error
    if missing := [column for column in columns if column not in table.column_names]:
        raise StoreError(f"{path.name} of {whose} has no column {missing[0]!r}; {remedy}.")
    return table


@dataclass(frozen=True)
class Table(Generic[Row]):
    """A Parquet file of such rows: a column is a field, of the same name and in the same order.

    What Arrow cannot tell from a field's type (a narrower integer, strings stored once) is its annotation.
    """

    row: type[Row]

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema."""
        import pyarrow as pa

        plain = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
        types = plain | {float | None: pa.float64(), str | None: pa.string()}
        hints = get_type_hints(self.row, include_extras=True).items()
        return pa.schema([(name, getattr(hint, "__metadata__", (types.get(hint),))[0]) for name, hint in hints])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(get_type_hints(self.row))

    def of(self, columns: Mapping[str, Any]) -> pa.Table:
        """The Arrow table of some columns."""
        import pyarrow as pa

        if unknown := sorted(set(columns) - set(self.columns)):
            raise KeyError(f"{self.row.__name__} has no column {unknown[0]!r}.")
        return pa.table({name: columns[name] for name in self.columns}, schema=self.schema)

    def rows(self, table: pa.Table) -> list[Row]:
        """An Arrow table's rows as values."""
        return [self.row(**dict(row)) for row in table.select(list(self.columns)).to_pylist()]

    def write(self, path: Path, columns: Mapping[str, Any]) -> None:
        """Write a file of these columns, with its checksum."""
        write_table_with_checksum(path, self.of(columns))

    def read(self, path: Path, whose: str, remedy: str = REPAIR) -> pa.Table:
        """Read the file of `write` (`read_table`)."""
        return read_table(path, self.columns, whose, remedy)


def write_checksum(*paths: Path) -> None:
    """Write down the checksums of files of one folder, as they are now."""
    _change(paths[0].parent, {path.name: _digest(path) for path in paths})


def drop_checksum(path: Path) -> None:
    """Drop a file's checksum: its content is no longer valid until it is written again."""
    if names_file(path):
        _change(path.parent, {path.name: None})


def _change(folder: Path, changed: dict[str, str | None]) -> None:
    with lock(folder / _LOCK):
        digests = {name: digest for name, digest in (_sums(folder) | changed).items() if digest is not None}
        write_text(folder / SUMS, "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())))


def _lines(folder: Path) -> list[re.Match[str] | None]:
    try:
        return list(map(_LINE.fullmatch, read_stored(folder / SUMS).decode("utf-8", "replace").splitlines()))
    except FileNotFoundError:
        return []


def _sums(folder: Path) -> dict[str, str | None]:
    return {match[2]: match[1] for match in _lines(folder) if match}


def _digest(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=65536)
def _known(path: Path, _stamp: tuple[int, ...]) -> str:
    return _digest(path)


def names_file(path: Path) -> bool:
    """Whether the checksums of a folder name a file: it was written, whether or not it is still there."""
    return path.name in _sums(path.parent)


def _fails(path: Path) -> str | None:
    try:
        digest = _known(path, stamp_of(path))
    except OSError as error:
        return str(error.strerror).lower()
    return None if _sums(path.parent).get(path.name) == digest else "it is not what was written"


def failures(folder: Path) -> dict[str, str]:
    """Return the faults of the files that a folder's checksums name, and of these themselves."""
    try:
        wrong = {name: why for name in _sums(folder) if (why := _fails(folder / name)) is not None}
        return wrong if all(_lines(folder)) else wrong | {SUMS: "a line of it is none"}
    except DamagedFile as error:
        return {SUMS: str(error).rstrip(".")}


def checksums_hold(paths: Iterable[Path]) -> bool:
    """Whether every one of some files is there, and is what was written."""
    return all(_fails(path) is None for path in paths)


def check_checksum(path: Path, whose: str, remedy: str = REPAIR) -> Path:
    """The path, if the file is what was written."""
    wrong = _fails(path)
    if wrong is None:
        return path
    if not names_file(path) and not path.exists():
        raise StoreError(f"{whose} has no {path.name}: it is not finished, or not in this store.")
    raise DamagedFile(f"{path.name} of {whose} is damaged ({wrong}); {remedy}.")


def read_object(path: Path, parse: Callable[[dict[str, Any]], Read], whose: str, remedy: str = REPAIR) -> Read:
    """The object of a JSON file, if it is what was written, with a checksum beside it or of its own."""
    from pydantic import ValidationError

    wrong = f"{path.name} of {whose} is damaged"
    try:
        content = json.loads(read_stored(path))
        digest = content.pop(_SUM, None)
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        check_checksum(path, whose, remedy)
        raise DamagedFile(f"{wrong} ({type(error).__name__}); {remedy}.") from error
    if digest is None:
        check_checksum(path, whose, remedy)
    elif digest != _sum(content):
        raise DamagedFile(f"{wrong} (it is not what was written); {remedy}.")
    try:
        return parse(content)
    except ValidationError as error:
        where = ", ".join(f"`{'.'.join(map(str, problem['loc']))}`" for problem in error.errors()[:3])
        raise DamagedFile(f"{wrong} at {where}; {remedy}.") from None
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{whose} cannot be read: {error}; {remedy}.") from error


def write_checked_json(path: Path, content: Mapping[str, Any]) -> None:
    """`write_json` of an object, with the checksum of its content."""
    write_json(path, dict(content) | {_SUM: _sum(content)})


def _sum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json_text(dict(content)).encode("utf-8", "surrogatepass")).hexdigest()


_START = "0" * 64
"""Stands for the line before the first."""
_HASH, _PREVIOUS = "hash", "previous"


def whole_lines(content: bytes) -> list[bytes]:
    """Lines without their ends. What a crash left of the last one is none; one without its end counts."""
    *lines, rest = content.split(b"\n")
    return lines + [part for part in (rest, rest[:-1]) if _is_json(part)][:1]


def _is_json(part: bytes) -> bool:
    try:
        return isinstance(json.loads(part), dict)
    except (ValueError, RecursionError):
        return False


def _line_hash(line: Mapping[str, Any]) -> str:
    body = {name: value for name, value in line.items() if name != _HASH}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _written(line: bytes) -> dict[str, Any] | None:
    try:
        values = json.loads(line)
        return values if values[_HASH] == _line_hash(values) else None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


def read_chain(content: bytes) -> tuple[list[dict[str, Any]], int | None]:
    """Read the lines of a chain, and the number of the first one (from 1) that was changed; None if none was."""
    entries, previous = list[dict[str, Any]](), _START
    for number, line in enumerate(whole_lines(content), start=1):
        values = _written(line)
        if values is None or values.pop(_PREVIOUS, None) != previous:
            return entries, number
        del values[_HASH]
        entries.append(values)
        previous = hashlib.sha256(line).hexdigest()
    return entries, None


def add_to_chain(path: Path, said: Mapping[str, Any]) -> None:
    """Add a line, synced; what a crash left is cut off first. Nothing of it stays where it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(handle, "r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _LONGEST, 0))
        *ended, rest = file.read().split(b"\n")
        kept = next((part for part in (rest, rest[:-1]) if _is_json(part)), b"")
        last = kept or (ended or [b""])[-1]
        if last and _written(last) is None:
            raise StoreError(f"{path.name} is damaged: its last line is not one that was written.")
        content = dict(said) | {_PREVIOUS: hashlib.sha256(last).hexdigest() if last else _START}
        line = json.dumps(content | {_HASH: _line_hash(content)}, sort_keys=True, allow_nan=False).encode("ascii")
        size += len(kept) - len(rest)
        file.truncate(size)
        file.seek(size)
        more = (b"\n" if kept else b"") + line + b"\n"
        try:
            if file.write(more) != len(more):
                raise OSError("no more room")
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(size)
            raise


_LONGEST = 1 << 20
"""No line is longer."""
