"""Bytes, text and TOML of a person's files, their limits, and the error that says where a fault is."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import re
import stat
import tomllib
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksdp.audit.errors import CorpusError, DamagedFile, SpecError
from ksdp.audit.specs.urls import was_url

MOST_ROWS = 50_000_000
MOST_COLUMNS = 20_000_000
LARGEST_KEY = 16 * 2**10
LARGEST_TOML = 16 * 2**20
_LARGEST = 8 * 2**30
_LARGEST_STORED = 2**30
_LITTLE = 20_000_000
_PART = 2**24
_TIMES = 16
"""Texts and counts are compressed to a tenth; what is made to fill a memory, to a thousandth. A number that takes
two bytes of a text takes sixty in memory, so that little is let through of a small file."""


def largest_input() -> int:
    """Bytes of a file, decompressed."""
    largest = os.environ.get("KSDP_LARGEST_INPUT", "")
    return int(largest) if largest.isascii() and largest.isdigit() else _LARGEST


def largest_unpacked(path: Path) -> int:
    """Bytes of a compressed file, decompressed: many times its own, and no more than its reader was allowed."""
    if os.environ.get("KSDP_LARGEST_INPUT"):
        return largest_input()
    return min(_LARGEST, max(_LITTLE, _TIMES * path.stat().st_size))


def check_archive(path: Path) -> None:
    """Refuse an archive whose members are larger, decompressed, than its reader allows."""
    with zipfile.ZipFile(path) as archive:
        inflated = sum(member.file_size for member in archive.infolist())
    if inflated > (most := largest_unpacked(path)):
        raise Refused(path, f"has more than {most} bytes, decompressed (KSDP_LARGEST_INPUT).")


def stamp_of(path: Path) -> tuple[int, ...]:
    """Return what differs once a file is written or replaced: inode, size, times of writing and of change."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def open_regular(path: Path) -> io.BufferedReader:
    """A regular file, to be read."""
    # Without waiting for the other end of a pipe; looked at once it is open, so that nobody swaps it in between.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return file


def read_stored(path: Path) -> bytes:
    """The bytes of a file of a store, which somebody else may have made."""
    try:
        return read_bounded(path, _LARGEST_STORED)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error.strerror}.") from error


def read_bounded(path: Path, largest: int) -> bytes:
    """The bytes of a regular file of at most so many."""
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        if status.st_size > largest:
            raise OSError(errno.EFBIG, f"it has more than {largest} bytes", str(path))
        content = file.read(status.st_size + 1)  # Python takes the memory before it reads
    if len(content) > status.st_size:
        raise OSError(errno.EBUSY, "it grows while it is read", str(path))
    return content


@dataclass(eq=False, repr=False)
class Refused(CorpusError):
    """A file is refused: its name (not its folder), row (counted from 1), column and problem.

    Examples
    --------
    >>> from pathlib import Path
    >>> str(Refused(Path("in/mail.csv"), "the text is missing.", row=3, column="body"))
    'mail.csv, row 3, column `body`: the text is missing.'
    """

    path: Path
    problem: str
    row: int | None = None
    column: str | None = None

    def __post_init__(self) -> None:
        self.args = (str(self),)  # how Python shows it: without the folder

    def __str__(self) -> str:
        where = shown(self.path)
        if self.row is not None:
            where += f", row {self.row}"
        if self.column is not None:
            where += f", column `{self.column}`"
        return f"{where}: {self.problem}"

    def __reduce__(self) -> tuple[type[CorpusError], tuple[str]]:
        return CorpusError, (str(self),)  # in another process it is the sentence alone


def shown(path: Path) -> str:
    """A file in a message: its name, and never its folder."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in path.name)


def extension(path: Path) -> str:
    """Return the last extension in lower case, the one before `.gz` where the file is compressed."""
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return plain.suffix.lower()


def require_file(path: Path) -> None:
    """Refuse what is not a file that can be read."""
    try:
        # Found without opening it: opening a pipe waits for its other end.
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise Refused(path, "is no regular file.")
        if path.stat().st_size > largest_input():
            raise Refused(path, f"has more than {largest_input()} bytes (KSDP_LARGEST_INPUT).")
        with path.open("rb"):
            return
    except Refused:
        raise
    except FileNotFoundError:
        raise Refused(path, "there is no such file.") from None
    except IsADirectoryError:
        raise Refused(path, "is a folder; a file is needed.") from None
    except ValueError:
        raise Refused(path, "is not a path.") from None
    except OSError as error:
        raise Refused(path, f"cannot be read ({error.strerror}).") from None


def kind_of_file(path: Path) -> str:
    """`extension` of a file that can be read."""
    require_file(path)
    return extension(path)


def read_text(path: Path, encoding: str) -> str:
    """The text of a file, decompressed where its name ends in `.gz`."""
    return decoded(path, contents(path), encoding)


def contents(path: Path) -> bytes:
    """Return the bytes of a file, decompressed where its name ends in `.gz`."""
    require_file(path)
    data = read_bounded(path, largest_input())
    if path.suffix.lower() != ".gz":
        return data
    try:
        most, inflated = largest_unpacked(path), bytearray()
        with gzip.open(io.BytesIO(data)) as file:
            while part := file.read(_PART):
                inflated += part
                if len(inflated) > most:
                    raise Refused(path, f"has more than {most} bytes, decompressed (KSDP_LARGEST_INPUT).")
        return bytes(inflated)
    except (EOFError, OSError, zlib.error):
        raise Refused(path, "is damaged, cut short or not gzip.") from None


def decoded(path: Path, data: bytes, encoding: str, *, row: int | None = None, column: str | None = None) -> str:
    """Return `data` as text."""
    try:
        text = data.decode(encoding)
    except LookupError:
        raise SpecError(f"`corpus.encoding` must be an encoding that Python knows; got {encoding!r}.") from None
    except UnicodeError as error:
        place = ""
        if isinstance(error, UnicodeDecodeError):
            line = data.count(b"\n", 0, error.start) + 1
            place = f" at byte {error.start}" + (f" (line {line})" if row is None else "")
        raise Refused(path, f"is not {encoding}{place}; set `corpus.encoding`.", row=row, column=column) from None
    return text.removeprefix("\ufeff")


_DOTTED = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){32}")
"""Keys that take time as the square of their parts."""


def read_toml(path: Path, what: str = "") -> dict[str, Any]:
    """The tables of a TOML file."""
    subject = f"{what} " if what else ""
    if was_url(path):
        raise SpecError(f"{subject}must be a file of this machine, and no URL.")
    try:
        text = read_bounded(path, LARGEST_TOML).decode("utf-8")
        if _DOTTED.search(text):
            raise tomllib.TOMLDecodeError("a key has more than 32 parts")
        return tomllib.loads(text)
    except OSError as error:
        raise SpecError(f"{subject}{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{subject}{path.name} is not TOML: {error}.") from error
    except (RecursionError, ValueError) as error:  # a path with a zero byte; tables in tables without end
        raise SpecError(f"{subject}{path.name} cannot be read: {type(error).__name__}.") from error


def toml_value(value: Any) -> str:
    """A value as TOML writes it after its key; in tables, keys whose value is None are left out."""
    if isinstance(value, Mapping):
        inside = (
            f"{json.dumps(str(key))} = {toml_value(item)}" for key, item in value.items() if item is not None
        )
        return f"{{ {', '.join(inside)} }}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value)
