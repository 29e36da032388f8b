"""Checksums of what is read again: `SHA256SUMS` in the folder of the files, as `sha256sum -c` reads it.

A file is written whole, then its line: whoever reads it compares. A flipped bit anywhere, in a file or in its
line, is a difference; a file that was written and whose line was not is one too, and is written again by what
wrote it. Files of state, which change and which nothing writes again, carry their own (`write_checked_json`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksdp.audit.errors import StoreError
from ksdp.storage.locks import lock
from ksdp.storage.store import json_text, write_json, write_text, write_whole

if TYPE_CHECKING:
    import pyarrow as pa

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([^/\n]+)")
_LOCK = ".SHA256SUMS.lock"
_SUM = "sha256"


def write_sealed(path: Path, write: Callable[[Path], object]) -> None:
    """`write_whole`, and the checksum of what was written."""
    write_whole(path, write)
    seal(path)


def write_sealed_text(path: Path, text: str) -> None:
    """`write_text`, and the checksum of what was written."""
    write_text(path, text)
    seal(path)


def write_sealed_json(path: Path, content: Any) -> None:
    """`write_json`, and the checksum of what was written."""
    write_sealed_text(path, json_text(content))


def write_sealed_table(path: Path, table: pa.Table) -> None:
    """Write a Parquet file whose pages have checksums too, and its own."""
    import pyarrow.parquet as pq  # what only compares files does without it

    write_sealed(path, lambda part: pq.write_table(table, part, compression="zstd", write_page_checksum=True))


def whole_table(path: Any) -> pa.Table:
    """All of a Parquet file, by path or open, its pages checked; without what Arrow imports for sets of files."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read()


def seal(*paths: Path) -> None:
    """Write down the checksums of files of one folder, as they are now."""
    _change(paths[0].parent, {path.name: _digest(path) for path in paths})


def unseal(path: Path) -> None:
    """Drop a file's checksum: its content is no longer valid until it is written again."""
    if path.name in _sums(path.parent):
        _change(path.parent, {path.name: None})


def _change(folder: Path, changed: dict[str, str | None]) -> None:
    with lock(folder / _LOCK):
        known = {name: digest for name, digest in (_sums(folder) | changed).items() if digest is not None}
        write_text(folder / SUMS, "".join(f"{digest}  {name}\n" for name, digest in sorted(known.items())))


def _sums(folder: Path) -> dict[str, str | None]:
    try:
        lines = (folder / SUMS).read_bytes().decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    matches = (_LINE.fullmatch(line) for line in lines)
    return {match[2]: match[1] for match in matches if match}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=65536)
def _known(path: Path, _inode: int, _size: int, _written: int, _changed: int) -> str:
    return _digest(path)


def _fails(path: Path) -> str | None:
    """What is wrong with a file; None where nothing is. It is read once a process, as long as nobody writes it."""
    try:
        status = path.stat()
        digest = _known(path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    except OSError as error:
        return os.strerror(error.errno or 0).lower()
    return None if _sums(path.parent).get(path.name) == digest else "it is not what was written"


def is_sealed(paths: Iterable[Path]) -> bool:
    """Whether every one of some files is there, and is what was written."""
    return all(_fails(path) is None for path in paths)


def check_sealed(path: Path, whose: str, remedy: str = "run it again") -> Path:
    """The path, if the file is what was written.

    Raises
    ------
    StoreError
        Naming it, `whose` it is and the remedy.
    """
    wrong = _fails(path)
    if wrong is not None:
        raise StoreError(f"{path.name} of {whose} is damaged ({wrong}); {remedy}.")
    return path


def read_sealed(path: Path, whose: str, remedy: str = "run it again") -> bytes:
    """What a file holds, if that is what was written.

    Raises
    ------
    OSError
        If it cannot be read.
    StoreError
        If it is not what was written.
    """
    content = path.read_bytes()
    if _sums(path.parent).get(path.name) != hashlib.sha256(content).hexdigest():
        raise StoreError(f"{path.name} of {whose} is damaged (it is not what was written); {remedy}.")
    return content


def write_checked_json(path: Path, content: Mapping[str, Any]) -> None:
    """`write_json` of an object, with the checksum of its content."""
    write_json(path, dict(content) | {_SUM: _sum(content)})


def read_checked_json(path: Path) -> dict[str, Any]:
    """What `write_checked_json` wrote, or `write_json` before there were checksums.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is no JSON object, or was changed.
    """
    content = json.loads(path.read_bytes())
    if not isinstance(content, dict):
        raise ValueError("no object")
    if content.pop(_SUM, None) not in (None, digest := _sum(content)):
        raise ValueError(f"it was changed ({digest[:8]})")
    return content


def _sum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json_text(dict(content)).encode("utf-8", "surrogatepass")).hexdigest()
