"""Files that are not on this machine, by URL: what the workers of a cluster that shares no folder read and write.

A URL is one that Arrow knows (`s3://`, `gs://`, `abfss://`, `hdfs://`), or for which a package of fsspec is
installed (`sftp://`, `memory://`). Its keys and passwords come from where its library looks for them (for S3 the
`AWS_*` variables, or the machine's role), never from the URL.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ksdp.audit.errors import InputError, Unreachable
from ksdp.storage.files import open_regular


@dataclass(frozen=True)
class RemotePlace:
    """A file or folder below a URL, with the few methods of a `Path` that blocks need."""

    url: str
    """Address of the folder that everything is below."""
    below: str = ""

    def __truediv__(self, part: str) -> RemotePlace:
        return RemotePlace(self.url, f"{self.below}/{part}" if self.below else part)

    def __str__(self) -> str:
        root = self.url.partition("?")[0].rstrip("/")
        return f"{root}/{self.below}" if self.below else root

    @property
    def name(self) -> str:
        """Last part of its name."""
        return self.below.rpartition("/")[2]

    @property
    def parent(self) -> RemotePlace:
        """The folder that it is in."""
        return RemotePlace(self.url, self.below.rpartition("/")[0])

    def is_file(self) -> bool:
        """Whether the file exists."""
        try:
            return bool(self.info()["type"] == "file")
        except FileNotFoundError:
            return False

    exists = is_file

    def info(self) -> dict[str, Any]:
        """Return the server's facts about it; `FileNotFoundError` if it is not there."""
        with _reaching(self) as (files, path):
            return dict(files.info(path))

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the file."""
        if not (missing_ok and not self.is_file()):
            with _reaching(self) as (files, path):
                files.rm_file(path)

    def remove_tree(self) -> None:
        """Remove all files below it."""
        with contextlib.suppress(FileNotFoundError), _reaching(self) as (files, path):
            files.info(path)
            files.rm(path, recursive=True)

    def read_bytes(self) -> bytes:
        """All of the file; `FileNotFoundError` where there is none."""
        with _reaching(self) as (files, path):
            return bytes(files.cat_file(path))

    def fetch(self, to: Path) -> None:
        """Copy the file here."""
        with _reaching(self) as (files, path):
            files.get_file(path, str(to))

    def source(self) -> Any:
        """The file opened to be read in parts; where the server is silent it is `Unreachable`, and not damaged."""
        with _reaching(self) as (files, path):
            return _Source(self, files.open(path, "rb"))

    def write_whole(self, write: Callable[[Path], object]) -> None:
        """Let `write` fill a file here, and send it there: in object stores a file is whole or absent."""
        with tempfile.TemporaryDirectory(prefix="ksdp-") as folder:
            part = Path(folder) / "part"
            write(part)
            self.send(part)

    def send(self, file: Path) -> None:
        """Send a file there as it is."""
        content = file.read_bytes()
        with _reaching(self) as (files, path):
            try:
                files.pipe_file(path, content)
            except FileNotFoundError:  # object stores have no folders, and others want them first
                files.makedirs(path.rpartition("/")[0], exist_ok=True)
                files.pipe_file(path, content)


Place = Path | RemotePlace


def remove_folder(place: Place) -> None:
    """Remove a folder with all that is in it, if it is there."""
    if isinstance(place, RemotePlace):
        place.remove_tree()
    else:
        shutil.rmtree(place, ignore_errors=True)


def source_of(place: Place) -> Any:
    """Return the source for a reader of files: the path of a regular file, or a remote file that is open."""
    if isinstance(place, RemotePlace):
        return place.source()
    open_regular(place).close()  # to open a pipe waits for its other end
    return place


def place_at(url: str) -> Place:
    """The folder at a URL; one on this machine (`file://`) is a path."""
    if url.startswith("file://"):
        path = Path(url.removeprefix("file://"))
        if not path.is_absolute():
            raise InputError(f"a file's URL must be absolute (file:///folder); got {url!r}.")
        return path
    _files(url)
    return RemotePlace(url)


@lru_cache(maxsize=16)
def _files(url: str) -> tuple[Any, str]:
    import fsspec
    import pyarrow as pa
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow import fs

    try:
        filesystem, path = fs.FileSystem.from_uri(url)
        return ArrowFSWrapper(filesystem), path.rstrip("/")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        arrow = str(error)
    try:
        other, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"ksdp cannot read or write {url.partition(':')[0]}:// URLs"
            f" (Arrow: {arrow.partition(':')[0]}; fsspec: {error})."
        ) from None
    return other, path.rstrip("/")


@contextlib.contextmanager
def _reaching(place: RemotePlace) -> Iterator[tuple[Any, str]]:
    """The file system and the path; what a server refuses or does not answer is `Unreachable`."""
    try:
        files, root = _files(place.url)
        yield files, f"{root}/{place.below}" if place.below else root
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = _without_keys(str(error).partition("Details:")[0].strip().rstrip(";"))
        raise Unreachable(f"{place} cannot be reached or used ({reason[-300:]}).") from error


def _without_keys(text: str) -> str:
    for name, value in os.environ.items():
        if name.startswith(("AWS_", "GOOGLE_")) and len(value) > 3 and ("KEY" in name or "TOKEN" in name):
            text = text.replace(value, f"${name}")
    return text


class _Source(io.RawIOBase):
    """A remote file whose every failure to be read is `Unreachable`."""

    def __init__(self, place: RemotePlace, file: Any) -> None:
        self._place, self._file = place, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        with _reaching(self._place):
            return bytes(self._file.read(None if size is None or size < 0 else size))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _reaching(self._place):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            with contextlib.suppress(OSError):
                self._file.close()
        super().close()
