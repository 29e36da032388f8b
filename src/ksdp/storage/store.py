"""The store: one folder of Parquet and JSON, movable, private to the user, readable by any tool.

::

    store/
      corpora/<hash>/          the matrix as memory-mapped .npy, ids.parquet, corpus.json (never any text)
      runs/<key>/              identity.json (what the runs depend on)
        observables/           <lane>-<start>-<stop>.parquet, one row a run
        values/<statistics>/   <lane>-<start>-<stop>.parquet, one row a document
        passing/<audit>/       values that go when they are tested, of an audit that does not keep them
        pairs/<documents>/     <first>-<stop>.parquet, pairs of runs that differ in one document, one row each
      audits/<id>/             spec.json, audit.json, report.html,
                               verdicts.parquet, statistics.parquet, curves.parquet, effects.parquet,
                               stages/: later looks, and the fresh runs, of each document its strongest statistic
      reviews/                 log.jsonl: what people decided, each line with a hash of the one before;
                               policy.json, head.json
      screens/                 <id>.json, <id>.html and <id>-left-out.parquet: a list's own audits
      appetites/               <audit>.json: what an audit is held to, written once
      clearances/              <hash>.json: a copy of every clearance that was signed; <hash>.expired: it was told
      claims/                  <key>.json: what runs on a mechanism's worst case proved about its claim
      schedules/<name>/        what is audited again, its history, verdicts as they stand, drift
      prefect/                 Prefect's own database: the calendar of schedules, and the state of runs

Everything is written under a temporary name, synced and renamed: a file is whole or absent. The blocks of runs,
which are nearly all of its bytes, may be at a URL instead (`ksdp.storage.remote_audits`), under the same names.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksdp.audit.errors import ClearanceError as ClearanceError
from ksdp.audit.errors import DamagedFile
from ksdp.audit.errors import InputError as InputError
from ksdp.audit.errors import InvalidAudit as InvalidAudit
from ksdp.audit.errors import KsdpError as KsdpError
from ksdp.audit.errors import StoreError as StoreError
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.urls import was_url
from ksdp.storage.files import read_stored
from ksdp.storage.locks import held_until_closed, unlink_unlocked
from ksdp.storage.remote import Place, RemotePlace, place_at

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def append_synced(path: Path, content: bytes) -> None:
    """Add bytes to a file, which is made for this user alone where there is none."""
    new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        _write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if new:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


FORMAT = 1
"""Version of a store's format."""


def write_whole(path: Place, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, sync it and rename it into place; or send it to a URL."""
    if isinstance(path, RemotePlace):
        path.write_whole(write)
        return
    try:
        _write_whole(path, write)
    except OSError as error:
        why = error.strerror or "no more room"  # NumPy says how many bytes were written, not why
        raise StoreError(f"{path} cannot be written: {why}.") from error


def copy_whole(file: Path, path: Place) -> None:
    """`write_whole` a copy of a file; one that goes to a URL is sent as it is."""
    if isinstance(path, RemotePlace):
        path.send(file)
    else:
        write_whole(path, lambda part: shutil.copyfile(file, part))


def _write_whole(path: Path, write: Callable[[Path], object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, part = _new_part(path)
    try:
        write(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)
        os.close(handle)


def _new_part(path: Path) -> tuple[int, Path]:
    """A temporary file beside `path`, locked until its descriptor is closed: no clock makes it a dead one's."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        if held_until_closed(handle):
            return handle, Path(name)
        os.close(handle)  # swept before it was locked


def write_json(path: Path, content: Any) -> None:
    """Write JSON for people: sorted as given, indented."""
    write_text(path, json_text(content))


def json_text(content: Any) -> str:
    """JSON for people."""
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a text, whole."""

    def write(part: Path) -> None:
        part.write_text(text, encoding="utf-8")

    write_whole(path, write)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name, as an npz."""
    import numpy as np  # `ksdp list` and `ksdp show` open a store without it

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, **dict[str, Any](arrays))

    write_whole(path, write)


_PART = re.compile(r"\..+\.part")
_STALE_SECONDS = 3600.0
"""A part that nobody has written to for this long, and that no living process holds, is a dead process's."""


