"""Bytes and text of a person's files, and the error that says where the fault is."""

from __future__ import annotations

import gzip
import io
import zlib
from dataclasses import dataclass
from pathlib import Path

from ksdp.audit.errors import CorpusError, SpecError
from ksdp.storage.readers.limits import is_regular, largest_input

_COPIES: dict[Path, str] = {}
"""Copies of files at URLs, while they are here."""


@dataclass(eq=False, repr=False)
class Refused(CorpusError):
    """A file is refused: its name (not its folder; of a copy its URL), row (counted from 1), column and problem.

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
    """A file in a message: its name, and never its folder; of a copy the URL that it is from (`shown_as`)."""
    return _COPIES.get(path, path.name)


def shown_as(path: Path, url: str | None) -> None:
    """Let messages name a URL instead of its copy here; None: no longer."""
    if url is None:
        _COPIES.pop(path, None)
    else:
        _COPIES[path] = url


def extension(path: Path) -> str:
    """Return the last extension in lower case, the one before `.gz` where the file is compressed.

    Examples
    --------
    >>> from pathlib import Path
    >>> extension(Path("a/Matrix.MTX.gz"))
    '.mtx'
    """
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return plain.suffix.lower()


def require_file(path: Path) -> None:
    """Refuse what is not a file that can be read.

    Raises
    ------
    CorpusError
        No such file, a folder, or no permission.
    """
    try:
        if not is_regular(path) and not path.is_dir():
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
    """Return the bytes of a file, decompressed where its name ends in `.gz`.

    Raises
    ------
    CorpusError
        The file is missing, cannot be read, or its compression is damaged or cut short.
    """
    require_file(path)
    data = path.read_bytes()
    if path.suffix.lower() != ".gz":
        return data
    try:
        with gzip.open(io.BytesIO(data)) as file:
            inflated = file.read(largest_input() + 1)
        if len(inflated) > largest_input():
            raise Refused(path, f"has more than {largest_input()} bytes, decompressed (KSDP_LARGEST_INPUT).")
        return inflated
    except (EOFError, OSError, zlib.error):
        raise Refused(path, "is damaged, cut short or not gzip.") from None


def decoded(path: Path, data: bytes, encoding: str, *, row: int | None = None, column: str | None = None) -> str:
    """Return `data` as text.

    Parameters
    ----------
    path, row, column
        Where `data` is from. Without a row it is the whole file, and the line of a fault is given.
    encoding : str
        A name that Python knows. A byte order mark is dropped.

    Raises
    ------
    SpecError
        No such encoding.
    CorpusError
        Naming the encoding tried and the first byte that does not fit it.
    """
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
