"""Files that are not on this machine, by URL: what the workers of a cluster that shares no folder read and write.

A URL is one that Arrow knows (`s3://`, `gs://`, `abfss://`, `hdfs://`), or for which a package of fsspec is
installed (`sftp://`, `memory://`). Its keys and passwords come from where its library looks for them (for S3 the
`AWS_*` variables, or the machine's role), never from the URL.

Whoever reads what `Path` is for reads a `RemotePlace` alike: it has the few methods that blocks need.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ksdp.audit.errors import InputError, Unreachable

_OBJECTS = ("s3", "gcs", "abfs")
"""Kinds of file system without folders, whose files appear whole."""
_PART = 8 * 2**20
"""Bytes that are asked for at once."""


@dataclass(frozen=True)
class RemotePlace:
    """A file or folder below a URL."""

    url: str
    """Of the folder that everything is below."""
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
        with _reaching(self):
            return bool(_files(self.url)[0].get_file_info(self._path).is_file)

    exists = is_file

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the file."""
        with _reaching(self):
            try:
                _files(self.url)[0].delete_file(self._path)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def remove_tree(self) -> None:
        """Remove all files below it."""
        from pyarrow import fs

        files = _files(self.url)[0]
        with _reaching(self):
            below = fs.FileSelector(self._path, recursive=True, allow_not_found=True)
            for found in files.get_file_info(below):
                if found.is_file:
                    files.delete_file(found.path)

    def read_bytes(self) -> bytes:
        """All of the file; `FileNotFoundError` where there is none."""
        with _reaching(self), _files(self.url)[0].open_input_file(self._path) as file:
            return bytes(file.read())

    def version(self) -> tuple[Any, ...]:
        """What changes when the file does: what the server says of it, its size first."""
        with _reaching(self), _files(self.url)[0].open_input_file(self._path) as file:
            info = _files(self.url)[0].get_file_info(self._path)
            return int(file.size()), info.mtime_ns, tuple(sorted(file.metadata().items()))

    def parts(self) -> Iterator[bytes]:
        """The file from its beginning to its end; `FileNotFoundError` where there is none."""
        with _reaching(self), _files(self.url)[0].open_input_file(self._path) as file:
            while part := file.read(_PART):
                yield bytes(part)

    def source(self) -> Any:
        """The file opened to be read in parts; where the server is silent it is `Unreachable`, and not damaged."""
        with _reaching(self):
            return _Source(self, _files(self.url)[0].open_input_file(self._path))

    def write_whole(self, write: Callable[[Path], object]) -> None:
        """Let `write` fill a file here, and send it there: in object stores a file is whole or absent."""
        with tempfile.TemporaryDirectory(prefix="ksdp-") as folder:
            part = Path(folder) / "part"
            write(part)
            self.send(part)

    def send(self, file: Path) -> None:
        """Send a file there as it is."""
        content = file.read_bytes()
        with _reaching(self):
            files = _files(self.url)[0]
            if files.type_name not in _OBJECTS:
                files.create_dir(self._path.rpartition("/")[0], recursive=True)
            with files.open_output_stream(self._path, compression=None) as stream:  # `.gz` is as it is
                stream.write(content)

    @property
    def _path(self) -> str:
        root = _files(self.url)[1]
        return f"{root}/{self.below}" if self.below else root


Place = Path | RemotePlace


def remove_folder(place: Place) -> None:
    """Remove a folder with all that is in it, if it is there."""
    if isinstance(place, RemotePlace):
        place.remove_tree()
    else:
        shutil.rmtree(place, ignore_errors=True)


def source_of(place: Place) -> Any:
    """What a reader of files takes: a path, or a remote file that is open."""
    return place.source() if isinstance(place, RemotePlace) else place


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
    """The file system of a URL, and the folder's path in it."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        found, path = fs.FileSystem.from_uri(url)
        return found, path.rstrip("/")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        arrow = str(error)
    import fsspec

    try:
        other, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"ksdp cannot read or write {url.partition(':')[0]}:// URLs"
            f" (Arrow: {arrow.partition(':')[0]}; fsspec: {error})."
        ) from None
    return fs.PyFileSystem(fs.FSSpecHandler(other)), path.rstrip("/")


@contextlib.contextmanager
def _reaching(place: RemotePlace) -> Iterator[None]:
    """Turn what a server refuses or does not answer into `Unreachable`: the file itself is not at fault."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = str(error).partition("Details:")[0].strip().rstrip(";")
        raise Unreachable(f"{place} cannot be reached or used ({reason[-300:]}).") from error


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