def _is_part(path: Path) -> bool:
    return _PART.fullmatch(path.name) is not None and path.is_file()


def sweep_parts(root: Path, now: float) -> int:
    """Remove what processes that were killed have left half written; how many files."""
    swept = 0
    for path in root.rglob(".*.part"):
        with contextlib.suppress(OSError):  # somebody renamed or swept it meanwhile
            if _is_part(path) and now - path.stat().st_mtime > _STALE_SECONDS:
                swept += unlink_unlocked(path)
    return swept


@dataclass(frozen=True)
class Store:
    """A store's folders."""

    root: Path

    @classmethod
    def open(cls, root: Path, *, create: bool = True) -> Store:
        """Open a store, making it where there is none."""
        if was_url(root):
            raise InputError("a store is a folder of this machine; its blocks may be at a URL (`cluster.blocks`).")
        root = root.resolve()
        marker = root / "ksdp-store.json"
        if marker.is_file():
            store = cls(root)
            if (written := store._marker).get("store") != FORMAT or written.keys() - {"store", "blocks"}:
                raise StoreError(f"{marker} is not that of a store of format {FORMAT}: name another folder.")
            return store
        if not create:
            raise StoreError(f"{root} is not a ksdp store; name one with `--store DIR`, or set KSDP_STORE.")
        if root.exists() and (not root.is_dir() or not all(map(_is_part, root.iterdir()))):
            raise StoreError(f"{root} exists and is not a ksdp store; name an empty or a new folder.")
        try:
            root.mkdir(parents=True, exist_ok=True)
            root.chmod(0o700)
        except OSError as error:
            raise StoreError(f"{root} cannot be made: {error.strerror}. Name another folder.") from error
        write_json(marker, {"store": FORMAT})
        return cls(root)

    def corpus(self, corpus_hash: str) -> Path:
        """Folder of a corpus."""
        return self.root / "corpora" / corpus_hash.removeprefix("sha256:")[:20]

    @property
    def blocks_url(self) -> str | None:
        """Where the blocks of all runs are, where that is not in the store's own folder."""
        url = self._marker.get("blocks")
        return url if isinstance(url, str) else None

    @property
    def _marker(self) -> dict[str, Any]:
        try:
            content = json.loads(read_stored(self.root / "ksdp-store.json"))
        except (OSError, StoreError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    @property
    def blocks(self) -> Place:
        """The folder that has the blocks of all runs, in `runs/`."""
        url = self.blocks_url
        return self.root if url is None else place_at(url)

    def runs(self, identity: Mapping[str, Any]) -> Place:
        """Folder of the blocks of all audits that share these runs; its identity is written on first use."""
        name = content_key(identity)
        identity_file = self.root / "runs" / name / "identity.json"
        if not identity_file.is_file():
            write_json(identity_file, dict(identity))
        return self.blocks / "runs" / name

    def identity(self, runs_folder: str) -> dict[str, Any]:
        """Everything that the runs of a folder depend on; empty if they were removed."""
        path = self.root / "runs" / runs_folder / "identity.json"
        if not path.is_file():
            return {}
        try:
            identity: dict[str, Any] = json.loads(read_stored(path))
            if content_key(identity) != runs_folder:
                raise ValueError("another name")
        except (ValueError, TypeError) as error:
            raise DamagedFile(f"{path.relative_to(self.root)} is damaged; delete it and audit again.") from error
        return identity

    def relative(self, place: Place) -> str:
        """The name of a folder of blocks, to be found again below `blocks`."""
        if isinstance(place, RemotePlace):
            return place.below
        return place.relative_to(str(self.blocks)).as_posix()

    def audit(self, audit: str) -> Path:
        """Folder of an audit."""
        return self.root / "audits" / audit

    def audits(self) -> list[str]:
        """Finished audits, the one written last first."""
        files = self.root.glob("audits/*/audit.json")
        return [file.parent.name for file in sorted(files, key=lambda f: f.stat().st_mtime, reverse=True)]

    def appetite(self, audit: str) -> Path:
        """Where the risk appetite is that an audit is held to."""
        return self.root / "appetites" / f"{audit}.json"

    @property
    def prefect(self) -> Path:
        """Prefect's home."""
        return self.root / "prefect"
